"""Loads the ledger session of locked wallets, and finds earlier transactions."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial

from sqlalchemy import Connection

from domain.calendar import instant_text, zone_named
from domain.idempotency import ResultsByKey
from domain.imports.export_keys import BALANCE_PATTERN
from domain.ledger.lots import LotUse
from domain.ledger.postings import BalanceKey, Capture, Holding, StoredTransaction
from domain.ledger.records import MINT, PENDING, REVERT, SETTLED, LedgerAccount, Wallet
from domain.ledger.session import LedgerSession
from domain.organizations import Organization
from persistence import ledger
from persistence.connections import defer, fetch_rows
from persistence.posting.lots import as_pairs
from persistence.posting.stored import find_stored, with_orders
from persistence.prepared_statements import Prepared
from persistence.rows import next_ids_sql, recordset_of

_LOCK_WALLETS = Prepared("""
SELECT organization_id, wallet_id, wallet_key, ledger_id, created_at FROM wallets
WHERE organization_id = %s AND wallet_id = ANY(%s::bigint[]) ORDER BY wallet_id FOR NO KEY UPDATE
""")

# The outer join returns the version of the configuration even if no wallet has a balance.
_HOLDINGS = Prepared(f"""
SELECT o.configuration_version, h.* FROM organizations o LEFT JOIN (
SELECT wallet_id, ledger_account_id, current_balance, pending_credit_balance, pending_debit_balance,
       current_overdraft_balance, total_overdraft_credit_balance, total_fiat_value, last_transaction_date, earned,
       last_activity_date,
       EXISTS (SELECT FROM ledger_lots l WHERE l.organization_id = %s AND l.wallet_id = b.wallet_id
           AND l.ledger_account_id = b.ledger_account_id AND l.remaining > 0 AND l.expires_at <= %s),
       pending_debit_balance > 0 AND EXISTS (SELECT FROM ledger_transactions t
           WHERE t.organization_id = %s AND t.from_wallet_id = b.wallet_id
           AND t.ledger_account_id = b.ledger_account_id AND t.status = {PENDING} AND t.held_until <= %s)
       OR pending_credit_balance > 0 AND EXISTS (SELECT FROM ledger_transactions t
           WHERE t.organization_id = %s AND t.to_wallet_id = b.wallet_id
           AND t.ledger_account_id = b.ledger_account_id AND t.status = {PENDING} AND t.transaction_type = {MINT}
           AND coalesce(t.available_at, t.held_until) <= %s)
FROM ledger_balances b WHERE organization_id = %s AND wallet_id = ANY(%s::bigint[])
) AS h ON true WHERE o.organization_id = %s
""")

# While an account's row has a shared lock, a change of its rules waits for the commit of what follows these rules.
_SHARE_ACCOUNTS = Prepared("""
SELECT FROM ledger_accounts WHERE organization_id = %s AND ledger_account_id = ANY(%s::bigint[])
ORDER BY ledger_account_id FOR KEY SHARE
""")

_LOCK_CAPPED_ACCOUNTS = """
SELECT ledger_account_id FROM ledger_accounts WHERE organization_id = %s AND ledger_account_id = ANY(%s)
ORDER BY ledger_account_id FOR NO KEY UPDATE
"""

_EXPIRED_LOTS = """
SELECT wallet_id, ledger_account_id, ledger_lot_id, remaining, greatest(expires_at, created_at) FROM ledger_lots
WHERE organization_id = %s AND wallet_id = ANY(%s) AND ledger_account_id = ANY(%s) AND remaining > 0
    AND expires_at <= %s
ORDER BY wallet_id, ledger_account_id, expires_at, ledger_lot_id LIMIT %s
"""

_EXPIRED_AMOUNTS = """
SELECT wallet_id, ledger_account_id, sum(remaining) FROM ledger_lots
WHERE organization_id = %s AND wallet_id = ANY(%s) AND ledger_account_id = ANY(%s) AND remaining > 0
    AND expires_at <= %s
GROUP BY wallet_id, ledger_account_id
"""

# Pending transactions whose hold has ended, and mints that waited for a moment, or too long for an event.
_DUE = f"""
SELECT ledger_transaction_id FROM ledger_transactions
WHERE organization_id = %(organization_id)s AND from_wallet_id = ANY(%(wallet_ids)s) AND status = {PENDING}
    AND held_until <= %(now)s
UNION
SELECT ledger_transaction_id FROM ledger_transactions
WHERE organization_id = %(organization_id)s AND to_wallet_id = ANY(%(wallet_ids)s) AND status = {PENDING}
    AND transaction_type = {MINT} AND coalesce(available_at, held_until) <= %(now)s
"""

# The next points of a balance to become available; points that wait for an event come last.
_NEXT_AVAILABLE = f"""
SELECT available_at, sum(amount) FROM ledger_transactions
WHERE organization_id = %s AND to_wallet_id = %s AND ledger_account_id = %s
    AND status = {PENDING} AND transaction_type = {MINT}
    AND (available_at > %s OR available_at IS NULL AND available_on IS NOT NULL)
GROUP BY available_at ORDER BY available_at NULLS LAST LIMIT 1
"""

_ALL_LOTS = """
SELECT l.wallet_id, l.ledger_account_id, l.ledger_lot_id, l.remaining, l.expires_at, l.kept_until
FROM ledger_lots l JOIN (
    SELECT * FROM jsonb_to_recordset(%s::jsonb) AS g(wallet_id bigint, ledger_account_id bigint) LIMIT %s
) AS p
  USING (wallet_id, ledger_account_id)
WHERE l.organization_id = %s AND l.remaining > 0 ORDER BY l.ledger_lot_id
"""

_POSTED = Prepared("""
SELECT system_unique_key, ledger_transaction_id, request_digest FROM ledger_transactions
WHERE organization_id = %s AND system_unique_key = ANY(%s)
""")

# A key of each source; all keys of a source begin with it. The range, which leads to the unique index, may have other
# keys in databases whose collation ignores hyphens.
_KEYS_BY_SOURCE = f"""
SELECT source, (
    SELECT system_unique_key FROM ledger_transactions
    WHERE organization_id = %(organization_id)s AND system_unique_key BETWEEN source || '-' AND source || '-zz'
        AND starts_with(system_unique_key, source || '-') AND system_unique_key ~ '{BALANCE_PATTERN}'
    LIMIT 1
) FROM unnest(%(sources)s::text[]) AS source
"""

_LOOK_UP = Prepared(f"""
SELECT (
    SELECT json_agg(json_build_array(system_unique_key, ledger_transaction_id, encode(request_digest, 'hex')))
    FROM ledger_transactions WHERE organization_id = %s AND system_unique_key = ANY(%s)
), ARRAY(
    SELECT wallet_id FROM members WHERE organization_id = %s AND wallet_id = ANY(%s::bigint[]) AND erased_at IS NOT NULL
), {next_ids_sql("ledger_transactions")}
""")

# Expiries that were not reverted, also of points that the revert of a burn returned to an expired balance, but not of
# points that had expired when they were minted.
_LATE_EXPIRIES = f"""
SELECT t.ledger_transaction_id FROM ledger_transactions t
WHERE t.organization_id = %s AND t.from_wallet_id = ANY(%s) AND t.is_expiry AND t.external_event_date > %s
    AND t.ledger_account_id = ANY(%s) AND t.status = {SETTLED}
    AND (t.part_of_ledger_transaction_id IS NULL OR EXISTS (
        SELECT FROM ledger_transactions r WHERE r.organization_id = %s
            AND r.ledger_transaction_id = t.part_of_ledger_transaction_id AND r.transaction_type = {REVERT}
    ))
"""


def find_posted(db: Connection, organization_id: int, keys: Collection[str]) -> ResultsByKey[int]:
    """The ids of the transactions posted under these keys, by key, with the digests of their requests."""
    rows = fetch_rows(db, _POSTED, (organization_id, list(keys)))
    return ResultsByKey([(key, None if digest is None else bytes(digest), id_) for key, id_, digest in rows])


def find_keys_by_source(db: Connection, organization_id: int, sources: Collection[str]) -> dict[str, str]:
    """The key of one posted row of each of these sources, by source; sources without a posted row are left out.

    A source is the beginning of the keys of exported rows, see `export_keys`.
    """
    rows = fetch_rows(db, _KEYS_BY_SOURCE, {"organization_id": organization_id, "sources": list(sources)})
    return {source: key for source, key in rows if key is not None}


def find_posted_and_reserve_ids(
    db: Connection, organization_id: int, keys: Sequence[str], wallet_ids: Collection[int]
) -> tuple[ResultsByKey[int], Collection[int], Sequence[int]]:
    """The posted transactions as `find_posted` returns them, the wallets of erased members, and a new id for each key.

    All by one statement. The ids are reserved for new transactions.
    """
    values = (organization_id, list(keys), organization_id, list(wallet_ids), len(keys))
    [(posted, erased_wallet_ids, ids)] = fetch_rows(db, _LOOK_UP, values)
    results: ResultsByKey[int] = ResultsByKey()
    for key, id_, digest in posted or ():
        results.add(key, None if digest is None else bytes.fromhex(digest), id_)
    return results, erased_wallet_ids, ids


def lock_wallets(db: Connection, organization_id: int, wallet_ids: Collection[int]) -> dict[int, Wallet]:
    """Lock wallets, and so all records of their members, in the order of `persistence.locks`.

    Returns the existing wallets by id.
    """
    rows = fetch_rows(db, _LOCK_WALLETS, (organization_id, list(wallet_ids)))
    wallets = [Wallet(*row) for row in rows]
    return {wallet.wallet_id: wallet for wallet in wallets}


def open_session(
    db: Connection,
    organization: Organization,
    wallet_ids: Collection[int],
    ledger_account_ids: Collection[int],
    at: datetime,
    configured_accounts: Mapping[int, LedgerAccount],
    *,
    lock: bool = True,
    since: datetime | None = None,
    max_expired_lots: int | None = None,
) -> LedgerSession:
    """Open a session of locked wallets, with their current balances in the accounts.

    `configured_accounts` are accounts by id, as of the configuration version of `organization`; accounts are read again
    only if the version has changed since, or one is not there. First the session does what is due at `at`: it ends
    holds, makes mints available, and burns expired points. Without `lock`, in a dry run, no accounts are locked.
    `since` is the earliest moment of the events and movements of the session, None if they happen now.

    At most `max_expired_lots` lots whose own expiry has passed are burned, the first of each balance, unless a balance
    has expired by inactivity. The points of the others cannot be used, but the session must not revert transactions.
    """
    organization_id, wallets, account_ids = organization.organization_id, list(wallet_ids), list(ledger_account_ids)
    if lock:
        defer(db, _SHARE_ACCOUNTS, (organization_id, account_ids))
    moment = (organization_id, at)
    rows = fetch_rows(db, _HOLDINGS, (*moment, *moment, *moment, organization_id, wallets, organization_id))
    version = rows[0][0] if rows else None
    holdings: dict[BalanceKey, Holding] = {}
    have_expired = are_due = False
    for _, wallet_id, account_id, *values, has_expired, is_due in rows:
        if wallet_id is not None:
            holdings[wallet_id, account_id] = Holding(*values)
            have_expired, are_due = have_expired or has_expired, are_due or is_due
    if version == organization.configuration_version and configured_accounts.keys() >= set(account_ids):
        accounts = {account_id: configured_accounts[account_id] for account_id in account_ids}
    else:
        current_accounts = ledger.ACCOUNTS.find_all(db, organization_id, ledger_account_id=account_ids)
        accounts = {account.ledger_account_id: account for account in current_accounts}
    capped_account_ids = [account_id for account_id, account in accounts.items() if account.max_supply is not None]
    issued_amounts: dict[int, Decimal] = {}
    if capped_account_ids and lock:
        defer(db, _LOCK_CAPPED_ACCOUNTS, (organization_id, capped_account_ids))
    if capped_account_ids:
        issued_amounts = ledger.find_issued_amounts(db, organization_id, capped_account_ids)
    session = LedgerSession(accounts, holdings, issued_amounts, at, zone_named(organization.timezone))
    session.waiting_text = partial(_waiting_text, db, organization_id, at)
    idle = _IdleBalances(session)
    if are_due:
        _settle_due(db, organization_id, session, wallets, idle)
    tracking_accounts = {
        account_id: account for account_id, account in accounts.items() if account.point_tracking_enabled
    }
    if tracking_accounts:
        idle_times = idle.find_idle_times(holdings, tracking_accounts)
        if have_expired or idle_times:
            limit = None if idle_times else max_expired_lots
            _expire(db, organization_id, session, wallets if have_expired else [], idle_times, tracking_accounts, limit)
    if since is not None and since < at:
        _expect_late_activity(db, organization_id, session, wallets, since)
    return session


def _expect_late_activity(
    db: Connection, organization_id: int, session: LedgerSession, wallets: list[int], since: datetime
) -> None:
    """Load the expiries of idle balances that a late activity may still revert.

    These are the expiries after `since` and within the `late_activity_days` of the account. No statement is sent if no
    account allows late activities.
    """
    policies = {account_id: account.idle_policy(session.zone) for account_id, account in session.accounts.items()}
    days = {
        account_id: session.accounts[account_id].late_activity_days
        for account_id, policy in policies.items()
        if policy is not None and policy.activities is not None and session.accounts[account_id].late_activity_days
    }
    if days:
        # The statement finds expiries later than `earliest`. An expiry that is exactly `late_activity_days` old counts.
        earliest = max(since, session.at - timedelta(days=max(days.values()), microseconds=1))
        rows = fetch_rows(db, _LATE_EXPIRIES, (organization_id, wallets, earliest, list(days), organization_id))
        expiry_ids = [transaction_id for (transaction_id,) in rows]
        session.expect_late_activity(find_stored(db, organization_id, expiry_ids).values())


def _waiting_text(db: Connection, organization_id: int, now: datetime, wallet_id: int, ledger_account_id: int) -> str:
    """The end of a message about a low balance: when more points are available; empty if no points wait."""
    values = (organization_id, wallet_id, ledger_account_id, now)
    for available_at, amount in fetch_rows(db, _NEXT_AVAILABLE, values):
        amount = f"{amount.normalize():f}"
        if available_at is None:
            return f"; {amount} more wait for an event"
        return f"; {amount} more are available from {instant_text(available_at)}"
    return ""


# The time in which a balance had expired by inactivity: from its end until points arrived in it again, or until now.
# Lots with a `kept_until` after this time have not expired.
IdleTime = tuple[datetime, datetime]


class _IdleBalances:
    """Expires balances by inactivity, in the right order with waiting points that become available in these balances.

    An idle time is from the expiry of a balance until points arrived in it again, or until now.
    """

    def __init__(self, session: LedgerSession) -> None:
        self._session = session
        # The mints of a balance that became available after its last idle time.
        self._arrived: dict[BalanceKey, list[Capture]] = {}
        self._idle_times: dict[BalanceKey, list[IdleTime]] = {}

    def make_available(self, transaction: StoredTransaction, account: LedgerAccount) -> None:
        """Make a mint available, as a movement of its balance; if the balance had expired before, expire it first."""
        pair = transaction.credited_wallet_id, account.ledger_account_id
        self._expire_idle(pair, account, transaction.available_at or self._session.at)
        self._arrived.setdefault(pair, []).append(self._session.make_available(transaction, account))

    def find_idle_times(
        self, pairs: Iterable[BalanceKey], accounts: Mapping[int, LedgerAccount]
    ) -> dict[BalanceKey, list[IdleTime]]:
        """Find the times in which stored balances had expired by inactivity, the earliest of each balance first."""
        for wallet_id, account_id in pairs:
            account = accounts.get(account_id)
            if account is not None and account.expiration_policies:
                self._expire_idle((wallet_id, account_id), account, self._session.at)
        return self._idle_times

    def _expire_idle(self, pair: BalanceKey, account: LedgerAccount, until: datetime) -> None:
        """Record that a balance was idle from its expiry to `until`; expire the mints that had arrived before.

        Does nothing if the balance had not expired by `until`.
        """
        session = self._session
        end = account.end_of_idle_balance(session.holding(*pair), session.zone)
        if end is None or end > until:
            return
        self._idle_times.setdefault(pair, []).append((end, until))
        for capture in self._arrived.pop(pair, ()):
            remaining = session.unexpired_amount_of(capture)
            if remaining:
                session.expire_arrived(capture, remaining, end)


def _settle_due(
    db: Connection, organization_id: int, session: LedgerSession, wallets: list[int], idle: _IdleBalances
) -> None:
    """End due holds, and make due mints available, in the order of the moments at which they became due."""
    values = {"organization_id": organization_id, "wallet_ids": wallets, "now": session.at}
    ids = [transaction_id for (transaction_id,) in fetch_rows(db, _DUE, values)]
    due_transactions = with_orders(db, organization_id, find_stored(db, organization_id, ids).values())
    due_transactions.sort(key=lambda due: (due.available_at or due.held_until, due.ledger_transaction_id))
    for transaction in due_transactions:
        account = session.accounts.get(transaction.ledger_account_id)
        if account is None:
            # The session is not about this account.
            continue
        if transaction.available_at is None:
            session.end_hold(transaction, account)
        else:
            idle.make_available(transaction, account)


def _expire(
    db: Connection,
    organization_id: int,
    session: LedgerSession,
    wallets: list[int],
    idle_times: Mapping[BalanceKey, Sequence[IdleTime]],
    accounts: Mapping[int, LedgerAccount],
    limit: int | None,
) -> None:
    """Burn what is left of expired lots, so that it cannot be spent.

    Lots whose own expiry has passed are looked for in `wallets`. A lot of a balance with `idle_times` expires with the
    balance if that was earlier. Each moment of expiry gets its own transaction, since past balances depend on it.
    """
    # By wallet, account and moment of expiry: the lots by id.
    expired: dict[tuple[int, int, datetime], dict[int, LotUse]] = {}
    of_wallets = (organization_id, wallets, list(accounts), session.at)
    expired_lots = fetch_rows(db, _EXPIRED_LOTS, (*of_wallets, limit)) if wallets else ()
    for wallet_id, account_id, lot_id, remaining, moment in expired_lots:
        expired.setdefault((wallet_id, account_id, moment), {})[lot_id] = LotUse(lot_id, remaining, moment)
    if len(expired_lots) == limit:
        # There may be more expired lots, whose points are left out of the balances without a transaction.
        burned: dict[BalanceKey, Decimal] = {}
        for wallet_id, account_id, _, remaining, _ in expired_lots:
            burned[wallet_id, account_id] = burned.get((wallet_id, account_id), Decimal(0)) + remaining
        for wallet_id, account_id, amount in fetch_rows(db, _EXPIRED_AMOUNTS, of_wallets):
            session.leave_expired(wallet_id, account_id, amount - burned.get((wallet_id, account_id), Decimal(0)))
    if idle_times:
        rows = fetch_rows(db, _ALL_LOTS, (*recordset_of(as_pairs(idle_times)), organization_id))
        for wallet_id, account_id, *lot in rows:
            use = LotUse(*lot)
            end = _end_in(idle_times[wallet_id, account_id], use)
            if end is not None and (use.expires_at is None or use.expires_at > end):
                # The lot expired with the balance, not at its own expiry, under which it may be in `expired`.
                if use.expires_at is not None:
                    expired.get((wallet_id, account_id, use.expires_at), {}).pop(use.ledger_lot_id, None)
                expired.setdefault((wallet_id, account_id, end), {})[use.ledger_lot_id] = use
    for (wallet_id, account_id, moment), lots in sorted(expired.items(), key=lambda key_and_lots: key_and_lots[0]):
        if lots:
            key = f"expiry-{wallet_id}-{account_id}-{max(lots)}-{session.at.timestamp():.6f}"
            session.expire(accounts[account_id], wallet_id, tuple(lots.values()), moment, key)


def _end_in(idle_times: Iterable[IdleTime], use: LotUse) -> datetime | None:
    """The moment at which a lot expired with its idle balance; None if it was kept beyond each idle time."""
    for end, until in idle_times:
        kept_until = end if use.kept_until is None else max(end, use.kept_until)
        if kept_until <= until:
            return kept_until
    return None
