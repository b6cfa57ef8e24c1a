"""Reading the fields of rows, and finding the records that they name."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from domain.imports.cells import REQUIRED
from domain.imports.records import CREATE, FailedRow, ImportJob, RowFault
from domain.members import Member
from domain.problems import InvalidRequest, Refusal
from handlers.call import Call
from handlers.services.imports.rows import ImportRow, NameOf
from persistence.members import MEMBERS
from persistence.records import Records

T = TypeVar("T")


def read_rows(
    job: ImportJob, rows: Sequence[ImportRow], failed: list[FailedRow], name_of: NameOf, read: Callable[[ImportRow], T]
) -> list[T]:
    """The results of `read`, which raises RowFault, for the rows that are right; the others are added to `failed`."""
    items = []
    for row in rows:
        if row.fault is not None:
            failed.append(row.failed(row.fault.reason, row.fault.column))
            continue
        try:
            for name in REQUIRED[job.kind]:
                if name not in row.values:
                    raise RowFault(f"{name_of(name)} is missing.", name_of(name))
            items.append(read(row))
        except RowFault as fault:
            failed.append(row.failed(fault.reason, fault.column))
    return items


class RecordsByName(Generic[T]):
    """Finds the record that a field of a row refers to by key or name; `records` come with their keys and names."""

    def __init__(self, field: str, kind: str, records: Iterable[tuple[T, Sequence[str | None]]]) -> None:
        self._field = field
        self._kind = kind
        self._by_name: dict[str, list[T]] = {}
        for record, names in records:
            for name in {name for name in names if name is not None}:
                self._by_name.setdefault(name, []).append(record)

    def of(self, row: ImportRow, name_of: NameOf) -> T:
        """The record that a row refers to; raises RowFault if no record or several records have the name."""
        name = row.values[self._field]
        records = self._by_name.get(name) or self._by_name.get(name.lower(), [])
        if not records:
            raise RowFault(f"There is no {self._kind} {name[:100]}.", name_of(self._field))
        if len(records) > 1:
            raise RowFault(f"Several {self._kind}s are called {name[:100]}. Name the key.", name_of(self._field))
        return records[0]


def values_of(rows: Sequence[ImportRow], field: str) -> set[str]:
    """The texts in a field of rows."""
    return {row.values[field] for row in rows if field in row.values}


def find_members(call: Call, rows: Sequence[ImportRow]) -> dict[str, Member]:
    """The members whom rows name, who were not erased, by `loyaltyMemberId`."""
    names = values_of(rows, "loyaltyMemberId")
    members = MEMBERS.find_all(call.db, call.organization.organization_id, loyalty_member_id=names)
    return {member.loyalty_member_id: member for member in members if member.erased_at is None}


def member_of(row: ImportRow, members: Mapping[str, Member], name_of: NameOf) -> Member:
    """The member of a row; raises RowFault."""
    name = row.values["loyaltyMemberId"]
    if name not in members:
        raise RowFault(f"There is no member {name[:100]}.", name_of("loyaltyMemberId"))
    return members[name]


def key_of(job: ImportJob, row: ImportRow) -> str:
    """The key under which a row is done once: its own, or one made of its place."""
    return row.values.get("systemUniqueKey") or f"import-{job.import_id}-{row.line}"


def read_new_rows(
    call: Call,
    job: ImportJob,
    rows: Sequence[ImportRow],
    failed: list[FailedRow],
    name_of: NameOf,
    read: Callable[[ImportRow], T],
    records: Records[Any],
) -> list[tuple[ImportRow, T]]:
    """The rows to import, with what `read` makes of them; adds the others to `failed`, as `read_rows` does.

    Those are also rows whose key one of the `records` has, unless the import may repeat them.
    """
    items = read_rows(job, rows, failed, name_of, lambda row: (row, read(row)))
    all_keys = [key_of(job, row) for row, _ in items]
    keys = records.find_values(call.db, call.organization.organization_id, system_unique_key=all_keys)
    new_items = []
    for row, request in items:
        key = key_of(job, row)
        if job.mode == CREATE and key in keys:
            failed.append(row.failed(f"The systemUniqueKey {key} was used before.", name_of("systemUniqueKey")))
        else:
            new_items.append((row, request))
        keys.add(key)
    return new_items


def do_all(
    items: Sequence[tuple[ImportRow, T]], failed: list[FailedRow], do: Callable[[list[T]], Iterable[Any]]
) -> None:
    """Do what rows ask for, all at once; those whose outcome is a refusal are added to `failed`."""
    if items:
        outcomes = do([request for _, request in items])
        for (row, _), outcome in zip(items, outcomes, strict=True):
            if isinstance(outcome, Refusal):
                failed.append(row.failed(detail_of(outcome)))


def detail_of(refusal: Refusal) -> str:
    """Why a row is refused, in the words of the first fault if there are several."""
    return refusal.faults[0].detail if isinstance(refusal, InvalidRequest) and refusal.faults else refusal.detail
