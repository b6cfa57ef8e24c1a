"""Imports of the progress of members in missions: any number of rows by a few statements."""

from collections.abc import Sequence
from dataclasses import dataclass

from domain.imports.records import CREATE, FailedRow, ImportJob, RowFault
from domain.members import Member
from domain.missions.progress import MOST_ACHIEVEMENTS, Progress
from domain.missions.records import Mission
from domain.missions.state import MissionProgressState, ProgressCause
from handlers.call import Call
from handlers.services.imports.reading import RecordsByName, member_of, read_rows, values_of
from handlers.services.imports.rows import ImportRow, NameOf
from handlers.services.unit_of_work.unit import UnitOfWork
from persistence import missions


@dataclass(frozen=True, slots=True)
class _ProgressRow:
    """A row that is well formed: the progress of a member in a mission."""

    row: ImportRow
    member: Member
    mission: Mission
    progress: Progress


def import_mission_progress(call: Call, job: ImportJob, rows: Sequence[ImportRow], name_of: NameOf) -> list[FailedRow]:
    """Set the progress of members in missions; returns the rows that failed.

    Nothing is paid or reported, even by an import that notifies campaigns of its rows.
    """
    failed: list[FailedRow] = []
    organization_id = call.organization.organization_id
    locked = UnitOfWork(call).lock(values_of(rows, "loyaltyMemberId"))
    members_by_name = {
        name: member for name, member in locked.items() if isinstance(name, str) and member.erased_at is None
    }
    missions_by_name = missions.find_all_named(call.db, organization_id, values_of(rows, "mission"))
    names = RecordsByName(
        "mission",
        "mission",
        [(mission, (mission.mission_key, mission.code, mission.name)) for mission in missions_by_name],
    )

    def read(row: ImportRow) -> _ProgressRow:
        member, mission = member_of(row, members_by_name, name_of), names.of(row, name_of)
        return _ProgressRow(row, member, mission, _progress(row, mission, name_of))

    items = read_rows(job, rows, failed, name_of, read)
    member_ids = {progress_row.member.member_id for progress_row in items}
    mission_ids = {progress_row.mission.mission_id for progress_row in items}
    state = MissionProgressState(
        missions.progress_of_members(call.db, organization_id, member_ids, mission_ids) if items else {}, {}
    )
    for progress_row in items:
        member_id, mission = progress_row.member.member_id, progress_row.mission
        if job.mode == CREATE and state.progress(member_id, mission).has_begun:
            reason = f"The member has progress in the mission {mission.name}."
            failed.append(progress_row.row.failed(reason, name_of("mission")))
        else:
            state.replace(mission, progress_row.progress, ProgressCause(organization_id, member_id, call.now, call.now))
    missions.write(call.db, organization_id, state.drain(), call.now)
    return failed


def _progress(row: ImportRow, mission: Mission, name_of: NameOf) -> Progress:
    """The progress of a row; raises RowFault."""
    goal, values = mission.goal_count, row.values
    count, times_achieved = values.get("count", 0), values.get("timesAchieved", 0)
    if not 0 <= times_achieved <= MOST_ACHIEVEMENTS:
        column = name_of("timesAchieved")
        raise RowFault(f"{column} is {times_achieved}, not between 0 and {MOST_ACHIEVEMENTS}.", column)
    most = goal if times_achieved else goal - 1
    if not 0 <= count <= most:
        column = name_of("count")
        raise RowFault(f"{column} is {count}, not between 0 and {most}; the mission has the goal {goal}.", column)
    return Progress.from_counts(goal, count, times_achieved)
