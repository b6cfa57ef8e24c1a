"""Columns of the view of a balance: what it holds, which points have expired, and which have become available.

The columns are computed at the moment `now`, whether or not the periodic jobs have posted all changes until then.
Statements with these columns need the parameters `now` and `organization_id`.
"""

from decimal import Decimal

from sqlalchemy import (
    ColumnElement,
    Table,
    Text,
    and_,
    bindparam,
    case,
    cast,
    func,
    literal,
    literal_column,
    or_,
    select,
    true,
    union_all,
)

from domain.ledger.records import MINT, PENDING
from persistence.filters import is_related, is_same, lateral_row
from persistence.tables.ledger import (
    ledger_accounts,
    ledger_balances,
    ledger_lot_uses,
    ledger_lots,
    ledger_transactions,
    ledgers,
    wallets,
)

_ZERO = Decimal(0)

# The balance of each wallet and account, if there is one.
_balance = lateral_row(ledger_balances, (wallets, "wallet_id"), (ledger_accounts, "ledger_account_id"))


def _is_of_balance(table: Table, wallet_column: str = "wallet_id") -> ColumnElement[bool]:
    """The condition that a row of the table belongs to the wallet and the account of a balance."""
    return and_(is_related(table, _balance, "ledger_account_id"), table.c[wallet_column] == _balance.c.wallet_id)


# Evaluated for each balance: the index of spendable lots finds the expired lots of a balance directly.
_EXPIRED_LOTS = (
    select(func.coalesce(func.sum(ledger_lots.c.remaining), literal(_ZERO)))
    .where(
        _is_of_balance(ledger_lots),
        ledger_lots.c.remaining > 0,
        ledger_lots.c.expires_at <= bindparam("now"),
    )
    .correlate(_balance)
    .scalar_subquery()
)

# Holds of a balance that have ended and are not released yet: their points belong to the wallet again.
_t, _uses = ledger_transactions, ledger_lot_uses
_HAS_ENDED = and_(
    _is_of_balance(_t, "from_wallet_id"),
    _t.c.status == PENDING,
    _t.c.held_until <= bindparam("now"),
)
_ENDED_HOLDS = (
    select(func.coalesce(func.sum(_t.c.amount), literal(_ZERO))).where(_HAS_ENDED).correlate(_balance).scalar_subquery()
)
_USED_LOTS = _t.join(_uses, is_same(_uses, _t, "ledger_transaction_id")).join(
    ledger_lots, is_same(ledger_lots, _uses, "ledger_lot_id")
)
_EXPIRED_IN_HOLDS = (
    select(func.coalesce(func.sum(_uses.c.amount), literal(_ZERO)))
    .select_from(_USED_LOTS)
    .where(_HAS_ENDED, ledger_lots.c.expires_at <= bindparam("now"))
    .correlate(_balance)
    .scalar_subquery()
)
_HAS_HOLDS = _balance.c.pending_debit_balance > 0

# The amounts that an extension keeps when the idle balance expires, each with the moment `kept_until` up to which it is
# kept: of lots, and of ended holds.
_OWN_DATE_IS_LATER = or_(ledger_lots.c.expires_at.is_(None), ledger_lots.c.expires_at > bindparam("now"))
_kept_rows = union_all(
    select(ledger_lots.c.kept_until, ledger_lots.c.remaining.label("amount"))
    .where(
        _is_of_balance(ledger_lots),
        ledger_lots.c.remaining > 0,
        ledger_lots.c.kept_until.is_not(None),
        _OWN_DATE_IS_LATER,
    )
    .correlate(_balance),
    select(ledger_lots.c.kept_until, _uses.c.amount)
    .select_from(_USED_LOTS)
    .where(_HAS_HOLDS, _HAS_ENDED, ledger_lots.c.kept_until.is_not(None), _OWN_DATE_IS_LATER)
    .correlate(_balance),
).subquery()
_KEPT = select(
    func.jsonb_agg(func.jsonb_build_array(_kept_rows.c.kept_until, cast(_kept_rows.c.amount, Text)))
).scalar_subquery()

# The qualifying points of a pending mint: a return reduces its amount, and these points in proportion. `t` and `a` are
# the names of the transaction and of its account in the statement.
QUALIFYING_OF_PENDING = (
    "coalesce(trunc({t}.qualifying_amount * {t}.amount / {t}.reserved_amount, {a}.decimals), {t}.amount)"
)

# Mints that wait for a moment or an event: either not available yet, or available by now but not posted.
_IS_WAITING = and_(
    _is_of_balance(_t, "to_wallet_id"),
    _t.c.status == PENDING,
    _t.c.transaction_type == MINT,
    or_(_t.c.available_at.is_not(None), _t.c.available_on.is_not(None)),
)
_IS_DUE = func.coalesce(_t.c.available_at, _t.c.held_until) <= bindparam("now")
# [amount of all mints that are not due, [[moment, amount, expiry, points that count for tiers] of each due mint]]. The
# moment is null if the mint waited for an event that did not happen in time.
_WAITING_POINTS = (
    select(
        func.jsonb_build_array(
            cast(func.sum(_t.c.amount).filter(_IS_DUE.is_not(True)), Text),
            func.jsonb_agg(
                func.jsonb_build_array(
                    _t.c.available_at,
                    cast(_t.c.amount, Text),
                    func.coalesce(_t.c.pending_expires_at, _t.c.policy_expires_at),
                    cast(literal_column(QUALIFYING_OF_PENDING.format(t=_t.name, a=ledger_accounts.name)), Text),
                )
            ).filter(_IS_DUE),
        )
    )
    .where(_IS_WAITING)
    .correlate(_balance)
    .scalar_subquery()
)
# [amount, moment] of the waiting mints that become available first.
_NEXT_AVAILABLE = (
    select(func.jsonb_build_array(cast(func.sum(_t.c.amount), Text), _t.c.available_at))
    .where(_IS_WAITING, _t.c.available_at > bindparam("now"))
    .group_by(_t.c.available_at)
    .order_by(_t.c.available_at)
    .limit(literal_column("1"))
    .correlate(_balance)
    .scalar_subquery()
)
_HAS_PENDING = _balance.c.pending_credit_balance > 0

# The columns of HOLDINGS from which `view` creates a WalletView, at the moment `now`.
VIEW_COLUMNS = (
    ledgers.c.ledger_id,
    ledgers.c.ledger_key,
    ledger_accounts.c.ledger_account_id,
    ledger_accounts.c.ledger_account_key,
    ledger_accounts.c.name.label("ledger_account_name"),
    ledger_accounts.c.is_default_account,
    wallets.c.wallet_id,
    *(
        func.coalesce(_balance.c[name], literal(_ZERO)).label(name)
        for name in (
            "current_balance",
            "pending_credit_balance",
            "pending_debit_balance",
            "current_overdraft_balance",
            "total_overdraft_credit_balance",
            "total_fiat_value",
            "earned",
        )
    ),
    _balance.c.last_transaction_date,
    _balance.c.last_activity_date,
    _balance.c.created_at,
    _balance.c.updated_at,
    case((ledger_accounts.c.point_tracking_enabled, _EXPIRED_LOTS), else_=literal(_ZERO)).label("expired_lots"),
    case((_HAS_HOLDS, _ENDED_HOLDS), else_=literal(_ZERO)).label("ended_holds"),
    case((_HAS_HOLDS, _EXPIRED_IN_HOLDS), else_=literal(_ZERO)).label("expired_in_holds"),
    case((ledger_accounts.c.expiration_policies != [], _KEPT)).label("kept_lots"),
    case((_HAS_PENDING, _WAITING_POINTS)).label("waiting_points"),
    case((_HAS_PENDING, _NEXT_AVAILABLE)).label("next_available"),
    ledger_accounts.c.expiration_policies,
    ledger_accounts.c.timezone,
    ledger_accounts.c.expiry_year_start_month,
    ledger_accounts.c.idle_policy_since,
)
# Each wallet with all accounts of its ledger, and with its balance of the account, if it ever had one.
HOLDINGS = (
    wallets.join(ledgers, is_same(ledgers, wallets, "ledger_id"))
    .join(ledger_accounts, is_same(ledger_accounts, wallets, "ledger_id"))
    .outerjoin(_balance, true())
)
# Active accounts, and inactive accounts of which the wallet ever had a balance.
IS_RELEVANT = or_(ledger_accounts.c.active, _balance.c.wallet_id.is_not(None))
# The default account first.
IN_ORDER = wallets.c.wallet_id, ledger_accounts.c.is_default_account.desc(), ledger_accounts.c.ledger_account_id
