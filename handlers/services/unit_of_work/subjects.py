"""The participants of one unit of work: its state of each subject while it is open."""

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
    """All changes of a unit of work except events and orders: points, limits, tiers, and each other subject.

    `executors` execute the effects that are not about points, by effect id.
    """

    scope: UnitScope
    ledger: LedgerSession
    counters: Counters
    tier_assignments: TierAssignments
    tiers: TierWork
    badges: BadgeWork
    missions: MissionWork
    coupons: CouponWork
    referrals: ReferralWork
    outbox: OutboxWork
    executors: Mapping[str, Executor]

    @property
    def subjects(self) -> tuple[Participant, ...]:
        """The participants in the order of flushing and reversing."""
        return self.tiers, self.badges, self.coupons, self.missions, self.referrals, self.outbox

    def variables(self, member_id: int) -> Mapping[str, Any]:
        """The variables of expressions that hold the member's badges and missions."""
        return {"badges": self.badges.variables(member_id), "missions": self.missions.variables(member_id)}

    def tier_ids(self, member_id: int, wallet_id: int) -> list[int]:
        """The tiers that the member has at this point of the unit."""
        return self.tier_assignments.tier_ids(member_id, self.scope.tier_points.of(wallet_id))

    def take_derived(self) -> list[DerivedEvent]:
        """The derived events of all subjects, each once."""
        return [derived for subject in self.subjects for derived in subject.take_derived()]

    def flush(self) -> None:
        """Store the changes of each subject; the unit flushes points, limits and tiers."""
        for subject in self.subjects:
            subject.flush()


def open_participants(scope: UnitScope, counters: Counters) -> Participants:
    """Open every subject, in the order of `persistence.locks`."""
    badges = BadgeWork.open(scope)
    coupons = CouponWork.open(scope, badges.variables)
    tiers, outbox = TierWork(scope), OutboxWork(scope)
    missions = MissionWork.open(scope, badges, coupons)
    return Participants(
        scope,
        scope.ledger,
        counters,
        scope.tier_assignments,
        tiers=tiers,
        badges=badges,
        coupons=coupons,
        missions=missions,
        referrals=ReferralWork.open(scope, coupons),
        outbox=outbox,
        executors={
            **tiers.executors,
            **badges.executors,
            **coupons.executors,
            **missions.executors,
            **outbox.executors,
        },
    )
