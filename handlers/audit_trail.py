"""Audit log entries of a call: an operation declares what it changes, the dispatcher writes the entries.

An operation that creates or changes records declares `Audited`. The record before the change, as the path addressed it
or as the handler reports it, is compared with the handler's result. Where a result is no record, the operation declares
the type of its entities, and the service adds the entries to `call.audit`.
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

# Shown instead of secrets, which can be read only once.
NOT_SHOWN = "(not shown)"
_SECRETS = frozenset({"secret", "previousSecret", "password", "passwordHash", "headers", "apiKey", "accessToken"})
# Every change changes it.
_NOT_COMPARED = frozenset({"updatedAt"})

# Values of these types hold no further fields.
_PLAIN = frozenset({NoneType, bool, int, str, Decimal, datetime})

Shape = Callable[[Any], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Audited:
    """How an operation's result becomes entries.

    `shape` renders a record, and `identity` is the name of the record's id. `before` is the argument of the handler
    that is the record before the change, None for a creation. `records` takes the records out of a result of another
    form.
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
        """The same for a change of the record that is the argument `argument`."""
        records = records or self.records
        return replace(self, before=argument, records=records, is_found_by_handler=is_found_by_handler)

    @property
    def is_change(self) -> bool:
        """True if the operation changes records, and does not make new ones."""
        return self.before is not None or self.is_found_by_handler

    def add(self, call: Call, arguments: Mapping[str, Any], result: Any) -> None:
        """Add the entries of a completed call."""
        before = call.audit.before
        if before is None and self.before is not None:
            before = arguments[self.before]
        is_change = self.is_change
        for record in (result,) if self.records is None else self.records(result):
            if not is_change and self._is_repeated(call, record):
                # The first response of an earlier request was returned again.
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
        """True if an earlier request created the record; under a stopped test clock the dates do not show it."""
        if call.organization.clock_now is None:
            return _value_of(record, "created_at") not in (None, call.now)
        identity = str(_value_of(record, self.identity))
        return audit_log.has_entry(call.db, call.organization.organization_id, self.entity_type, identity)


def _value_of(record: Any, name: str) -> Any:
    return record.get(name) if isinstance(record, Mapping) else getattr(record, name, None)


@dataclass(slots=True)
class AuditTrail:
    """The entries of one call; `reason` is given by the caller, if at all."""

    reason: str | None = None
    before: Any = None
    # All other changes of a member who was erased meanwhile are refused.
    is_erasure: bool = False
    entries: list[NewEntry] = field(default_factory=list)

    def keep_before(self, record: Any) -> None:
        """Keep the record before the change, read under the lock that the change holds."""
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
        """Add an entry of the differences between `before` and `after`; secrets in them are replaced.

        It is an entry about the members and about the owners of the wallets.
        """
        changes: dict[str, Mapping[str, Any]] = {}
        for name, change in differences(before or {}, after).items():
            if name in _NOT_COMPARED:
                continue
            # Empty and plain values have no fields with secrets: most changes need no search.
            old, new = change["from"], change["to"]
            is_plain = (not old or type(old) in _PLAIN) and (not new or type(new) in _PLAIN)
            if not is_plain or not _SECRETS.isdisjoint(name.split(".")):
                change = {side: without_secrets(value, name) for side, value in change.items()}
            changes[name] = change
        self.entries.append(
            NewEntry(
                entity_type,
                str(entity_id),
                as_json(changes),
                tuple(member_ids),
                tuple({wallet_id for wallet_id in wallet_ids if wallet_id is not None}),
            )
        )

    def add_mark(self, entity_type: str, entity_id: Any, name: str, *, is_set: bool) -> None:
        """Add an entry about a record that gained or lost a mark because another record was changed."""
        self.add(entity_type, entity_id, before={name: not is_set}, after={name: is_set})


def write_entries(calls: Sequence[Call], operation_id: str) -> None:
    """Write the entries of calls of one organization and moment with one statement; none if nothing was changed."""
    entries: list[tuple[Origin, NewEntry]] = []
    for call in calls:
        caller = call.caller
        origin = Origin(
            # A job has no caller; the entry has its name instead.
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
    first = calls[0]
    organization_id = first.organization.organization_id
    concerns_erased = audit_log.add_entries(
        first.db, organization_id, first.real_now, entries, first.organization.clock_now
    )
    if concerns_erased and not any(call.audit.is_erasure for call in calls):
        raise MemberErased("Another request erased a member of this request meanwhile. Nothing was changed.")


def without_secrets(value: Any, name: str = "") -> Any:
    """The value with all secrets in it replaced, at any depth; `name` is the field that holds it."""
    if value is not None and not _SECRETS.isdisjoint(name.split(".")):
        return NOT_SHOWN
    if isinstance(value, Mapping):
        return {key: without_secrets(part, str(key)) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [without_secrets(item) for item in value]
    return value


def lock_of(path: Mapping[str, Any], operation: Audited) -> str:
    """The name of the lock under which callers change the record at this address in turns."""
    return f"{operation.entity_type}: {sorted((name, str(value)) for name, value in path.items())}"
