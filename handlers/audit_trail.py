"""Audit log entries of a call: an operation declares what it changes, the dispatcher writes the entries.

An operation that creates or changes records declares `Audited`. The record before the change, as the path addressed it
or as the handler reports it, is compared with the handler's result. An operation whose result is not the changed record
declares only the type of its entities, and its handler or service adds the entries to `call.audit`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from types import NoneType
from typing import TYPE_CHECKING, Any

from domain.members import MemberErased, differences
from persistence import audit_log
from persistence.audit_log import NewEntry, Origin
from persistence.rows import as_json

if TYPE_CHECKING:
    from handlers.call import Call

# The text in place of a secret, which can be read only once.
NOT_SHOWN = "(not shown)"
# The text in place of a long value in an entry with long changes, so that a page of entries stays readable.
TOO_LONG = "(too long)"
_MAX_CHANGES_BYTES, _MAX_VALUE_CHARACTERS = 65_536, 4_096
_SECRETS = frozenset({"secret", "previousSecret", "password", "passwordHash", "headers", "apiKey", "accessToken"})
# Every change of a record also changes this field.
_NOT_COMPARED = frozenset({"updatedAt"})

# Values of these types have no fields, so no secrets.
_PLAIN = frozenset({NoneType, bool, int, str, Decimal, datetime})

Shape = Callable[[Any], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Audited:
    """How an operation's result becomes entries.

    `shape` renders a record, and `identity` is the name of the record's id. `before` is the name of the handler's
    argument that is the record before the change; None for a creation, and if `is_found_by_handler`. `records` returns
    the records that a result contains; None if the result itself is the record.
    """

    entity_type: str
    identity: str
    shape: Shape
    before: str | None = None
    records: Callable[[Any], Iterable[Any]] | None = None
    # The record before the change comes from `AuditTrail.keep_before`, since the handler reads it under its own lock.
    is_found_by_handler: bool = False

    def changing(
        self,
        argument: str | None = None,
        *,
        is_found_by_handler: bool = False,
        records: Callable[[Any], Iterable[Any]] | None = None,
    ) -> Audited:
        """This declaration for a change: `argument` is the name of the handler's argument that is the changed record.

        Calls that change the record of an `argument` are serialized.
        """
        records = records or self.records
        return replace(self, before=argument, records=records, is_found_by_handler=is_found_by_handler)

    @property
    def is_change(self) -> bool:
        """True if the operation changes records, False if it creates them."""
        return self.before is not None or self.is_found_by_handler

    def add(self, call: Call, arguments: Mapping[str, Any], result: Any) -> None:
        """Add the entries of a completed call; `arguments` maps the handler's arguments to the records of the path."""
        before = call.audit.before
        if before is None and self.before is not None:
            before = arguments[self.before]
        is_change = self.is_change
        records = (result,) if self.records is None else self.records(result)
        for record in records:
            if not is_change and self._is_repeated(call, record):
                # An earlier request with the same key created the record, and has the entry.
                continue
            member_id = _value_of(record, "member_id")
            call.audit.add(
                self.entity_type,
                _value_of(record, self.identity),
                after=self.shape(record),
                before=self.shape(before) if is_change else {},
                member_ids=() if member_id is None else (member_id,),
            )

    def _is_repeated(self, call: Call, record: Any) -> bool:
        """True if an earlier request created the record, so that this call only returns the earlier response again.

        A record that this call creates has the time of the call as its date. But a test clock may show the same time at
        both requests: then an entry of the audit log is the only sign of the earlier request.
        """
        if call.organization.clock_now is None:
            return _value_of(record, "created_at") not in (None, call.now)
        identity = str(_value_of(record, self.identity))
        return audit_log.has_entry(call.db, call.organization.organization_id, self.entity_type, identity)


def _value_of(record: Any, name: str) -> Any:
    """The value of a field of a record or mapping; None if it has no such field."""
    return record.get(name) if isinstance(record, Mapping) else getattr(record, name, None)


@dataclass(slots=True)
class AuditTrail:
    """The entries of one call.

    `reason` is the caller's reason for the change, if it sent one. `before` is the record before the change, if the
    handler reported it by `keep_before`.
    """

    reason: str | None = None
    before: Any = None
    # Only an erasure may add entries about a member who is erased meanwhile.
    is_erasure: bool = False
    entries: list[NewEntry] = field(default_factory=list)

    def keep_before(self, record: Any) -> None:
        """Keep the record before the change, which was read under the lock of the change."""
        self.before = record

    def add(
        self,
        entity_type: str,
        entity_id: Any,
        *,
        after: Mapping[str, Any],
        before: Mapping[str, Any] | None = None,
        member_ids: Iterable[int] = (),
        wallet_ids: Iterable[int | None] = (),
    ) -> None:
        """Add an entry of the differences between `before` and `after`, with secrets replaced by `NOT_SHOWN`.

        In an entry of more than 64 KiB, values of more than 4,096 characters of JSON are replaced by `TOO_LONG`. If the
        entry is still larger, all its values are replaced, and it names only `address` instead of nested fields such as
        `address.city`.

        The entry is about the members with these ids and about the owners of these wallets.
        """
        changes: dict[str, Mapping[str, Any]] = {}
        for name, change in differences(before or {}, after).items():
            if name in _NOT_COMPARED:
                continue
            # Most values are empty or plain: `without_secrets` need not search them.
            old, new = change["from"], change["to"]
            is_plain = (not old or type(old) in _PLAIN) and (not new or type(new) in _PLAIN)
            if not is_plain or not _SECRETS.isdisjoint(name.split(".")):
                change = {side: without_secrets(value, name) for side, value in change.items()}
            changes[name] = change
        self.entries.append(
            NewEntry(
                entity_type=entity_type,
                entity_id=str(entity_id),
                changes=_limited_json(changes),
                member_ids=tuple(member_ids),
                wallet_ids=tuple({wallet_id for wallet_id in wallet_ids if wallet_id is not None}),
            )
        )

    def add_flag_change(self, entity_type: str, entity_id: Any, name: str, *, is_set: bool) -> None:
        """Add an entry about a boolean field, `name`, that changed because of a change to another record.

        An example is `isDefault` of a tier: it becomes false when another tier becomes the default. `is_set` is the new
        value.
        """
        self.add(entity_type, entity_id, before={name: not is_set}, after={name: is_set})


def write_entries(calls: Sequence[Call], operation_id: str) -> None:
    """Write the audit entries of calls of one organization and moment with one statement, if there are any.

    Raises MemberErased if an entry is about a member whom another request erased meanwhile.
    """
    entries: list[tuple[Origin, NewEntry]] = []
    for call in calls:
        caller = call.caller
        origin = Origin(
            # A job has no caller; its name is in `request_id`.
            actor=caller.subject if caller else call.request_id,
            user_id=caller.user_id if caller else None,
            token_id=caller.token_id if caller else None,
            surface=call.surface,
            operation_id=operation_id,
            request_id=call.request_id,
            reason=call.audit.reason,
        )
        entries += [(origin, entry) for entry in call.audit.entries]
    if not entries:
        return
    first_call = calls[0]
    organization_id = first_call.organization.organization_id
    concerns_erased = audit_log.add_entries(
        first_call.db, organization_id, first_call.real_now, entries, first_call.organization.clock_now
    )
    if concerns_erased and not any(call.audit.is_erasure for call in calls):
        raise MemberErased("A member of this request was erased. Nothing was changed.")


def _limited_json(changes: Mapping[str, Mapping[str, Any]]) -> str:
    """The JSON of the changes, cut as `AuditTrail.add` describes if it is longer than `_MAX_CHANGES_BYTES`."""
    text = as_json(changes)
    if len(text.encode()) <= _MAX_CHANGES_BYTES:
        return text
    changes_with_short_values = {
        name: {side: _short_value(value) for side, value in change.items()} for name, change in changes.items()
    }
    text = as_json(changes_with_short_values)
    if len(text.encode()) <= _MAX_CHANGES_BYTES:
        return text
    # The names of nested fields can be many, those of the fields of the record itself are few.
    return as_json({name.partition(".")[0]: {"from": TOO_LONG, "to": TOO_LONG} for name in changes})


def _short_value(value: Any) -> Any:
    """The value; TOO_LONG in place of a value with more than `_MAX_VALUE_CHARACTERS` characters of JSON."""
    return value if len(as_json(value)) <= _MAX_VALUE_CHARACTERS else TOO_LONG


def without_secrets(value: Any, name: str = "") -> Any:
    """The value with all secrets in it masked, at any depth; `name` is the name of its field, if it has one."""
    if value is not None and not _SECRETS.isdisjoint(name.split(".")):
        return NOT_SHOWN
    if isinstance(value, Mapping):
        return {key: without_secrets(part, str(key)) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [without_secrets(item) for item in value]
    return value


def lock_of(path: Mapping[str, Any], audit: Audited) -> str:
    """The name of the lock that serializes changes of the record that this path addresses."""
    return f"{audit.entity_type}: {sorted((name, str(value)) for name, value in path.items())}"
