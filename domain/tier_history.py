"""The tiers that members had at earlier moments, by the records of that time."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from domain.tiers import HeldTier

# How an organization evaluates late events: with the tiers of the event's date, or with the present ones.
EVENT_DATE, EVALUATION = "event-date", "evaluation"
# An event is late if it happened longer before its evaluation than this.
_LATE_AFTER = timedelta(hours=1)


def is_late(happened_at: datetime, evaluated_at: datetime) -> bool:
    """True for an event that happened so long before its evaluation that the member may have had another tier."""
    return evaluated_at - happened_at > _LATE_AFTER


@dataclass(frozen=True, slots=True)
class PastMemberTier:
    """A tier that a member had in a program from `began_at` until `ended_at`; it was to expire at `expires_at`."""

    organization_id: int
    past_member_tier_id: int
    member_id: int
    loyalty_program_id: int
    loyalty_tier_id: int
    began_at: datetime
    expires_at: datetime | None
    ended_at: datetime


@dataclass(frozen=True, slots=True)
class TierPeriod:
    """A period in which a member had a tier in a program; `ended_at` is None for the present period."""

    member_id: int
    loyalty_program_id: int
    held_tier: HeldTier
    began_at: datetime
    ended_at: datetime | None


class TierHistory:
    """The tiers that members had according to the records of the time: the tiers that their apps showed.

    `default_tiers` has the default tier of each active program.
    """

    def __init__(self, periods: Iterable[TierPeriod], default_tiers: Mapping[int, int | None]) -> None:
        self._default_tiers = default_tiers
        self._by_member: dict[int, dict[int, list[TierPeriod]]] = {}
        for period in sorted(periods, key=lambda period: period.began_at):
            programs = self._by_member.setdefault(period.member_id, {})
            programs.setdefault(period.loyalty_program_id, []).append(period)

    def tier_ids(self, member_id: int, at: datetime, evaluate: Callable[[int, HeldTier], int | None]) -> list[int]:
        """The ids of the member's tiers at a moment, in the order of the programs; before enrolment the default tiers.

        `evaluate` returns the present tier of a program whose stored one has lapsed.
        """
        programs = self._by_member.get(member_id, {})
        tiers = [self._tier_at(programs[program_id], at, evaluate) for program_id in sorted(programs)]
        return [tier_id for tier_id in tiers if tier_id is not None]

    def _tier_at(
        self, periods: list[TierPeriod], at: datetime, evaluate: Callable[[int, HeldTier], int | None]
    ) -> int | None:
        """The tier of one program at a moment: the default tier before the first period, None between periods.

        `evaluate` returns the tier if the stored one has lapsed in the present period.
        """
        past_periods = [period for period in periods if period.began_at <= at]
        if not past_periods:
            return self._default_tiers.get(periods[0].loyalty_program_id)
        period = past_periods[-1]
        if period.ended_at is None:
            if period.held_tier.has_lapsed(at):
                return evaluate(period.loyalty_program_id, period.held_tier)
            return period.held_tier.loyalty_tier_id
        if period.ended_at <= at:
            return None
        if not period.held_tier.has_lapsed(at):
            return period.held_tier.loyalty_tier_id
        # Between the end of a tier and its late evaluation, responses showed the tier that the evaluation gave later.
        next_periods = periods[len(past_periods) :]
        if not next_periods or next_periods[0].began_at != period.ended_at:
            return None
        return next_periods[0].held_tier.loyalty_tier_id
