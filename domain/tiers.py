"""Tiers of members in loyalty programs, and their changes with the members' points."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

from domain.fields import Internal, Personal
from domain.problems import Conflict
from domain.tier_policies import BY_BALANCE, TierPoints, TierPolicy

ZERO = Decimal(0)

Points = Callable[[int], TierPoints]
"""A member's points of accounts, by account id."""

MemberProgram = tuple[int, int]
"""A member's id and a loyalty program's id."""


@dataclass(frozen=True, slots=True)
class Step:
    """An active tier of a program: reached at `min_required_points`; among equals the greater `tier_order` wins."""

    loyalty_tier_id: int
    min_required_points: Decimal
    tier_order: int


@dataclass(frozen=True, slots=True)
class TierSchedule:
    """The tiers of one active program, by points in `ledger_account_id` (None for none).

    `policy` determines which points count. `moves` is False if there is no tier besides the default one: members never
    change their tier then.
    """

    loyalty_program_id: int
    loyalty_program_key: str
    ledger_account_id: int | None
    default_tier_id: int | None
    steps: tuple[Step, ...]
    moves: bool
    policy: TierPolicy = BY_BALANCE

    def counted(self, points: Points, at: datetime) -> Decimal:
        """The member's points that count at a moment."""
        return ZERO if self.ledger_account_id is None else self.policy.counted(points(self.ledger_account_id), at)

    def tier_of(self, points: Points, at: datetime) -> int | None:
        """The tier that a member reaches at a moment."""
        return self.tier_at(self.counted(points, at))

    def place_of(self, points: Points, at: datetime) -> HeldTier | None:
        """The member's tier by points, until it changes merely by time; None for no tier."""
        tier_id, ends = self.tier_of(points, at), self.ends_of(points, at)
        return None if tier_id is None else HeldTier(tier_id, expires_at=None if ends is None else ends[0])

    def ends_of(self, points: Points, at: datetime) -> tuple[datetime, Decimal] | None:
        """When the tier that a member reaches changes merely by time, and the points that count then."""
        if self.ledger_account_id is None or not self.policy.has_period:
            return None
        tier_id = self.tier_of(points, at)
        changes = self.policy.changes(points(self.ledger_account_id), at)
        return next((change for change in changes if self.tier_at(change[1]) != tier_id), None)

    def tier_at(self, points: Decimal) -> int | None:
        """The tier reached with `points`, or else the program's default one, or else None."""
        reached = [step for step in self.steps if step.min_required_points <= points]
        if self.ledger_account_id is None or not reached:
            return self.default_tier_id
        # Remaining ties are decided by age, so that the result does not depend on the order of the rows.
        best = max(reached, key=lambda step: (step.min_required_points, step.tier_order, -step.loyalty_tier_id))
        return best.loyalty_tier_id


@dataclass(frozen=True, slots=True)
class HeldTier:
    """A member's stored tier in a program; one that `is_manual` stays until `expires_at`, whatever the points.

    Then it is evaluated again. A tier by points of a period ends when so many points do not count any more.
    """

    loyalty_tier_id: int
    is_manual: bool = False
    expires_at: datetime | None = None

    def has_lapsed(self, at: datetime) -> bool:
        """True once the tier must be evaluated again."""
        return self.expires_at is not None and self.expires_at <= at

    def holds(self, at: datetime) -> bool:
        """True while the tier stays, whatever the points."""
        return self.is_manual and not self.has_lapsed(at)


@dataclass(frozen=True, slots=True)
class TierMove:
    """A member's change of tier in a program; None is no tier."""

    member_id: int
    schedule: TierSchedule
    before: int | None
    after: int | None
    expires_at: datetime | None = None


class TierAssignments:
    """Tiers of the members of one unit of work at the moment `at`, and changes of them."""

    def __init__(
        self, tier_schedules: Iterable[TierSchedule], held: Mapping[MemberProgram, HeldTier], at: datetime
    ) -> None:
        self._schedules = {schedule.loyalty_program_id: schedule for schedule in tier_schedules}
        self._held = dict(held)
        self._programs = sorted({*self._schedules, *(program_id for _, program_id in held)})
        self.at = at
        self.changed: dict[MemberProgram, HeldTier | None] = {}

    def held(self, member_program: MemberProgram) -> HeldTier | None:
        """The member's stored tier in a program, including changes by this unit of work."""
        return self._held.get(member_program)

    def put(self, member_program: MemberProgram, held: HeldTier | None) -> None:
        """Assign a member to a tier, or to none, whatever the points."""
        self.changed[member_program] = held
        if held is None:
            self._held.pop(member_program, None)
        else:
            self._held[member_program] = held

    def tier_ids(self, member_id: int, points: Points) -> list[int]:
        """The tiers that the member has now."""
        current_ids = [
            self.current(program_id, held, points)
            for program_id in self._programs
            if (held := self._held.get((member_id, program_id))) is not None
        ]
        return [tier_id for tier_id in current_ids if tier_id is not None]

    def current(self, program_id: int, held: HeldTier, points: Points) -> int | None:
        """The tier that a stored assignment means now: evaluated again if it has lapsed."""
        now = self.place_now(program_id, held, points)
        return None if now is None else now.loyalty_tier_id

    def place_now(self, program_id: int, held: HeldTier, points: Points) -> HeldTier | None:
        """A stored assignment as it is now: evaluated again if it has lapsed."""
        schedule = self._schedules.get(program_id)
        if not held.has_lapsed(self.at):
            return held
        # Tiers of an inactive program do not change.
        return HeldTier(held.loyalty_tier_id) if schedule is None else schedule.place_of(points, self.at)

    def settle(self, member_id: int, ledger_account_ids: Collection[int], points: Points) -> list[TierMove]:
        """Assign the member to the tiers by points after changes of these accounts; returns the moves."""
        moves = []
        for program_id, schedule in self._schedules.items():
            member_program = (member_id, program_id)
            held = self._held.get(member_program)
            has_lapsed = held is not None and held.has_lapsed(self.at)
            if not has_lapsed and (not schedule.moves or schedule.ledger_account_id not in ledger_account_ids):
                continue
            if held is not None and held.holds(self.at):
                continue
            before = None if held is None else held.loyalty_tier_id
            now = schedule.place_of(points, self.at)
            after = None if now is None else now.loyalty_tier_id
            if has_lapsed or held != now:
                self.put(member_program, now)
            if before != after:
                moves.append(TierMove(member_id, schedule, before, after, None if now is None else now.expires_at))
        return moves


@dataclass(frozen=True, slots=True)
class TierTracking:
    """A request or effect that sets a member's tier, or returns it to evaluation by points.

    `answered_tier_id` is the tier that resulted. A tier set by an event is stored with the one before it, and with the
    event that reversed it, if any.
    """

    organization_id: int
    member_tier_tracking_id: int
    member_id: int
    loyalty_program_id: int
    loyalty_tier_id: int | None
    answered_tier_id: int | None
    expires_at: datetime | None
    system_unique_key: str
    request_digest: Personal[Internal[bytes]]
    external_id: Personal[str | None]
    description: Personal[str | None]
    tags: Personal[tuple[str, ...]]
    loyalty_event_id: int | None
    previous_tier_id: int | None
    previous_is_manual: bool
    previous_expires_at: datetime | None
    reversal_loyalty_event_id: int | None
    created_at: datetime

    @property
    def member_program(self) -> MemberProgram:
        """The member and the program of the tier."""
        return self.member_id, self.loyalty_program_id

    @property
    def previous(self) -> HeldTier | None:
        """The stored tier before it was set."""
        if self.previous_tier_id is None:
            return None
        return HeldTier(self.previous_tier_id, self.previous_is_manual, self.previous_expires_at)

    def sets(self, held: HeldTier | None) -> bool:
        """True if the member's tier is still the one that this has set."""
        return held is not None and held == HeldTier(self.loyalty_tier_id or 0, True, self.expires_at)

    def after(self, previous: HeldTier | None) -> TierTracking:
        """The same tracking, set after the stored tier `previous`."""
        if previous is None:
            return replace(self, previous_tier_id=None, previous_is_manual=False, previous_expires_at=None)
        return replace(
            self,
            previous_tier_id=previous.loyalty_tier_id,
            previous_is_manual=previous.is_manual,
            previous_expires_at=previous.expires_at,
        )


@dataclass(frozen=True, slots=True)
class KnownTier:
    """A tier as named by effects: by its key and that of its program."""

    loyalty_tier_id: int
    loyalty_tier_key: str
    loyalty_program_id: int
    loyalty_program_key: str
    name: str
    active: bool


class TierLog:
    """Tiers set by events and requests, of the members and programs that one unit of work changes."""

    def __init__(self) -> None:
        self._trackings: dict[int, TierTracking] = {}
        self._new: list[int] = []
        self._changed: set[int] = set()

    def know(self, stored: Iterable[TierTracking]) -> None:
        """Register stored trackings: those that may be reversed, and all later ones of the same member and program."""
        for tracking in stored:
            self._trackings.setdefault(tracking.member_tier_tracking_id, tracking)

    def add(self, tracking: TierTracking) -> None:
        """Add a tier set by an event in this unit of work."""
        self._trackings[tracking.member_tier_tracking_id] = tracking
        self._new.append(tracking.member_tier_tracking_id)

    def standing(self, loyalty_event_id: int) -> list[TierTracking]:
        """The unreversed trackings of the event, newest first."""
        return [assignment for assignment in self._newest_first() if assignment.loyalty_event_id == loyalty_event_id]

    def reverse(self, member_tier_tracking_id: int, tier_assignments: TierAssignments, loyalty_event_id: int) -> bool:
        """Restore the tier before a tracking; False if it has been set or moved again since.

        The tracking set right after it then restores the tier before both, so that the order of reversals does not
        matter.
        """
        tracking = self._trackings[member_tier_tracking_id]
        later = [
            assignment
            for assignment in self._newest_first()
            if assignment.member_program == tracking.member_program
            and assignment.member_tier_tracking_id > member_tier_tracking_id
        ]
        is_current = not later and tracking.sets(tier_assignments.held(tracking.member_program))
        if is_current:
            tier_assignments.put(tracking.member_program, tracking.previous)
        elif later and later[-1].loyalty_event_id is not None and tracking.sets(later[-1].previous):
            self._change(later[-1].after(tracking.previous))
        self._change(replace(tracking, reversal_loyalty_event_id=loyalty_event_id))
        return is_current

    def drain(self) -> tuple[list[TierTracking], list[TierTracking]]:
        """New and changed trackings since the last call, which count as stored from now on."""
        new, changed = ([self._trackings[name] for name in names] for names in (self._new, sorted(self._changed)))
        self._new, self._changed = [], set()
        return new, changed

    def _newest_first(self) -> list[TierTracking]:
        names = sorted(self._trackings, reverse=True)
        return [self._trackings[name] for name in names if self._trackings[name].reversal_loyalty_event_id is None]

    def _change(self, tracking: TierTracking) -> None:
        name = tracking.member_tier_tracking_id
        self._trackings[name] = tracking
        if name not in self._new:
            self._changed.add(name)


class TierInactive(Conflict):
    """An inactive tier cannot be assigned, and cannot be the default one of a program."""

    slug = "tier-inactive"
    title = "The tier is not active"


def refuse_inactive_default(name: str, active: bool) -> None:
    """Raise TierInactive for an inactive tier that would become a program's default one."""
    if not active:
        raise TierInactive(f"The tier {name} is not active, and so cannot be the default tier of a loyalty program.")
