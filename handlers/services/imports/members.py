"""Imports of members, with a fixed number of statements for any number of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from domain.imports.cells import CUSTOM
from domain.imports.records import PLACES, UPSERT
from domain.members import Member, differences, member_exists, public_id_exists
from domain.problems import InvalidRequest
from domain.triggers import MEMBER as MEMBER_ENTITY
from domain.triggers import UPDATED
from handlers.call import Call
from handlers.messages.base import Body, Changes
from handlers.messages.members import MEMBER, MEMBER_PROPERTIES, MemberBody
from handlers.services.coupons.lock import release_locks
from handlers.services.events.track import reported_event, track
from handlers.services.imports.reading import ImportStep
from handlers.services.imports.rows import ImportRow
from handlers.services.imports.tiers import TierRow, Tiers, report_tiers_of_new, set_tiers
from handlers.services.ledger.holds import release_holds
from handlers.services.members.change import changed_values
from handlers.services.members.enrol import NewMember, enrol_new_members, insert_members
from handlers.services.members.view import view_members
from handlers.services.unit_of_work.unit import UnitOfWork
from handlers.services.webhooks.outbox import queue_entity_changes
from persistence import member_lookups, members
from persistence.members import MEMBERS

_BODY = Body(MemberBody)
# The events of new members are evaluated individually, so few members are enrolled at once.
_TRACKED_AT_ONCE = 100

_FIELD_OF_POINTER = {"/" + "/".join(place): name for name, place in PLACES.items()}
# For each field, the names of the objects that contain it in the body of `createMember`, and its name there.
_PARENTS = {name: (place[:-1], place[-1]) for name, place in PLACES.items()}


@dataclass(frozen=True, slots=True)
class _MemberRow:
    """A well-formed row: `changes` are its fields of a member, `attributes` its columns of single custom attributes.

    `joined_at` is None if the row has no such date, `tier` if the row names no tier.
    """

    row: ImportRow
    changes: Changes[MemberBody]
    attributes: Mapping[str, Any]
    joined_at: datetime | None
    tier: TierRow | None

    @property
    def loyalty_member_id(self) -> str:
        """The organization's own id of the member."""
        return str(self.changes.fields["loyalty_member_id"])

    @property
    def properties(self) -> MemberBody:
        """The properties of a new member."""
        values = dict(self.changes.fields)
        if self.attributes:
            values["custom_attributes"] = {**values.get("custom_attributes", {}), **self.attributes}
        return MemberBody(**values)


@dataclass(frozen=True, slots=True)
class _MemberChange:
    """A change of an existing member: `before` is the member before the change, `values` are the values to set."""

    tier: TierRow | None
    before: Member
    values: Mapping[str, Any]

    @property
    def has_new_values(self) -> bool:
        """True if a value differs from that of the member; the tier is not one of the values."""
        return any(getattr(self.before, name) != value for name, value in self.values.items())


@dataclass(slots=True)
class _SortedRows:
    """The rows to import: `new` has the rows of members to enrol, `changes` the changes of existing members."""

    new: list[_MemberRow] = field(default_factory=list)
    changes: list[_MemberChange] = field(default_factory=list)


def import_members(step: ImportStep) -> None:
    """Enrol the members of rows, or change existing ones if the mode of the import is UPSERT.

    Each row is about another member.
    """
    tiers = Tiers(step)
    member_rows = step.read(lambda row: _read(step, row, tiers))
    if member_rows:
        sorted_rows = _sort_out(step, member_rows)
        _enrol(step.call, sorted_rows.new)
        _change(step.call, sorted_rows.changes)


def _read(step: ImportStep, row: ImportRow, tiers: Tiers) -> _MemberRow:
    """Read a row; raises RowFault."""
    body: dict[str, Any] = {}
    attributes: dict[str, Any] = {}
    for name, value in row.values.items():
        if name in _PARENTS:
            parents, last_name = _PARENTS[name]
            part = body
            for parent in parents:
                part = part.setdefault(parent, {})
            part[last_name] = value
        elif name.startswith(CUSTOM):
            attributes[name.removeprefix(CUSTOM)] = value
    whole_body = body
    if attributes:
        whole_body = {**body, "customAttributes": {**body.get("customAttributes", {}), **attributes}}
    step.check_body("OrganizationMemberCreate", whole_body, _FIELD_OF_POINTER)
    try:
        changes = _BODY.changes(body)
    except InvalidRequest as refusal:
        raise step.fault_at(refusal.faults[0].pointer, _FIELD_OF_POINTER, refusal.detail) from None
    return _MemberRow(
        row=row,
        changes=changes,
        attributes=attributes,
        joined_at=step.past_moment_in(row, "joinedAt"),
        tier=tiers.of(row),
    )


def _sort_out(step: ImportStep, member_rows: Sequence[_MemberRow]) -> _SortedRows:
    """Sort rows into new members and changes; a row fails if an id is in use, or if the member was erased."""
    call = step.call
    sorted_rows = _SortedRows()
    organization_id = call.organization.organization_id
    ids = {member_row.loyalty_member_id for member_row in member_rows}
    if step.job.mode == UPSERT:
        matches = member_lookups.find_members(call.db, organization_id, ids, member_ids=(), lock=True)
        existing_members = members.lock_rows(call.db, organization_id, [match.member.member_id for match in matches])
    else:
        existing_members = MEMBERS.find_all(call.db, organization_id, loyalty_member_id=ids)
    members_by_name = {member.loyalty_member_id: member for member in existing_members}
    public_ids = {
        public_id
        for member_row in member_rows
        if (public_id := member_row.changes.fields.get("public_loyalty_member_id")) is not None
    }
    taken_public_ids: set[str] = set()
    if public_ids:
        taken_ids = members.find_taken_ids(call.db, organization_id, loyalty_member_ids=(), public_ids=public_ids)
        taken_public_ids = taken_ids.public_ids
    for member_row in member_rows:
        before = members_by_name.get(member_row.loyalty_member_id)
        if before is not None and step.job.mode != UPSERT:
            refusal = member_exists(member_row.loyalty_member_id)
            step.fail(member_row.row, refusal.detail, "loyaltyMemberId")
            continue
        if before is not None and before.erased_at is not None:
            step.fail(member_row.row, "The member was erased.", "loyaltyMemberId")
            continue
        public_id = member_row.changes.fields.get("public_loyalty_member_id")
        previous_public_id = None if before is None else before.public_loyalty_member_id
        if public_id is not None and public_id != previous_public_id:
            if public_id in taken_public_ids:
                step.fail(member_row.row, public_id_exists(public_id).detail, "publicLoyaltyMemberId")
                continue
            # The following rows must not use the same id.
            taken_public_ids.add(public_id)
        if before is None:
            sorted_rows.new.append(member_row)
        else:
            sorted_rows.changes.append(_MemberChange(member_row.tier, before, _values_after(before, member_row)))
    return sorted_rows


def _values_after(before: Member, member_row: _MemberRow) -> dict[str, Any]:
    """The values of an existing member after the changes of a row.

    A column of a single custom attribute changes only this attribute.
    """
    values = changed_values(before, member_row.changes)
    if member_row.attributes:
        values["custom_attributes"] = {**values["custom_attributes"], **member_row.attributes}
    return values


def _enrol(call: Call, rows: Sequence[_MemberRow]) -> None:
    """Enrol the members of rows, and report the tiers that the rows name."""
    new_members = []
    tiers = {}
    for row in rows:
        held_tiers = {}
        if row.tier is not None and (held_tier := row.tier.tier_of_new_member(call.now)) is not None:
            held_tiers[row.tier.program_id] = held_tier
            tiers[row.loyalty_member_id] = (row.tier, held_tier)
        new_members.append(NewMember(row.properties, row.joined_at, held_tiers))
    unit = UnitOfWork(call)
    if call.is_quiet and new_members:
        unit.adopt(insert_members(call, new_members))
    elif new_members:
        for begin in range(0, len(new_members), _TRACKED_AT_ONCE):
            enrol_new_members(
                call, new_members[begin : begin + _TRACKED_AT_ONCE], "The member was enrolled by an import."
            )
        if tiers:
            unit.lock(loyalty_member_ids=tiers.keys())
    report_tiers_of_new(unit, tiers)


def _change(call: Call, changes: Sequence[_MemberChange]) -> None:
    """Set the tiers of members; store and report the members whose values change. A quiet import reports nothing."""
    organization_id = call.organization.organization_id
    set_tiers(call, [(change.tier, change.before) for change in changes if change.tier is not None])
    updates = [change for change in changes if change.has_new_values]
    if not updates:
        return
    deactivated_members = [update.before for update in updates if update.before.active and not update.values["active"]]
    release_holds(call, deactivated_members)
    release_locks(call, deactivated_members)
    values_by_id = [(update.before.member_id, update.values) for update in updates]
    stored_members = members.store_members(call.db, organization_id, values_by_id, call.now)
    befores_and_afters = [(update.before, stored_members[update.before.member_id]) for update in updates]
    for before, after in befores_and_afters:
        call.audit.add(
            "member",
            before.member_id,
            before=MEMBER_PROPERTIES.dump(before),
            after=MEMBER_PROPERTIES.dump(after),
            member_ids=(before.member_id,),
        )
    if not call.is_quiet:
        _report_changes(call, befores_and_afters)


def _report_changes(call: Call, changes: Sequence[tuple[Member, Member]]) -> None:
    """Report changed members, each as (before, after), to campaigns and triggers, like `updateMember`."""
    incoming_events = []
    for before, after in changes:
        payload = {"changedFields": list(differences(MEMBER_PROPERTIES.dump(before), MEMBER_PROPERTIES.dump(after)))}
        incoming_events.append(
            reported_event(call, after, "member-updated", payload, "The member was changed by an import.")
        )
        if before.active and not after.active:
            reason = "The member was deactivated by an import."
            incoming_events.append(reported_event(call, after, "member-profile-deactivated", payload, reason))
    track(UnitOfWork(call), incoming_events, by_server=True)

    def records() -> Iterator[Any]:
        changed_members = [after for _, after in changes]
        return map(MEMBER.dump, view_members(call, changed_members, with_balances=True))

    queue_entity_changes(call, MEMBER_ENTITY, UPDATED, records)
