"""Tiers of members in loyalty programs: how points change them, and the points that the next one needs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from heapq import merge

from domain.fields import Internal
from domain.tier_policies import BY_BALANCE, TierPoints, TierPolicy

ZERO = Decimal(0)

Points = Callable[[int], TierPoints]
"""A function that returns a member's points of an account, by the account's id."""

MemberProgram = tuple[int, int]
"""A member's id and a loyalty program's id."""

FLOOR, FIXED = "floor", "fixed"
"""The tier holds: a floor is a tier that points may exceed, and a fixed tier stays whatever the points."""


@dataclass(frozen=True, slots=True)
class TierStep:
    """An active tier of a program: reached at `min_required_points`; among equals the greater `tier_order` wins."""

    loyalty_tier_id: int
    min_required_points: Decimal
    tier_order: int


@dataclass(frozen=True, slots=True)
class TierSchedule:
    """The tiers of one active program, by points in `ledger_account_id`, None if points decide no tier.

    `policy` determines which points count. `moves_members` is False if there is no tier besides the default one, so
    that members never change their tier.
    """

    loyalty_program_id: int
    loyalty_program_key: str
    ledger_account_id: int | None
    default_tier_id: int | None
    steps: tuple[TierStep, ...]
    moves_members: bool
    policy: TierPolicy = BY_BALANCE

    def moves_by_period(self) -> bool:
        """True if tiers depend on the points of a period, so that earlier earnings have to be read."""
        return self.moves_members and self.policy.has_period and self.ledger_account_id is not None

    def counted_points(self, points: Points, at: datetime) -> Decimal:
        """The member's points that count at a moment."""
        account_id = self.ledger_account_id
        return ZERO if account_id is None else self.policy.counted_points(points(account_id), at)

    def tier_of(self, points: Points, at: datetime) -> int | None:
        """The tier that a member reaches at a moment."""
        return self.tier_at(self.counted_points(points, at))

    def held_tier_of(self, points: Points, at: datetime, floor: TierFloor | None = None) -> HeldTier | None:
        """The member's tier by points, or the `floor` if that is higher; it expires when it changes merely by time.

        None means no tier. A floor that has ended, or whose tier is not active any more, does not count.
        """
        if floor is not None and (floor.has_ended(at) or self.step_of(floor.loyalty_tier_id) is None):
            floor = None
        id_by_points = self.tier_of(points, at)
        tier_id = self.higher_of(id_by_points, floor)
        if tier_id is None:
            return None
        changes = self._changes(points, at, floor)
        end = next((moment for moment, changed_id in changes if changed_id != tier_id), None)
        return HeldTier(tier_id, is_manual=tier_id != id_by_points, expires_at=end, floor=floor)

    def _changes(self, points: Points, at: datetime, floor: TierFloor | None) -> Iterator[tuple[datetime, int | None]]:
        """Later moments at which the tier may change because time passes, each with the tier from then on."""
        changes_by_points: Iterable[tuple[datetime, int | None]] = ()
        if self.ledger_account_id is not None and self.policy.has_period:
            changes = self.policy.changes(points(self.ledger_account_id), at)
            changes_by_points = ((moment, self.tier_at(counted_points)) for moment, counted_points in changes)
        end = None if floor is None else floor.expires_at
        changes_by_floor = () if end is None else ((end, self.tier_of(points, end)),)
        for moment, tier_id in merge(changes_by_points, changes_by_floor, key=lambda change: change[0]):
            has_ended = floor is None or floor.has_ended(moment)
            yield moment, tier_id if has_ended else self.higher_of(tier_id, floor)

    def higher_of(self, tier_id: int | None, floor: TierFloor | None) -> int | None:
        """The higher of a tier and a floor, by the points that they require."""
        if floor is None:
            return tier_id
        steps = [step for step in self.steps if step.loyalty_tier_id in (tier_id, floor.loyalty_tier_id)]
        return max(steps, key=_rank).loyalty_tier_id if steps else tier_id

    def step_of(self, tier_id: int) -> TierStep | None:
        """The step of a tier; None if the tier is inactive or of another program."""
        return next((step for step in self.steps if step.loyalty_tier_id == tier_id), None)

    def tier_at(self, points: Decimal) -> int | None:
        """The tier reached with `points`, or else the program's default one, or else None."""
        reached_steps = [step for step in self.steps if step.min_required_points <= points]
        if self.ledger_account_id is None or not reached_steps:
            return self.default_tier_id
        return max(reached_steps, key=_rank).loyalty_tier_id


def _rank(step: TierStep) -> tuple[Decimal, int, int]:
    """The sort key of tiers, the lowest first; of equal tiers the older one is higher."""
    return step.min_required_points, step.tier_order, -step.loyalty_tier_id


@dataclass(frozen=True, slots=True)
class TierFloor:
    """A tier below which a member does not fall until `expires_at`; None means for ever."""

    loyalty_tier_id: int
    expires_at: datetime | None = None

    def has_ended(self, at: datetime) -> bool:
        """True once only points decide the member's tier."""
        return self.expires_at is not None and self.expires_at <= at


@dataclass(frozen=True, slots=True)
class HeldTier:
    """A member's stored tier in a program; `is_manual` is true while a tier hold decides it, and not the points.

    Without a `floor` the hold is fixed: the tier stays until `expires_at`, regardless of points. At `expires_at` the
    tier is to be evaluated again; a tier by points has an `expires_at` if it will change without an event.
    """

    loyalty_tier_id: int
    is_manual: bool = False
    expires_at: datetime | None = None
    floor: TierFloor | None = None

    def has_lapsed(self, at: datetime) -> bool:
        """True once the tier must be evaluated again."""
        return self.expires_at is not None and self.expires_at <= at

    @property
    def is_fixed(self) -> bool:
        """True for a tier that was set regardless of points."""
        return self.is_manual and self.floor is None

    def is_fixed_at(self, at: datetime) -> bool:
        """True while the tier stays, regardless of points."""
        return self.is_fixed and not self.has_lapsed(at)

    def hold(self, at: datetime) -> str | None:
        """The tier hold at a moment; None if the tier only depends on the points."""
        if self.floor is not None:
            return None if self.floor.has_ended(at) else FLOOR
        return FIXED if self.is_fixed_at(at) else None


@dataclass(frozen=True, slots=True)
class MemberTier:
    """The stored tier of a member in one program, as a `HeldTier`."""

    organization_id: int
    member_id: int
    loyalty_program_id: int
    loyalty_tier_id: int
    is_manual: bool
    expires_at: datetime | None
    created_at: datetime
    floor_tier_id: Internal[int | None] = None
    floor_expires_at: Internal[datetime | None] = None

    @property
    def held_tier(self) -> HeldTier:
        """The tier with its hold."""
        floor = None if self.floor_tier_id is None else TierFloor(self.floor_tier_id, self.floor_expires_at)
        return HeldTier(self.loyalty_tier_id, self.is_manual, self.expires_at, floor)


@dataclass(frozen=True, slots=True)
class TierHold:
    """A tier that a member is to have until `expires_at` or for good: at least (a floor), or regardless of points."""

    loyalty_tier_id: int
    expires_at: datetime | None = None
    kind: str = FIXED

    def held_tier(self, schedule: TierSchedule | None, points: Points, at: datetime) -> HeldTier | None:
        """The tier of a member with this hold; None if the hold has ended and points give no tier.

        `schedule` is None if the program is inactive: then points do not count.
        """
        if self.kind == FIXED:
            return HeldTier(self.loyalty_tier_id, is_manual=True, expires_at=self.expires_at)
        floor = TierFloor(self.loyalty_tier_id, self.expires_at)
        if schedule is None:
            return HeldTier(self.loyalty_tier_id, is_manual=True, expires_at=self.expires_at, floor=floor)
        return schedule.held_tier_of(points, at, floor)


@dataclass(frozen=True, slots=True)
class TierMove:
    """A member's change of tier in a program, from `previous` to `tier`; None means no tier."""

    member_id: int
    schedule: TierSchedule
    previous: HeldTier | None
    tier: HeldTier | None

    @property
    def tier_id_before(self) -> int | None:
        """The id of the previous tier; None for none."""
        return None if self.previous is None else self.previous.loyalty_tier_id

    @property
    def tier_id_after(self) -> int | None:
        """The id of the new tier; None for none."""
        return None if self.tier is None else self.tier.loyalty_tier_id


class TierAssignments:
    """The tiers of the members of one unit of work at the moment `at`, and the changes of these tiers."""

    def __init__(
        self, tier_schedules: Iterable[TierSchedule], tiers: Mapping[MemberProgram, HeldTier], at: datetime
    ) -> None:
        self._schedules = {schedule.loyalty_program_id: schedule for schedule in tier_schedules}
        self._held_tiers = dict(tiers)
        self._programs = sorted({*self._schedules, *[program_id for _, program_id in tiers]})
        self.at = at
        self.changed_tiers: dict[MemberProgram, HeldTier | None] = {}

    def stored_tier(self, member_program: MemberProgram) -> HeldTier | None:
        """The member's stored tier in a program, including changes by this unit of work."""
        return self._held_tiers.get(member_program)

    def put(self, member_program: MemberProgram, tier: HeldTier | None) -> None:
        """Assign a member to a tier, or to none, regardless of points."""
        self.changed_tiers[member_program] = tier
        if tier is None:
            self._held_tiers.pop(member_program, None)
        else:
            self._held_tiers[member_program] = tier

    def tier_ids(self, member_id: int, points: Points) -> list[int]:
        """The ids of the tiers that the member has now."""
        current_ids = [
            self.present_tier_id(program_id, tier, points)
            for program_id in self._programs
            if (tier := self._held_tiers.get((member_id, program_id))) is not None
        ]
        return [tier_id for tier_id in current_ids if tier_id is not None]

    def present_tier_id(self, program_id: int, tier: HeldTier, points: Points) -> int | None:
        """The id of `present_tier`; None for no tier."""
        present_tier = self.present_tier(program_id, tier, points)
        return None if present_tier is None else present_tier.loyalty_tier_id

    def present_tier(self, program_id: int, tier: HeldTier, points: Points) -> HeldTier | None:
        """The tier that a member with the stored `tier` has now: evaluated again if the stored one has lapsed."""
        schedule = self._schedules.get(program_id)
        if not tier.has_lapsed(self.at):
            return tier
        # Tiers of an inactive program do not change, even if they have lapsed.
        if schedule is None:
            return HeldTier(tier.loyalty_tier_id)
        return schedule.held_tier_of(points, self.at, tier.floor)

    def move_by_points(self, member_id: int, ledger_account_ids: Collection[int], points: Points) -> list[TierMove]:
        """Move the member to the tiers that the points give, after changes of these accounts; return the moves.

        Only programs that count the points of one of these accounts are evaluated, and programs whose tier has lapsed.
        """
        moves = []
        for program_id, schedule in self._schedules.items():
            member_program = (member_id, program_id)
            tier = self._held_tiers.get(member_program)
            has_lapsed = tier is not None and tier.has_lapsed(self.at)
            if not has_lapsed and (not schedule.moves_members or schedule.ledger_account_id not in ledger_account_ids):
                continue
            if tier is not None and tier.is_fixed_at(self.at):
                continue
            new_tier = schedule.held_tier_of(points, self.at, None if tier is None else tier.floor)
            if has_lapsed or tier != new_tier:
                self.put(member_program, new_tier)
            move = TierMove(member_id, schedule, tier, new_tier)
            if move.tier_id_before != move.tier_id_after:
                moves.append(move)
        return moves


@dataclass(frozen=True, slots=True)
class ConfiguredTier:
    """A tier of the configuration; effects name it by its key and the key of its program."""

    loyalty_tier_id: int
    loyalty_tier_key: str
    loyalty_program_id: int
    loyalty_program_key: str
    name: str
    active: bool


@dataclass(frozen=True, slots=True)
class NextTier:
    """The tier above the present one, and the points that the member lacks for it."""

    loyalty_tier_id: int
    loyalty_tier_key: str
    name: str
    missing_points: Decimal


@dataclass(frozen=True, slots=True)
class TierStatus:
    """A member's tier status in a program; `points` are the points that count now.

    `tier_hold` is the hold of a set tier, and `is_manual` is true while the hold, not the points, decides the tier.
    `points_to_keep` will be missing at `expires_at` to keep the tier, and `projected_tier` follows it, if nothing is
    earned until then; both are None for a tier that does not end.
    """

    loyalty_program_id: int
    loyalty_program_key: str
    tier: ConfiguredTier | None
    is_manual: bool
    tier_hold: str | None
    since: datetime | None
    expires_at: datetime | None
    points: Decimal
    next_tier: NextTier | None
    points_to_keep: Decimal | None
    projected_tier: ConfiguredTier | None


def tier_status(
    schedule: TierSchedule,
    tiers: Mapping[int, ConfiguredTier],
    member_tier: MemberTier | None,
    points: Points,
    at: datetime,
) -> TierStatus:
    """The tier status of a member who has this tier, None for none; `tiers` are the organization's, by id."""
    counted_points = schedule.counted_points(points, at)
    required_points = _required_points(schedule, member_tier)
    reached_points = counted_points if required_points is None else max(required_points, counted_points)
    to_keep, projected = None, None
    held_tier = None if member_tier is None else member_tier.held_tier
    hold = None if held_tier is None else held_tier.hold(at)
    if held_tier is not None and held_tier.expires_at is not None:
        points_at_end = schedule.counted_points(points, held_tier.expires_at)
        to_keep = None if required_points is None else max(ZERO, required_points - points_at_end)
        tier_at_end = schedule.held_tier_of(points, held_tier.expires_at, held_tier.floor)
        projected = None if tier_at_end is None else tiers.get(tier_at_end.loyalty_tier_id)
    return TierStatus(
        loyalty_program_id=schedule.loyalty_program_id,
        loyalty_program_key=schedule.loyalty_program_key,
        tier=None if member_tier is None else tiers.get(member_tier.loyalty_tier_id),
        is_manual=held_tier is not None and hold is not None and _is_held(schedule, held_tier, counted_points),
        tier_hold=hold,
        since=None if member_tier is None else member_tier.created_at,
        expires_at=None if held_tier is None else held_tier.expires_at,
        points=counted_points,
        next_tier=_next_tier(schedule, tiers, counted_points, reached_points),
        points_to_keep=to_keep,
        projected_tier=projected,
    )


def _is_held(schedule: TierSchedule, tier: HeldTier, counted_points: Decimal) -> bool:
    """True if the tier hold decides the tier, and not the points.

    A floor no longer decides once the points suffice for it, which can happen without a movement of points.
    """
    return tier.is_fixed or tier.loyalty_tier_id != schedule.tier_at(counted_points)


def _required_points(schedule: TierSchedule, tier: MemberTier | None) -> Decimal | None:
    """The points that the member's tier requires; None if it does not depend on points."""
    step = None if tier is None else schedule.step_of(tier.loyalty_tier_id)
    return None if step is None else step.min_required_points


def _next_tier(
    schedule: TierSchedule, tiers: Mapping[int, ConfiguredTier], counted_points: Decimal, reached_points: Decimal
) -> NextTier | None:
    """The first tier that requires more than `reached_points`, with the points that `counted_points` lack; or None.

    `reached_points` are the counted points, or the points that the member's tier requires if those are more.
    """
    requirements = [step.min_required_points for step in schedule.steps if step.min_required_points > reached_points]
    required_points = min(requirements, default=None)
    if schedule.ledger_account_id is None or required_points is None:
        return None
    next_tier_id = schedule.tier_at(required_points)
    tier = None if next_tier_id is None else tiers.get(next_tier_id)
    if tier is None:
        return None
    return NextTier(tier.loyalty_tier_id, tier.loyalty_tier_key, tier.name, required_points - counted_points)
