"""Wallets and their balances."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Connection,
    bindparam,
    cast,
    func,
    select,
)

from domain.calendar import instant_of, zone_named
from domain.ledger.expiry import ExpiryCalendar, IdlePolicy
from domain.ledger.lots import ArrivedMint, KeptLots, unexpired_balance
from domain.ledger.postings import BalanceKey, Earning
from domain.ledger.records import MINT, PENDING, SETTLED, LedgerAccount, Wallet
from domain.ledger.views import NextAvailable, WalletView
from persistence.balance_columns import HOLDINGS, IN_ORDER, IS_RELEVANT, VIEW_COLUMNS
from persistence.connections import fetch_rows
from persistence.filters import ORGANIZATION, is_same
from persistence.records import Records
from persistence.rows import as_json, compile_statement
from persistence.tables.ledger import (
    ledger_accounts,
    wallets,
)

_ZERO = Decimal(0)


WALLETS = Records(wallets, Wallet)


def find_wallet_view(
    db: Connection, wallet: Wallet, account: LedgerAccount, now: datetime, timezone: str
) -> WalletView:
    """The wallet's balance of one account of its ledger at `now`; months of expiry are those of `timezone`."""
    conditions = (ledger_accounts.c.ledger_account_id == account.ledger_account_id,)
    return _views(db, wallet, now, timezone, conditions)[0]


def find_wallet_views(db: Connection, wallet: Wallet, now: datetime, timezone: str) -> list[WalletView]:
    """The wallet's balances at `now` of every account of its ledger, the default account first."""
    return _views(db, wallet, now, timezone, conditions=())


def find_balances_of_wallets(
    db: Connection, organization_id: int, wallet_ids: Collection[int], now: datetime, timezone: str
) -> dict[int, list[WalletView]]:
    """The balances of each wallet at `now`, by wallet id, the default account first; one query for all.

    A wallet has a balance for every active account, and for the inactive accounts on which it ever had a balance.
    """
    balances: dict[int, list[WalletView]] = {wallet_id: [] for wallet_id in wallet_ids}
    parameters = {"organization_id": organization_id, "wallet_ids": list(balances), "now": now}
    for balance in (wallet_view(row, now, timezone) for row in fetch_rows(db, _RELEVANT_VIEWS, parameters)):
        balances[balance.wallet_id].append(balance)
    return balances


# Points that waited may be released in a later year than the year for which they count, and then all points of that
# year are needed. Points wait for at most two years, so the year begins at most three years before `since`.
_EARNINGS = f"""
SELECT t.to_wallet_id, t.ledger_account_id, coalesce(t.external_event_date, t.captured_at, t.created_at) AS moment,
    sum(coalesce(t.qualifying_amount, t.amount) - coalesce(t.unearned, 0)),
    CASE WHEN t.available_at IS NOT NULL THEN t.captured_at END
FROM unnest(%(wallet_ids)s::bigint[]) AS w(wallet_id)
CROSS JOIN jsonb_to_recordset(%(rows)s::jsonb) AS x(ledger_account_id bigint, since timestamptz)
JOIN ledger_transactions t ON t.organization_id = %(organization_id)s AND t.to_wallet_id = w.wallet_id
    AND t.ledger_account_id = x.ledger_account_id AND t.transaction_type = {MINT} AND t.status = {SETTLED}
    AND coalesce(t.external_event_date, t.captured_at, t.created_at) >= x.since - CASE WHEN EXISTS (
        SELECT FROM ledger_transactions l WHERE l.organization_id = %(organization_id)s
            AND l.to_wallet_id = w.wallet_id AND l.ledger_account_id = x.ledger_account_id
            AND l.available_at IS NOT NULL AND (l.captured_at >= x.since OR l.status = {PENDING})
            AND l.external_event_date < x.since
        ) THEN interval '3 years' ELSE interval '0' END
GROUP BY 1, 2, 3, 5 ORDER BY 1, 2, 3, 5
"""


def find_earnings(
    db: Connection, organization_id: int, wallet_ids: Collection[int], since: Mapping[int, datetime]
) -> dict[BalanceKey, tuple[Earning, ...]]:
    """The earnings of wallets by wallet and account; `since` has for each account the moment from which they are read.

    Reverted mints are left out. Earlier earnings are included if points that waited need them.
    """
    rows = [{"ledger_account_id": account_id, "since": moment} for account_id, moment in since.items()]
    earnings: dict[BalanceKey, list[Earning]] = {}
    parameters = {"organization_id": organization_id, "wallet_ids": list(wallet_ids), "rows": as_json(rows)}
    for wallet_id, account_id, moment, amount, released_at in fetch_rows(db, _EARNINGS, parameters):
        earnings.setdefault((wallet_id, account_id), []).append(Earning(moment, amount, released_at))
    return {pair: tuple(earnings_of_pair) for pair, earnings_of_pair in earnings.items()}


_NAMES = tuple(column.name for column in VIEW_COLUMNS)

_VIEWS = select(*VIEW_COLUMNS).select_from(HOLDINGS).order_by(*IN_ORDER)


def _views(
    db: Connection, wallet: Wallet, now: datetime, timezone: str, conditions: tuple[Any, ...]
) -> list[WalletView]:
    """The wallet's balances that meet conditions, the default account first."""
    statement = _VIEWS.where(is_same(wallets, wallet, "wallet_id"), *conditions)
    return [
        wallet_view(row, now, timezone)
        for row in db.execute(statement, {"now": now, "organization_id": wallet.organization_id})
    ]


_RELEVANT_VIEWS = compile_statement(
    _VIEWS.where(
        wallets.c.organization_id == ORGANIZATION,
        wallets.c.wallet_id == func.any(cast(bindparam("wallet_ids"), ARRAY(BigInteger))),
        IS_RELEVANT,
    )
)


def wallet_view(row: Iterable[Any], now: datetime, timezone: str) -> WalletView:
    """The balance in the VIEW_COLUMNS of a row; months of expiry are those of the account, or else of `timezone`."""
    values = dict(zip(_NAMES, row, strict=True))
    expired_lots, policies = values.pop("expired_lots"), values.pop("expiration_policies")
    own_timezone, year_start_month = values.pop("timezone"), values.pop("expiry_year_start_month")
    policy_since = values.pop("idle_policy_since")
    stored_balance, debt = values["current_balance"], values["current_overdraft_balance"]
    # The points of holds that have ended belong to the wallet again, although the release is not posted yet.
    values["pending_debit_balance"] -= values["ended_holds"]
    next_available = values.pop("next_available")
    kept_lots = values.pop("kept_lots")
    waiting_points = values.pop("waiting_points")
    waiting_amount, arrived_mints, ended_amount = (
        _NO_WAITING_POINTS if waiting_points is None else _split_waiting_points(*waiting_points)
    )
    expired_by_lots = values.pop("expired_in_holds") + expired_lots
    policy = None
    if policies:
        calendar = ExpiryCalendar(zone_named(own_timezone or timezone), year_start_month)
        policy = IdlePolicy.of(policies, calendar, policy_since)
    if policy is not None or arrived_mints or expired_by_lots:
        values["current_balance"], values["last_activity_date"] = _balance_by_now(
            values, expired_by_lots, policy, arrived_mints, now, _kept_lots(kept_lots)
        )
    expired = stored_balance - values["current_balance"]
    if arrived_mints:
        available_amount = sum((mint.amount for mint in arrived_mints), _ZERO)
        # The mints repay debt first; only the rest is a part of the current balance.
        repaid = min(debt, available_amount)
        expired += available_amount - repaid
        values["current_overdraft_balance"] -= repaid
        values["total_overdraft_credit_balance"] += repaid
        values["earned"] += sum((mint.earned for mint in arrived_mints), _ZERO)
        values["last_transaction_date"] = max(values["last_transaction_date"], arrived_mints[-1].available_at)
        ended_amount += available_amount
        arrived_mints = _without_debt(arrived_mints, repaid)
    values["pending_credit_balance"] -= ended_amount
    return WalletView(
        **values,
        expired=expired,
        pending=waiting_amount,
        next_available=None if next_available is None else _next_available(*next_available),
        arrived_mints=arrived_mints,
    )


def _balance_by_now(
    values: dict[str, Any],
    expired: Decimal,
    policy: IdlePolicy | None,
    arrived_mints: Iterable[ArrivedMint],
    now: datetime,
    kept_lots: Sequence[KeptLots],
) -> tuple[Decimal, datetime | None]:
    """The unexpired balance after the mints that have arrived, and the start of its idle period.

    `values` is the stored balance by column, `expired` its expired amount. Each mint counts as a transaction, in the
    order of arrival. If the balance had expired by inactivity before a mint, the amount of the mint remains, and the
    `kept_lots`, which inactivity does not expire until their `kept_until`.
    """
    balance, debt, reserved_amount = (
        values["current_balance"],
        values["current_overdraft_balance"],
        values["pending_debit_balance"],
    )
    last_transaction_date, last_activity_date = values["last_transaction_date"], values["last_activity_date"]
    end = None if policy is None else policy.end(last_transaction_date, last_activity_date)
    for mint in arrived_mints:
        balance = unexpired_balance(
            balance, reserved_amount, expired, end=end, now=mint.available_at, kept_lots=kept_lots
        )
        expired = _ZERO
        if policy is not None:
            last_activity_date = policy.start_after_movement(
                last_transaction_date, last_activity_date, bool(balance), mint.available_at
            )
        balance += mint.amount_after_debt(debt, now)
        debt -= min(debt, mint.amount)
        last_transaction_date = max(last_transaction_date, mint.available_at)
        end = None if policy is None else policy.end(last_transaction_date, last_activity_date)
    balance = unexpired_balance(balance, reserved_amount, expired, end=end, now=now, kept_lots=kept_lots)
    return balance, last_activity_date


def _kept_lots(row: list[Any] | None) -> tuple[KeptLots, ...]:
    """The lots in the column `kept_lots`, which is None if there are none."""
    return tuple(KeptLots(instant_of(kept_until), Decimal(amount)) for kept_until, amount in row or ())


class _WaitingPoints(NamedTuple):
    """The points that waited: the amount that still waits, the mints that have become available, and the ended amount.

    Mints have ended if the event that they waited for did not happen in time.
    """

    waiting_amount: Decimal
    arrived_mints: tuple[ArrivedMint, ...]
    ended_amount: Decimal


_NO_WAITING_POINTS = _WaitingPoints(_ZERO, arrived_mints=(), ended_amount=_ZERO)


def _split_waiting_points(waiting: str | None, due_mints: list[Any] | None) -> _WaitingPoints:
    """The waiting points of a row, split into points that still wait, have arrived, or have ended.

    The arguments are the two elements of the column `waiting_points`.
    """
    arrived_mints, ended_amount = [], _ZERO
    for available_at, amount, expires_at, earned_points in due_mints or ():
        if available_at is None:
            ended_amount += Decimal(amount)
        else:
            expiry = None if expires_at is None else instant_of(expires_at)
            arrived_mints.append(ArrivedMint(instant_of(available_at), Decimal(amount), expiry, Decimal(earned_points)))
    arrived_mints.sort(key=lambda mint: mint.available_at)
    return _WaitingPoints(Decimal(waiting or 0), tuple(arrived_mints), ended_amount)


def _without_debt(arrived_mints: Iterable[ArrivedMint], repaid: Decimal) -> tuple[ArrivedMint, ...]:
    """The mints, each with the amount that is left of it after the first ones have repaid `repaid` points of debt."""
    remaining = []
    for mint in arrived_mints:
        part = min(repaid, mint.amount)
        repaid -= part
        remaining.append(replace(mint, amount=mint.amount - part))
    return tuple(remaining)


def _next_available(amount: str, available_at: str) -> NextAvailable:
    return NextAvailable(Decimal(amount), instant_of(available_at))
