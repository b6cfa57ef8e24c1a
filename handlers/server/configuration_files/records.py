"""The records of an organization by their names, in the form of files, and files in the form of request bodies."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from handlers.call import ADMINISTRATION
from handlers.http.local import LocalCalls
from handlers.server.configuration_files.kinds import EXTERNAL_KEY, KIND_OF, KINDS, Kind, kind_of_field
from handlers.server.configuration_files.yaml_files import FaultyFiles, Ref

_KEY = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
# A name inside a longer text, such as the one in `matches(item, "${matcher/Coffee}")`.
_NAME_IN_TEXT = re.compile(r"\$\{(" + "|".join(KIND_OF) + r")/([^{}]+)\}")
_PAGE_SIZE = 25
# Not configuration: the organization is in the path, and the version is only for concurrent changes by clients.
_FIELDS_LEFT_OUT = frozenset({"organizationId", "campaignVersionId"})
# Settings of triggers that are or may be secret.
HIDDEN_SETTINGS = ("secret", "headers")


class UnknownName(LookupError):
    """Neither the organization nor a file has a record of this name."""

    def __init__(self, ref: Ref) -> None:
        super().__init__(f"there is no {ref}, neither in the organization nor in the files")


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record in the form of responses, and the parameters of the path that addresses it."""

    ref: Ref
    record: Mapping[str, Any]
    path: Mapping[str, Any]


class ConfigurationRecords:
    """All configuration records by name; records that are created later are added."""

    def __init__(self) -> None:
        self.by_ref: dict[Ref, StoredRecord] = {}
        self._by_id: dict[tuple[str, str], Ref] = {}
        self._by_key: dict[str, Ref] = {}

    @classmethod
    def read(cls, calls: LocalCalls) -> ConfigurationRecords:
        """Read all records by the lists of the API; raises FaultyFiles if records have no name or equal names."""
        records = cls()
        faults = list[str]()
        organization = calls.administration("getOrganization")["organization"]
        for kind in KINDS:
            for parent in records._parents(kind):
                path = {} if parent is None else {name: parent.record[name] for name in kind.parent_path}
                for record in _iterate_list(calls, kind, path):
                    name = kind.name_of(record, organization)
                    if name is None:
                        faults.append(
                            f"the {kind.name} {record[kind.identity]} has no externalKey to name its file; set one"
                        )
                        continue
                    ref = Ref(kind.name, name if parent is None else f"{parent.ref.name}/{name}")
                    if ref in records.by_ref:
                        faults.append(f"several records are called {ref}: give them different names")
                    records.add(kind, ref, record, path)
        if faults:
            raise FaultyFiles(faults)
        return records

    def _parents(self, kind: Kind) -> list[StoredRecord | None]:
        """The records that have lists of a kind; None means the organization."""
        if kind.parent is None:
            return [None]
        return [stored_record for ref, stored_record in self.by_ref.items() if ref.kind == kind.parent]

    def add(self, kind: Kind, ref: Ref, record: Mapping[str, Any], path: Mapping[str, Any]) -> None:
        """Add a record under its name; `path` has the parameters that name its parent."""
        self._store(kind, StoredRecord(ref, record, {**path, kind.path_parameter: record[kind.path_parameter_field]}))

    def _store(self, kind: Kind, stored_record: StoredRecord) -> None:
        """Keep the record, to be found by its name, its id and its key."""
        self.by_ref[stored_record.ref] = stored_record
        self._by_id[kind.name, str(stored_record.record[kind.identity])] = stored_record.ref
        if kind.key is not None:
            self._by_key[stored_record.record[kind.key]] = stored_record.ref

    def rename(self, stored_record: StoredRecord, ref: Ref) -> StoredRecord:
        """Give a record another name, and also the records below it, whose names begin with its name."""
        renamed_record = replace(stored_record, ref=ref)
        del self.by_ref[stored_record.ref]
        self._store(KIND_OF[ref.kind], renamed_record)
        for other in [*self.by_ref.values()]:
            kind = KIND_OF[other.ref.kind]
            if kind.parent == ref.kind and all(
                other.path[name] == stored_record.record[name] for name in kind.parent_path
            ):
                self.rename(other, Ref(kind.name, f"{ref.name}{other.ref.name.removeprefix(stored_record.ref.name)}"))
        return renamed_record

    def in_files(
        self, kind: Kind, record: Mapping[str, Any], names: frozenset[str], nullable: frozenset[str]
    ) -> dict[str, Any]:
        """The fields of a record in the form of a file, with names instead of ids and keys.

        `names` are the fields of the body that creates a record, `nullable` those of them that may be null.
        """
        field_names = names - kind.excluded_fields - _FIELDS_LEFT_OUT
        own_fields = field_names - {EXTERNAL_KEY}
        fields = {name: self._replace_ids_by_names(name, value) for name, value in record.items() if name in own_fields}
        # It is no reference, even if it has the form of a key.
        fields[EXTERNAL_KEY] = record[EXTERNAL_KEY]
        # Responses leave out objects that are not set; in files they are null.
        fields |= dict.fromkeys(sorted((field_names & nullable) - record.keys()))
        if kind.name == "trigger":
            settings = record["settings"].items()
            fields["settings"] = {name: value for name, value in settings if name not in HIDDEN_SETTINGS}
        return fields

    def _replace_ids_by_names(self, field: str, value: Any) -> Any:
        """Return the value of a field with names instead of ids and keys of records."""
        if isinstance(value, dict):
            return {name: self._replace_ids_by_names(name, part) for name, part in value.items()}
        if isinstance(value, list):
            return [self._replace_ids_by_names(field, part) for part in value]
        kind = kind_of_field(field)
        # Responses contain ids as numbers or, in lists of tiers, as texts.
        if kind is not None and (ref := self._by_id.get((kind, str(value)))) is not None:
            return ref
        if isinstance(value, str):
            if value in self._by_key:
                return self._by_key[value]
            return _KEY.sub(self._name_in_text, value)
        return value

    def _name_in_text(self, key: re.Match[str]) -> str:
        """The text that replaces the key of a record inside a text: `${name}`, or the key if it is unknown."""
        ref = self._by_key.get(key[0])
        return key[0] if ref is None else f"${{{ref}}}"

    def _key_in_text(self, reference: re.Match[str]) -> str:
        """The text that replaces a `${kind/name}` inside a text: the key of the record. Raises UnknownName."""
        kind, name = reference.groups()
        return str(self._identity(Ref(kind, name), by_id=False))

    def in_bodies(self, field: str, value: Any, pointer: str = "") -> Any:
        """The value of a field of a file in the form of requests; `pointer` is the field's. Raises UnknownNameAt."""
        if isinstance(value, Mapping):
            return {name: self.in_bodies(name, part, f"{pointer}/{name}") for name, part in value.items()}
        if isinstance(value, list):
            return [self.in_bodies(field, part, f"{pointer}/{index}") for index, part in enumerate(value)]
        try:
            if isinstance(value, Ref):
                return self._identity(value, by_id=kind_of_field(field) is not None)
            if isinstance(value, str):
                return _NAME_IN_TEXT.sub(self._key_in_text, value)
        except UnknownName as error:
            raise UnknownNameAt(pointer, str(error)) from None
        return value

    def _identity(self, ref: Ref, *, by_id: bool) -> Any:
        """The id of a record if `by_id` or if it has no key, else its key; raises UnknownName."""
        stored_record = self.by_ref.get(ref)
        kind = KIND_OF[ref.kind]
        if stored_record is None:
            raise UnknownName(ref)
        return stored_record.record[kind.identity if by_id or kind.key is None else kind.key]


class UnknownNameAt(LookupError):
    """A value of a file names no record of the organization or the files; `pointer` is its JSON pointer."""

    def __init__(self, pointer: str, detail: str) -> None:
        super().__init__(detail)
        self.pointer = pointer


def _iterate_list(calls: LocalCalls, kind: Kind, path: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """All records of a list, page by page."""
    call = calls.administration if kind.surface == ADMINISTRATION else calls.integration
    page = 0
    while True:
        response = call(kind.list, query={"page": page, "limit": _PAGE_SIZE}, **path)
        results = response[kind.results]
        yield from results
        page += 1
        if len(results) < _PAGE_SIZE:
            return
