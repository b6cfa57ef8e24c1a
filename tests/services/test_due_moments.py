"""Events about points that were due earlier: they count in the periods of their moments, whenever they are reported."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from handlers.services.ledger.expire import expire_next
from persistence import organizations, transactions
from tests.builders.campaigns import mint
from tests.builders.tracking import Shop, running

AVAILABLE = "points-available"
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@dataclass(frozen=True)
class Waiting:
    """A shop whose members get points that wait until moments of one day in the future."""

    shop: Shop
    noon: datetime
    stars_id: int
    stars_key: str

    def give(self, member: str, after_noon: timedelta) -> None:
        """Give a member 5 points that are available at a moment of the day."""
        moment = (self.noon + after_noon).isoformat().replace("+00:00", "Z")
        self.shop.give(member, 5, availableAt=moment)

    def run_worker(self, after_noon: timedelta) -> None:
        """Run a step of the worker as at a moment."""
        find = partial(organizations.find, organization_id=self.shop.organization.id)
        moment = self.noon + after_noon
        transactions.run(self.shop.engine, lambda db: expire_next(db, find(db), after=0, now=moment))

    @property
    def stars(self) -> int:
        """All stars, with which points that become available are rewarded."""
        [(stars,)] = self.shop.rows(
            "ledger_balances", f"sum(current_balance) FILTER (WHERE ledger_account_id = {self.stars_id})"
        )
        return int(stars)


@pytest.fixture
def waiting(api):
    shop = Shop(api.organization())
    noon = (datetime.now(UTC) + 3 * DAY).replace(hour=12, minute=0, second=0, microsecond=0)
    account = shop.account()
    return Waiting(shop, noon, account["ledgerAccountId"], account["ledgerAccountKey"])


def reward(waiting, **settings):
    """Create a campaign that gives 10 stars for points that become available."""
    effect = mint(10, ledgerAccountKey=waiting.stars_key)
    waiting.shop.campaign(running(effect), eventType=AVAILABLE, **settings)


def let_points_become_available(waiting, members, reported_after):
    """Let points of two members become available at noon and two hours later; the worker reports the last ones late."""
    first, second = members
    waiting.give(first, 0 * HOUR)
    waiting.give(second, 2 * HOUR)
    waiting.run_worker(HOUR)
    assert waiting.stars == 10
    waiting.run_worker(reported_after)


@pytest.mark.parametrize("scope", ["member", "campaign"])
def test_a_limit_of_a_day_holds_for_points_that_are_reported_on_the_next_day(waiting, scope):
    reward(waiting, limitRules=[{"scope": scope, "type": "points", "period": "daily", "limit": 10}])
    ana = waiting.shop.member()
    second = ana if scope == "member" else waiting.shop.member()
    let_points_become_available(waiting, (ana, second), DAY)
    assert waiting.stars == 10
    # The limit of the next day has its own counter.
    waiting.give(ana, DAY + HOUR)
    waiting.run_worker(2 * DAY)
    assert waiting.stars == 20


def test_a_cooldown_holds_for_points_that_are_reported_after_it(waiting):
    reward(waiting, cooldown="P1D")
    ana = waiting.shop.member()
    let_points_become_available(waiting, (ana, ana), 4 * DAY)
    assert waiting.stars == 10


def test_the_limit_of_a_period_of_a_mission_holds_for_points_that_are_reported_on_the_next_day(waiting):
    mission = {"name": "Points", "active": True, "eventType": AVAILABLE, "goalCount": 1, "maxRepetitions": 100}
    period = {"repetitionPeriod": "daily", "periodLimit": 1}
    points = {"pointsAccrual": 10, "ledgerAccountId": waiting.stars_id}
    waiting.shop.administration.post("/missions", {**mission, **period, **points})
    ana = waiting.shop.member()
    let_points_become_available(waiting, (ana, ana), DAY)
    assert waiting.stars == 10


def test_an_alert_of_a_budget_is_reported_once_for_points_that_are_reported_on_the_next_day(waiting):
    limit = {"scope": "campaign", "type": "points", "period": "daily", "limit": 40, "alertShares": [25]}
    reward(waiting, limitRules=[limit])
    trigger = {"triggerKey": "alerts", "name": "Alerts", "type": "WebHook"}
    settings = {"url": "https://example.com/alerts", "eventTypes": ["member-generic-event"]}
    waiting.shop.administration.post("/triggers", {**trigger, "settings": settings})
    ana = waiting.shop.member()
    let_points_become_available(waiting, (ana, ana), DAY)
    assert waiting.stars == 20
    assert [row[0] for row in waiting.shop.rows("trigger_deliveries", "payload ->> 'type'")] == [
        "campaign.limit-reached"
    ]
