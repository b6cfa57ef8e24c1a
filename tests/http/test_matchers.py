"""Item matchers over HTTP, and their use by campaigns."""

from __future__ import annotations

import uuid
from decimal import Decimal

import pytest

from domain.expressions import parse, to_tree
from handlers.services import configuration
from tests.builders.campaigns import mint
from tests.builders.tracking import Shop, order, running

# An item is a hot drink if one of these conditions is true.
HOT_DRINKS = {
    "operator": "OR",
    "conditions": [
        {"field": "categoryCode", "operator": "equals", "value": "hot"},
        {"field": "productCode", "operator": "in", "value": ["mocha", "latte"]},
        {"field": "customAttributes.heat.degrees", "operator": ">=", "value": Decimal("60.50")},
        {"field": "customAttributes.warm", "operator": "equals", "value": True},
    ],
}
BODY = {"name": "Hot drinks", "type": "item-matcher", "matcher": HOT_DRINKS}
SERVER_FIELDS = ("organizationId", "matcherId", "matcherKey", "externalKey", "createdAt", "updatedAt")


@pytest.fixture
def shop(organization):
    return Shop(organization)


@pytest.fixture
def administration(organization):
    return organization.administration


@pytest.fixture
def hot_drinks(administration):
    """A stored matcher of hot drinks."""
    return administration.post("/matchers", BODY)["matcher"]


def body_with_condition(field, operator, value):
    """The body of a matcher with one condition."""
    return {
        **BODY,
        "matcher": {"operator": "AND", "conditions": [{"field": field, "operator": operator, "value": value}]},
    }


def server_fields(record):
    """The fields that the server sets, from a record."""
    return {name: record[name] for name in SERVER_FIELDS}


def test_a_matcher_is_stored_with_every_field(organization, administration, hot_drinks):
    assert hot_drinks == {**BODY, **server_fields(hot_drinks)}
    assert hot_drinks["organizationId"] == organization.id
    # The key is a UUID in canonical form.
    assert hot_drinks["matcherKey"] == str(uuid.UUID(hot_drinks["matcherKey"]))
    assert hot_drinks["createdAt"] == hot_drinks["updatedAt"]
    assert administration.get(f"/matchers/{hot_drinks['matcherId']}") == {"matcher": hot_drinks}
    assert administration.get(f"/matchers/by-key/{hot_drinks['matcherKey']}") == {"matcher": hot_drinks}
    assert administration.get(f"/matchers/by-key/{hot_drinks['matcherKey'].upper()}") == {"matcher": hot_drinks}


def test_an_update_changes_every_field_of_a_matcher_except_its_key(organization, administration, hot_drinks):
    body = {**body_with_condition("total", ">", 5), "name": "Dear", "organizationId": organization.id}
    matcher = administration.put(f"/matchers/{hot_drinks['matcherId']}", body)["matcher"]
    assert matcher == {**body, **server_fields(hot_drinks), "updatedAt": matcher["updatedAt"]}
    assert matcher["updatedAt"] > hot_drinks["updatedAt"]
    assert administration.get(f"/matchers/{hot_drinks['matcherId']}")["matcher"] == matcher


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({**BODY, "name": None}, "/name"),
        ({**BODY, "name": ""}, "/name"),
        ({**BODY, "name": "x" * 256}, "/name"),
        ({"type": "item-matcher", "matcher": HOT_DRINKS}, "/name"),
        ({"name": "n", "matcher": HOT_DRINKS}, "/type"),
        ({**BODY, "type": "badge-matcher"}, "/type"),
        ({"name": "n", "type": "item-matcher"}, "/matcher"),
        ({**BODY, "matcher": {"conditions": HOT_DRINKS["conditions"]}}, "/matcher/operator"),
        ({**BODY, "matcher": {"operator": "AND"}}, "/matcher/conditions"),
        ({**BODY, "matcherKey": str(uuid.uuid4())}, "/matcherKey"),
        ({**BODY, "organizationId": 10**9}, "/organizationId"),
        ({**BODY, "matcher": {**HOT_DRINKS, "operator": "XOR"}}, "/matcher/operator"),
        ({**BODY, "matcher": {**HOT_DRINKS, "conditions": []}}, "/matcher/conditions"),
        ({**BODY, "matcher": {**HOT_DRINKS, "conditions": HOT_DRINKS["conditions"][:1] * 51}}, "/matcher/conditions"),
        ({**BODY, "matcher": {**HOT_DRINKS, "colour": "red"}}, "/matcher/colour"),
        (body_with_condition("colour", "equals", "red"), "/matcher/conditions/0/field"),
        (body_with_condition("productCode", "like", "x"), "/matcher/conditions/0/operator"),
        (body_with_condition("productCode", ">", 1), "/matcher/conditions/0/operator"),
        (body_with_condition("quantity", ">", "1"), "/matcher/conditions/0/value"),
        (body_with_condition("productCode", "equals", None), "/matcher/conditions/0/value"),
        (body_with_condition("customAttributes.x", "in", [{}]), "/matcher/conditions/0/value"),
        (body_with_condition("description", "contains", "x" * 1001), "/matcher/conditions/0/value"),
    ],
)
def test_an_invalid_matcher_is_refused_with_the_field(administration, hot_drinks, body, pointer):
    for problem in (
        administration.post("/matchers", body, expect=400),
        administration.put(f"/matchers/{hot_drinks['matcherId']}", body, expect=400),
    ):
        assert problem["type"] == "/problems/invalid-request"
        assert [fault["pointer"] for fault in problem["errors"]] == [pointer]


def test_matchers_of_another_organization_are_not_found(other_organization, administration, hot_drinks):
    foreign_administration = other_organization.administration
    for path in (f"/matchers/{hot_drinks['matcherId']}", f"/matchers/by-key/{hot_drinks['matcherKey']}"):
        assert foreign_administration.get(path, expect=404)["type"] == "/problems/not-found"
    foreign_administration.put(f"/matchers/{hot_drinks['matcherId']}", BODY, expect=404)
    assert hot_drinks not in foreign_administration.get("/matchers")["results"]
    assert foreign_administration.get("/matchers", matcherKey=hot_drinks["matcherKey"])["totalCount"] == 0


@pytest.mark.parametrize("path", ["/matchers/0", "/matchers/x", "/matchers/by-key/x"])
def test_malformed_ids_and_keys_are_refused(administration, path):
    assert administration.get(path, expect=400)["type"] == "/problems/invalid-request"


def test_unknown_ids_and_keys_are_not_found(administration):
    administration.get("/matchers/999999999999999999", expect=404)
    administration.get(f"/matchers/by-key/{uuid.uuid4()}", expect=404)


def test_matchers_are_listed_filtered_and_ordered(organization):
    administration = organization.administration
    matchers = [administration.post("/matchers", {**BODY, "name": name})["matcher"] for name in ("b", "c", "a")]
    whole_list = administration.get("/matchers")
    assert whole_list == {"totalCount": 3, "page": 0, "limit": 100, "results": matchers[::-1]}
    assert administration.get("/matchers", page=1, limit=2)["results"] == matchers[:1]
    assert administration.get("/matchers", type="item-matcher")["totalCount"] == 3
    assert administration.get("/matchers", matcherKey=matchers[1]["matcherKey"])["results"] == [matchers[1]]
    # Created in the order b, c, a.
    for column, expected_names in (
        ("name", "abc"),
        ("name,desc", "cba"),
        ("matcherId", "bca"),
        ("createdAt,asc", "bca"),
        ("updatedAt,desc", "acb"),
        ("type,desc", "acb"),
    ):
        results = administration.get("/matchers", order=column)["results"]
        assert "".join(result["name"] for result in results) == expected_names


@pytest.mark.parametrize(
    ("parameter", "value"),
    [("type", "badge-matcher"), ("matcherKey", "x"), ("limit", 101), ("limit", 0), ("order", "matcher")],
)
def test_an_invalid_query_of_the_list_of_matchers_is_refused(administration, parameter, value):
    problem = administration.get("/matchers", expect=400, **{parameter: value})
    assert [fault["parameter"] for fault in problem["errors"]] == [parameter]


# --- in campaigns ------------------------------------------------------------------------------------------------


def rule_with_matcher(key):
    """The rule that an item of the order matches the matcher with this key."""
    return f'order.items.exists(i, matches(i, "{key}"))'


def items_of(*categories):
    """An item of an order for each of these categories."""
    return [{"categoryCode": category} for category in categories]


@pytest.mark.parametrize(
    ("order_items", "applies"),
    [
        (items_of("cold", "hot"), True),
        (items_of("cold", "hotter"), False),
        ([{"productCode": "mocha"}], True),
        ([{"productCode": "tea", "customAttributes": {"heat": {"degrees": Decimal("60.5")}}}], True),
        ([{"productCode": "tea", "customAttributes": {"heat": {"degrees": 60}}}], False),
        ([{"customAttributes": {"warm": True}}], True),
        ([{"customAttributes": {"warm": 1}}], False),
        ([], False),
    ],
)
def test_a_rule_is_true_for_orders_with_an_item_that_matches(shop, hot_drinks, order_items, applies):
    shop.campaign(running(mint(5), rule=rule_with_matcher(hot_drinks["matcherKey"])))
    member = shop.member()
    result = shop.track_one(order(member, 10, items=order_items))
    assert [effect["status"] for effect in result["effects"]] == (["executed"] if applies else [])
    assert shop.balance(member) == (5 if applies else 0)


def test_an_effect_can_depend_on_the_totals_of_matching_items(shop, hot_drinks):
    amount = f'order.items.filter(i, matches(i, "{hot_drinks["matcherKey"]}")).map(i, i.total).sum()'
    shop.campaign(running(mint(("=", amount))))
    member = shop.member()
    sold_items = [
        {"categoryCode": "hot", "total": 3},
        {"categoryCode": "cold", "total": 7},
        {"productCode": "latte", "total": 4},
    ]
    shop.track_one(order(member, 14, items=sold_items))
    # The hot item and the latte.
    assert shop.balance(member) == 3 + 4


@pytest.mark.parametrize("form", ["expression", "node"])
def test_a_key_that_no_matcher_has_is_refused_when_the_action_is_saved(shop, administration, other_organization, form):
    foreign_key = other_organization.administration.post("/matchers", BODY)["matcher"]["matcherKey"]
    campaign = shop.campaign(running(mint(1)))
    path = f"/campaigns/{campaign['campaignId']}/actions"
    action_path = f"{path}/{campaign['actions'][0]['actionId']}"
    for key in (str(uuid.uuid4()), foreign_key, "hot"):
        text = rule_with_matcher(key)
        body = running(mint(1), mint(("=", f'matches(order.items[0], "{key}") ? 1 : 2')))
        body["rules"] = {form: text if form == "expression" else to_tree(parse(text))}
        for problem in (administration.post(path, body, expect=400), administration.put(action_path, body, expect=400)):
            assert [(fault["pointer"], fault["code"]) for fault in problem["errors"]] == [
                (f"/rules/{form}", "unknown-matcher"),
                ("/effects/items/1/params/0/expression", "unknown-matcher"),
            ]
            # A fault of a text has the place of the key.
            if form == "expression":
                fault = problem["errors"][0]
                assert text[fault["start"] : fault["end"]] == f'"{key}"'


def test_a_rule_that_computes_an_unknown_key_fails_when_it_is_evaluated(shop, hot_drinks):
    shop.campaign(running(mint(5), rule="order.items.exists(i, matches(i, order.channel))"))
    member = shop.member()
    purchase = order(member, 1, items=items_of("hot"), channel="none")
    [result] = shop.track(purchase, executionMode="dryRun", trace=True)
    [explanation] = [entry for entry in result["explain"] if entry["actionId"] is not None]
    assert explanation["reason"]["code"] == "CONDITION_ERROR"
    assert "there is no matcher none" in str(explanation)
    shop.track_one(order(member, 1, items=items_of("hot"), channel=hot_drinks["matcherKey"]))
    assert shop.balance(member) == 5


def test_other_processes_use_a_changed_matcher_from_their_next_event_on(shop, administration, hot_drinks, monkeypatch):
    shop.campaign(running(mint(1), rule=rule_with_matcher(hot_drinks["matcherKey"])))
    member = shop.member()
    own_cache, other_cache = configuration._cache, {}

    def effects_in_other_process(category):
        """The effects of an order that a process with a cache of its own evaluates."""
        with monkeypatch.context() as patch:
            patch.setattr(configuration, "_cache", other_cache)
            return shop.track_one(order(member, 1, items=items_of(category)))["effects"]

    assert effects_in_other_process("hot")
    assert not effects_in_other_process("cold")
    assert other_cache[shop.organization.id] is not own_cache.get(shop.organization.id)
    administration.put(f"/matchers/{hot_drinks['matcherId']}", body_with_condition("categoryCode", "equals", "cold"))
    assert not effects_in_other_process("hot")
    assert effects_in_other_process("cold")
