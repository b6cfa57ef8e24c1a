"""Random journeys along the links of the administration document: campaigns, actions, members and events.

In any order of the operations, an event has exactly the effects of the actions that run at that moment.
"""

from __future__ import annotations

import uuid
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

import openapi
from tests.builders.campaigns import mint
from tests.builders.tracking import GENERIC, Shop, key, running
from tests.machines.effects import Effects


@cache
def operations() -> dict[str, tuple[str, str, Any]]:
    """The method, the path and the declaration of each operation, by operationId."""
    operations_by_id = {}
    for path, item in openapi.bundle("administration")["paths"].items():
        for method, operation in item.items():
            if isinstance(operation, dict) and "operationId" in operation:
                operations_by_id[operation["operationId"]] = (method.upper(), path, operation)
    return operations_by_id


def evaluate_link(expression: str, path: dict[str, Any], response: Any) -> Any:
    """The value of a runtime expression of a link (OpenAPI 3.0.3, 4.7.20.4) after a request and its response."""
    if expression.startswith("$request.path."):
        return path[expression.removeprefix("$request.path.")]
    for name in expression.removeprefix("$response.body#/").split("/"):
        response = response[name]
    return response


class Journey:
    """The current place of a caller: the last operation, the parameters of its path, and its response."""

    def __init__(self, surface: Any, operation_id: str, path: dict[str, Any], body: Any) -> None:
        method, template, self._declared = operations()[operation_id]
        self._surface, self._path = surface, path
        status = next(status for status in self._declared["responses"] if status.startswith("2"))
        url = template.removeprefix("/organizations/{organizationId}").format(**path)
        self.response = surface.request(method, url, body, expect=int(status)).json
        self._links = self._declared["responses"][status].get("links", {})

    def follow(self, operation_id: str, body: Any = None) -> Journey:
        """Call the operation to which the last response has a link."""
        link = next(candidate for candidate in self._links.values() if candidate["operationId"] == operation_id)
        path = {name: evaluate_link(value, self._path, self.response) for name, value in link["parameters"].items()}
        return Journey(self._surface, operation_id, path, body)


class Journeys(RuleBasedStateMachine):
    shop: Shop
    effects: Effects
    campaigns, members = Bundle("campaigns"), Bundle("members")

    def __init__(self) -> None:
        super().__init__()
        self.active: dict[int, bool] = {}
        self.actions: list[Journey] = []
        self.places: dict[int, tuple[int, int, int]] = {}
        self.amounts: dict[int, int] = {}
        self.balances: dict[str, int] = {}

    def begin(self, operation_id: str, body: Any) -> Journey:
        path = {"organizationId": self.shop.organization.id}
        return Journey(self.shop.administration, operation_id, path, body)

    @initialize(target=campaigns, amount=st.integers(1, 9))
    def create_active_campaign(self, amount):
        campaign = self.create_campaign(True)
        for priority in (2, 1):
            self.create_action(campaign, "running", amount, priority)
        return campaign

    @initialize(target=members)
    def create_first_member(self):
        return self.create_member()

    @rule(target=campaigns, active=st.booleans())
    def create_another_campaign(self, active):
        return self.create_campaign(active)

    def create_campaign(self, active):
        code = f"code-{uuid.uuid4()}"
        creation = self.begin("createCampaign", {"code": code, "name": "Campaign", "active": active})
        self.active[creation.response["campaign"]["campaignId"]] = active
        return creation, code

    @rule(campaign=campaigns)
    def update_campaign(self, campaign):
        creation, code = campaign
        active = not self.active[creation.response["campaign"]["campaignId"]]
        update = creation.follow("updateCampaign", {"code": code, "name": "Changed", "active": active})
        current = update.follow("getCampaign").response["campaign"]
        assert (current["active"], current["name"]) == (active, "Changed")
        self.effects["switch a campaign"] += 1
        self.active[current["campaignId"]] = active

    def note(self, action: Any, status: str, amount: int) -> None:
        """Remember the place and the amount of an action; an action that does not run gives 0."""
        place = (action["priority"], action["campaignId"], action["actionIndex"])
        self.places[action["actionId"]] = place
        self.amounts[action["actionId"]] = amount if status == "running" else 0

    @rule(
        campaign=campaigns,
        status=st.sampled_from(["running", "running", "draft", "disabled"]),
        amount=st.integers(1, 9),
        priority=st.integers(1, 3),
    )
    def create_another_action(self, campaign, status, amount, priority):
        self.create_action(campaign, status, amount, priority)

    def create_action(self, campaign, status, amount, priority):
        body = {**running(mint(amount)), "status": status, "priority": priority}
        campaign_creation, _code = campaign
        creation = campaign_creation.follow("createAction", body)
        self.note(creation.response["action"], status, amount)
        self.actions.append(creation)

    @rule(which=st.integers(0, 9), status=st.sampled_from(["running", "running", "disabled"]), amount=st.integers(1, 9))
    def update_action(self, which, status, amount):
        update = self.actions[which % len(self.actions)].follow(
            "updateAction", {**running(mint(amount)), "status": status}
        )
        amounts_before = dict(self.amounts)
        self.note(update.follow("getAction").response["action"], status, amount)
        self.effects["change an action"] += amounts_before != self.amounts

    @rule(target=members)
    def create_another_member(self):
        return self.create_member()

    def create_member(self):
        loyalty_member_id = f"member-{uuid.uuid4()}"
        creation = self.begin("createMember", {"loyaltyMemberId": loyalty_member_id})
        self.balances[loyalty_member_id] = sum(self.expected_amounts().values())
        return creation, loyalty_member_id

    def expected_amounts(self) -> dict[int, int]:
        """The points that each running action gives, in the order of evaluation."""
        running_now = [
            action_id for action_id, amount in self.amounts.items() if amount and self.active[self.places[action_id][1]]
        ]
        return {action_id: self.amounts[action_id] for action_id in sorted(running_now, key=self.places.__getitem__)}

    @rule(member=members)
    def track(self, member):
        creation, loyalty_member_id = member
        tracked_event = {
            "organizationId": self.shop.organization.id,
            "memberId": creation.response["loyalMember"]["memberId"],
            "eventType": GENERIC,
            "systemUniqueKey": key(),
        }
        effects = self.begin("trackEvent", tracked_event).response["effects"]
        assert {effect["status"] for effect in effects} <= {"executed"}
        amounts = {}
        for effect in effects:
            params = {param["id"]: param["value"] for param in effect["params"]}
            amounts[effect["actionId"]] = params["amount"]
        # Lists, so that the order is compared, too.
        assert list(amounts.items()) == list(self.expected_amounts().items())
        self.balances[loyalty_member_id] += sum(amounts.values())
        self.effects["earn"] += bool(amounts)
        self.effects["earn by several actions"] += len(amounts) > 1
        newest_event = creation.follow("listMemberEvents").response["results"][0]
        assert newest_event["systemUniqueKey"] == tracked_event["systemUniqueKey"]
        assert newest_event["status"] == "success"

    def teardown(self):
        """Check that each balance is the sum of the points of the member's effects."""
        for loyalty_member_id, balance in self.balances.items():
            assert (self.shop.balance(loyalty_member_id) if balance else 0) == balance


def run(api, **profile):
    """Run the machine, and check that each rule had an effect; `profile` are settings of Hypothesis."""
    effects = Effects()

    def new_machine():
        machine = Journeys()
        machine.shop, machine.effects = Shop(api.organization()), effects
        return machine

    checks = list(HealthCheck)
    run_state_machine_as_test(new_machine, settings=settings(database=None, suppress_health_check=checks, **profile))
    effects.check(("switch a campaign", "change an action", "earn", "earn by several actions"))


def test_random_journeys_have_the_effects_and_balances_of_the_model(api):
    # Hypothesis also draws constants of the loaded modules, so the rules that a run tries depend on the modules.
    run(api, max_examples=35, stateful_step_count=25, derandomize=True)


@pytest.mark.stress
def test_long_random_journeys_have_the_effects_and_balances_of_the_model(api):
    run(api, max_examples=100, stateful_step_count=50)
