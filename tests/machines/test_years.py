"""A random year of a program on a test clock, compared with a model after each step, and with the same year again."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

import pytest

from tests.builders.campaigns import mint
from tests.builders.test_clocks import Clock
from tests.builders.tiers import TierSchedule
from tests.builders.tracking import ORDER_CREATED, WHOLE_DOLLARS, Shop, order, running
from tests.builders.verification import verify
from tests.machines.effects import MINIMUM, Effects
from tests.machines.year_model import BONUS, EFFECTS, MONTHS, START, TIERS, Member, Step, points_of, random_year

MEMBERS = ["ana", "ben", "cora", "dan", "eva", "finn", "gina", "hugo", "ines", "jon"]
EXPIRIES = """
SELECT m.loyalty_member_id, t.created_at, sum(t.amount)::integer FROM ledger_transactions t
JOIN members m ON m.organization_id = t.organization_id AND m.wallet_id = t.from_wallet_id
WHERE t.organization_id = %s AND t.is_expiry GROUP BY 1, 2
"""
# All events, movements of points and messages of a year, without ids.
ALL_ROWS = """
SELECT 'event', m.loyalty_member_id, e.event_type, e.created_at, NULL::numeric FROM events e
JOIN members m USING (organization_id, member_id) WHERE e.organization_id = %(organization_id)s
UNION ALL
SELECT 'points', coalesce(m.loyalty_member_id, ''), t.transaction_type::text || t.is_expiry, t.created_at, t.amount
FROM ledger_transactions t
LEFT JOIN members m ON m.organization_id = t.organization_id AND m.wallet_id IN (t.from_wallet_id, t.to_wallet_id)
WHERE t.organization_id = %(organization_id)s
UNION ALL
SELECT 'message', '', d.payload->>'type', d.created_at, NULL FROM trigger_deliveries d
WHERE d.organization_id = %(organization_id)s
ORDER BY 1, 2, 3, 4, 5
"""


@dataclass(frozen=True)
class Year:
    """An organization with the program of the model."""

    clock: Clock
    shop: Shop
    tiers: TierSchedule

    @classmethod
    def new(cls, api: Any) -> Year:
        """Set up the program."""
        clock = Clock.new(api, starts_at=START.isoformat())
        shop, defaults = Shop(clock.organization), clock.organization.defaults
        account = f"/ledgers/{defaults.ledger_id}/accounts/{defaults.ledger_account_id}"
        body = {"alias": "points", "name": "Points", "active": True, "decimals": 0, "formatString": None}
        more = {"isRevolving": False, "chainSyncEnabled": False, "expiresInMonths": MONTHS}
        shop.administration.put(account, {**body, **more})
        tiers = TierSchedule.new(shop, policy={"basis": "earned", "period": "calendar"}, **TIERS)
        shop.campaign(running(WHOLE_DOLLARS), eventType=ORDER_CREATED, code="euros")
        windows = [{"day": day, "from": "14:00", "to": "18:00"} for day in range(1, 8)]
        hours = {"dayOfWeekSchedule": {"schedule": windows}}
        shop.campaign(running(mint(BONUS)), eventType=ORDER_CREATED, code="happy-hour", **hours)
        shop.administration.post(
            "/triggers",
            {
                "triggerKey": "crm",
                "type": "WebHook",
                "name": "CRM",
                "settings": {"url": "https://crm.invalid", "eventTypes": ["member-tier-set"]},
            },
        )
        for name in MEMBERS:
            shop.member(loyalty_member_id=name)
        return cls(clock, shop, tiers)

    def do(self, step: Step) -> bool:
        """Buy or spend; False if the points do not suffice."""
        if step.bought:
            [result] = self.shop.integration.post(
                "/events/track", {"events": [order(step.member, step.bought)]}, expect=200
            )["results"]
            assert result["status"] == "success"
            return True
        path = f"/members/by-loyalty-member-id/{step.member}/burn"
        return self.shop.administration.request("POST", path, {"amount": step.spent}).status == 200

    def rows(self, statement: str, values: Any) -> list[Any]:
        with self.shop.engine.connect() as db:
            return [tuple(row) for row in db.exec_driver_sql(statement, values)]

    def state(self, member: str) -> tuple[int, str | None]:
        """The points and the tier of a member."""
        record = self.shop.integration.get(f"/members/{member}")["loyaltyMember"]
        return sum(balance["balance"] for balance in record["ledgerBalances"]), self.tiers.of_record(record)

    @property
    def remains(self) -> list[Any]:
        """All events, movements of points and messages of the year, without ids."""
        return self.rows(ALL_ROWS, {"organization_id": self.clock.organization.id})


def advance(year: Year, now: datetime, to: datetime, chance: random.Random | None) -> None:
    """Advance from `now` to a moment, in up to three parts if `chance` is given."""
    for _ in range(chance.randrange(3) if chance else 0):
        now += (to - now) * chance.random()
        year.clock.advance(now.isoformat())
    test_clock = year.clock.advance(to.isoformat())
    assert (datetime.fromisoformat(test_clock["now"]), test_clock["status"]) == (to, "ready")


def live(api: Any, steps: list[Step], chance: random.Random | None = None) -> Year:
    """Do all steps of a year; compare after each step each member whose state changes, and all members in the end."""
    year, model, effects = Year.new(api), {name: Member() for name in MEMBERS}, Effects()
    states: dict[str, tuple[int, str | None]] = dict.fromkeys(MEMBERS, (0, "Basic"))
    for before, step in pairwise([Step(START, MEMBERS[0]), *steps]):
        advance(year, before.at, step.at, chance)
        for member in model.values():
            member.pass_time(step.at)
        if step.bought:
            model[step.member].earn(points_of(step), step.at)
            effects.update(["earn", "bonus"] if points_of(step) > step.bought else ["earn"])
        is_successful = True if step.bought else model[step.member].spend(step.spent)
        effects["spend" if is_successful else "refuse"] += not step.bought
        assert year.do(step) is is_successful, step
        expected_states = {name: (member.balance, member.tier(step.at)) for name, member in model.items()}
        for name in MEMBERS:
            if name == step.member or expected_states[name] != states[name]:
                assert year.state(name) == expected_states[name], step
        movers = [name for name in MEMBERS if expected_states[name][1] != states[name][1]]
        effects.update("reach a tier" if expected_states[name][1] in TIERS else "lose a tier" for name in movers)
        states = expected_states
    assert {name: year.state(name) for name in MEMBERS} == states
    expired_amounts = {(name, at): amount for name, member in model.items() for at, amount in member.expired.items()}
    assert {(name, at): n for name, at, n in year.rows(EXPIRIES, (year.clock.organization.id,))} == expired_amounts
    effects["expire"] += len(expired_amounts)
    # Each year runs twice, so each run needs only half of the minimum.
    effects.check(EFFECTS, minimum=MINIMUM // 2)
    with year.shop.engine.connect() as db:
        assert verify(db, year.clock.organization.id) == []
    return year


@pytest.mark.parametrize("seed", [14])
def test_a_year_equals_the_model_if_the_clock_advances_at_once_or_in_parts(api, seed):
    steps = random_year(seed, MEMBERS, steps=80)
    year_at_once, year_in_parts = live(api, steps), live(api, steps, chance=random.Random(seed))
    assert year_at_once.remains == year_in_parts.remains
    kinds = {row[0] for row in year_at_once.remains}
    assert kinds == {"event", "points", "message"}


@pytest.mark.stress
@pytest.mark.parametrize("seed", range(2, 12))
def test_many_years_equal_the_model_if_the_clock_advances_at_once_or_in_parts(api, seed):
    steps = random_year(seed, MEMBERS, steps=150)
    assert live(api, steps).remains == live(api, steps, chance=random.Random(seed)).remains
