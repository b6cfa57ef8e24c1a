"""All the desks of one unit of work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from domain.campaigns.facts import Executor
from domain.campaigns.limits import Counters
from domain.ledger.session import Books
from domain.tiers import Standings
from handlers.services.unit_of_work.derived_events import OwnEvent
from handlers.services.unit_of_work.participants.badges import BadgeDesk
from handlers.services.unit_of_work.participants.coupons import CouponDesk
from handlers.services.unit_of_work.participants.missions import MissionDesk
from handlers.services.unit_of_work.participants.outbox import NoticeDesk
from handlers.services.unit_of_work.participants.referrals import ReferralDesk
from handlers.services.unit_of_work.participants.tiers import TierDesk
from handlers.services.unit_of_work.scope import Desk, Opening


@dataclass(frozen=True, slots=True)
class Desks:
    """What a unit of work changes, beside orders: points, limits, tiers, and the desk of each other subject."""

    opening: Opening
    books: Books
    counters: Counters
    standings: Standings
    tiers: TierDesk
    badges: BadgeDesk
    missions: MissionDesk
    coupons: CouponDesk
    referrals: ReferralDesk
    notices: NoticeDesk

    @property
    def subjects(self) -> tuple[Desk, ...]:
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

    def follow(self) -> list[OwnEvent]:
        """What the desks have to report since the last look."""
        return [own for desk in self.subjects for own in desk.follow()]

    def write(self) -> None:
        """Store what has changed at the desks; points, limits and tiers are written by whoever opened them."""
        for desk in self.subjects:
            desk.write()


def open_desks(opening: Opening, counters: Counters) -> Desks:
    """Open the desk of every subject, in the order of `persistence.locks`."""
    badges = BadgeDesk.open(opening)
    coupons = CouponDesk.open(opening, badges.variables)
    return Desks(
        opening,
        opening.books,
        counters,
        opening.standings,
        tiers=TierDesk(opening),
        badges=badges,
        coupons=coupons,
        missions=MissionDesk.open(opening, badges, coupons),
        referrals=ReferralDesk.open(opening, coupons),
        notices=NoticeDesk(opening),
    )
