"""One step of an import: some of its rows, the records that they name, and the rows that fail."""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any, Generic, TypeVar

from domain.calendar import instant_of, start_of_day
from domain.imports.cells import REQUIRED
from domain.imports.export_keys import parse_export_key
from domain.imports.records import CREATE, FailedRow, ImportJob, RowFault
from domain.members import Member
from domain.problems import InvalidRequest, KeyReused, Refusal
from handlers.call import ADMINISTRATION, Call
from handlers.messages.validation import body_faults, component_validator, is_date, is_date_time
from handlers.services.imports.rows import ImportRow
from persistence.members import MEMBERS_WITHOUT_ATTRIBUTES
from persistence.records import Records

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ImportStep:
    """The rows that one step imports; `name_of` returns the name of a field in the file.

    Rows that cannot be imported are added to `failed`.
    """

    call: Call
    job: ImportJob
    rows: Sequence[ImportRow]
    name_of: Callable[[str], str]
    failed: list[FailedRow] = field(default_factory=list)

    def fail(self, row: ImportRow, reason: str, field_name: str | None = None) -> None:
        """Add a row to the failed ones; `field_name` is the field at fault, None if it is not a single one."""
        self.failed.append(row.to_failed_row(reason, None if field_name is None else self.name_of(field_name)))

    def fault(self, field_name: str, words: str) -> RowFault:
        """A fault whose text is the name of a field in the file, followed by `words`."""
        name = self.name_of(field_name)
        return RowFault(f"{name} {words}", name)

    def read(self, read: Callable[[ImportRow], T]) -> list[T]:
        """Read the rows by `read`; a row fails if it already has a fault, or if `read` raises RowFault."""
        items = []
        required_fields = REQUIRED[self.job.kind]
        for row in self.rows:
            if row.fault is not None:
                # Not raised: its traceback would reference this frame and so the row, which references the fault.
                self.failed.append(row.to_failed_row(row.fault.reason, row.fault.column))
                continue
            try:
                for name in required_fields:
                    if name not in row.values:
                        raise self.fault(name, "is missing.")
                items.append(read(row))
            except RowFault as fault:
                self.failed.append(row.to_failed_row(fault.reason, fault.column))
        return items

    def read_new(self, read: Callable[[ImportRow], T], records: Records[Any]) -> list[tuple[ImportRow, T]]:
        """Read the rows to import by `read`; return each with the result.

        Unless the import may repeat rows, a row fails if one of the `records` or an earlier row has its key.
        """
        items = self.read(lambda row: (row, read(row)))
        all_keys = [self.key_of(row) for row, _ in items]
        organization_id = self.call.organization.organization_id
        keys = records.find_values(self.call.db, organization_id, system_unique_key=all_keys)
        new_items = []
        for key, (row, request) in zip(all_keys, items, strict=True):
            if self.job.mode == CREATE and key in keys:
                self.fail(row, f"The systemUniqueKey {key} was used before.", "systemUniqueKey")
            else:
                new_items.append((row, request))
            keys.add(key)
        return new_items

    def execute_all(self, items: Sequence[tuple[ImportRow, T]], execute: Callable[[list[T]], Iterable[Any]]) -> None:
        """Call `execute` with the requests of all rows; a row whose outcome is a refusal fails."""
        if items:
            outcomes = execute([request for _, request in items])
            for (row, _), outcome in zip(items, outcomes, strict=True):
                if isinstance(outcome, Refusal):
                    field_name = "systemUniqueKey" if isinstance(outcome, KeyReused) else None
                    self.fail(row, detail_of(outcome), field_name)

    def key_of(self, row: ImportRow) -> str:
        """The key that keeps a row from being imported twice: its `systemUniqueKey`, or one of import and line."""
        return row.values.get("systemUniqueKey") or f"import-{self.job.import_id}-{row.line}"

    def record_keys(self) -> set[str]:
        """The keys of the records that the rows were exported from, for rows with the key of an export."""
        export_keys = [parse_export_key(key) for key in self.values_of("systemUniqueKey")]
        return {export_key.record_key for export_key in export_keys if export_key is not None}

    def refuse_own_export(self, row: ImportRow, record_keys: Container[str], member: Member) -> None:
        """Refuse a row that was exported from a record of this organization; raises RowFault.

        `record_keys` are the keys of the records that the organization has. A row about another member is not refused:
        its `loyaltyMemberId` was changed in the file.
        """
        export_key = parse_export_key(self.key_of(row))
        if export_key is None or export_key.record_key not in record_keys:
            return
        if export_key.member_id in (None, member.member_id):
            key = self.key_of(row)
            reason = f"The systemUniqueKey {key} names a record of this organization: the row was exported from here."
            raise RowFault(reason, self.name_of("systemUniqueKey"))

    def values_of(self, field_name: str) -> set[str]:
        """The different texts in a field of the rows."""
        return {row.values[field_name] for row in self.rows if field_name in row.values}

    def find_members(self, *, lock: bool = False) -> dict[str, Member]:
        """The members, without erased ones and without attributes, whom the rows name, by `loyaltyMemberId`.

        With `lock`, they cannot be erased until the transaction ends.
        """
        names = self.values_of("loyaltyMemberId")
        organization_id = self.call.organization.organization_id
        records = MEMBERS_WITHOUT_ATTRIBUTES
        find = records.find_all_for_key_share if lock else records.find_all
        members = find(self.call.db, organization_id, loyalty_member_id=names)
        return {member.loyalty_member_id: member for member in members if member.erased_at is None}

    def member_of(self, row: ImportRow, members: Mapping[str, Member]) -> Member:
        """The member of a row; raises RowFault."""
        name = row.values["loyaltyMemberId"]
        if name not in members:
            raise RowFault(f"There is no member {name[:100]}.", self.name_of("loyaltyMemberId"))
        return members[name]

    def moment_in(self, row: ImportRow, field_name: str, *, is_end: bool = False) -> Any:
        """The moment in a field of a row, None if it has none.

        A day without a time means its beginning in the zone of the organization, or with `is_end` its end, which is the
        beginning of the next day. Raises RowFault.
        """
        text = row.values.get(field_name)
        if text is None:
            return None
        is_day = is_date(text)
        if not (is_day or is_date_time(text)):
            raise self.fault(field_name, "is not a moment such as 2026-01-31T09:30:00Z, or a day.")
        try:
            if is_day:
                return start_of_day(date.fromisoformat(text) + timedelta(days=int(is_end)), self.call.organization.zone)
            return instant_of(text)
        except (ValueError, OverflowError):
            raise self.fault(field_name, "is not between the years 1 and 9999.") from None

    def past_moment_in(self, row: ImportRow, field_name: str) -> Any:
        """The moment in a field of a row, None if it has none; raises RowFault for one in the future."""
        moment = self.moment_in(row, field_name)
        if moment is not None and moment > self.call.now:
            raise self.fault(field_name, "is in the future.")
        return moment

    def expiry_in(self, row: ImportRow, field_name: str) -> Any:
        """The moment in a field of a row, None if it has none; a day without a time means its end.

        Raises RowFault for a moment that is not in the future.
        """
        moment = self.moment_in(row, field_name, is_end=True)
        if moment is not None and moment <= self.call.now:
            raise self.fault(field_name, "is not in the future.")
        return moment

    def check_body(
        self, schema: str, body: Mapping[str, Any], fields: Mapping[str, str], surface: str = ADMINISTRATION
    ) -> None:
        """Raise RowFault with the first fault of a body; `fields` has the row's field for each pointer into it."""
        validator = component_validator(schema, surface)
        if not validator.accepts(body):
            fault = body_faults(validator, body)[0]
            raise self.fault_at(fault.pointer, fields, fault.detail)

    def fault_at(self, pointer: str | None, fields: Mapping[str, str], detail: str) -> RowFault:
        """The fault of the field at a pointer into the body, or of the field that contains the pointer."""
        pointer = pointer or ""
        while pointer and pointer not in fields:
            pointer = pointer.rpartition("/")[0]
        return RowFault(detail, self.name_of(fields[pointer]) if pointer else None)


class RecordsByName(Generic[T]):
    """Finds the record that a field of a row refers to by key or name.

    `records` come with their keys and names; `kind` is the noun for them in messages.
    """

    def __init__(
        self, step: ImportStep, field_name: str, kind: str, records: Iterable[tuple[T, Sequence[str | None]]]
    ) -> None:
        self._step = step
        self._field = field_name
        self._kind = kind
        self._by_name: dict[str, list[T]] = {}
        for record, names in records:
            for name in {name for name in names if name is not None}:
                self._by_name.setdefault(name, []).append(record)

    def find(self, row: ImportRow) -> T:
        """The record that a row refers to; raises RowFault if no record or several records have the name."""
        name = row.values[self._field]
        # Keys are stored in lower case.
        records = self._by_name.get(name) or self._by_name.get(name.lower(), [])
        if len(records) == 1:
            return records[0]
        reason = f"There is no {self._kind} {name[:100]}."
        if records:
            reason = f"Several {self._kind}s are called {name[:100]}; use the key instead of the name."
        raise RowFault(reason, self._step.name_of(self._field))


def detail_of(refusal: Refusal) -> str:
    """The text of a refusal, or of its first fault if it lists faults."""
    return refusal.faults[0].detail if isinstance(refusal, InvalidRequest) and refusal.faults else refusal.detail
