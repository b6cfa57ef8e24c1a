"""Item matchers over HTTP, and what campaigns make of them."""

from __future__ import annotations

import uuid
from decimal import Decimal

import pytest

from domain.expressions import parse, to_tree
from handlers.services import configuration
from tests.builders.campaigns import mint
from tests.builders.tracking import Shop, order, running

HOT = {
    "operator": "OR",
    "conditions": [
        {"field": "categoryCode", "operator": "equals", "value": "hot"},
        {"field": "productCode", "operator": "in", "value": ["mocha", "latte"]},
        {"field": "customAttributes.heat.degrees", "operator": ">=", "value": Decimal("60.50")},
        {"field": "customAttributes.warm", "operator": "equals", "value": True},
    ],
}
BODY = {"name": "Hot drinks", "type": "item-matcher", "matcher": HOT}
STAMPS = ("organizationId", "matcherId", "matcherKey", "externalKey", "createdAt", "updatedAt")


@pytest.fixture
def shop(organization):
    return Shop(organization)


@pytest.fixture
def administration(organization):
    return organization.administration


@pytest.fixture
def hot(administration):
    return administration.post("/matchers", BODY)["matcher"]


def only(field, operator, value):
    return {
        **BODY,
        "matcher": {"operator": "AND", "conditions": [{"field": field, "operator": operator, "value": value}]},
    }


def stamps(record):
    return {name: record[name] for name in STAMPS}


def test_a_matcher_is_stored_with_every_field(organization, administration, hot):
    assert hot == {**BODY, **stamps(hot)}
    assert hot["organizationId"] == organization.id
    assert hot["matcherKey"] == str(uuid.UUID(hot["matcherKey"]))
    assert hot["createdAt"] == hot["updatedAt"]
    assert administration.get(f"/matchers/{hot['matcherId']}") == {"matcher": hot}
    assert administration.get(f"/matchers/by-key/{hot['matcherKey']}") == {"matcher": hot}
    assert administration.get(f"/matchers/by-key/{hot['matcherKey'].upper()}") == {"matcher": hot}


def test_an_update_changes_all_of_a_matcher_but_its_key(organization, administration, hot):
    body = {**only("total", ">", 5), "name": "Dear", "organizationId": organization.id}
    matcher = administration.put(f"/matchers/{hot['matcherId']}", body)["matcher"]
    assert matcher == {**body, **stamps(hot), "updatedAt": matcher["updatedAt"]}
    assert matcher["updatedAt"] > hot["updatedAt"]
    assert administration.get(f"/matchers/{hot['matcherId']}")["matcher"] == matcher


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({**BODY, "name": None}, "/name"),
        ({**BODY, "name": ""}, "/name"),
        ({**BODY, "name": "x" * 256}, "/name"),
        ({"type": "item-matcher", "matcher": HOT}, "/name"),
        ({"name": "n", "matcher": HOT}, "/type"),
        ({**BODY, "type": "badge-matcher"}, "/type"),
        ({"name": "n", "type": "item-matcher"}, "/matcher"),
        ({**BODY, "matcher": {}}, "/matcher/operator"),
        ({**BODY, "matcherKey": str(uuid.uuid4())}, "/matcherKey"),
        ({**BODY, "organizationId": 10**9}, "/organizationId"),
        ({**BODY, "matcher": {**HOT, "operator": "XOR"}}, "/matcher/operator"),
        ({**BODY, "matcher": {**HOT, "conditions": []}}, "/matcher/conditions"),
        ({**BODY, "matcher": {**HOT, "conditions": HOT["conditions"][:1] * 51}}, "/matcher/conditions"),
        ({**BODY, "matcher": {**HOT, "colour": "red"}}, "/matcher/colour"),
        (only("colour", "equals", "red"), "/matcher/conditions/0/field"),
        (only("productCode", "like", "x"), "/matcher/conditions/0/operator"),
        (only("productCode", ">", 1), "/matcher/conditions/0/operator"),
        (only("quantity", ">", "1"), "/matcher/conditions/0/value"),
        (only("productCode", "equals", None), "/matcher/conditions/0/value"),
        (only("customAttributes.x", "in", [{}]), "/matcher/conditions/0/value"),
        (only("description", "contains", "x" * 1001), "/matcher/conditions/0/value"),
    ],
)
def test_an_invalid_matcher_is_refused_with_the_field(administration, hot, body, pointer):
    for problem in (
        administration.post("/matchers", body, expect=400),
        administration.put(f"/matchers/{hot['matcherId']}", body, expect=400),
    ):
        assert problem["type"] == "/problems/invalid-request"
        pointers = {fault["pointer"] for fault in problem["errors"]}
        assert pointer in pointers
        assert all(fault_pointer.startswith(pointer.rsplit("/", 1)[0]) for fault_pointer in pointers)


def test_matchers_of_another_organization_are_not_found(other_organization, administration, hot):
    foreign = other_organization.administration
    for path in (f"/matchers/{hot['matcherId']}", f"/matchers/by-key/{hot['matcherKey']}"):
        assert foreign.get(path, expect=404)["type"] == "/problems/not-found"
    foreign.put(f"/matchers/{hot['matcherId']}", BODY, expect=404)
    assert hot not in foreign.get("/matchers")["results"]
    assert foreign.get("/matchers", matcherKey=hot["matcherKey"])["totalCount"] == 0


@pytest.mark.parametrize("path", ["/matchers/0", "/matchers/x", "/matchers/by-key/x"])
def test_addresses_that_cannot_be_are_refused(administration, path):
    assert administration.get(path, expect=400)["type"] == "/problems/invalid-request"


def test_unknown_ids_and_keys_are_not_found(administration):
    administration.get("/matchers/999999999999999999", expect=404)
    administration.get(f"/matchers/by-key/{uuid.uuid4()}", expect=404)


def test_matchers_are_listed_filtered_and_ordered(organization):
    administration = organization.administration
    matchers = [administration.post("/matchers", {**BODY, "name": name})["matcher"] for name in ("b", "c", "a")]
    whole = administration.get("/matchers")
    assert whole == {"totalCount": 3, "page": 0, "limit": 100, "results": matchers[::-1]}
    assert administration.get("/matchers", page=1, limit=2)["results"] == matchers[:1]
    assert administration.get("/matchers", type="item-matcher")["totalCount"] == 3
    assert administration.get("/matchers", matcherKey=matchers[1]["matcherKey"])["results"] == [matchers[1]]
    for column, expected_names in (
        ("name", "abc"),
        ("name,desc", "cba"),
        ("matcherId", "bca"),
        ("createdAt,asc", "bca"),
        ("updatedAt,desc", "acb"),
        ("type,desc", "acb"),
    ):
        listed = administration.get("/matchers", order=column)["results"]
        assert "".join(result["name"] for result in listed) == expected_names
    for query in ({"type": "badge-matcher"}, {"matcherKey": "x"}, {"limit": 101}, {"limit": 0}, {"order": "matcher"}):
        administration.get("/matchers", expect=400, **query)


# --- in campaigns ------------------------------------------------------------------------------------------------


def has_hot(key):
    return f'order.items.exists(i, matches(i, "{key}"))'


def items(*items_or_categories):
    return [item if isinstance(item, dict) else {"categoryCode": item} for item in items_or_categories]


@pytest.mark.parametrize(
    ("ordered", "applies"),
    [
        (items("cold", "hot"), True),
        (items("cold", "hotter"), False),
        (items({"productCode": "mocha"}), True),
        (items({"productCode": "tea", "customAttributes": {"heat": {"degrees": Decimal("60.5")}}}), True),
        (items({"productCode": "tea", "customAttributes": {"heat": {"degrees": 60}}}), False),
        (items({"customAttributes": {"warm": True}}), True),
        (items({"customAttributes": {"warm": 1}}), False),
        ([], False),
    ],
)
def test_a_rule_acts_on_the_orders_whose_items_match(shop, hot, ordered, applies):
    shop.campaign(running(mint(5), rule=has_hot(hot["matcherKey"])))
    member = shop.member()
    result = shop.track_one(order(member, 10, items=ordered))
    assert [effect["status"] for effect in result["effects"]] == (["executed"] if applies else [])
    assert shop.balance(member) == (5 if applies else 0)


def test_an_effect_counts_the_items_that_match(shop, hot):
    amount = f'order.items.filter(i, matches(i, "{hot["matcherKey"]}")).map(i, i.total).sum()'
    shop.campaign(running(mint(("=", amount))))
    member = shop.member()
    sold = [
        {"categoryCode": "hot", "total": 3},
        {"categoryCode": "cold", "total": 7},
        {"productCode": "latte", "total": 4},
    ]
    shop.track_one(order(member, 14, items=sold))
    assert shop.balance(member) == 7


@pytest.mark.parametrize("form", ["expression", "node"])
def test_a_key_that_no_matcher_has_is_refused_when_the_action_is_saved(shop, administration, other_organization, form):
    foreign = other_organization.administration.post("/matchers", BODY)["matcher"]["matcherKey"]
    campaign = shop.campaign(running(mint(1)))
    path = f"/campaigns/{campaign['campaignId']}/actions"
    action_path = f"{path}/{campaign['actions'][0]['actionId']}"
    for key in (str(uuid.uuid4()), foreign, "hot"):
        text = has_hot(key)
        body = running(mint(1), mint(("=", f'matches(order.items[0], "{key}") ? 1 : 2')))
        body["rules"] = {form: text if form == "expression" else to_tree(parse(text))}
        for problem in (administration.post(path, body, expect=400), administration.put(action_path, body, expect=400)):
            assert [(fault["pointer"], fault["code"]) for fault in problem["errors"]] == [
                (f"/rules/{form}", "unknown-matcher"),
                ("/effects/items/1/params/0/expression", "unknown-matcher"),
            ]
            if form == "expression":
                fault = problem["errors"][0]
                assert text[fault["start"] : fault["end"]] == f'"{key}"'


def test_a_key_that_is_computed_and_unknown_is_an_error_of_the_event(shop, hot):
    shop.campaign(running(mint(5), rule="order.items.exists(i, matches(i, order.channel))"))
    member = shop.member()
    purchase = order(member, 1, items=items("hot"), channel="none")
    [result] = shop.track(purchase, executionMode="dryRun", trace=True)
    [explanation] = [entry for entry in result["explain"] if entry["actionId"] is not None]
    assert explanation["reason"]["code"] == "CONDITION_ERROR"
    assert "there is no matcher none" in str(explanation)
    shop.track_one(order(member, 1, items=items("hot"), channel=hot["matcherKey"]))
    assert shop.balance(member) == 5


def test_a_change_is_seen_by_other_processes_at_their_next_event(shop, administration, hot, monkeypatch):
    shop.campaign(running(mint(1), rule=has_hot(hot["matcherKey"])))
    member = shop.member()
    own_cache, other_cache = configuration._cache, {}

    def tracked_elsewhere(category):
        with monkeypatch.context() as patched:
            patched.setattr(configuration, "_cache", other_cache)
            return shop.track_one(order(member, 1, items=items(category)))["effects"]

    assert tracked_elsewhere("hot")
    assert not tracked_elsewhere("cold")
    assert other_cache[shop.organization.id] is not own_cache.get(shop.organization.id)
    administration.put(f"/matchers/{hot['matcherId']}", only("categoryCode", "equals", "cold"))
    assert not tracked_elsewhere("hot")
    assert tracked_elsewhere("cold")
