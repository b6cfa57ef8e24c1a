"""Look-ups of members: only the record, the record with tiers and balances, or the locked record with tiers."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import ARRAY, Column, Connection, Select, bindparam, cast, func, select, text

from domain.ledger.availability import ORDER
from domain.ledger.records import MINT, PENDING
from domain.ledger.views import WalletView
from domain.members import Member
from domain.tiers import HeldTier, MemberTier, TierFloor
from persistence.balance_columns import HOLDINGS, IS_RELEVANT, VIEW_COLUMNS
from persistence.connections import defer, fetch_rows
from persistence.filters import is_same
from persistence.ledger_wallets import wallet_view
from persistence.member_tiers import EXPIRES_AT, FLOOR_COLUMNS
from persistence.prepared_statements import Prepared
from persistence.records import Kind, Lookup
from persistence.rows import columns_of, compile_statement
from persistence.tables.ledger import ledger_accounts, wallets
from persistence.tables.members import members

_COLUMNS = columns_of(members, Member)


class MemberWithHoldings(NamedTuple):
    """A member with the stored tiers, in the order of the programs, and the balances, the default account first."""

    member: Member
    tiers: Sequence[MemberTier]
    balances: Sequence[WalletView]


class FoundMember(NamedTuple):
    """A member with the tiers that the member holds, by program id, and the ledger of the wallet.

    `awaited_types` are the types of events for which points of the member wait. If the query does not read them, they
    are empty unless the organization awaits events.
    """

    member: Member
    held_tiers: Mapping[int, HeldTier]
    ledger_id: int
    awaited_types: Collection[str] = ()


def _tiers_held_by(alias: str, organization_id: str, further_columns: str) -> str:
    """The column with the tiers of a member as JSON.

    `alias` is the alias of the table of members in the query, `organization_id` the placeholder of the organization.
    `further_columns` are the elements of each tier after its expiry.
    """
    return f"""(
    SELECT json_agg(json_build_array(
                        t.loyalty_program_id, t.loyalty_tier_id, t.is_manual, {EXPIRES_AT}{further_columns})
                    ORDER BY t.loyalty_program_id)
    FROM member_tiers t JOIN loyalty_tiers l USING (organization_id, loyalty_tier_id)
    WHERE t.organization_id = {organization_id} AND t.member_id = {alias}.member_id
)"""


# A column of a query on `members m`; `_held_tiers` reads its value.
_HELD_TIERS = _tiers_held_by("m", "%s", f", {FLOOR_COLUMNS}")
# A column of a query on `members`; `_tiers_of` reads its value.
_TIERS = _tiers_held_by("members", ":organization_id", f", t.created_at, {FLOOR_COLUMNS}")

_MEMBERS = select(*_COLUMNS).where(members.c.organization_id == bindparam("organization_id"))
# A row for each balance of the member; one row without a balance if the member has none.
_HOLDERS = (
    select(*_COLUMNS, text(_TIERS), ledger_accounts.c.ledger_account_id.is_not(None), *VIEW_COLUMNS)
    .select_from(members.outerjoin(HOLDINGS, is_same(wallets, members, "wallet_id") & IS_RELEVANT))
    .where(members.c.organization_id == bindparam("organization_id"))
)

_MEMBER_COLUMNS = ", ".join(f"m.{column.name}" for column in _COLUMNS)

AWAITING = (
    f"t.status = {PENDING} AND t.transaction_type = {MINT} AND t.available_at IS NULL AND t.available_on IS NOT NULL"
)
"""The condition on mints `t` that wait for an event that has not happened; indexes have only these mints."""
_AWAITED_TYPES = f"""ARRAY(
    SELECT DISTINCT jsonb_array_elements_text(t.available_on -> 'eventTypes') FROM ledger_transactions t
    WHERE t.organization_id = %s AND t.to_wallet_id = m.wallet_id AND {AWAITING}
)"""

# One type, which no event has, if the organization awaits events; else none.
_ANYTHING_AWAITED = """ARRAY(
    SELECT CAST('' AS text) FROM organizations o WHERE o.organization_id = %s AND o.awaits_events
)"""

_BY_LOYALTY_IDS = "m.loyalty_member_id = ANY(%s)"
_BY_IDS = "m.member_id = ANY(%s::bigint[])"
_OF_ORDERS = f"""m.wallet_id = ANY(ARRAY(
    SELECT t.to_wallet_id FROM ledger_transactions t
    WHERE t.organization_id = %s AND t.available_on ->> '{ORDER}' = ANY(%s) AND {AWAITING}
))"""
_BY_WALLETS = "m.wallet_id = ANY(%s::bigint[])"


@cache
def _wallet_lock_statement(condition: str) -> Prepared:
    """The statement that locks the wallets of members that match a condition, in the order of the wallets' ids."""
    return Prepared(f"""
SELECT w.wallet_id FROM members m JOIN wallets w USING (organization_id, wallet_id)
WHERE m.organization_id = %s AND ({condition})
ORDER BY w.wallet_id FOR NO KEY UPDATE OF w
""")


@cache
def _select_of_members(condition: str, awaited_types: str) -> Prepared:
    """The statement that reads the members that match a condition; `awaited_types` is an expression for a column."""
    return Prepared(f"""
SELECT {_MEMBER_COLUMNS}, w.ledger_id, {_HELD_TIERS}, {awaited_types}
FROM members m JOIN wallets w USING (organization_id, wallet_id)
WHERE m.organization_id = %s AND ({condition})
""")


def _member(rows: Sequence[Sequence[Any]], now: datetime, timezone: str) -> Member:
    """The member in the only row. It needs neither `now` nor `timezone`; other functions for a look-up do."""
    return Member(*rows[0])


def _holder(rows: Sequence[Sequence[Any]], now: datetime, timezone: str) -> MemberWithHoldings:
    """The member with tiers and balances, from rows of _HOLDERS, one for each balance."""
    width = len(_COLUMNS)
    member = Member(*rows[0][:width])
    balances = [wallet_view(row[width + 2 :], now, timezone) for row in rows if row[width + 1]]
    balances.sort(key=lambda balance: (not balance.is_default_account, balance.ledger_account_id))
    return MemberWithHoldings(member, _tiers_of(member, rows[0][width]), balances)


def _held_tiers(value: Sequence[Sequence[Any]] | None) -> dict[int, HeldTier]:
    """The value of the column _HELD_TIERS, by program id."""
    held_tiers = {}
    for program_id, tier_id, is_manual, expires_at, floor_tier_id, floor_ends in value or ():
        floor = None if floor_tier_id is None else TierFloor(floor_tier_id, _moment(floor_ends))
        held_tiers[program_id] = HeldTier(tier_id, is_manual, _moment(expires_at), floor)
    return held_tiers


def _tiers_of(member: Member, value: Sequence[Sequence[Any]] | None) -> list[MemberTier]:
    """The value of the column _TIERS: the member's tiers, in the order of the programs."""
    return [
        MemberTier(
            organization_id=member.organization_id,
            member_id=member.member_id,
            loyalty_program_id=program_id,
            loyalty_tier_id=tier_id,
            is_manual=is_manual,
            expires_at=_moment(expires_at),
            created_at=datetime.fromisoformat(created_at),
            floor_tier_id=floor,
            floor_expires_at=_moment(floor_ends),
        )
        for program_id, tier_id, is_manual, expires_at, created_at, floor, floor_ends in value or ()
    ]


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _lookup(
    select_members: Select[Any], column: Column[Any], record: Callable[[Sequence[Sequence[Any]], datetime, str], Kind]
) -> Lookup[Kind]:
    """The look-up of members by this column, whose values are the addresses.

    `record` creates a record from all rows of one member.
    """
    position = [*select_members.selected_columns].index(column)

    def records(rows: Sequence[Sequence[Any]], now: datetime, timezone: str) -> dict[Any, Kind]:
        rows_by_address: dict[Any, list[Sequence[Any]]] = {}
        for row in rows:
            rows_by_address.setdefault(row[position], []).append(row)
        return {address: record(of_member, now, timezone) for address, of_member in rows_by_address.items()}

    is_addressed = column == func.any(cast(bindparam("addresses"), ARRAY(column.type)))
    return Lookup(compile_statement(select_members.where(is_addressed)), records)


BY_ID = _lookup(_MEMBERS, members.c.member_id, _member)
BY_LOYALTY_MEMBER_ID = _lookup(_MEMBERS, members.c.loyalty_member_id, _member)
HOLDER_BY_ID = _lookup(_HOLDERS, members.c.member_id, _holder)
HOLDER_BY_LOYALTY_MEMBER_ID = _lookup(_HOLDERS, members.c.loyalty_member_id, _holder)


def find_members(
    db: Connection,
    organization_id: int,
    loyalty_member_ids: Collection[str],
    member_ids: Collection[int],
    order_ids: Collection[str] | None = None,
    *,
    lock: bool,
) -> list[FoundMember]:
    """The members with these ids; with `lock`, locks them with all their records, by their wallets.

    With `order_ids`, external ids of orders, also the members whose points wait for events of these orders. Unless
    `order_ids` is None, all members have their `awaited_types`.
    """
    condition, values = _condition(organization_id, loyalty_member_ids, member_ids, order_ids or ())
    statement, has_awaited_events = _wallet_lock_statement(condition), order_ids is not None
    if not lock or not (loyalty_member_ids or order_ids):
        if lock:
            defer(db, statement, (organization_id, *values))
        return _read_members(db, organization_id, condition, values, has_awaited_events)
    locked_wallets = {wallet_id for (wallet_id,) in fetch_rows(db, statement, (organization_id, *values))}
    matches = _read_members(db, organization_id, condition, values, has_awaited_events)
    unlocked_ids = [match.member.member_id for match in matches if match.member.wallet_id not in locked_wallets]
    if not unlocked_ids:
        return matches
    # Between the two statements, another transaction has created these members, given them these ids, or given them
    # points that wait: lock them by their memberIds, which never change, and read them again.
    matches = [match for match in matches if match.member.wallet_id in locked_wallets]
    no_orders = () if has_awaited_events else None
    return matches + find_members(
        db, organization_id, loyalty_member_ids=(), member_ids=unlocked_ids, order_ids=no_orders, lock=True
    )


def _condition(
    organization_id: int,
    loyalty_member_ids: Collection[str],
    member_ids: Collection[int],
    order_ids: Collection[str],
) -> tuple[str, list[Any]]:
    """The condition of a statement about members, and its parameters; empty collections are left out of it.

    PostgreSQL takes ten times as long to plan a condition with OR, even if one of the lists is empty.
    """
    conditions: list[str] = []
    values: list[Any] = []
    for condition, ids in ((_BY_LOYALTY_IDS, loyalty_member_ids), (_BY_IDS, member_ids)):
        if ids:
            conditions.append(condition)
            values.append(list(ids))
    if order_ids:
        conditions.append(_OF_ORDERS)
        values += organization_id, list(order_ids)
    return " OR ".join(conditions) or "false", values


def find_members_of_wallets(
    db: Connection, organization_id: int, wallet_ids: Collection[int], *, awaits_events: bool
) -> list[FoundMember]:
    """The members who own these wallets; wallets without a member are left out.

    `awaits_events` also reads the types of events for which points of the members wait.
    """
    return _read_members(db, organization_id, _BY_WALLETS, [list(wallet_ids)], awaits_events)


def awaits_events(matches: Sequence[FoundMember]) -> bool:
    """True if the organization of these members awaits events, although their `awaited_types` were not read."""
    return bool(matches) and bool(matches[0].awaited_types)


def _read_members(
    db: Connection, organization_id: int, condition: str, values: Sequence[Any], with_awaited_events: bool
) -> list[FoundMember]:
    """Read the members that match a condition with the values of its parameters."""
    statement = _select_of_members(condition, _AWAITED_TYPES if with_awaited_events else _ANYTHING_AWAITED)
    # One for the tiers, one for the awaited types, and one for the members.
    rows = fetch_rows(db, statement, (*[organization_id] * 3, *values))
    return [
        FoundMember(Member(*member), _held_tiers(held_tiers), ledger_id, awaited_types)
        for *member, ledger_id, held_tiers, awaited_types in rows
    ]
