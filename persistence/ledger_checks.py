"""The invariants of the ledger as queries over stored records: each query finds violations and describes them.

A query returns the organization_id and a description of each violation. It is one statement, so that it sees one state
of the ledgers, even while other transactions post.
"""

from sqlalchemy import Connection, text

from domain.ledger.records import BURN, MINT, PENDING, REVERT, REVERTED, SETTLED
from persistence.record_checks.forms import OF_ORGANIZATION

# Mints that are not available yet: they count as issued, but are in no balance.
_WAITING = f"""
SELECT t.organization_id, t.ledger_account_id, t.amount FROM ledger_transactions t
WHERE {OF_ORGANIZATION.format("t")} AND t.status = {PENDING} AND t.transaction_type = {MINT}
    AND (t.available_at IS NOT NULL OR t.available_on IS NOT NULL)
"""

_UNBALANCED = f"""
SELECT e.organization_id, format('transaction %s: its entries sum to %s, not to zero',
    e.ledger_transaction_id, trim_scale(sum(e.amount)))
FROM ledger_entries e WHERE {OF_ORGANIZATION.format("e")}
GROUP BY e.organization_id, e.ledger_transaction_id HAVING sum(e.amount) <> 0
"""

_WRONG_AMOUNT = f"""
SELECT t.organization_id, format('transaction %s: is settled at %s, its entries move %s',
    t.ledger_transaction_id, trim_scale(t.amount), trim_scale(coalesce(moved.amount, 0)))
FROM ledger_transactions t LEFT JOIN (
    SELECT e.organization_id, e.ledger_transaction_id, sum(e.amount) FILTER (WHERE e.amount > 0) AS amount
    FROM ledger_entries e WHERE {OF_ORGANIZATION.format("e")} GROUP BY e.organization_id, e.ledger_transaction_id
) moved USING (organization_id, ledger_transaction_id)
WHERE {OF_ORGANIZATION.format("t")} AND t.status = {SETTLED} AND coalesce(moved.amount, 0) <> t.amount
"""

_WRONG_PLACE = f"""
SELECT e.organization_id, format('transaction %s: entry %s is of account %s and wallet %s, the transaction of %s',
    e.ledger_transaction_id, e.entry_index, e.ledger_account_id, e.wallet_id, t.ledger_account_id)
FROM ledger_entries e
JOIN ledger_transactions t USING (organization_id, ledger_transaction_id)
JOIN ledger_accounts a ON a.organization_id = t.organization_id AND a.ledger_account_id = t.ledger_account_id
LEFT JOIN wallets w ON w.organization_id = e.organization_id AND w.wallet_id = e.wallet_id
WHERE {OF_ORGANIZATION.format("e")} AND (e.ledger_account_id <> t.ledger_account_id
    OR (e.wallet_id IS NOT NULL AND w.ledger_id IS DISTINCT FROM a.ledger_id))
"""

_WRONG_BALANCE = f"""
SELECT organization_id, format('wallet %s, account %s: holds %s less a debt of %s, its entries sum to %s',
    wallet_id, ledger_account_id, trim_scale(coalesce(b.current_balance, 0)),
    trim_scale(coalesce(b.current_overdraft_balance, 0)), trim_scale(coalesce(moved.amount, 0)))
FROM (
    SELECT e.organization_id, e.wallet_id, e.ledger_account_id, sum(e.amount) AS amount
    FROM ledger_entries e WHERE {OF_ORGANIZATION.format("e")} AND e.wallet_id IS NOT NULL
    GROUP BY e.organization_id, e.wallet_id, e.ledger_account_id
) moved FULL JOIN (SELECT * FROM ledger_balances b WHERE {OF_ORGANIZATION.format("b")}) b
    USING (organization_id, wallet_id, ledger_account_id)
WHERE coalesce(b.current_balance, 0) - coalesce(b.current_overdraft_balance, 0) <> coalesce(moved.amount, 0)
"""

# Entries form a chain if the balance after each entry is the balance before another one, except for the first and the
# last entry. The order of their ids does not matter. An entry of debt does not change the balance.
_BROKEN_CHAIN = f"""
SELECT organization_id, format('wallet %s, account %s: the updated balances form no chain to its balance, see %s',
    wallet_id, ledger_account_id, coalesce(trim_scale(min(value))::text, 'an entry without one'))
FROM (
    SELECT organization_id, wallet_id, ledger_account_id, value
    FROM (
        SELECT e.organization_id, e.wallet_id, e.ledger_account_id, e.updated_balance AS value, 1 AS times
        FROM ledger_entries e WHERE {OF_ORGANIZATION.format("e")} AND e.wallet_id IS NOT NULL
        UNION ALL
        SELECT e.organization_id, e.wallet_id, e.ledger_account_id,
            CASE WHEN e.is_overdraft THEN e.updated_balance ELSE greatest(e.updated_balance - e.amount, 0) END, -1
        FROM ledger_entries e WHERE {OF_ORGANIZATION.format("e")}
            AND e.wallet_id IS NOT NULL AND e.updated_balance IS NOT NULL
        UNION ALL
        SELECT b.organization_id, b.wallet_id, b.ledger_account_id, ends.value, ends.times
        FROM ledger_balances b CROSS JOIN LATERAL (VALUES (0, 1), (b.current_balance, -1)) AS ends(value, times)
        WHERE {OF_ORGANIZATION.format("b")}
    ) steps
    GROUP BY organization_id, wallet_id, ledger_account_id, value HAVING sum(times) <> 0
) odd GROUP BY organization_id, wallet_id, ledger_account_id
"""

# A revert of a mint reduces the minted amount, a revert of a burn reduces the burned amount.
_WRONG_SUPPLY = f"""
SELECT organization_id, format('account %s: counts %s minted and %s burned, its transactions minted %s and burned %s',
    ledger_account_id, trim_scale(coalesce(s.minted, 0)), trim_scale(coalesce(s.burned, 0)),
    trim_scale(coalesce(m.minted, 0)), trim_scale(coalesce(m.burned, 0)))
FROM (
    SELECT s.organization_id, s.ledger_account_id, sum(s.minted) AS minted, sum(s.burned) AS burned
    FROM ledger_account_supplies s WHERE {OF_ORGANIZATION.format("s")} GROUP BY s.organization_id, s.ledger_account_id
) s FULL JOIN (
    SELECT organization_id, ledger_account_id,
        coalesce(-sum(amount) FILTER (WHERE kind = 1), 0) AS minted,
        coalesce(sum(amount) FILTER (WHERE kind = 2), 0) AS burned
    FROM (
        SELECT e.organization_id, e.ledger_account_id, e.amount,
            coalesce(original.transaction_type, t.transaction_type) AS kind
        FROM ledger_entries e
        JOIN ledger_transactions t USING (organization_id, ledger_transaction_id)
        LEFT JOIN ledger_transactions original ON original.organization_id = t.organization_id
            AND original.ledger_transaction_id = t.reverted_ledger_transaction_id
        WHERE {OF_ORGANIZATION.format("e")} AND e.wallet_id IS NULL
        UNION ALL SELECT organization_id, ledger_account_id, -amount, 1 FROM ({_WAITING}) waiting
    ) issuance GROUP BY organization_id, ledger_account_id
) m USING (organization_id, ledger_account_id)
WHERE coalesce(s.minted, 0) <> coalesce(m.minted, 0) OR coalesce(s.burned, 0) <> coalesce(m.burned, 0)
"""

_WRONG_CIRCULATION = f"""
SELECT organization_id, format('account %s: minted less burned is %s, balances less debts are %s',
    ledger_account_id, trim_scale(coalesce(s.net, 0)), trim_scale(coalesce(b.held, 0)))
FROM (
    SELECT s.organization_id, s.ledger_account_id, sum(s.minted - s.burned) AS net
    FROM ledger_account_supplies s WHERE {OF_ORGANIZATION.format("s")} GROUP BY s.organization_id, s.ledger_account_id
) s FULL JOIN (
    SELECT organization_id, ledger_account_id, sum(amount) AS held
    FROM (
        SELECT b.organization_id, b.ledger_account_id, b.current_balance - b.current_overdraft_balance AS amount
        FROM ledger_balances b WHERE {OF_ORGANIZATION.format("b")}
        UNION ALL {_WAITING}
    ) parts GROUP BY organization_id, ledger_account_id
) b USING (organization_id, ledger_account_id)
WHERE coalesce(s.net, 0) <> coalesce(b.held, 0)
"""

_OVER_SUPPLY = f"""
SELECT a.organization_id, format('account %s: has issued %s of at most %s',
    a.ledger_account_id, trim_scale(sum(issued.amount)), trim_scale(a.max_supply))
FROM ledger_accounts a
JOIN ledger_account_supplies s USING (organization_id, ledger_account_id)
CROSS JOIN LATERAL (SELECT s.minted - CASE WHEN a.is_revolving THEN s.burned ELSE 0 END AS amount) issued
WHERE {OF_ORGANIZATION.format("a")} AND a.max_supply IS NOT NULL
GROUP BY a.organization_id, a.ledger_account_id, a.max_supply HAVING sum(issued.amount) > a.max_supply
"""

# Amounts that pending transactions reserve are already taken from the lots, but are still in the balance.
_WRONG_LOTS = f"""
SELECT organization_id, format('wallet %s, account %s: can spend %s, its lots hold %s',
    wallet_id, ledger_account_id, trim_scale(coalesce(b.spendable, 0)), trim_scale(coalesce(lots.remaining, 0)))
FROM (
    SELECT b.organization_id, b.wallet_id, b.ledger_account_id,
        CASE WHEN a.point_tracking_enabled THEN b.current_balance - b.pending_debit_balance ELSE 0 END AS spendable
    FROM ledger_balances b JOIN ledger_accounts a USING (organization_id, ledger_account_id)
    WHERE {OF_ORGANIZATION.format("b")}
) b FULL JOIN (
    SELECT l.organization_id, l.wallet_id, l.ledger_account_id, sum(l.remaining) AS remaining
    FROM ledger_lots l WHERE {OF_ORGANIZATION.format("l")} AND l.remaining <> 0
    GROUP BY l.organization_id, l.wallet_id, l.ledger_account_id
) lots USING (organization_id, wallet_id, ledger_account_id)
WHERE coalesce(b.spendable, 0) <> coalesce(lots.remaining, 0)
"""

# A reverted or released transaction has returned its amounts to the lots.
_WRONG_LOT_USES = f"""
SELECT l.organization_id, format('lot %s of wallet %s, account %s: has %s left of %s, of which %s were used',
    l.ledger_lot_id, l.wallet_id, l.ledger_account_id, trim_scale(l.remaining), trim_scale(l.amount),
    trim_scale(coalesce(used.amount, 0)))
FROM ledger_lots l LEFT JOIN (
    SELECT u.organization_id, u.ledger_lot_id, sum(u.amount) AS amount
    FROM ledger_lot_uses u JOIN ledger_transactions t USING (organization_id, ledger_transaction_id)
    WHERE {OF_ORGANIZATION.format("u")} AND t.status <> {REVERTED} GROUP BY u.organization_id, u.ledger_lot_id
) used USING (organization_id, ledger_lot_id)
WHERE {OF_ORGANIZATION.format("l")} AND l.remaining <> l.amount - coalesce(used.amount, 0)
"""

_WRONG_PENDING = f"""
SELECT organization_id, format('wallet %s, account %s: counts %s out and %s in as pending, its transactions %s and %s',
    wallet_id, ledger_account_id, trim_scale(coalesce(b.pending_debit_balance, 0)),
    trim_scale(coalesce(b.pending_credit_balance, 0)), trim_scale(coalesce(p.debit, 0)),
    trim_scale(coalesce(p.credit, 0)))
FROM (SELECT * FROM ledger_balances b WHERE {OF_ORGANIZATION.format("b")}) b FULL JOIN (
    SELECT organization_id, wallet_id, ledger_account_id, sum(debit) AS debit, sum(credit) AS credit
    FROM (
        SELECT t.organization_id, side.wallet_id, t.ledger_account_id, side.debit, side.credit
        FROM ledger_transactions t
        CROSS JOIN LATERAL (VALUES (t.from_wallet_id, t.amount, 0), (t.to_wallet_id, 0, t.amount))
            AS side(wallet_id, debit, credit)
        WHERE {OF_ORGANIZATION.format("t")} AND t.status = {PENDING} AND side.wallet_id IS NOT NULL
    ) sides GROUP BY organization_id, wallet_id, ledger_account_id
) p USING (organization_id, wallet_id, ledger_account_id)
WHERE coalesce(b.pending_debit_balance, 0) <> coalesce(p.debit, 0)
    OR coalesce(b.pending_credit_balance, 0) <> coalesce(p.credit, 0)
"""

_WRONG_REVERTS = f"""
SELECT t.organization_id, format('transaction %s: reverts %s, which has no link to it', t.ledger_transaction_id,
    t.reverted_ledger_transaction_id)
FROM ledger_transactions t LEFT JOIN ledger_transactions original ON original.organization_id = t.organization_id
    AND original.ledger_transaction_id = t.reverted_ledger_transaction_id
WHERE {OF_ORGANIZATION.format("t")} AND t.reverted_ledger_transaction_id IS NOT NULL AND NOT t.is_partial
    AND (original.reversal_ledger_transaction_id IS DISTINCT FROM t.ledger_transaction_id
        OR original.status <> {REVERTED})
UNION ALL
SELECT original.organization_id, format('transaction %s: %s of its %s were clawed back, %s are missing',
    original.ledger_transaction_id, trim_scale(sum(t.amount)), trim_scale(original.given),
    trim_scale(original.missing))
FROM ledger_transactions t JOIN (
    SELECT o.organization_id, o.ledger_transaction_id, coalesce(o.missing, 0) AS missing,
        CASE o.transaction_type WHEN {MINT} THEN coalesce(o.reserved_amount, o.amount) ELSE o.amount END AS given
    FROM ledger_transactions o WHERE {OF_ORGANIZATION.format("o")} AND o.transaction_type IN ({MINT}, {BURN})
) original ON original.organization_id = t.organization_id
    AND original.ledger_transaction_id = t.reverted_ledger_transaction_id
WHERE {OF_ORGANIZATION.format("t")} AND t.reverted_ledger_transaction_id IS NOT NULL
GROUP BY original.organization_id, original.ledger_transaction_id, original.given, original.missing
HAVING sum(t.amount) + original.missing > original.given
UNION ALL
SELECT t.organization_id, format('transaction %s: is reverted by %s, which has no link to it', t.ledger_transaction_id,
    t.reversal_ledger_transaction_id)
FROM ledger_transactions t LEFT JOIN ledger_transactions reversal ON reversal.organization_id = t.organization_id
    AND reversal.ledger_transaction_id = t.reversal_ledger_transaction_id
WHERE {OF_ORGANIZATION.format("t")} AND t.reversal_ledger_transaction_id IS NOT NULL
    AND reversal.reverted_ledger_transaction_id IS DISTINCT FROM t.ledger_transaction_id
UNION ALL
SELECT t.organization_id, format('transaction %s: is of type %s and reverts %s', t.ledger_transaction_id,
    t.transaction_type, coalesce(t.reverted_ledger_transaction_id::text, 'nothing'))
FROM ledger_transactions t
WHERE {OF_ORGANIZATION.format("t")}
    AND ((t.transaction_type = {REVERT}) <> (t.reverted_ledger_transaction_id IS NOT NULL)
    OR t.is_partial AND t.transaction_type <> {REVERT})
"""

# A mint counts as earned until it is reverted; after a partial revert, only the rest counts.
_WRONG_EARNED = f"""
SELECT organization_id, format('wallet %s, account %s: counts %s as earned, its active mints add up to %s',
    wallet_id, ledger_account_id, trim_scale(coalesce(b.earned, 0)), trim_scale(coalesce(m.earned, 0)))
FROM (SELECT * FROM ledger_balances b WHERE {OF_ORGANIZATION.format("b")}) b FULL JOIN (
    SELECT t.organization_id, t.to_wallet_id AS wallet_id, t.ledger_account_id,
        sum(coalesce(t.qualifying_amount, t.amount) - coalesce(t.unearned, 0)) AS earned
    FROM ledger_transactions t
    WHERE {OF_ORGANIZATION.format("t")}
        AND t.transaction_type = {MINT} AND t.status = {SETTLED} AND t.to_wallet_id IS NOT NULL
    GROUP BY t.organization_id, t.to_wallet_id, t.ledger_account_id
) m USING (organization_id, wallet_id, ledger_account_id)
WHERE coalesce(b.earned, 0) <> coalesce(m.earned, 0)
"""

# The fiat value of a burn counts once the burn is settled, also after a revert; the revert has its own fiat value.
_WRONG_FIAT = f"""
SELECT organization_id, format('wallet %s, account %s: counts a fiat value of %s, its burns add up to %s', wallet_id,
    ledger_account_id, trim_scale(coalesce(b.total_fiat_value, 0)), trim_scale(coalesce(f.fiat_value, 0)))
FROM (SELECT * FROM ledger_balances b WHERE {OF_ORGANIZATION.format("b")}) b FULL JOIN (
    SELECT organization_id, wallet_id, ledger_account_id, sum(fiat_value) AS fiat_value
    FROM (
        SELECT t.organization_id, t.from_wallet_id AS wallet_id, t.ledger_account_id, t.fiat_value
        FROM ledger_transactions t LEFT JOIN ledger_transactions reversal
            ON reversal.organization_id = t.organization_id
            AND reversal.ledger_transaction_id = t.reversal_ledger_transaction_id
        WHERE {OF_ORGANIZATION.format("t")} AND t.transaction_type = {BURN} AND t.fiat_value <> 0
            AND (t.status = {SETTLED} OR reversal.status = {SETTLED})
        UNION ALL
        SELECT t.organization_id, t.to_wallet_id, t.ledger_account_id, -t.fiat_value
        FROM ledger_transactions t
        WHERE {OF_ORGANIZATION.format("t")}
            AND t.transaction_type = {REVERT} AND t.status = {SETTLED} AND t.fiat_value <> 0
    ) values_of_burns GROUP BY organization_id, wallet_id, ledger_account_id
) f USING (organization_id, wallet_id, ledger_account_id)
WHERE coalesce(b.total_fiat_value, 0) <> coalesce(f.fiat_value, 0)
"""

_WRONG_OVERDRAFT = f"""
SELECT organization_id, format('wallet %s, account %s: owes %s and has repaid %s, its entries went into debt by %s',
    wallet_id, ledger_account_id, trim_scale(coalesce(b.current_overdraft_balance, 0)),
    trim_scale(coalesce(b.total_overdraft_credit_balance, 0)), trim_scale(coalesce(d.amount, 0)))
FROM (SELECT * FROM ledger_balances b WHERE {OF_ORGANIZATION.format("b")}) b FULL JOIN (
    SELECT e.organization_id, e.wallet_id, e.ledger_account_id, -sum(e.amount) AS amount
    FROM ledger_entries e WHERE {OF_ORGANIZATION.format("e")} AND e.is_overdraft
    GROUP BY e.organization_id, e.wallet_id, e.ledger_account_id
) d USING (organization_id, wallet_id, ledger_account_id)
WHERE coalesce(b.current_overdraft_balance + b.total_overdraft_credit_balance, 0) <> coalesce(d.amount, 0)
"""

# Partial reverts reduce the amount that a pending transaction reserves; a capture settles the rest, or less.
_WRONG_HOLD = f"""
SELECT t.organization_id, format('transaction %s: held %s, of which %s were released, and has the amount %s',
    t.ledger_transaction_id, coalesce(CAST(trim_scale(t.reserved_amount) AS text), 'nothing'),
    trim_scale(coalesce(r.amount, 0)), trim_scale(t.amount))
FROM ledger_transactions t LEFT JOIN (
    SELECT r.organization_id, r.reverted_ledger_transaction_id AS ledger_transaction_id, sum(r.amount) AS amount
    FROM ledger_transactions r WHERE {OF_ORGANIZATION.format("r")} AND r.is_partial AND r.status = {REVERTED}
    GROUP BY r.organization_id, r.reverted_ledger_transaction_id
) r USING (organization_id, ledger_transaction_id)
WHERE {OF_ORGANIZATION.format("t")} AND CASE t.status
    WHEN {PENDING} THEN t.reserved_amount IS DISTINCT FROM t.amount + coalesce(r.amount, 0)
    ELSE t.reserved_amount < t.amount + coalesce(r.amount, 0) END
"""

# The amount that the reverts of a mint could not claw back is missing since the last of them; the amount that they
# clawed back does not count as earned. If the qualifying amount is not the whole amount, its reverted share is unknown,
# and only its limits can be checked.
_WRONG_MISSING = f"""
SELECT t.organization_id, format('transaction %s: misses %s since transaction %s, which does not revert it',
    t.ledger_transaction_id, trim_scale(t.missing), coalesce(CAST(clamp.ledger_transaction_id AS text), 'none'))
FROM ledger_transactions t LEFT JOIN ledger_transactions clamp ON clamp.organization_id = t.organization_id
    AND clamp.ledger_transaction_id = t.clamped_by_ledger_transaction_id
WHERE {OF_ORGANIZATION.format("t")} AND t.missing <> 0
    AND clamp.reverted_ledger_transaction_id IS DISTINCT FROM t.ledger_transaction_id
UNION ALL
SELECT t.organization_id, format('transaction %s: %s of it do not count as earned, %s were clawed back or are missing',
    t.ledger_transaction_id, trim_scale(coalesce(t.unearned, 0)),
    trim_scale(coalesce(r.amount, 0) + coalesce(t.missing, 0)))
FROM ledger_transactions t LEFT JOIN (
    SELECT r.organization_id, r.reverted_ledger_transaction_id AS ledger_transaction_id, sum(r.amount) AS amount
    FROM ledger_transactions r WHERE {OF_ORGANIZATION.format("r")} AND r.is_partial AND r.status = {SETTLED}
    GROUP BY r.organization_id, r.reverted_ledger_transaction_id
) r USING (organization_id, ledger_transaction_id)
WHERE {OF_ORGANIZATION.format("t")} AND t.transaction_type = {MINT} AND t.status = {SETTLED}
    AND CASE WHEN t.qualifying_amount IS NULL
        THEN coalesce(t.unearned, 0) NOT BETWEEN coalesce(r.amount, 0) + coalesce(t.missing, 0) AND t.amount
        ELSE coalesce(t.unearned, 0) NOT BETWEEN 0 AND t.qualifying_amount END
"""

_NEGATIVE = f"""
SELECT b.organization_id, format('wallet %s, account %s: a balance is below zero', b.wallet_id, b.ledger_account_id)
FROM ledger_balances b WHERE {OF_ORGANIZATION.format("b")} AND least(b.current_balance, b.pending_debit_balance,
    b.pending_credit_balance, b.current_overdraft_balance, b.total_overdraft_credit_balance, b.earned,
    b.current_balance - b.pending_debit_balance) < 0
UNION ALL
SELECT s.organization_id, format('account %s: a supply is below zero', s.ledger_account_id)
FROM ledger_account_supplies s WHERE {OF_ORGANIZATION.format("s")}
GROUP BY s.organization_id, s.ledger_account_id HAVING least(sum(s.minted), sum(s.burned)) < 0
UNION ALL
SELECT l.organization_id, format('lot %s of wallet %s, account %s: is below zero', l.ledger_lot_id, l.wallet_id,
    l.ledger_account_id)
FROM ledger_lots l WHERE {OF_ORGANIZATION.format("l")} AND least(l.amount, l.remaining) < 0
UNION ALL
SELECT t.organization_id, format('transaction %s: its amount is below zero', t.ledger_transaction_id)
FROM ledger_transactions t WHERE {OF_ORGANIZATION.format("t")} AND least(t.amount, t.qualifying_amount) < 0
UNION ALL
SELECT t.organization_id, format('transaction %s: has qualifying points and is no mint', t.ledger_transaction_id)
FROM ledger_transactions t
WHERE {OF_ORGANIZATION.format("t")} AND t.qualifying_amount IS NOT NULL AND t.transaction_type <> {MINT}
"""

_TOO_FINE = f"""
SELECT a.organization_id, format('transaction %s: %s has more than the %s fraction digits of account %s',
    amounts.ledger_transaction_id, trim_scale(amounts.amount), a.decimals, a.ledger_account_id)
FROM (
    SELECT t.organization_id, t.ledger_transaction_id, t.ledger_account_id, t.amount FROM ledger_transactions t
    WHERE {OF_ORGANIZATION.format("t")} AND t.amount <> trunc(t.amount)
    UNION
    SELECT e.organization_id, e.ledger_transaction_id, e.ledger_account_id, abs(e.amount) FROM ledger_entries e
    WHERE {OF_ORGANIZATION.format("e")} AND e.amount <> trunc(e.amount)
    UNION
    SELECT l.organization_id, l.ledger_transaction_id, l.ledger_account_id, l.amount FROM ledger_lots l
    WHERE {OF_ORGANIZATION.format("l")} AND l.amount <> trunc(l.amount)
    UNION
    SELECT t.organization_id, t.ledger_transaction_id, t.ledger_account_id, t.qualifying_amount
    FROM ledger_transactions t
    WHERE {OF_ORGANIZATION.format("t")} AND t.qualifying_amount <> trunc(t.qualifying_amount)
) amounts JOIN ledger_accounts a USING (organization_id, ledger_account_id)
WHERE {OF_ORGANIZATION.format("a")} AND amounts.amount <> round(amounts.amount, a.decimals)
"""

CHECKS: tuple[str, ...] = (
    _UNBALANCED,
    _WRONG_AMOUNT,
    _WRONG_PLACE,
    _WRONG_BALANCE,
    _BROKEN_CHAIN,
    _WRONG_SUPPLY,
    _WRONG_CIRCULATION,
    _OVER_SUPPLY,
    _WRONG_LOTS,
    _WRONG_LOT_USES,
    _WRONG_PENDING,
    _WRONG_REVERTS,
    _WRONG_EARNED,
    _WRONG_FIAT,
    _WRONG_OVERDRAFT,
    _WRONG_HOLD,
    _WRONG_MISSING,
    _NEGATIVE,
    _TOO_FINE,
)

VIOLATIONS = "SELECT words FROM ({0}) AS found(organization_id, words) ORDER BY words LIMIT :limit"


def plan_for_many(db: Connection) -> None:
    """Let the checks of this transaction join whole tables by all their keys: the planner may not know their sizes."""
    # Right after many writes the planner assumes that tables are small. It then chooses nested loops, or joins only by
    # the organization and compares the rest row by row; both take minutes. Hash joins in the order in which a check
    # names its tables use every key of a join, whatever the sizes are.
    for setting in ("enable_nestloop = off", "enable_mergejoin = off", "join_collapse_limit = 1"):
        db.execute(text(f"SET LOCAL {setting}"))


def find_violations(db: Connection, check: str, organization_id: int, limit: int) -> list[str]:
    """The descriptions of at most `limit` violations that one of `CHECKS` finds."""
    violations = db.execute(text(VIOLATIONS.format(check)), {"organization_id": organization_id, "limit": limit})
    return list(violations.scalars())
