"""Imports of badges that members have: each row is an assignment, and all of them are one unit of work."""

from collections.abc import Sequence

from domain.badges import Badge, BadgeGrant
from domain.imports.records import FailedRow, ImportJob
from domain.members import Member
from handlers.call import Call
from handlers.services.badges.assign import ASSIGN, assign_badges, grant
from handlers.services.configuration import configuration_of
from handlers.services.imports.checks import NameOf, check_body
from handlers.services.imports.reading import (
    Names,
    do_all,
    find_members,
    key_of,
    member_of,
    read_rows,
    unused,
)
from handlers.services.imports.rows import ImportRow
from persistence.badges import TRACKINGS

_OF_OPERATION = ("amount", "customAttributes", "externalId", "systemUniqueKey")
_FIELDS = {f"/{name}": name for name in _OF_OPERATION}


def import_badges(call: Call, job: ImportJob, rows: Sequence[ImportRow], name_of: NameOf) -> list[FailedRow]:
    """Assign the badges of rows; returns the rows that failed."""
    failed: list[FailedRow] = []
    known, organization = find_members(call, rows), call.organization
    existing = configuration_of(call.db, organization).badges.values()
    names = Names("badge", "badge", [(badge.badge_key, badge.name, badge) for badge in existing])

    def read(row: ImportRow) -> tuple[ImportRow, BadgeGrant]:
        return row, _grant(job, row, names.of(row, name_of), member_of(row, known, name_of), name_of)

    asked = read_rows(job, rows, failed, name_of, read)
    keys = [key_of(job, row) for row, _ in asked]
    used = TRACKINGS.find_all(call.db, organization.organization_id, system_unique_key=keys)
    left = unused(job, asked, (tracking.system_unique_key for tracking in used), failed, name_of)
    do_all(left, failed, lambda grants: assign_badges([call] * len(grants), grants))
    return failed


def _grant(job: ImportJob, row: ImportRow, badge: Badge, member: Member, name_of: NameOf) -> BadgeGrant:
    """The assignment that a row asks for; raises RowFault."""
    values = row.values
    check_body("BadgeGrant", {name: values[name] for name in _OF_OPERATION if name in values}, _FIELDS, name_of)
    return grant(
        ASSIGN,
        member,
        badge,
        amount=values.get("amount", 1),
        system_unique_key=key_of(job, row),
        custom_attributes=values.get("customAttributes", {}),
        external_id=values.get("externalId"),
    )
