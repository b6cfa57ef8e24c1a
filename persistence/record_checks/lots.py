"""Checks of points that expire: lots against the transactions that created them and that took points from them."""

from domain.ledger.records import BURN, MINT, PENDING, REVERT, REVERTED, TRANSFER
from persistence.record_checks.forms import MARGIN, OF_ORGANIZATION

_WRONG_EXPIRED = f"""
SELECT l.organization_id, format('lot %s of wallet %s, account %s: counts %s as expired, its expiries took %s',
    l.ledger_lot_id, l.wallet_id, l.ledger_account_id, trim_scale(l.expired), trim_scale(coalesce(taken.amount, 0)))
FROM ledger_lots l LEFT JOIN (
    SELECT u.organization_id, u.ledger_lot_id, sum(u.amount) AS amount
    FROM ledger_lot_uses u JOIN ledger_transactions t USING (organization_id, ledger_transaction_id)
    WHERE {OF_ORGANIZATION.format("u")} AND t.is_expiry AND t.status <> {REVERTED}
    GROUP BY u.organization_id, u.ledger_lot_id
) taken USING (organization_id, ledger_lot_id)
WHERE {OF_ORGANIZATION.format("l")} AND l.expired <> coalesce(taken.amount, 0)
"""

# The lots with which the tracking of an account began have a transaction without a wallet, which is not compared.
_WRONG_PLACE = f"""
SELECT l.organization_id, format('lot %s of wallet %s, account %s: transaction %s gave to wallet %s, account %s',
    l.ledger_lot_id, l.wallet_id, l.ledger_account_id, t.ledger_transaction_id, t.to_wallet_id, t.ledger_account_id)
FROM ledger_lots l JOIN ledger_transactions t USING (organization_id, ledger_transaction_id)
WHERE {OF_ORGANIZATION.format("l")} AND (l.ledger_account_id <> t.ledger_account_id OR l.wallet_id <> t.to_wallet_id)
"""

# If a revert returns points of an expired lot, they become a new lot, and the use of the expired lot stays.
_TOO_MUCH = f"""
SELECT t.organization_id, format('transaction %s: gave %s in lots, but moved %s', t.ledger_transaction_id,
    trim_scale(made.amount), trim_scale(t.amount))
FROM ledger_transactions t JOIN (
    SELECT l.organization_id, l.ledger_transaction_id, sum(l.amount) AS amount,
        coalesce(sum(l.amount) FILTER (WHERE l.kept_until IS NOT NULL), 0) AS kept
    FROM ledger_lots l WHERE {OF_ORGANIZATION.format("l")} GROUP BY l.organization_id, l.ledger_transaction_id
) made USING (organization_id, ledger_transaction_id)
WHERE {OF_ORGANIZATION.format("t")}
    AND t.to_wallet_id IS NOT NULL AND made.amount > t.amount AND made.amount - least(made.kept, (
    SELECT coalesce(sum(u.amount), 0)
    FROM ledger_lots l JOIN ledger_lot_uses u USING (organization_id, ledger_lot_id)
    JOIN ledger_transactions r ON r.organization_id = u.organization_id
        AND r.ledger_transaction_id = u.ledger_transaction_id
    WHERE {OF_ORGANIZATION.format("l")} AND l.ledger_transaction_id = t.ledger_transaction_id
        AND r.transaction_type = {REVERT}
)) > t.amount
"""

# Transferred points keep their expiry, and a captured mint keeps the expiry of its reservation, unless it was extended.
_WRONG_EXPIRY = f"""
SELECT made.organization_id, format('transaction %s: gave %s that expire at %s, but took %s of these',
    made.ledger_transaction_id, trim_scale(made.amount), made.expires_at, trim_scale(coalesce(taken.amount, 0)))
FROM (
    SELECT l.organization_id, l.ledger_transaction_id, coalesce(l.expires_at, 'infinity') AS expires_at,
        sum(l.amount) AS amount
    FROM ledger_lots l JOIN ledger_transactions t USING (organization_id, ledger_transaction_id)
    WHERE {OF_ORGANIZATION.format("l")} AND t.transaction_type = {TRANSFER} AND l.kept_until IS NULL AND NOT EXISTS (
        SELECT FROM ledger_lot_uses u JOIN ledger_lots k USING (organization_id, ledger_lot_id)
        WHERE {OF_ORGANIZATION.format("u")} AND u.ledger_transaction_id = l.ledger_transaction_id
            AND k.kept_until IS NOT NULL
    ) GROUP BY 1, 2, 3
) made LEFT JOIN (
    SELECT u.organization_id, u.ledger_transaction_id, coalesce(l.expires_at, 'infinity') AS expires_at,
        sum(u.amount) AS amount
    FROM ledger_lot_uses u JOIN ledger_lots l USING (organization_id, ledger_lot_id)
    WHERE {OF_ORGANIZATION.format("u")} GROUP BY 1, 2, 3
) taken USING (organization_id, ledger_transaction_id, expires_at)
WHERE made.amount > coalesce(taken.amount, 0)
UNION ALL
SELECT l.organization_id, format('lot %s of wallet %s, account %s: expires at %s, its mint was to expire at %s',
    l.ledger_lot_id, l.wallet_id, l.ledger_account_id, coalesce(l.expires_at, 'infinity'), t.pending_expires_at)
FROM ledger_lots l JOIN ledger_transactions t USING (organization_id, ledger_transaction_id)
WHERE {OF_ORGANIZATION.format("l")}
    AND t.transaction_type = {MINT} AND l.expires_at IS DISTINCT FROM t.pending_expires_at
    AND t.pending_expires_at IS NOT NULL AND l.kept_until IS NULL
"""

# Points that had expired may still repay the debt of a revert. Without a policy about the last transaction, only time
# makes points expire.
_WRONG_MOMENT = f"""
SELECT u.organization_id, format('transaction %s: took %s from lot %s, which had expired at %s',
    u.ledger_transaction_id, trim_scale(u.amount), u.ledger_lot_id, l.expires_at)
FROM ledger_lot_uses u JOIN ledger_lots l USING (organization_id, ledger_lot_id)
JOIN ledger_transactions t ON t.organization_id = u.organization_id
    AND t.ledger_transaction_id = u.ledger_transaction_id
WHERE {OF_ORGANIZATION.format("u")} AND t.transaction_type IN ({TRANSFER}, {BURN}) AND NOT t.is_expiry
    AND l.expires_at < t.created_at
UNION ALL
SELECT u.organization_id, format('transaction %s: is the expiry of lot %s, which expires at %s',
    u.ledger_transaction_id, u.ledger_lot_id, coalesce(l.expires_at, 'infinity'))
FROM ledger_lot_uses u JOIN ledger_lots l USING (organization_id, ledger_lot_id)
JOIN ledger_transactions t ON t.organization_id = u.organization_id
    AND t.ledger_transaction_id = u.ledger_transaction_id
JOIN ledger_accounts a ON a.organization_id = t.organization_id AND a.ledger_account_id = t.ledger_account_id
WHERE {OF_ORGANIZATION.format("u")} AND t.is_expiry AND t.created_at < coalesce(l.expires_at, 'infinity')
    AND a.expiration_policies = '[]' AND t.created_at > a.updated_at + {MARGIN}
"""

# Burns and transfers before the tracking of the account began used no lots. What a partial revert returned of a burn is
# not used any more.
_WRONG_USES = f"""
SELECT organization_id, format('transaction %s: took %s from wallet %s, but %s from its lots',
    ledger_transaction_id, trim_scale(debit.amount), debit.wallet_id, trim_scale(coalesce(used.amount, 0)))
FROM (
    SELECT t.organization_id, t.ledger_transaction_id, t.ledger_account_id, t.from_wallet_id AS wallet_id,
        CASE t.status WHEN {PENDING} THEN t.amount ELSE -sum(e.amount) - coalesce((
            SELECT sum(r.amount) FROM ledger_transactions r WHERE {OF_ORGANIZATION.format("r")}
                AND r.reverted_ledger_transaction_id = t.ledger_transaction_id AND r.is_partial
        ), 0) END AS amount
    FROM ledger_transactions t JOIN ledger_accounts a USING (organization_id, ledger_account_id)
    JOIN ledger_entries e ON e.organization_id = t.organization_id
        AND e.ledger_transaction_id = t.ledger_transaction_id AND e.wallet_id = t.from_wallet_id
    WHERE {OF_ORGANIZATION.format("t")} AND a.point_tracking_enabled AND t.transaction_type IN ({TRANSFER}, {BURN})
        AND t.status <> {REVERTED} AND NOT e.is_overdraft
    GROUP BY t.organization_id, t.ledger_transaction_id
) debit LEFT JOIN (
    SELECT u.organization_id, u.ledger_transaction_id, sum(u.amount) AS amount
    FROM ledger_lot_uses u WHERE {OF_ORGANIZATION.format("u")} GROUP BY u.organization_id, u.ledger_transaction_id
) used USING (organization_id, ledger_transaction_id)
LEFT JOIN (
    SELECT l.organization_id, l.ledger_account_id, max(l.ledger_transaction_id) AS began_with
    FROM ledger_transactions t JOIN ledger_lots l USING (organization_id, ledger_transaction_id)
    WHERE {OF_ORGANIZATION.format("t")} AND t.amount = 0 AND t.to_wallet_id IS NULL
    GROUP BY l.organization_id, l.ledger_account_id
) tracking USING (organization_id, ledger_account_id)
WHERE debit.amount <> coalesce(used.amount, 0) AND ledger_transaction_id > coalesce(tracking.began_with, 0)
"""

CHECKS = (_WRONG_EXPIRED, _WRONG_PLACE, _TOO_MUCH, _WRONG_EXPIRY, _WRONG_MOMENT, _WRONG_USES)
