"""The rows of exports, in bounded memory. Rows of members and of balances have the columns of imports."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple

from sqlalchemy import Connection

from domain.calendar import instant_text
from domain.exports import ExportTooLarge
from domain.fields import wire_name
from domain.imports.cells import FIELDS, csv_line, escape_formula, list_cell
from domain.imports.export_keys import balance_keys, parse_export_key, source_of
from domain.imports.records import BALANCES, MEMBERS, PLACES
from domain.members import Member, MemberProperties
from handlers.messages.json_text import digest_of, encode, exact_number, to_json_value
from persistence import exported_members, exported_rows
from persistence.exported_members import ExportedBalance, ExportedTier
from persistence.exported_rows import QUERIES, ExportRange
from persistence.rows import fields_of

ROWS_AT_ONCE = 2000
MAX_ROWS_OF_BALANCE = 500_000
_MEMBER_FIELDS = [(wire_name(name), name) for name in fields_of(MemberProperties)]


@dataclass(frozen=True, slots=True)
class ExportedRow:
    """A row of an export; `row_id` is the id of its member or record, after which an export can continue."""

    row_id: int
    values: Mapping[str, Any]


class _Owner(NamedTuple):
    """The member whose wallet it is. The other fields of members, which may be large, are not kept."""

    member_id: int
    loyalty_member_id: str


def _pages(after: int, next_page: Callable[[int], Iterable[ExportedRow]]) -> Iterator[ExportedRow]:
    """The rows of all pages; `next_page` returns the rows after an id, no rows after the last page."""
    page_start = None
    while after != page_start:
        page_start = after
        for row in next_page(page_start):
            yield row
            after = row.row_id


def member_rows(db: Connection, export_range: ExportRange) -> Iterator[ExportedRow]:
    """A row for each member who was not erased, ordered by id, with the tier that was set."""

    def next_page(after: int) -> Iterator[ExportedRow]:
        for member, tier in exported_members.find_next_members(db, export_range, after, ROWS_AT_ONCE):
            yield ExportedRow(member.member_id, _member_values(member, tier))

    return _pages(export_range.after, next_page)


def _member_values(member: Member, tier: ExportedTier | None) -> dict[str, Any]:
    """The values of a member's row by column, in the order of the columns; empty ones are left out."""
    body = {name: getattr(member, field) for name, field in _MEMBER_FIELDS}
    values = {name: _value_at(body, place) for name, place in PLACES.items()}
    values["joinedAt"] = instant_text(member.created_at)
    if tier is not None:
        values |= {"tier": tier.name, "tierExpiresAt": _moment_text(tier.expires_at), "tierHold": tier.tier_hold}
    return {name: values[name] for name in FIELDS[MEMBERS] if values.get(name) not in (None, [], {})}


def _moment_text(moment: datetime | None) -> str | None:
    return None if moment is None else instant_text(moment)


def _value_at(body: Any, place: tuple[str, ...]) -> Any:
    """The value below these nested names; None if there is none."""
    for name in place:
        body = None if body is None else body.get(name)
    return body


def balance_rows(db: Connection, export_range: ExportRange) -> Iterator[ExportedRow]:
    """The rows of the points that members have, and of the points that they have earned, ordered by member.

    The points that a member has in an account have one row for each expiry; expired points have none. The earned
    points, which count for tiers, have one row for each quarter of an hour: in every time zone midnight is the end of a
    quarter, so the points of a row count in the same period. Points that are not available yet have rows of their own,
    one for each moment at which they become available.
    """
    after = export_range.after
    while owners := _next_owners(db, export_range, after):
        wallet_ids, after = list(owners), max(owner.member_id for owner in owners.values())
        imported_keys = exported_members.find_imported_keys(db, export_range.organization_id, wallet_ids)
        for wallet_and_account, parts in exported_members.find_balances(db, export_range, wallet_ids):
            wallet_id, _ = wallet_and_account
            yield from _rows_of_balance(owners[wallet_id], parts, imported_keys.get(wallet_and_account))


def _next_owners(db: Connection, export_range: ExportRange, after: int) -> dict[int, _Owner]:
    """The next members after an id, by the ids of their wallets."""
    members = exported_members.find_next_members(db, export_range, after, ROWS_AT_ONCE)
    return {member.wallet_id: _Owner(member.member_id, member.loyalty_member_id) for member, _ in members}


def _rows_of_balance(
    owner: _Owner, parts: Iterable[ExportedBalance], imported_key: str | None
) -> Iterator[ExportedRow]:
    """The rows of a member's points in an account; raises ExportTooLarge.

    `imported_key` is the key of the first row that the balance was imported from, None if it was not imported. The new
    keys name the same source as `imported_key`, so that the organization that exported the points recognizes them.
    """
    account = account_key = ""
    # The keys depend on all rows, so these are in memory, without the values that they share.
    contents: list[tuple[Any, ...]] = []
    for part in parts:
        if len(contents) == MAX_ROWS_OF_BALANCE:
            raise ExportTooLarge(
                f"The balance of the member {owner.loyalty_member_id} in the account {part.account} would be more than"
                f" {MAX_ROWS_OF_BALANCE} rows, the maximum."
            )
        account, account_key = part.account, part.ledger_account_key
        contents.append(_balance_contents(part))
    first_key = None if imported_key is None else parse_export_key(imported_key)
    source = source_of(account_key, owner.member_id) if first_key is None else first_key.source
    keys = balance_keys(source, digest_of(contents), len(contents))
    for (amount, *others), key in zip(contents, keys, strict=True):
        values = (owner.loyalty_member_id, amount, account, *others, key)
        row = dict(zip(_BALANCE_COLUMNS, values, strict=True))
        yield ExportedRow(owner.member_id, {name: value for name, value in row.items() if value is not None})


def _balance_contents(part: ExportedBalance) -> tuple[Any, ...]:
    """The values of a row without the member, the account and the key: the keys of the rows depend on these values.

    The account is left out because another organization, which may import and export the balance again, may give its
    account another name.
    """
    return (
        exact_number(part.amount),
        _moment_text(part.expires_at),
        exact_number(part.qualifying),
        _moment_text(part.earned_at),
        _moment_text(part.available_at),
    )


def _record_rows(kind: str, db: Connection, export_range: ExportRange) -> Iterator[ExportedRow]:
    """A row for each record of a kind other than members and balances, ordered by id."""
    columns = QUERIES[kind].columns

    def next_page(after: int) -> Iterator[ExportedRow]:
        for row_id, *values in exported_rows.find_next_rows(db, kind, export_range, after, ROWS_AT_ONCE):
            yield ExportedRow(
                row_id,
                {name: to_json_value(value) for name, value in zip(columns, values, strict=True) if value is not None},
            )

    return _pages(export_range.after, next_page)


ReadRows = Callable[[Connection, ExportRange], Iterator[ExportedRow]]
ROWS: Mapping[str, ReadRows] = {
    MEMBERS: member_rows,
    BALANCES: balance_rows,
    **{kind: partial(_record_rows, kind) for kind in QUERIES},
}


def json_line(row: ExportedRow) -> str:
    """A row as a line of JSON."""
    return f"{encode(row.values).decode()}\n"


def csv_header(kind: str) -> str:
    """The first line of a CSV file."""
    return csv_line(_columns(kind))


def csv_row(kind: str, row: ExportedRow) -> str:
    """A row as a line of CSV; cells that spreadsheets would take for formulas are escaped."""
    return csv_line(escape_formula(_cell(row.values.get(name))) for name in _columns(kind))


_BALANCE_COLUMNS = (
    *("loyaltyMemberId", "amount", "account", "expiresAt", "qualifyingAmount", "earnedAt", "availableAt"),
    "systemUniqueKey",
)


def _columns(kind: str) -> Sequence[str]:
    """The columns of an export of this kind."""
    if kind in QUERIES:
        return QUERIES[kind].columns
    return tuple(FIELDS[MEMBERS]) if kind == MEMBERS else _BALANCE_COLUMNS


def _cell(value: Any) -> str:
    """The text of a value in CSV."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return list_cell([str(element) for element in value])
    if isinstance(value, Mapping):
        return encode(value).decode()
    return f"{value:f}" if isinstance(value, Decimal) else str(value)
