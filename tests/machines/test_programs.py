"""One history, sent in every way: events one by one, in batches, queued, imported, or many at the same time.

Every way leads to the state of the model, with and without periodic jobs, and undoing everything leaves nothing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from handlers.server.jobs import evaluate_tiers, expire_points
from persistence.engine import to_json
from tests.builders import queue
from tests.builders.api import BASE, Api
from tests.builders.imports import Imports
from tests.builders.tiers import TierSchedule
from tests.builders.tracking import GENERIC, ORDER_CREATED, Shop, running
from tests.machines import program_model
from tests.machines.effects import MINIMUM
from tests.machines.program_model import EFFECTS, Histories, Operation, ProgramModel

# The maximum of events that are sent in one batch, queue, file or moment.
AT_ONCE = 30

STATE = """
SELECT m.loyalty_member_id AS name,
    (SELECT coalesce(sum(b.current_balance), 0)::integer FROM ledger_balances b
        WHERE (b.organization_id, b.wallet_id) = (m.organization_id, m.wallet_id)) AS balance,
    (SELECT coalesce(sum(b.assigned_balance), 0)::integer FROM member_badges b
        WHERE (b.organization_id, b.member_id) = (m.organization_id, m.member_id)) AS badges,
    (SELECT coalesce(sum(c.amount_assigned), 0)::integer FROM member_coupons c
        WHERE (c.organization_id, c.member_id) = (m.organization_id, m.member_id)) AS coupons,
    (SELECT coalesce(sum(c.used), 0)::integer FROM campaign_limit_counters c
        WHERE (c.organization_id, c.member_id) = (m.organization_id, m.member_id)) AS bonuses
FROM members m WHERE m.organization_id = %s
"""
EVENT_KEY = "SELECT loyalty_event_key::text FROM events WHERE organization_id = %s AND system_unique_key = %s"
VALUE = "SELECT coalesce(sum(remaining_value), 0) FROM coupon_lots WHERE organization_id = %s"
USED = """
SELECT coalesce(sum(used) FILTER (WHERE type = 'points'), 0), coalesce(sum(used) FILTER (WHERE type = 'coupons'), 0)
FROM campaign_limit_counters WHERE organization_id = %s AND member_id = 0
"""
EVENTS = """
SELECT system_unique_key, status FROM events
WHERE organization_id = %s AND event_type = ANY (%s) ORDER BY 1
"""


@dataclass(frozen=True)
class Program:
    """An organization with the program of the model, and the same members by name in each of them."""

    shop: Shop
    tiers: TierSchedule
    campaign_ids: Mapping[str, int]
    mission_id: int

    @classmethod
    def new(cls, api: Api, members: Sequence[str]) -> Program:
        """Set up the program."""
        shop = Shop(api.organization())
        tiers = TierSchedule.new(shop, **program_model.TIERS)
        badge = shop.integration.post("/badges", {"name": "Star", "active": True, "maxAmount": program_model.BADGES})
        book = {
            "name": "Free",
            "type": "codeless",
            "isValueCoupon": True,
            "faceValue": 12,
            "publishingStatus": "published",
            "maxAssignedPerMember": program_model.COUPONS,
        }
        book_key = shop.integration.post("/coupon-books", book)["couponBook"]["couponBookKey"]
        campaigns = program_model.campaigns(tiers.key("Gold"), badge["badge"]["badgeKey"], book_key)
        campaign_ids = {
            body["code"]: shop.campaign(running(effect, rule=rule), **body)["campaignId"]
            for body, rule, effect in campaigns
        }
        mission = {
            "name": "Visits",
            "code": "visits",
            "type": "visits",
            "eventType": ORDER_CREATED,
            "goalCount": program_model.GOAL,
            "maxRepetitions": program_model.TIMES,
            "pointsAccrual": program_model.REWARD,
            "loyaltyProgramId": shop.organization.defaults.loyalty_program_id,
        }
        mission_id = shop.administration.post("/missions", mission)["mission"]["missionId"]
        for name in members:
            shop.member(loyalty_member_id=name)
        return cls(shop, tiers, campaign_ids, mission_id)

    def event_key(self, system_unique_key: str) -> str:
        """The loyaltyEventKey of a tracked event."""
        return str(self._rows(EVENT_KEY, system_unique_key)[0][0])

    def state(self) -> dict[str, dict[str, Any]]:
        """The stored state of each member, by name."""
        state = {row.name: row._asdict() for row in self._rows(STATE)}
        for name, columns in state.items():
            columns["tier"] = self.tiers.of(name)
            member_id = self.shop.integration.get(f"/members/{name}")["loyaltyMember"]["memberId"]
            missions = self.shop.administration.get(f"/members/{member_id}/missions")["results"]
            columns["achieved"] = next(
                (
                    mission["balance"]["timesAchieved"]
                    for mission in missions
                    if mission["missionId"] == self.mission_id
                ),
                0,
            )
        return state

    def budget_counts(self) -> tuple[int, int]:
        """The points and the coupons that the budgets of the campaigns have counted."""
        [(points, coupons)] = self._rows(USED)
        return points, coupons

    def value(self) -> int:
        """The remaining value of all coupons."""
        [(value,)] = self._rows(VALUE)
        return value

    def statuses(self) -> dict[str, str]:
        """The status of each tracked event, by its key."""
        types = [ORDER_CREATED, GENERIC, program_model.ORDER_CANCELLED]
        return {row[0]: row[1] for row in self._rows(EVENTS, types)}

    def _rows(self, statement: str, *values: Any) -> Sequence[Any]:
        with self.shop.engine.connect() as db:
            return db.exec_driver_sql(statement, (self.shop.organization.id, *values)).all()


def track_each(program: Program, events: Sequence[Mapping[str, Any]]) -> None:
    for event in events:
        program.shop.track_one(event)


def track_in_batches(program: Program, events: Sequence[Mapping[str, Any]]) -> None:
    assert {result["status"] for result in program.shop.track(*events)} == {"success"}


def track_by_queue(program: Program, events: Sequence[Mapping[str, Any]]) -> None:
    assert {outcome["outcome"] for outcome in queue.send(program.shop, *events)} == {"queued"}
    queue.drain(program.shop)
    assert queue.waiting(program.shop) == 0


def import_events(program: Program, events: Sequence[Mapping[str, Any]]) -> None:
    """Import the events and evaluate them; the row of a repeated event fails."""
    keys, repeated = set(program.statuses()), []
    for event in events:
        if event["systemUniqueKey"] in keys:
            repeated.append(f"The systemUniqueKey {event['systemUniqueKey']} was used before.")
        keys.add(event["systemUniqueKey"])
    lines = "".join(f"{json.dumps(event)}\n" for event in events)
    imports = Imports(program.shop.organization)
    record = imports.run(lines, kind="events", file_format="ndjson", emitEvents=True)
    assert record["status"] == "done"
    assert [reason for _, _, reason in imports.errors(record, limit=25)] == repeated


def track_at_once(program: Program, events: Sequence[Mapping[str, Any]]) -> None:
    """Send many calls at the same time, each about another member, so that their order does not matter."""
    pending = list(events)
    while pending:
        calls, later = {}, []
        for event in pending:
            if event["loyaltyMemberId"] in calls:
                later.append(event)
            else:
                calls[event["loyaltyMemberId"]] = event
        asyncio.run(_call_at_once(program, list(calls.values())))
        pending = later


async def _call_at_once(program: Program, events: Sequence[Mapping[str, Any]]) -> None:
    surface = program.shop.integration
    transport = httpx.ASGITransport(app=surface.app)
    headers = {"Authorization": f"Bearer {surface.token}", "Content-Type": "application/json"}
    async with httpx.AsyncClient(transport=transport, headers=headers) as client:
        responses = await asyncio.gather(
            *(client.post(f"{BASE}/events/track", content=to_json({"events": [event]}).encode()) for event in events)
        )
    assert {response.json()["results"][0]["status"] for response in responses} == {"success"}


Way = Callable[[Program, Sequence[Mapping[str, Any]]], None]
WAYS: Sequence[Way] = (track_each, track_in_batches, track_by_queue, import_events, track_at_once)


class Run:
    """Sends a history to a program; consecutive tracked events are sent together."""

    def __init__(self, program: Program, way: Way, *, with_jobs: bool = False) -> None:
        self.program, self.way, self.with_jobs = program, way, with_jobs
        self.minted: list[str] = []
        self.burned: list[str] = []
        self._events: list[Mapping[str, Any]] = []

    def take(self, operations: Sequence[Operation]) -> None:
        """Do all operations of a history."""
        for operation in operations:
            if operation.kind == "track":
                self._events.append(operation.event or {})
                if len(self._events) == AT_ONCE:
                    self._send()
            else:
                self._send()
                self._do(operation)
        self._send()

    def undo(self, model: ProgramModel) -> None:
        """Cancel and revert all that is not undone yet: first what took points, then what gave points."""
        pending = [(key, outcome.points) for member in model.members.values() for key, outcome in member.done.items()]
        self._revert(self.burned)
        for key, _ in sorted(pending, key=lambda event: event[1] >= 0):
            self._cancel(key)
        self._revert(self.minted)

    def _send(self) -> None:
        if self._events:
            self.way(self.program, self._events)
            self._events = []

    def _do(self, operation: Operation) -> None:
        shop, kind = self.program.shop, operation.kind
        if kind in ("mint", "burn"):
            self._move(kind, operation)
        elif kind == "cancel":
            self._cancel(operation.key)
        elif kind == "reuse":
            event = {**(operation.event or {}), "description": "Another one."}
            assert shop.expect_refusal(event) == "/problems/key-reused"
        elif kind == "dry-run":
            shop.track_one(operation.event or {}, executionMode="dryRun")
        elif kind == "capture":
            shop.track_one(operation.event or {}, executionMode="captureOnly")
        elif kind == "switch":
            path = f"/campaigns/{self.program.campaign_ids[operation.key]}"
            campaign = shop.administration.get(path)["campaign"]
            body = {"code": campaign["code"], "name": campaign["name"], "active": not campaign["active"]}
            shop.administration.put(path, body)
        elif self.with_jobs:
            expire_points(shop.engine, shop.organization.id)
            evaluate_tiers(shop.engine, shop.organization.id)

    def _move(self, kind: str, operation: Operation) -> None:
        path = f"/members/by-loyalty-member-id/{operation.member}/{kind}"
        reply = self.program.shop.administration.request("POST", path, {"amount": operation.amount})
        if reply.status == 200:
            transactions = self.minted if kind == "mint" else self.burned
            transactions.append(reply.json["ledgerTransactions"][0]["ledgerTransactionId"])
        else:
            assert (kind, reply.json["type"]) == ("burn", "/problems/insufficient-balance")

    def _cancel(self, system_unique_key: str) -> None:
        path = f"/events/{self.program.event_key(system_unique_key)}/cancel"
        self.program.shop.integration.post(path, {}, expect=200)

    def _revert(self, transactions: Sequence[str]) -> None:
        defaults = self.program.shop.organization.defaults
        path = f"/ledgers/{defaults.ledger_id}/accounts/{defaults.ledger_account_id}/transactions"
        for transaction_id in transactions:
            self.program.shop.administration.post(f"{path}/{transaction_id}/revert", {}, expect=200)


def expected_members(model: ProgramModel) -> dict[str, dict[str, Any]]:
    """The state of each member by the model."""
    return {
        name: {
            "name": name,
            "balance": member.balance,
            "badges": member.total("badges"),
            "coupons": member.total("coupons"),
            "bonuses": member.total("bonuses"),
            "tier": member.tier,
            "achieved": member.total("achieved"),
        }
        for name, member in model.members.items()
    }


def check(api: Api, way: Way, seed: int, *, steps: int, members: int, with_jobs: bool) -> None:
    """Send a history in one way, compare the state with the model, undo everything, and compare again.

    All ways send the same history, so each way needs only its share of the minimum of effects.
    """
    histories = Histories(seed, members)
    run = Run(Program.new(api, list(histories.model.members)), way, with_jobs=with_jobs)
    run.take(histories.steps(steps))
    histories.model.effects.check(EFFECTS, minimum=-(-MINIMUM // len(WAYS)))
    assert run.program.state() == expected_members(histories.model)
    members_of_model = histories.model.members.values()
    points, coupons = run.program.budget_counts()
    assert points == sum(member.total("budget_points") for member in members_of_model)
    assert coupons == sum(member.total("coupons") for member in members_of_model)
    assert run.program.value() == 12 * coupons
    assert run.program.statuses().items() >= dict.fromkeys(histories.model.sent, "success").items()
    run.program.shop.check_ledger()
    run.undo(histories.model)
    empty_record = {"balance": 0, "badges": 0, "coupons": 0, "bonuses": 0, "tier": "Basic", "achieved": 0}
    assert run.program.state() == {name: {"name": name, **empty_record} for name in histories.model.members}
    assert (run.program.budget_counts(), run.program.value()) == ((0, 0), 0)
    run.program.shop.check_ledger()


@pytest.mark.parametrize("way", WAYS)
def test_a_history_that_is_sent_in_any_way_leads_to_the_state_of_the_model(api, way):
    check(api, way, seed=8, steps=110, members=6, with_jobs=way is track_in_batches)


@pytest.mark.stress
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", range(2, 6))
def test_a_long_history_that_is_sent_in_any_way_leads_to_the_state_of_the_model(api, way, seed):
    check(api, way, seed, steps=1000, members=20, with_jobs=seed % 2 == 0)
