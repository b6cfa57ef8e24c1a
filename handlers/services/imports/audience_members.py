"""Imports of lists of audiences and of badges: any number of rows by a few statements."""

from collections.abc import Sequence

from domain.audiences import Audience, NotAListAudience
from domain.badges import Badge, BadgeGrant
from domain.imports.records import FailedRow, ImportJob, RowFault
from domain.members import Member
from handlers.call import Call
from handlers.services.audiences import change_list, refuse_without_list
from handlers.services.badges import ASSIGN, assign_badges, grant
from handlers.services.configuration import configuration_of
from handlers.services.imports.reading import (
    RecordsByName,
    do_all,
    find_members,
    key_of,
    member_of,
    read_new_rows,
    read_rows,
    values_of,
)
from handlers.services.imports.rows import ImportRow, NameOf, check_body
from persistence import audiences
from persistence.badges import TRACKINGS


def import_audience_members(call: Call, job: ImportJob, rows: Sequence[ImportRow], name_of: NameOf) -> list[FailedRow]:
    """Put the members of rows on lists, or take them off; the last row of a member counts.

    Returns the rows that failed.
    """
    failed: list[FailedRow] = []
    members_by_name = find_members(call, rows)
    audiences_by_name = audiences.find_all_named(
        call.db, call.organization.organization_id, values_of(rows, "audience")
    )
    names = RecordsByName(
        "audience", "audience", [(audience, (audience.audience_key, audience.name)) for audience in audiences_by_name]
    )

    def read(row: ImportRow) -> tuple[Audience, int, bool]:
        audience = names.of(row, name_of)
        try:
            refuse_without_list(audience)
        except NotAListAudience as refusal:
            raise RowFault(refusal.detail, name_of("audience")) from None
        return audience, member_of(row, members_by_name, name_of).member_id, row.values.get("remove", False)

    by_audience: dict[int, dict[int, bool]] = {}
    for audience, member_id, is_removed in read_rows(job, rows, failed, name_of, read):
        by_audience.setdefault(audience.audience_id, {})[member_id] = is_removed
    by_id = {audience.audience_id: audience for audience in audiences_by_name}
    for audience_id, members in sorted(by_audience.items()):
        added_ids = {member_id for member_id, is_removed in members.items() if not is_removed}
        change_list(call, by_id[audience_id], added_ids, members.keys() - added_ids)
    return failed


_CHECKED_FIELDS = ("amount", "customAttributes", "externalId", "systemUniqueKey")
_COLUMN_OF_POINTER = {f"/{name}": name for name in _CHECKED_FIELDS}


def import_badges(call: Call, job: ImportJob, rows: Sequence[ImportRow], name_of: NameOf) -> list[FailedRow]:
    """Assign the badges of rows; returns the rows that failed."""
    failed: list[FailedRow] = []
    members_by_name = find_members(call, rows)
    existing = configuration_of(call.db, call.organization).badges.values()
    names = RecordsByName("badge", "badge", [(badge, (badge.badge_key, badge.name)) for badge in existing])

    def read(row: ImportRow) -> BadgeGrant:
        return _grant(job, row, names.of(row, name_of), member_of(row, members_by_name, name_of), name_of)

    new_items = read_new_rows(call, job, rows, failed, name_of, read, TRACKINGS)
    do_all(new_items, failed, lambda grants: assign_badges([call] * len(grants), grants))
    return failed


def _grant(job: ImportJob, row: ImportRow, badge: Badge, member: Member, name_of: NameOf) -> BadgeGrant:
    """The assignment that a row asks for; raises RowFault."""
    values = row.values
    check_body(
        "BadgeGrant", {name: values[name] for name in _CHECKED_FIELDS if name in values}, _COLUMN_OF_POINTER, name_of
    )
    return grant(
        ASSIGN,
        member,
        badge,
        amount=values.get("amount", 1),
        system_unique_key=key_of(job, row),
        custom_attributes=values.get("customAttributes", {}),
        external_id=values.get("externalId"),
    )
