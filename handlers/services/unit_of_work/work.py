"""All the desks of one unit of work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from domain.campaigns.facts import Executor
from domain.campaigns.limits import Counters
from domain.ledger.session import LedgerSession
from domain.tiers import TierAssignments
from handlers.services.unit_of_work.derived_events import DerivedEvent
from handlers.services.unit_of_work.participants.badges import BadgeWork
from handlers.services.unit_of_work.participants.coupons import CouponWork
from handlers.services.unit_of_work.participants.missions import MissionWork
from handlers.services.unit_of_work.participants.outbox import OutboxWork
from handlers.services.unit_of_work.participants.referrals import ReferralWork
from handlers.services.unit_of_work.participants.tiers import TierWork
from handlers.services.unit_of_work.scope import Participant, UnitScope


@dataclass(frozen=True, slots=True)
class Participants:
    """What a unit of work changes, beside orders: points, limits, tiers, and the desk of each other subject."""

    scope: UnitScope
    ledger: LedgerSession
    counters: Counters
    tier_assignments: TierAssignments
    tiers: TierWork
    badges: BadgeWork
    missions: MissionWork
    coupons: CouponWork
    referrals: ReferralWork
    notices: OutboxWork

    @property
    def subjects(self) -> tuple[Participant, ...]:
        """The desks in the order in which they are written, and undone."""
        return self.tiers, self.badges, self.coupons, self.missions, self.referrals, self.notices

    @property
    def executors(self) -> Mapping[str, Executor]:
        """What carries out effects that are not about points, by effect id."""
        return {
            **self.tiers.executors,
            **self.badges.executors,
            **self.coupons.executors,
            **self.missions.executors,
            **self.notices.executors,
        }

    def variables(self, member_id: int) -> Mapping[str, Any]:
        """What expressions see of the member's badges and missions."""
        return {"badges": self.badges.variables(member_id), "missions": self.missions.variables(member_id)}

    def take_derived(self) -> list[DerivedEvent]:
        """What the desks have to report since the last look."""
        return [own for participant in self.subjects for own in participant.take_derived()]

    def write(self) -> None:
        """Store what has changed at the desks; points, limits and tiers are written by whoever opened them."""
        for participant in self.subjects:
            participant.write()


def open_participants(scope: UnitScope, counters: Counters) -> Participants:
    """Open the desk of every subject, in the order of `persistence.locks`."""
    badges = BadgeWork.open(scope)
    coupons = CouponWork.open(scope, badges.variables)
    return Participants(
        scope,
        scope.ledger,
        counters,
        scope.tier_assignments,
        tiers=TierWork(scope),
        badges=badges,
        coupons=coupons,
        missions=MissionWork.open(scope, badges, coupons),
        referrals=ReferralWork.open(scope, coupons),
        notices=OutboxWork(scope),
    )
