"""Tiers in imports of members: read from rows, compared to the points, and stored as events for the timelines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from domain.imports.records import RowFault
from domain.members import Member
from domain.tier_policies import TierPoints
from domain.tiers import FIXED, FLOOR, ConfiguredTier, HeldTier, Points, TierHold, TierSchedule
from handlers.call import Call
from handlers.services.configuration import configuration_of
from handlers.services.imports.reading import ImportStep
from handlers.services.imports.rows import ImportRow
from handlers.services.members.view import points_of
from handlers.services.unit_of_work.derived_events import DerivedEvent, tier_event
from handlers.services.unit_of_work.evaluation import evaluate_derived, store_derived
from handlers.services.unit_of_work.participants.tiers import without_points
from handlers.services.unit_of_work.requests import open_unit
from handlers.services.unit_of_work.unit import UnitOfWork
from persistence import member_tiers

_REASON = "import"


@dataclass(frozen=True, slots=True)
class TierRow:
    """The tier that a row names, and how the member gets it; `schedule` is None if the program is not active."""

    tier: ConfiguredTier
    hold: TierHold
    schedule: TierSchedule | None

    @property
    def program_id(self) -> int:
        """The id of the loyalty program of the tier."""
        return self.tier.loyalty_program_id

    def held_tier(self, points: Points, now: datetime) -> HeldTier | None:
        """The tier that a member with these points gets in the program; None if the member gets none."""
        return self.hold.held_tier(self.schedule, points, now)

    def tier_of_new_member(self, now: datetime) -> HeldTier | None:
        """The tier that a new member, who has no points yet, gets in the program; None for no tier."""
        return self.held_tier(lambda _: TierPoints(), now)


class Tiers:
    """Finds the tiers that rows name."""

    def __init__(self, step: ImportStep) -> None:
        self._step, call = step, step.call
        configuration = configuration_of(call.db, call.organization)
        self._schedules = {schedule.loyalty_program_id: schedule for schedule in configuration.tier_schedules}
        tiers = configuration.tiers.values()
        self._by_key = {tier.loyalty_tier_key: tier for tier in tiers}
        self._by_name: dict[str, list[ConfiguredTier]] = {}
        for tier in tiers:
            self._by_name.setdefault(tier.name, []).append(tier)
        self._default_program = call.organization.default_loyalty_program_id

    def of(self, row: ImportRow) -> TierRow | None:
        """The tier that a row names; None if it names no tier. Raises RowFault."""
        step, values = self._step, row.values
        expires_at = step.expiry_in(row, "tierExpiresAt")
        if "tier" not in values:
            for name in ("tierExpiresAt", "tierHold"):
                if name in values:
                    raise step.fault(name, "needs a tier.")
            return None
        tier = self._find_tier(values["tier"])
        if tier is None or not tier.active:
            state = "is no tier" if tier is None else "is a tier that is not active"
            raise RowFault(f"{values['tier'][:100]} {state}.", step.name_of("tier"))
        kind = values.get("tierHold", FLOOR)
        if kind not in (FLOOR, FIXED):
            raise step.fault("tierHold", f"is neither {FLOOR} nor {FIXED}.")
        hold = TierHold(tier.loyalty_tier_id, expires_at, kind)
        return TierRow(tier, hold, self._schedules.get(tier.loyalty_program_id))

    def _find_tier(self, name: str) -> ConfiguredTier | None:
        """The tier with this key or name; if several tiers have the name, the one of the default program.

        None if no tier has the key or name, or if several tiers have the name and all belong to other programs.
        """
        tier = self._by_key.get(name.lower())
        if tier is not None:
            return tier
        tiers_by_name = self._by_name.get(name, [])
        for tier in tiers_by_name:
            if tier.loyalty_program_id == self._default_program:
                return tier
        return tiers_by_name[0] if len(tiers_by_name) == 1 else None


def set_tiers(call: Call, tiers: Sequence[tuple[TierRow, Member]]) -> None:
    """Store and report the tiers that existing members have after the import.

    `tiers` has each member with the tier that the row names. The new tier also depends on the member's points.
    """
    if not tiers:
        return
    organization_id = call.organization.organization_id
    members = [member for _, member in tiers]
    points = points_of(call, configuration_of(call.db, call.organization), members)
    stored_tiers = member_tiers.find_of_members(call.db, organization_id, [member.member_id for member in members])
    changes = []
    for tier_row, member in tiers:
        before = {tier.loyalty_program_id: tier.loyalty_tier_id for tier in stored_tiers[member.member_id]}
        held_tier = tier_row.held_tier(points(member), call.now)
        if held_tier is not None:
            changes.append(_Change(tier_row, member.member_id, before.get(tier_row.program_id), held_tier))
    new_tiers = {(change.member_id, change.tier_row.program_id): change.held_tier for change in changes}
    member_tiers.move(call.db, organization_id, new_tiers, call.now)
    unit = UnitOfWork(call)
    unit.lock(member_ids={change.member_id for change in changes if change.is_reported})
    _report(unit, changes)


def report_tiers_of_new(unit: UnitOfWork, tiers: Mapping[str, tuple[TierRow, HeldTier]]) -> None:
    """Report the tiers of new members, who are locked in the unit.

    `tiers` has for each `loyaltyMemberId` the tier that its row names, and the tier that the member got by it.
    """
    if not tiers:
        return
    # The members had no tiers before but the default tier of the default program, with which they were enrolled.
    before = {
        schedule.loyalty_program_id: schedule.default_tier_id
        for schedule in unit.configuration.tier_schedules
        if schedule.loyalty_program_id == unit.organization.default_loyalty_program_id
    }
    changes = []
    for member in unit.members.values():
        if member.loyalty_member_id in tiers:
            tier_row, held_tier = tiers[member.loyalty_member_id]
            changes.append(_Change(tier_row, member.member_id, before.get(tier_row.program_id), held_tier))
    _report(unit, changes)


@dataclass(frozen=True, slots=True)
class _Change:
    """The tier that an import has given a member; `before_tier_id` is None if the member had none in the program."""

    tier_row: TierRow
    member_id: int
    before_tier_id: int | None
    held_tier: HeldTier

    @property
    def is_reported(self) -> bool:
        """True for a tier that was set whatever the points are, and for one that differs from the tier before."""
        return self.held_tier.is_manual or self.held_tier.loyalty_tier_id != self.before_tier_id

    def event(self, keys: Mapping[int, str]) -> DerivedEvent:
        """The event of the change; `keys` has the key of each tier by its id."""
        tier = self.tier_row.tier
        schedule = self.tier_row.schedule or without_points(tier.loyalty_program_id, tier.loyalty_program_key)
        return tier_event(self.member_id, schedule, keys, self.before_tier_id, self.held_tier)


def _report(unit: UnitOfWork, changes: Iterable[_Change]) -> None:
    """Report the changes to campaigns and triggers; a quiet import only stores their events, for the timelines."""
    reported_changes = [change for change in changes if change.is_reported]
    with open_unit(unit, _REASON):
        report = store_derived if unit.execution.is_quiet else evaluate_derived
        report(unit, [change.event(unit.configuration.tier_keys) for change in reported_changes], _REASON)
