"""The rows of exports, in bounded memory. Rows of members and of balances have the columns of imports."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection

from domain.calendar import instant_text
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
# The columns that the digest in the keys of a balance covers. The account is left out: another organization, which may
# import and export the balance again, may give its account another name.
_BALANCE_CONTENTS = ("amount", "expiresAt", "qualifyingAmount", "earnedAt", "availableAt")
_MEMBER_FIELDS = [(wire_name(name), name) for name in fields_of(MemberProperties)]


@dataclass(frozen=True, slots=True)
class ExportedRow:
    """A row of an export; `row_id` is the id of its member or record, after which an export can continue."""

    row_id: int
    values: Mapping[str, Any]


def _member_pages(db: Connection, export_range: ExportRange) -> Iterator[list[tuple[Member, ExportedTier | None]]]:
    """The members of an export, page by page, each with the tier that was set, None if there is none."""
    after = export_range.after
    while page := exported_members.find_next_members(db, export_range, after, ROWS_AT_ONCE):
        yield page
        last_member, _ = page[-1]
        after = last_member.member_id


def member_rows(db: Connection, export_range: ExportRange) -> Iterator[ExportedRow]:
    """A row for each member who was not erased, ordered by id, with the tier that was set."""
    for page in _member_pages(db, export_range):
        for member, tier in page:
            yield ExportedRow(member.member_id, _member_values(member, tier))


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
    for page in _member_pages(db, export_range):
        members_by_wallet = {member.wallet_id: member for member, _ in page}
        wallet_ids = list(members_by_wallet)
        balances = exported_members.find_balances(db, export_range, wallet_ids)
        imported_keys = exported_members.find_imported_keys(db, export_range.organization_id, wallet_ids)
        for wallet_and_account, parts in groupby(balances, key=attrgetter("wallet_id", "ledger_account_id")):
            wallet_id, _ = wallet_and_account
            imported_key = imported_keys.get(wallet_and_account)
            yield from _rows_of_balance(members_by_wallet[wallet_id], list(parts), imported_key)


def _rows_of_balance(
    member: Member, parts: Sequence[ExportedBalance], imported_key: str | None
) -> Iterator[ExportedRow]:
    """The rows of a member's points in an account.

    `imported_key` is the key of the first row that the balance was imported from, None if it was not imported. The new
    keys name the same source as `imported_key`, so that the organization that exported the points recognizes them.
    """
    rows = [_balance_values(member, part) for part in parts]
    first_key = None if imported_key is None else parse_export_key(imported_key)
    source = source_of(parts[0].ledger_account_key, member.member_id) if first_key is None else first_key.source
    digest = digest_of([[row.get(name) for name in _BALANCE_CONTENTS] for row in rows])
    for row, key in zip(rows, balance_keys(source, digest, len(rows)), strict=True):
        yield ExportedRow(member.member_id, {**row, "systemUniqueKey": key})


def _balance_values(member: Member, part: ExportedBalance) -> dict[str, Any]:
    """The values of a row by column, without its key; empty ones are left out."""
    values = {
        "loyaltyMemberId": member.loyalty_member_id,
        "amount": exact_number(part.amount),
        "account": part.account,
        "expiresAt": _moment_text(part.expires_at),
        "qualifyingAmount": exact_number(part.qualifying),
        "earnedAt": _moment_text(part.earned_at),
        "availableAt": _moment_text(part.available_at),
    }
    return {name: value for name, value in values.items() if value is not None}


def _record_rows(kind: str, db: Connection, export_range: ExportRange) -> Iterator[ExportedRow]:
    """A row for each record of a kind other than members and balances, ordered by id."""
    columns, after = QUERIES[kind].columns, export_range.after
    while page := exported_rows.find_next_rows(db, kind, export_range, after, ROWS_AT_ONCE):
        for row_id, *values in page:
            yield ExportedRow(
                row_id,
                {name: to_json_value(value) for name, value in zip(columns, values, strict=True) if value is not None},
            )
            after = row_id


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
