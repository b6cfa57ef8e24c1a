"""Calls of one batch have the same results, and leave the same records, as the same calls one after the other."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as with_settings
from hypothesis import strategies as st

from domain.problems import Refusal
from handlers.call import ADMINISTRATION, INTEGRATION, Caller, NotBatchable, Request, Response
from handlers.http.dispatch import Dispatcher
from tests.builders.api import Api
from tests.builders.campaigns import mint
from tests.builders.statements import count_statements
from tests.builders.tracking import Shop, running

MEMBERS, KEYS, CODES = 3, 3, ("A-1", "A-2", "A-3")
TWICE = {"maxUsagesPerPeriod": 2, "usagePeriodType": "daily"}
NOWHERE = "00000000-0000-4000-8000-000000000000"
PATTERN = {"length": 20, "alphabet": "0123456789", "prefix": "", "suffix": ""}
BOOKS = ("free", "paid", "capped", "list", "made")


@dataclass
class World:
    """An organization in which `do` makes calls; names of members, books and keys are the same in all worlds."""

    dispatcher: Dispatcher
    shop: Shop
    members: list[str] = field(default_factory=list)
    usages: list[str] = field(default_factory=list)
    member_ids: dict[str, int] = field(default_factory=dict)
    wallets: dict[str, int] = field(default_factory=dict)
    books: dict[str, str] = field(default_factory=dict)
    badges: dict[str, str] = field(default_factory=dict)
    missions: list[int] = field(default_factory=list)

    @classmethod
    def new(cls, dispatcher: Dispatcher, api: Api, *, rewarding: bool) -> World:
        shop = Shop(api.organization())
        world = cls(dispatcher, shop)
        priced_in_points = {"requiredPointsConfig": {"ledgerAccountKey": shop.organization.defaults.ledger_account_key}}
        for key, body in {
            "free": {"type": "codeless"},
            "paid": {"type": "codeless", "usageRequiredPoints": 7, **TWICE, **priced_in_points},
            "capped": {"type": "codeless", "maxCouponCount": 3, "assignmentRequiredPoints": 5, **priced_in_points},
            "list": {"type": "list"},
            "made": {"type": "generated", "codePattern": PATTERN, "assignmentRequiredPoints": 3, **priced_in_points},
        }.items():
            book_body = {"name": key, "publishingStatus": "published", **body}
            world.books[key] = shop.integration.post("/coupon-books", book_body)["couponBook"]["couponBookKey"]
        shop.integration.post(f"/coupon-books/{world.books['list']}/coupons", {"codes": list(CODES)})
        star = shop.integration.post("/badges", {"name": "Star", "active": True, "maxAmount": 3})
        world.badges["star"] = star["badge"]["badgeKey"]
        if rewarding:
            shop.campaign(running(mint(2)), eventType="coupon-code-used")
            shop.campaign(running(mint(2)), eventType="badge-assigned")
        for _ in range(MEMBERS):
            world.members.append(shop.member())
            shop.give(world.members[-1], 40)
        for name, maximum in {"often": 9, "once": 1}.items():
            mission = {
                "name": name,
                "code": name,
                "type": "visits",
                "eventType": "member-generic-event",
                "goalCount": 3,
                "maxRepetitions": maximum,
            }
            mission |= {"loyaltyProgramId": shop.organization.defaults.loyalty_program_id, "pointsAccrual": 4}
            world.missions.append(shop.administration.post("/missions", mission)["mission"]["missionId"])
        world.member_ids.update(map(tuple, shop.rows("members", "loyalty_member_id, member_id")))
        world.wallets.update(map(tuple, shop.rows("members", "loyalty_member_id, wallet_id")))
        for number in range(2):
            path = f"/members/{world.members[number]}/coupon-books/{world.books['free']}/assign"
            usage = shop.integration.post(path, {"amount": 3}, expect=200)["couponUsage"]
            world.usages.append(usage["couponUsageKey"])
        return world

    def request(self, operation_id: str, call: Mapping[str, Any]) -> Request:
        """The request of a call; the names and numbers of the test are replaced by keys and ids of this world."""
        organization = self.shop.organization
        defaults = organization.defaults
        path, body, surface = _in_order(call["path"]), call["body"], INTEGRATION
        if "loyaltyMemberId" in path:
            path["loyaltyMemberId"] = self.members[path["loyaltyMemberId"]]
        if "couponUsageKey" in path:
            path["couponUsageKey"] = self.usages[path["couponUsageKey"]]
        if "couponBookKey" in path:
            path["couponBookKey"] = self.books.get(path["couponBookKey"], NOWHERE)
        if "badgeKey" in path:
            path["badgeKey"] = self.badges.get(path["badgeKey"], NOWHERE)
        if operation_id == "updateMissionProgress":
            member_id = self.member_ids[self.members[path.pop("member")]]
            path = {"memberId": member_id, "missionId": self.missions[path.pop("mission")]}
        if operation_id.endswith(("Points", "Progress")):
            surface, path = ADMINISTRATION, {"organizationId": organization.id, **path}
        if operation_id in ("mintWalletPoints", "burnWalletPoints"):
            member = self.members[path.pop("member")]
            path["ledgerId"] = defaults.ledger_id
            if operation_id == "burnWalletPoints":
                path["ledgerAccountId"] = defaults.ledger_account_id
            path["walletId"] = self.wallets[member]
        return Request(
            surface=surface,
            operation_id=operation_id,
            path=path,
            query={},
            body=body,
            caller=Caller("test", organization.id, frozenset(), is_admin=True),
            request_id=str(uuid.uuid4()),
            headers={},
        )

    def do(self, operation_id: str, calls: Sequence[Mapping[str, Any]], *, batched: bool) -> list[Any]:
        """The outcomes of calls, without ids, keys and dates, in one batch or one after the other."""
        requests = [self.request(operation_id, call) for call in calls]
        outcomes: list[Response | Exception] = [NotBatchable()] * len(requests)
        if batched and len(requests) > 1:
            outcomes = [*self.dispatcher(requests)]
        for position, outcome in enumerate(outcomes):
            if isinstance(outcome, NotBatchable):
                try:
                    [outcomes[position]] = self.dispatcher([requests[position]])
                except Refusal as refusal:
                    outcomes[position] = refusal
        return [_result_of(outcome) for outcome in outcomes]

    def state(self) -> list[Any]:
        """The stored state, without the parts that depend on the time of the test."""
        shop = self.shop
        states: list[Any] = []
        for member in self.members:
            coupons = shop.integration.get(f"/members/{member}/coupons", limit=25)["results"]
            states.append(
                [
                    shop.balance(member),
                    sorted(_coupon_state(coupon) for coupon in coupons),
                    shop.integration.get(f"/members/{member}/badges/{self.badges['star']}/balance")["balance"][
                        "assignedBalance"
                    ],
                ]
            )
        events = shop.rows("events", "event_type, status", order="1, 2")
        entries = shop.rows("audit_log", "operation_id, entity_type", order="1, 2")
        return [states, events, entries]


def _in_order(path: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a path, sorted by their order in paths."""
    return {name: path[name] for name in PATHS if name in path}


def _coupon_state(coupon: Mapping[str, Any]) -> tuple[str, Decimal, Decimal]:
    """The name of the book, and how many of its coupons are assigned to the member and used."""
    return coupon["couponBook"]["name"], coupon["amountAssigned"], coupon["amountUsed"]


def _result_of(outcome: Response | Exception) -> Any:
    """The status and the body without fields that vary, or the name of the exception."""
    if isinstance(outcome, Response):
        return outcome.status, _without_varying(outcome.body)
    return type(outcome).__name__


# Fields whose names end like this differ between two worlds.
_VARYING = ("Id", "Key", "Keys", "At", "Date", "code", "Hash")


def _without_varying(value: Any, name: str = "") -> Any:
    if isinstance(value, Mapping):
        return {key: _without_varying(member, key) for key, member in value.items() if not key.endswith(_VARYING)}
    if isinstance(value, list):
        return [_without_varying(member) for member in value]
    return value


members = st.integers(0, MEMBERS - 1)
keys = st.one_of(st.none(), st.sampled_from([f"key-{number}" for number in range(KEYS)]))


def _body(**values: Any) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(values).map(
        lambda body: {name: value for name, value in body.items() if value is not None}
    )


def _call(path: Mapping[str, Any], body: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries({"path": st.fixed_dictionaries(path), "body": body})


codes = st.sampled_from((None, None, None, *CODES))
of_book = {"loyaltyMemberId": members, "couponBookKey": st.sampled_from((*BOOKS, "nobook"))}
of_badge = {"loyaltyMemberId": members, "badgeKey": st.sampled_from(("star", "star", "none"))}
of_usage = {"loyaltyMemberId": members, "couponUsageKey": st.integers(0, 1)}
points = _body(amount=st.integers(1, 30).map(Decimal), systemUniqueKey=keys)
price = st.sampled_from((None, 1))
PATHS = ("member", "mission", "loyaltyMemberId", "couponBookKey", "couponUsageKey", "badgeKey")
CALLS: Mapping[str, st.SearchStrategy[Any]] = {
    "useCoupon": _call(
        of_book, _body(systemUniqueKey=keys, autoAssign=st.booleans(), code=codes, pointsOverride=price)
    ),
    "assignCoupon": _call(of_book, _body(systemUniqueKey=keys, code=codes)),
    "revertMemberCouponUsage": _call(of_usage, st.none()),
    "assignBadge": _call(of_badge, _body(amount=st.integers(1, 2), systemUniqueKey=keys)),
    "unassignBadge": _call(of_badge, _body(amount=st.integers(1, 2), systemUniqueKey=keys)),
    "mintMemberPoints": _call({"loyaltyMemberId": members}, points),
    "burnMemberPoints": _call({"loyaltyMemberId": members}, points),
    "mintWalletPoints": _call({"member": members}, points),
    "burnWalletPoints": _call({"member": members}, points),
    "updateMissionProgress": _call(
        {"member": members, "mission": st.integers(0, 1)}, _body(amount=st.integers(0, 4), systemUniqueKey=keys)
    ),
}
rounds = st.sampled_from(sorted(CALLS)).flatmap(
    lambda operation_id: st.tuples(st.just(operation_id), st.lists(CALLS[operation_id], min_size=1, max_size=6))
)


@pytest.fixture(scope="module")
def dispatcher(api: Api) -> Dispatcher:
    """The dispatcher of calls in this process."""
    return Dispatcher(api.settings, api.engine)


@pytest.mark.parametrize("rewarding", [False, True])
def test_calls_in_batches_have_the_same_results_as_calls_one_after_the_other(dispatcher, api, rewarding) -> None:
    @with_settings(
        max_examples=4,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(rounds, min_size=12, max_size=25))
    def check(drawn_rounds: list[tuple[str, list[Any]]]) -> None:
        world_of_batches, world_of_single_calls = (World.new(dispatcher, api, rewarding=rewarding) for _ in range(2))
        for operation_id, calls in drawn_rounds:
            results = world_of_batches.do(operation_id, calls, batched=True)
            assert results == world_of_single_calls.do(operation_id, calls, batched=False)
        assert world_of_batches.state() == world_of_single_calls.state()
        world_of_batches.shop.check_ledger()

    check()


def test_a_batch_logs_the_progress_of_each_member_in_one_mission(dispatcher, api) -> None:
    world = World.new(dispatcher, api, rewarding=False)
    calls = [{"path": {"member": member, "mission": 0}, "body": {"amount": 1}} for member in range(2)]
    assert [status for status, _ in world.do("updateMissionProgress", calls, batched=True)] == [200, 200]
    _, _, entries = world.state()
    assert entries.count(("updateMissionProgress", "mission-progress")) == 2


EXAMPLES: Mapping[str, Mapping[str, Any]] = {
    "useCoupon": {"path": {"couponBookKey": "free"}, "body": {"autoAssign": True}},
    "assignCoupon": {"path": {"couponBookKey": "made"}, "body": {}},
    "assignBadge": {"path": {"badgeKey": "star"}, "body": {"amount": 1}},
    "mintMemberPoints": {"path": {}, "body": {"amount": Decimal(5)}},
    "burnMemberPoints": {"path": {}, "body": {"amount": Decimal(5)}},
}


@pytest.mark.parametrize("operation_id", sorted(EXAMPLES))
def test_a_batch_of_20_calls_needs_as_many_statements_as_a_batch_of_2(dispatcher, api, operation_id) -> None:
    world = World.new(dispatcher, api, rewarding=False)
    world.members += [world.shop.member() for _ in range(20)]
    for member in world.members:
        world.shop.give(member, 100)
    example = EXAMPLES[operation_id]
    counts = []
    # The first batch fills the caches.
    for size in (2, 2, 20):
        calls = [
            {"path": {"loyaltyMemberId": number, **example["path"]}, "body": example["body"]} for number in range(size)
        ]
        with count_statements(api.engine) as statements:
            assert {status for status, _ in world.do(operation_id, calls, batched=True)} == {200}
        counts.append(len(statements))
    _, count_of_2_calls, count_of_20_calls = counts
    # Two more statements at most: ids are taken from sequences in portions that double.
    assert count_of_20_calls <= count_of_2_calls + 2


def test_keys_in_upper_case_are_found_in_a_batch_and_for_a_single_call(dispatcher, api) -> None:
    world = World.new(dispatcher, api, rewarding=False)
    calls = [EXAMPLES["assignBadge"] | {"path": {"loyaltyMemberId": number, "badgeKey": "star"}} for number in (0, 1)]
    upper_case_key = world.badges["star"].upper()
    requests = [world.request("assignBadge", call) for call in calls]
    requests = [replace(request, path={**request.path, "badgeKey": upper_case_key}) for request in requests]
    assert [response.status for response in dispatcher(requests)] == [200, 200]
    assert [response.status for response in dispatcher(requests[:1])] == [200]
