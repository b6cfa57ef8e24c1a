"""Compares files with the records of an organization, and applies the differences in one database transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from domain.calendar import instant_of
from domain.problems import InvalidRequest, Refusal
from handlers.call import INTEGRATION
from handlers.http.local import LocalApi, LocalCalls
from handlers.server.configuration_files.kinds import EXTERNAL_KEY, KIND_OF, KINDS, Kind, kind_of_field
from handlers.server.configuration_files.records import (
    HIDDEN_SETTINGS,
    ConfigurationRecords,
    StoredRecord,
    UnknownNameAt,
)
from handlers.server.configuration_files.yaml_files import FaultyFiles, RecordFile, Ref

CREATE, UPDATE = "create", "update"

# The position of each kind in the order of `KINDS`.
_POSITIONS = {kind.name: position for position, kind in enumerate(KINDS)}


@dataclass(frozen=True, slots=True)
class Change:
    """A created or changed record; `fields` are its differences, each as (name, stored value, value of the file)."""

    ref: Ref
    action: str
    fields: tuple[tuple[str, Any, Any], ...] = ()


@dataclass(slots=True)
class ConfigurationOutcome:
    """The changes, the number of files without changes, the records in no file, and secrets of new triggers.

    `warnings` are about new and changed expressions, each with file and line.
    """

    changes: list[Change] = field(default_factory=list)
    unchanged: int = 0
    in_no_file: list[Ref] = field(default_factory=list)
    secrets: list[tuple[Ref, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def add(self, change: Change) -> None:
        """Add a change. A second change of a record replaces the first, except that a creation stays a creation."""
        for position, before in enumerate(self.changes):
            if before.ref == change.ref:
                self.changes[position] = change if before.action == UPDATE else before
                return
        self.changes.append(change)


def export_records(api: LocalApi, calls: LocalCalls) -> dict[Ref, dict[str, Any]]:
    """The fields of all records of the organization, by name; records of ordered kinds in the order of creation."""
    records = ConfigurationRecords.read(calls)
    return {
        ref: _fields(api, records, stored_record)
        for ref, stored_record in sorted(records.by_ref.items(), key=_sort_key)
    }


def apply(api: LocalApi, calls: LocalCalls, files: Sequence[RecordFile]) -> ConfigurationOutcome:
    """Create and change the organization's records by the files; fields and records in no file stay unchanged.

    Raises FaultyFiles, which names file, line and field of each fault.
    """
    faults = [fault for file in files for fault in _faults_of_name(file)]
    if faults:
        raise FaultyFiles(faults)
    return _FileApplication(api, calls, files).run()


class _FileApplication:
    """Applies files to the records of an organization."""

    def __init__(self, api: LocalApi, calls: LocalCalls, files: Sequence[RecordFile]) -> None:
        self._api, self._calls, self._files = api, calls, files
        self._records = ConfigurationRecords.read(calls)
        self._outcome = ConfigurationOutcome()
        self._names_in_files = {file.ref for file in files}

    def run(self) -> ConfigurationOutcome:
        """Apply the files in the order of kinds; files with later references or final values are applied again."""
        incomplete_files: list[RecordFile] = []
        for file in sorted(self._files, key=lambda file: (_POSITIONS[file.ref.kind], file.order, file.ref.name)):
            first_file = self._without_final_values(self._without_later_references(file))
            if first_file is not file:
                incomplete_files.append(file)
            self._apply_file(first_file)
        for file in incomplete_files:
            self._apply_file(file)
        outcome = self._outcome
        outcome.unchanged = len(self._files) - len(outcome.changes)
        outcome.in_no_file = [ref for ref in self._records.by_ref if ref not in self._names_in_files]
        return outcome

    def _without_later_references(self, file: RecordFile) -> RecordFile:
        """The file, without the `later_fields` of its kind if they name a record that does not exist yet."""
        names = KIND_OF[file.ref.kind].later_fields
        try:
            self._records.in_bodies("", {name: value for name, value in file.fields.items() if name in names})
        except UnknownNameAt:
            return replace(file, fields={name: value for name, value in file.fields.items() if name not in names})
        return file

    def _without_final_values(self, file: RecordFile) -> RecordFile:
        """The file, with the initial values of a new record, or the stored ones, instead of its final values."""
        initial_fields = KIND_OF[file.ref.kind].initial_fields(file.fields)
        if initial_fields is file.fields:
            return file
        if file.ref not in self._records.by_ref:
            return replace(file, fields=initial_fields)
        return replace(
            file, fields={name: value for name, value in file.fields.items() if value == initial_fields[name]}
        )

    def _apply_file(self, file: RecordFile) -> None:
        """Create or change the record that a file describes; raises FaultyFiles."""
        kind = KIND_OF[file.ref.kind]
        try:
            stored_record = self._records.by_ref.get(file.ref) or self._adopt(kind, file)
            self._apply_one(kind, file, stored_record)
        except InvalidRequest as refusal:
            raise FaultyFiles(
                [f"{file.location(fault.pointer or '')}: {fault.detail}" for fault in refusal.faults]
            ) from refusal
        except Refusal as refusal:
            raise FaultyFiles([f"{file.location('')}: {file.ref}: {refusal.detail}"]) from refusal
        except UnknownNameAt as error:
            raise FaultyFiles([f"{file.location(error.pointer)}: {error.pointer.lstrip('/')}: {error}"]) from error

    def _adopt(self, kind: Kind, file: RecordFile) -> StoredRecord | None:
        """Find the record that gets its external key by this file, and rename it after the key.

        The record is found by its own name. Returns None if no record has this name, or if another file has it.
        """
        name = kind.own_name(file.fields)
        if file.fields.get(EXTERNAL_KEY) is None or not isinstance(name, str) or kind.is_name_of_default(name):
            return None
        ref = Ref(kind.name, f"{file.ref.name.removesuffix(file.own_name)}{name}")
        stored_record = self._records.by_ref.get(ref)
        if stored_record is None or stored_record.record[EXTERNAL_KEY] is not None or ref in self._names_in_files:
            return None
        return self._records.rename(stored_record, file.ref)

    def _apply_one(self, kind: Kind, file: RecordFile, stored_record: StoredRecord | None) -> None:
        """Create the record, or change its fields that differ; add the change to the outcome."""
        body = self._records.in_bodies("", file.fields)
        if stored_record is None:
            path = self._path_of_parent(kind, file)
            response = _call_operation(self._calls, kind, kind.create, {**kind.extra_fields, **body}, path)
            new_record = response[kind.envelope]
            self._outcome.warnings += _warnings_in(response, file)
            self._records.add(kind, file.ref, new_record, path)
            if kind.name == "trigger" and file.fields.get("settings", {}).get("secret") is None:
                self._outcome.secrets.append((file.ref, new_record["settings"]["secret"]))
            self._outcome.add(Change(file.ref, CREATE))
            return
        before = _fields(self._api, self._records, stored_record)
        changed_fields = tuple(
            (name, before.get(name), value)
            for name, value in file.fields.items()
            if not _is_same(before.get(name), value)
        )
        if not changed_fields:
            return
        _refuse_without_name(kind, stored_record, file)
        body = {**self._required_fields(kind, before), **body}
        response = self._update(kind, stored_record, file, body, [name for name, _, _ in changed_fields])
        self._outcome.warnings += _warnings_in(response, file)
        self._outcome.add(Change(file.ref, UPDATE, changed_fields))

    def _required_fields(self, kind: Kind, stored_fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """The stored values of the fields that an update must have, in the form of requests."""
        names = frozenset() if kind.update is None else self._api.required_fields_of((kind.surface, kind.update))
        return {name: self._records.in_bodies(name, value) for name, value in stored_fields.items() if name in names}

    def _update(
        self,
        kind: Kind,
        stored_record: StoredRecord,
        file: RecordFile,
        body: Mapping[str, Any],
        changed_names: Sequence[str],
    ) -> Mapping[str, Any]:
        """Change the fields `changed_names` of a record; return the response, empty if no update was necessary.

        Raises FaultyFiles for fields that only a new record can have.
        """
        update_fields = frozenset() if kind.update is None else self._api.fields_of((kind.surface, kind.update))
        creation_fields = self._api.fields_of((kind.surface, kind.create))
        fixed_names = [name for name in changed_names if name in creation_fields and name not in update_fields]
        # The status of a coupon book has its own operation.
        if kind.name == "couponBook" and "publishingStatus" in fixed_names:
            fixed_names.remove("publishingStatus")
            status = {"publishingStatus": body["publishingStatus"]}
            self._calls.integration(
                "updateCouponBookStatus", status, couponBookKey=stored_record.record["couponBookKey"]
            )
        if fixed_names:
            raise FaultyFiles(
                [
                    f"{file.location(f'/{name}')}: {name} cannot be changed once the record is made"
                    for name in fixed_names
                ]
            )
        # Only the status was to be changed, which has its own operation.
        if kind.update is None or all(name in creation_fields and name not in update_fields for name in changed_names):
            return {}
        # Fields of neither operation are sent, so that they are refused.
        content = {name: value for name, value in body.items() if name in update_fields or name not in creation_fields}
        if kind.name == "trigger" and "settings" in content:
            # Headers are null in responses; sent as null, they keep their stored values.
            hidden_settings = {
                name: stored_record.record["settings"][name] for name in HIDDEN_SETTINGS if name != "secret"
            }
            content["settings"] = {**hidden_settings, **content["settings"]}
        response: Mapping[str, Any] = _call_operation(
            self._calls, kind, kind.update, {**kind.extra_fields, **content}, stored_record.path
        )
        return response

    def _path_of_parent(self, kind: Kind, file: RecordFile) -> dict[str, Any]:
        """The parameters of paths that name the parent of a record; empty for a kind without parents."""
        if kind.parent is None:
            return {}
        parent = self._records.by_ref.get(Ref(kind.parent, file.ref.name.rpartition("/")[0]))
        if parent is None:
            fault = f"the name of {file.ref} must begin with that of a {kind.parent}, as in {kind.name}/PARENT/NAME"
            raise FaultyFiles([f"{file.location('')}: {fault}; there is no such {kind.parent}"])
        return {name: parent.record[name] for name in kind.parent_path}


def check_files(api: LocalApi, files: Sequence[RecordFile]) -> tuple[list[str], list[str]]:
    """Find faults and warnings without an organization, each with file and line.

    A file that lacks fields of a new record gets a warning, because the record may exist.
    """
    faults, warnings = list[str](), list[str]()
    for file in files:
        kind = KIND_OF[file.ref.kind]
        missing_names = list[str]()
        operation = kind.surface, kind.create
        body = {**kind.extra_fields, **_placeholders(kind.initial_fields(file.fields))}
        unset_names = api.fields_of(operation) - body.keys()
        for fault in api.faults_of_body(operation, body):
            pointer = fault.pointer or ""
            name = pointer.removeprefix("/")
            if name in unset_names:
                missing_names.append(name)
            else:
                faults.append(f"{file.location(pointer)}: {fault.detail}")
        faults += _faults_of_name(file)
        if missing_names:
            creation = f"cannot create it without {', '.join(missing_names)}"
            warnings.append(f"{file.location('')}: apply updates {file.ref} if it exists, and {creation}")
    return faults, warnings


def _faults_of_name(file: RecordFile) -> list[str]:
    """The fault of a file whose record has another name than its external key, in a list; empty if there is none."""
    kind = KIND_OF[file.ref.kind]
    external_key = file.fields.get(EXTERNAL_KEY)
    if not isinstance(external_key, str) or external_key == file.own_name or kind.is_name_of_default(file.own_name):
        return []
    right_ref = Ref(kind.name, f"{file.ref.name.removesuffix(file.own_name)}{external_key}")
    location = file.location(f"/{EXTERNAL_KEY}")
    return [f"{location}: {EXTERNAL_KEY} is {external_key}, but the record is called {file.ref}: call it {right_ref}"]


def _placeholders(value: Any, name: str = "") -> Any:
    """The value of the field `name`, with ids and keys of valid form instead of references to records."""
    if isinstance(value, Ref):
        return 1 if kind_of_field(name) is not None else "00000000-0000-4000-8000-000000000000"
    if isinstance(value, Mapping):
        return {key: _placeholders(part, key) for key, part in value.items()}
    if isinstance(value, list):
        return [_placeholders(part, name) for part in value]
    return value


def _warnings_in(response: Mapping[str, Any], file: RecordFile) -> list[str]:
    """The warnings that an operation returned, each with its location in the file."""
    return [f"{file.location(warning['pointer'])}: {warning['message']}" for warning in response.get("warnings", ())]


def _refuse_without_name(kind: Kind, stored_record: StoredRecord, file: RecordFile) -> None:
    """Refuse a file that sets `externalKey` to null although it names the record by this key.

    Allowed if another field gives the record the same name, and for default records.
    """
    external_key = stored_record.record[EXTERNAL_KEY]
    name = file.own_name
    if file.fields.get(EXTERNAL_KEY, external_key) is not None or external_key != name or kind.is_name_of_default(name):
        return
    if kind.own_name({**stored_record.record, **file.fields}) != name:
        detail = f"{EXTERNAL_KEY} is null, but the record is called {file.ref} by this key: leave the field out"
        raise FaultyFiles([f"{file.location(f'/{EXTERNAL_KEY}')}: {detail}"])


def _fields(api: LocalApi, records: ConfigurationRecords, stored_record: StoredRecord) -> dict[str, Any]:
    """The fields of a stored record in the form of files."""
    kind = KIND_OF[stored_record.ref.kind]
    operation = kind.surface, kind.create
    return records.in_files(kind, stored_record.record, api.fields_of(operation), api.nullable_fields_of(operation))


def _call_operation(calls: LocalCalls, kind: Kind, operation_id: str, body: Any, path: Mapping[str, Any]) -> Any:
    call = calls.integration if kind.surface == INTEGRATION else calls.administration
    return call(operation_id, body, **path)


def _is_same(current: Any, desired: Any) -> bool:
    """True for equal values; moments may be written in several ways, and 1 is no boolean."""
    if isinstance(current, Mapping) and isinstance(desired, Mapping):
        return current.keys() == desired.keys() and all(_is_same(current[name], desired[name]) for name in current)
    if isinstance(current, list) and isinstance(desired, list):
        return len(current) == len(desired) and all(map(_is_same, current, desired))
    if isinstance(current, bool) is not isinstance(desired, bool):
        return False
    if current != desired and isinstance(current, str) and isinstance(desired, str):
        try:
            return current.endswith("Z") and instant_of(current) == instant_of(desired)
        except ValueError:
            return False
    return bool(current == desired)


def _sort_key(item: tuple[Ref, StoredRecord]) -> tuple[int, int, str]:
    """The sort key of a record: by kind, then by id if records of the kind are ordered, then by name."""
    ref, stored_record = item
    kind = KIND_OF[ref.kind]
    id_of_ordered = stored_record.record[kind.identity] if kind.is_ordered else 0
    return _POSITIONS[ref.kind], id_of_ordered, ref.name
