"""Imports of the progress of members in missions, with a few statements for any number of rows."""

from collections.abc import Mapping
from dataclasses import dataclass

from domain.imports.records import CREATE
from domain.members import Member
from domain.missions.progress import MAX_ACHIEVEMENTS, Progress
from domain.missions.records import Mission
from domain.missions.state import MissionProgress, MissionProgressState, ProgressCause, ProgressKey
from handlers.services.imports.reading import ImportStep, RecordsByName
from handlers.services.imports.rows import ImportRow
from handlers.services.unit_of_work.unit import UnitOfWork
from persistence import missions


@dataclass(frozen=True, slots=True)
class _ProgressRow:
    """A well-formed row: the progress of a member in a mission."""

    row: ImportRow
    member: Member
    mission: Mission
    progress: Progress


def import_mission_progress(step: ImportStep) -> None:
    """Set the progress of members in missions.

    Pays no rewards and reports nothing, even if the import is not quiet.
    """
    call = step.call
    organization_id = call.organization.organization_id
    locked_members = UnitOfWork(call).lock(step.values_of("loyaltyMemberId"))
    # `lock` returns each member under both ids. Rows name the `loyaltyMemberId`, which is a text.
    members_by_name = {
        name: member for name, member in locked_members.items() if isinstance(name, str) and member.erased_at is None
    }
    named_missions = missions.find_all_named(call.db, organization_id, step.values_of("mission"))
    missions_by_name = RecordsByName(
        step,
        field_name="mission",
        kind="mission",
        records=[(mission, (mission.mission_key, mission.code, mission.name)) for mission in named_missions],
    )

    def read(row: ImportRow) -> _ProgressRow:
        member = step.member_of(row, members_by_name)
        mission = missions_by_name.find(row)
        return _ProgressRow(row, member, mission, _progress(step, row, mission))

    progress_rows = step.read(read)
    member_ids = {progress_row.member.member_id for progress_row in progress_rows}
    mission_ids = {progress_row.mission.mission_id for progress_row in progress_rows}
    stored_progress: Mapping[ProgressKey, MissionProgress] = {}
    if progress_rows:
        stored_progress = missions.find_progress_of_members(call.db, organization_id, member_ids, mission_ids)
    state = MissionProgressState(stored_progress, achievement_counts={})
    for progress_row in progress_rows:
        member_id, mission = progress_row.member.member_id, progress_row.mission
        if step.job.mode == CREATE and state.progress(member_id, mission).has_begun:
            step.fail(progress_row.row, f"The member has progress in the mission {mission.name}.", "mission")
        else:
            state.import_progress(
                mission, progress_row.progress, ProgressCause(organization_id, member_id, call.now, call.now)
            )
    missions.write(call.db, organization_id, state.take_changes(), call.now)


def _progress(step: ImportStep, row: ImportRow, mission: Mission) -> Progress:
    """The progress of a row; raises RowFault."""
    goal, values = mission.goal_count, row.values
    count = values.get("count", 0)
    times_achieved = values.get("timesAchieved", 0)
    if not 0 <= times_achieved <= MAX_ACHIEVEMENTS:
        raise step.fault("timesAchieved", f"is {times_achieved}, not between 0 and {MAX_ACHIEVEMENTS}.")
    # The counter stays at the goal after an achievement, until the next count.
    maximum = goal if times_achieved else goal - 1
    if not 0 <= count <= maximum:
        raise step.fault("count", f"is {count}, not between 0 and {maximum}; the mission has the goal {goal}.")
    return Progress.from_counts(goal, count, times_achieved)
