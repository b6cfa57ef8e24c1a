"""Imports of the lists of audiences: any number of rows by a few statements for each audience."""

from collections.abc import Sequence

from domain.audiences import Audience, NotAListAudience
from domain.imports.records import FailedRow, ImportJob, RowFault
from handlers.call import Call
from handlers.services.audiences import change_list, refuse_without_list
from handlers.services.imports.checks import NameOf
from handlers.services.imports.reading import Names, find_members, member_of, read_rows, values_of
from handlers.services.imports.rows import ImportRow
from persistence import audiences


def import_audience_members(call: Call, job: ImportJob, rows: Sequence[ImportRow], name_of: NameOf) -> list[FailedRow]:
    """Put the members of rows on lists, or take them off; the last row of a member counts.

    Returns the rows that failed.
    """
    failed: list[FailedRow] = []
    known = find_members(call, rows)
    named = audiences.find_all_named(call.db, call.organization.organization_id, values_of(rows, "audience"))
    names = Names("audience", "audience", [(audience.audience_key, audience.name, audience) for audience in named])

    def read(row: ImportRow) -> tuple[Audience, int, bool]:
        audience = names.of(row, name_of)
        try:
            refuse_without_list(audience)
        except NotAListAudience as refusal:
            raise RowFault(refusal.detail, name_of("audience")) from None
        return audience, member_of(row, known, name_of).member_id, row.values.get("remove", False)

    by_audience: dict[int, dict[int, bool]] = {}
    for audience, member_id, is_removed in read_rows(job, rows, failed, name_of, read):
        by_audience.setdefault(audience.audience_id, {})[member_id] = is_removed
    by_id = {audience.audience_id: audience for audience in named}
    for audience_id, members in sorted(by_audience.items()):
        added = {member_id for member_id, is_removed in members.items() if not is_removed}
        change_list(call, by_id[audience_id], added, members.keys() - added)
    return failed
