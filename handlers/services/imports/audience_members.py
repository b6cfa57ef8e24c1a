"""Imports of lists of audiences and of badges, with a few statements for any number of rows."""

from domain.audiences import Audience, NotAListAudience
from domain.badges import Badge, BadgeGrant
from domain.imports.records import RowFault
from domain.members import Member
from handlers.services.audiences import MembershipChange, change_lists, refuse_without_list
from handlers.services.badges import ASSIGN, assign_badges, grant
from handlers.services.configuration import configuration_of
from handlers.services.imports.reading import ImportStep, RecordsByName
from handlers.services.imports.rows import ImportRow
from persistence import audiences
from persistence.badges import TRACKINGS


def import_audience_members(step: ImportStep) -> None:
    """Add members to the lists of audiences or remove them; for each member and list, the last row counts."""
    call = step.call
    members_by_name = step.find_members(lock=True)
    named_audiences = audiences.find_all_named(call.db, call.organization.organization_id, step.values_of("audience"))
    audiences_by_name = RecordsByName(
        step,
        "audience",
        "audience",
        [(audience, (audience.audience_key, audience.name)) for audience in named_audiences],
    )

    def read(row: ImportRow) -> tuple[Audience, int, bool]:
        audience = audiences_by_name.find(row)
        try:
            refuse_without_list(audience)
        except NotAListAudience as refusal:
            raise RowFault(refusal.detail, step.name_of("audience")) from None
        return audience, step.member_of(row, members_by_name).member_id, row.values.get("remove", False)

    # By audience and member: True if the last row about both removes the member.
    removals_by_audience: dict[int, dict[int, bool]] = {}
    for audience, member_id, is_removed in step.read(read):
        removals_by_audience.setdefault(audience.audience_id, {})[member_id] = is_removed
    by_id = {audience.audience_id: audience for audience in named_audiences}
    changes = []
    for audience_id, removals in sorted(removals_by_audience.items()):
        added_ids = {member_id for member_id, is_removed in removals.items() if not is_removed}
        changes.append(MembershipChange(by_id[audience_id], added_ids, removals.keys() - added_ids))
    change_lists(call, changes)


_OPERATION_FIELDS = ("amount", "customAttributes", "externalId", "systemUniqueKey")
_COLUMN_OF_POINTER = {f"/{name}": name for name in _OPERATION_FIELDS}


def import_badges(step: ImportStep) -> None:
    """Assign the badges of rows."""
    call = step.call
    members_by_name = step.find_members()
    badges = configuration_of(call.db, call.organization).badges.values()
    badges_by_name = RecordsByName(step, "badge", "badge", [(badge, (badge.badge_key, badge.name)) for badge in badges])

    own_keys = {badge.badge_key for badge in badges}

    def read(row: ImportRow) -> BadgeGrant:
        member = step.member_of(row, members_by_name)
        step.refuse_own_export(row, own_keys, member)
        return _grant(step, row, badges_by_name.find(row), member)

    new_items = step.read_new(read, TRACKINGS)
    step.execute_all(new_items, lambda grants: assign_badges([call] * len(grants), grants))


def _grant(step: ImportStep, row: ImportRow, badge: Badge, member: Member) -> BadgeGrant:
    """The assignment of a badge by a row; raises RowFault."""
    values = row.values
    body = {name: values[name] for name in _OPERATION_FIELDS if name in values}
    step.check_body("BadgeGrant", body, _COLUMN_OF_POINTER)
    return grant(
        ASSIGN,
        member,
        badge,
        amount=values.get("amount", 1),
        system_unique_key=step.key_of(row),
        custom_attributes=values.get("customAttributes", {}),
        external_id=values.get("externalId"),
    )
