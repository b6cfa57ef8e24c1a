"""Campaigns and their actions over HTTP."""

from __future__ import annotations

import itertools
import uuid
from decimal import Decimal

import pytest

from tests.builders.campaigns import effect, mint
from tests.builders.tracking import GENERIC, Shop, event, running

DEFAULTS = {
    "active": True,
    "description": None,
    "pictureUrl": None,
    "type": None,
    "tags": [],
    "enabledTopics": [],
    "audienceKeys": [],
    "daysOfWeek": [],
    "locationCodes": [],
    "loyaltyTierKeys": [],
    "eventType": None,
    "loyaltyProgramId": None,
    "pointsMonthlyLimitPerMember": None,
    "allowPartialApplicationOnLimit": False,
    "maxTransactionsPerMember": None,
    "limitRules": [],
    "minSpendValue": None,
    "cooldown": None,
    "currency": None,
    "exclusive": False,
    "onReturn": "prorate",
    "customAttributes": {},
    "smartRewards": {},
    "validFrom": None,
    "validTo": None,
    "timezone": None,
    "externalKey": None,
}


@pytest.fixture
def shop(organization):
    return Shop(organization)


@pytest.fixture
def administration(organization):
    return organization.administration


def new_code():
    return f"code-{uuid.uuid4()}"


def full_body(shop):
    """A campaign with all fields, in the form of the response."""
    defaults = shop.organization.defaults
    tiers = shop.administration.get(f"/loyalty-programs/{defaults.loyalty_program_id}/tiers")["results"]
    return {
        "loyaltyProgramId": defaults.loyalty_program_id,
        "code": new_code(),
        "active": False,
        "name": "Point a peso",
        "description": "One for each",
        "pictureUrl": "https://example.test/p.png",
        "type": "accrual",
        "tags": ["orders", "base"],
        "enabledTopics": ["benefit-used", "member-updated"],
        "audienceKeys": [],
        "daysOfWeek": [1, 7],
        "locationCodes": ["centre", "harbour"],
        "loyaltyTierKeys": [tiers[0]["loyaltyTierKey"]],
        "eventType": "member-purchase-order-created",
        "pointsMonthlyLimitPerMember": Decimal("500.5"),
        "allowPartialApplicationOnLimit": True,
        "maxTransactionsPerMember": 2**53 - 1,
        "limitRules": [
            {
                "scope": "campaign",
                "type": "points",
                "period": "yearly",
                "limit": Decimal("18446744073708.123456"),
                "ledgerAccountKey": defaults.ledger_account_key,
                "sharedKey": None,
                "locationLimits": {},
                "alertShares": [80, 100],
            },
            {
                "scope": "location",
                "type": "money",
                "period": "daily",
                "limit": 3,
                "ledgerAccountKey": None,
                "sharedKey": "year",
                "locationLimits": {"centre": Decimal("4.5")},
                "alertShares": [],
            },
        ],
        "minSpendValue": Decimal("0.01"),
        "cooldown": "P1DT12H",
        "currency": "KWD",
        "exclusive": True,
        "onReturn": "reevaluate",
        "customAttributes": {"n": Decimal("1.10"), "list": [None, True, {"deep": "ü"}]},
        "smartRewards": {"model": "v1"},
        "validFrom": "2026-01-01T00:00:00Z",
        "validTo": "2026-12-31T23:59:59.999999Z",
        "timezone": "Europe/Madrid",
        "externalKey": "point-a-peso",
    }


def generated_fields(record):
    """The fields of the record that the server generates."""
    names = ("organizationId", "campaignId", "campaignKey", "campaignVersionId", "createdAt", "updatedAt")
    return {name: record[name] for name in names}


def test_a_campaign_is_stored_with_all_its_fields(shop, administration):
    body = full_body(shop)
    campaign = administration.post("/campaigns", body)["campaign"]
    assert campaign == {**body, **generated_fields(campaign)}
    assert campaign["organizationId"] == shop.organization.id
    # The key is a UUID in canonical form.
    assert campaign["campaignKey"] == str(uuid.UUID(campaign["campaignKey"]))
    assert campaign["createdAt"] == campaign["updatedAt"]
    assert administration.get(f"/campaigns/{campaign['campaignId']}") == {"campaign": campaign}


def test_a_minimal_campaign_restricts_nothing(administration):
    body = {"code": new_code(), "name": "Least"}
    campaign = administration.post("/campaigns", body)["campaign"]
    assert campaign == {**DEFAULTS, **body, **generated_fields(campaign)}


def test_null_fields_get_their_defaults(administration):
    nullable = [name for name, value in DEFAULTS.items() if value is None]
    body = {"code": new_code(), "name": "Nulls", **dict.fromkeys(nullable)}
    campaign = administration.post("/campaigns", body)["campaign"]
    assert campaign == {**DEFAULTS, **body, **generated_fields(campaign)}


def test_an_update_changes_only_the_fields_it_sends_and_creates_a_version(shop, administration):
    campaign = administration.post("/campaigns", full_body(shop))["campaign"]
    path = f"/campaigns/{campaign['campaignId']}"
    body = {"code": campaign["code"], "name": "Least"}
    updated_campaign = administration.put(path, body)["campaign"]
    changed_fields = {"campaignVersionId": 2, "updatedAt": updated_campaign["updatedAt"]}
    assert updated_campaign == {**campaign, **body, **changed_fields}
    assert updated_campaign["updatedAt"] > campaign["updatedAt"]
    replaced_campaign = administration.put(path, {**full_body(shop), "code": "other"})["campaign"]
    changed_fields = {"campaignVersionId": 3, "updatedAt": replaced_campaign["updatedAt"]}
    assert replaced_campaign == {**full_body(shop), "code": "other", **generated_fields(campaign), **changed_fields}
    assert administration.get(path)["campaign"] == replaced_campaign


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"code": None}, "/code"),
        ({"code": ""}, "/code"),
        ({"code": "a,b"}, "/code"),
        ({"name": None}, "/name"),
        ({"name": ""}, "/name"),
        ({"colour": "red"}, "/colour"),
        ({"daysOfWeek": [0]}, "/daysOfWeek/0"),
        ({"daysOfWeek": [8]}, "/daysOfWeek/0"),
        ({"maxTransactionsPerMember": Decimal("1.5")}, "/maxTransactionsPerMember"),
        ({"pointsMonthlyLimitPerMember": -1}, "/pointsMonthlyLimitPerMember"),
        ({"minSpendValue": "1"}, "/minSpendValue"),
        ({"cooldown": "24 hours"}, "/cooldown"),
        ({"cooldown": "PT"}, "/cooldown"),
        ({"cooldown": "PT0S"}, "/cooldown"),
        ({"currency": "eur"}, "/currency"),
        ({"loyaltyTierKeys": ["gold"]}, "/loyaltyTierKeys/0"),
        ({"validFrom": "soon"}, "/validFrom"),
        ({"validFrom": "2026-02-30T00:00:00Z"}, "/validFrom"),
        ({"validFrom": "0001-01-01T00:00:00+01:00"}, "/validFrom"),
        ({"validFrom": "2026-02-01T00:00:00Z", "validTo": "2026-01-31T23:59:59Z"}, "/validTo"),
        ({"audienceKeys": ["regulars"]}, "/audienceKeys/0"),
        ({"limitRules": [{"scope": "all", "type": "points", "period": "daily", "limit": 1}]}, "/limitRules/0/scope"),
        ({"limitRules": [{"scope": "member", "type": "coins", "period": "daily", "limit": 1}]}, "/limitRules/0/type"),
        (
            {"limitRules": [{"scope": "member", "type": "points", "period": "hourly", "limit": 1}]},
            "/limitRules/0/period",
        ),
        (
            {"limitRules": [{"scope": "member", "type": "points", "period": "daily", "limit": -1}]},
            "/limitRules/0/limit",
        ),
    ],
)
def test_an_invalid_campaign_is_refused_with_a_pointer_to_the_fault(administration, change, pointer):
    campaign = administration.post("/campaigns", {"code": new_code(), "name": "n"})["campaign"]
    body = {"code": campaign["code"], "name": "n", **change}
    for problem in (
        administration.post("/campaigns", body, expect=400),
        administration.put(f"/campaigns/{campaign['campaignId']}", body, expect=400),
    ):
        assert problem["type"] == "/problems/invalid-request"
        assert {fault["pointer"] for fault in problem["errors"]} == {pointer}


@pytest.mark.parametrize(
    ("change", "slug"),
    [
        ({"loyaltyProgramId": 10**12}, "unknown-loyalty-program"),
        ({"loyaltyTierKeys": [str(uuid.uuid4())]}, "unknown-tier"),
        ({"audienceKeys": [str(uuid.uuid4())]}, "unknown-audience"),
        (
            {
                "limitRules": [
                    {
                        "scope": "member",
                        "type": "points",
                        "period": "daily",
                        "limit": 1,
                        "ledgerAccountKey": str(uuid.uuid4()),
                    }
                ]
            },
            "unknown-ledger-account",
        ),
        ({"eventType": "moon-landing"}, "unknown-event-type"),
        ({"enabledTopics": ["benefit-used", "moon-landing"]}, "unknown-event-type"),
    ],
)
def test_a_campaign_that_references_an_unknown_record_is_refused(administration, change, slug):
    problem = administration.post("/campaigns", {"code": new_code(), "name": "n", **change}, expect=404)
    assert problem["type"] == f"/problems/{slug}"
    campaign = administration.post("/campaigns", {"code": new_code(), "name": "n"})["campaign"]
    body = {"code": campaign["code"], "name": "n", **change}
    assert administration.put(f"/campaigns/{campaign['campaignId']}", body, expect=404)["type"] == f"/problems/{slug}"


def test_records_of_another_organization_are_not_found(administration, other_organization):
    foreign_records = other_organization.defaults
    rule = {"scope": "member", "type": "points", "period": "daily", "limit": 1}
    for change, slug in (
        ({"loyaltyProgramId": foreign_records.loyalty_program_id}, "unknown-loyalty-program"),
        (
            {"limitRules": [{**rule, "ledgerAccountKey": foreign_records.ledger_account_key}]},
            "unknown-ledger-account",
        ),
    ):
        problem = administration.post("/campaigns", {"code": new_code(), "name": "n", **change}, expect=404)
        assert problem["type"] == f"/problems/{slug}"
    foreign_campaign = Shop(other_organization).campaign(running(mint(1)))
    administration.get(f"/campaigns/{foreign_campaign['campaignId']}", expect=404)
    administration.get(f"/campaigns/{foreign_campaign['campaignId']}/actions", expect=404)
    administration.put(f"/campaigns/{foreign_campaign['campaignId']}", {"code": "x", "name": "x"}, expect=404)
    administration.post(f"/campaigns/{foreign_campaign['campaignId']}/actions", running(mint(1)), expect=404)


def test_a_new_campaign_can_use_a_custom_event_type_only_while_the_type_is_active(shop, administration):
    shop.integration.post("/custom-event-types", {"name": "Cup", "apiCode": "cup", "schemaType": "custom"})
    campaign = administration.post("/campaigns", {"code": new_code(), "name": "n", "eventType": "cup"})["campaign"]
    shop.integration.patch("/custom-event-types/cup", {"active": False})
    body = {"code": campaign["code"], "name": "n", "eventType": "cup"}
    # The campaign keeps the inactive type, so that it can still be changed; a new campaign cannot take it.
    administration.put(f"/campaigns/{campaign['campaignId']}", body)
    problem = administration.post("/campaigns", {**body, "code": new_code()}, expect=404)
    assert problem["type"] == "/problems/unknown-event-type"


def test_a_code_belongs_to_one_campaign_of_an_organization(administration, other_organization):
    body = {"code": new_code(), "name": "n"}
    administration.post("/campaigns", body)
    assert administration.post("/campaigns", body, expect=409)["type"] == "/problems/name-taken"
    other_campaign = administration.post("/campaigns", {"code": new_code(), "name": "n"})["campaign"]
    problem = administration.put(f"/campaigns/{other_campaign['campaignId']}", body, expect=409)
    assert problem["type"] == "/problems/name-taken"
    administration.put(f"/campaigns/{other_campaign['campaignId']}", {"code": other_campaign["code"], "name": "same"})
    other_organization.administration.post("/campaigns", body)


# --- lists -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def four_campaigns(api):
    """A shop and its campaigns, oldest first."""
    shop = Shop(api.organization())
    program = shop.organization.defaults.loyalty_program_id
    bodies = [
        {"code": "c", "name": "x", "type": "accrual", "tags": ["a", "b"], "validFrom": "2026-01-02T00:00:00Z"},
        {"code": "a", "name": "y", "type": "burn", "tags": ["b"], "validTo": "2026-01-02T00:00:00Z", "active": False},
        {"code": "d", "name": "x", "tags": ["a", "c"], "loyaltyProgramId": program},
        {
            "code": "b",
            "name": "z",
            "type": "accrual",
            "validFrom": "2026-01-01T00:00:00Z",
            "validTo": "2027-01-01T00:00:00Z",
        },
    ]
    return shop, [shop.campaign(**body) for body in bodies]


def codes_in_list(shop, **query):
    """The codes of the campaigns in the list, in its order."""
    return [result["code"] for result in shop.administration.get("/campaigns", **query)["results"]]


def test_campaigns_are_listed_newest_first_in_pages(four_campaigns):
    shop, campaigns = four_campaigns
    administration = shop.administration
    whole_list = administration.get("/campaigns")
    assert (whole_list["totalCount"], whole_list["page"]) == (4, 0)
    assert [result["code"] for result in whole_list["results"]] == ["b", "d", "a", "c"]
    expected_record = {name: value for name, value in campaigns[0].items() if name != "actions"}
    assert whole_list["results"][-1] == expected_record
    pages = [administration.get("/campaigns", page=page, limit=3) for page in range(3)]
    assert [[result["code"] for result in page["results"]] for page in pages] == [["b", "d", "a"], ["c"], []]
    assert [page["totalCount"] for page in pages] == [4, 4, 4]


def test_campaigns_can_be_filtered(four_campaigns):
    shop, _ = four_campaigns
    program = shop.organization.defaults.loyalty_program_id
    assert codes_in_list(shop, type="accrual") == ["b", "c"]
    assert codes_in_list(shop, type="none") == []
    assert codes_in_list(shop, tags="a") == ["d", "c"]
    assert codes_in_list(shop, tags="a,b") == ["c"]
    assert codes_in_list(shop, codes="a,d,nothing") == ["d", "a"]
    assert codes_in_list(shop, loyaltyProgramId=program) == ["d"]
    assert codes_in_list(shop, loyaltyProgramId=program + 10**6) == []
    assert codes_in_list(shop, codes="c,b", tags="a", type="accrual") == ["c"]


@pytest.mark.parametrize(
    ("parameter", "value"),
    [("loyaltyProgramId", 0), ("limit", 101), ("limit", 0), ("order", "tags"), ("colour", "red"), ("codes", "")],
)
def test_an_invalid_query_of_the_list_of_campaigns_is_refused(administration, parameter, value):
    problem = administration.get("/campaigns", expect=400, **{parameter: value})
    assert [fault["parameter"] for fault in problem["errors"]] == [parameter]


@pytest.mark.parametrize(
    "column", ["campaignId", "code", "name", "active", "type", "validFrom", "validTo", "createdAt", "updatedAt"]
)
def test_campaigns_can_be_ordered_by_every_column(four_campaigns, column):
    shop, _ = four_campaigns
    for direction in ("", ",asc", ",desc"):
        records = shop.administration.get("/campaigns", order=column + direction)["results"]
        assert len(records) == 4
        check_order(records, column, tie_break="campaignId", descending=direction == ",desc")


def check_order(records, column, *, tie_break, descending):
    """Check that records are ordered by the column, those without a value last, and equal ones by `tie_break`."""
    values = [record[column] for record in records]
    present_values = [value for value in values if value is not None]
    assert present_values == sorted(present_values, reverse=descending)
    assert values[len(present_values) :] == [None] * (len(values) - len(present_values))
    for record, next_record in itertools.pairwise(records):
        if record[column] == next_record[column]:
            assert (record[tie_break] > next_record[tie_break]) is descending


# --- actions -----------------------------------------------------------------------------------------------------


@pytest.fixture
def campaign_path(administration):
    campaign = administration.post("/campaigns", {"code": new_code(), "name": "n"})["campaign"]
    return f"/campaigns/{campaign['campaignId']}"


def test_an_action_is_stored_with_all_its_fields(shop, administration, campaign_path):
    body = {
        "campaignVersionId": 1,
        "actionIndex": 7,
        "abortEvaluationIfFalse": True,
        "abortEvaluationOnError": True,
        "name": "Big orders",
        "rules": {"expression": "order.total   >= 20"},
        "effects": {
            "items": [
                {
                    "effectId": "mint-points",
                    "params": [
                        {"id": "ledgerAccountKey", "value": shop.organization.defaults.ledger_account_key},
                        {"id": "amount", "expression": "floor( order.total )"},
                        {"id": "expirationDate", "value": "2030-01-01T00:00:00Z"},
                        {"id": "recipient", "value": "sponsor"},
                        {"id": "description", "value": "Thanks"},
                    ],
                },
                effect("discount", type="amount", value=Decimal("1.10")),
            ]
        },
        "status": "draft",
        "priority": 5,
        "exclusiveGroup": "welcome",
        "externalKey": "big-orders",
    }
    action = administration.post(f"{campaign_path}/actions", body)["action"]
    assert action == {
        **body,
        "stackingGroupKey": None,
        "campaignVersionId": 2,
        "organizationId": shop.organization.id,
        "campaignId": int(campaign_path.rsplit("/", 1)[1]),
        "actionId": action["actionId"],
        "actionKey": str(uuid.UUID(action["actionKey"])),
        "createdAt": action["createdAt"],
        "updatedAt": action["createdAt"],
    }
    # The order of the fields is kept, too.
    assert list(action["effects"]["items"][0]["params"][0]) == ["id", "value"]
    assert administration.get(f"{campaign_path}/actions/{action['actionId']}") == {"action": action}


def test_an_update_changes_only_the_fields_of_an_action_that_it_sends(administration, campaign_path):
    body = running(mint(1), rule="order.total >= 20", name="Big orders", actionIndex=7, externalKey="big-orders")
    action = administration.post(f"{campaign_path}/actions", body)["action"]
    path = f"{campaign_path}/actions/{action['actionId']}"
    minimal_body = {"effects": {"items": []}, "status": "disabled", "priority": 0}
    updated_action = administration.put(path, minimal_body)["action"]
    assert updated_action == {
        **action,
        **minimal_body,
        "campaignVersionId": action["campaignVersionId"] + 1,
        "updatedAt": updated_action["updatedAt"],
    }
    assert updated_action["updatedAt"] > action["updatedAt"]
    assert administration.put(path, {**minimal_body, "actionIndex": 2})["action"]["actionIndex"] == 2


def test_an_action_gets_the_index_after_the_largest_one(administration, campaign_path):
    path = f"{campaign_path}/actions"
    bodies = [{}, {"actionIndex": 8}, {}, {"actionIndex": 3}, {}]
    actions = [administration.post(path, running(mint(1), **more))["action"] for more in bodies]
    assert [action["actionIndex"] for action in actions] == [0, 8, 9, 3, 10]


def test_a_rule_may_be_an_expression_tree(shop, administration, campaign_path):
    [parse_result] = administration.post(
        "/expressions/parse", {"inputs": [{"expression": "order.total >= 20"}]}, expect=200
    )["nodes"]
    body = {
        "effects": {"items": [mint(4)]},
        "status": "running",
        "priority": 1,
        "rules": {"node": parse_result["node"]},
    }
    action = administration.post(f"{campaign_path}/actions", body)["action"]
    assert action["rules"] == {"node": parse_result["node"]}
    member = shop.member()
    for total in (19, 20):
        shop.track_one(
            {
                "loyaltyMemberId": member,
                "systemUniqueKey": f"k-{total}",
                "eventType": "member-purchase-order-created",
                "payload": {"order": {"externalId": f"o-{total}", "total": total}},
            }
        )
    # Only the order of 20 satisfies the rule.
    assert shop.balance(member) == 4


@pytest.mark.parametrize(
    ("rule", "part", "code", "reason"),
    [
        pytest.param("order.total >=", "", "syntax", "unexpected end of expression", id="missing operand"),
        pytest.param(
            "order.total + 1.0",
            "order.total + 1.0",
            "type",
            "the expression must be true or false, this is a decimal",
            id="number",
        ),
        pytest.param(
            "1 > 0 && order.totl > 1",
            "order.totl",
            "unknown-field",
            "order has no field 'totl'; did you mean 'total'?",
            id="unknown field",
        ),
    ],
)
def test_a_faulty_rule_is_refused_with_the_position_of_the_fault(
    administration, campaign_path, rule, part, code, reason
):
    problem = administration.post(f"{campaign_path}/actions", running(mint(1), rule=rule), expect=400)
    [fault] = problem["errors"]
    assert (fault["pointer"], fault["code"]) == ("/rules/expression", code)
    assert fault["detail"].removesuffix(".") == f"rules.expression is not a valid expression: {reason}"
    # An expression that ends too early has its fault at the end.
    start = rule.index(part) if part else len(rule)
    assert (fault["start"], fault["end"]) == (start, start + len(part))
    assert administration.get(f"{campaign_path}/actions")["totalCount"] == 0


def test_all_faults_of_rules_and_effects_are_reported_at_once(administration, campaign_path):
    body = running(
        mint(("=", "order.total >")),
        {"effectId": "cake", "params": []},
        mint(True),
        effect("discount", type="free"),
        rule="order.colour == 'red'",
    )
    problem = administration.post(f"{campaign_path}/actions", body, expect=400)
    assert {fault["pointer"] for fault in problem["errors"]} == {
        "/rules/expression",
        "/effects/items/0/params/0/expression",
        "/effects/items/1/effectId",
        "/effects/items/2/params/0/value",
        "/effects/items/3/params/0/value",
        "/effects/items/3/params",
    }
    action = administration.post(f"{campaign_path}/actions", running(mint(1)))["action"]
    second_problem = administration.put(f"{campaign_path}/actions/{action['actionId']}", body, expect=400)
    assert second_problem["errors"] == problem["errors"]


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"status": "paused"}, "/status"),
        ({"status": None}, "/status"),
        ({"priority": -1}, "/priority"),
        ({"priority": None}, "/priority"),
        ({"effects": None}, "/effects"),
        ({"effects": {}}, "/effects/items"),
        ({"effects": {"items": [{"effectId": "mint-points"}]}}, "/effects/items/0/params"),
        ({"rules": {"expression": "true", "node": {"kind": "constant", "type": "bool", "value": True}}}, "/rules"),
        ({"rules": {"expression": ""}}, "/rules/expression"),
        ({"rules": {"text": "true"}}, "/rules/text"),
        ({"actionIndex": -1}, "/actionIndex"),
        ({"exclusiveGroup": ""}, "/exclusiveGroup"),
        ({"colour": "red"}, "/colour"),
    ],
)
def test_an_invalid_action_is_refused_with_a_pointer_to_the_fault(administration, campaign_path, change, pointer):
    problem = administration.post(f"{campaign_path}/actions", {**running(mint(1)), **change}, expect=400)
    assert {fault["pointer"] for fault in problem["errors"]} == {pointer}


# The statuses for the parameters amount, description, ledgerAccountKey and expirationDate.
@pytest.mark.parametrize(
    ("value", "statuses"),
    [
        pytest.param("x" * 2001, (400, 201, 404, 400), id="a long text"),
        (["a"], (400, 400, 400, 400)),
        ({"a": 1}, (400, 400, 400, 400)),
        (Decimal("1e300"), (201, 400, 400, 400)),
        (-1, (400, 400, 400, 400)),
        ("18446744073709551616", (400, 201, 404, 400)),
        # All parameters but the amount are optional.
        (None, (400, 201, 201, 201)),
        ("", (400, 201, 404, 400)),
        (10**60, (201, 400, 400, 400)),
    ],
)
def test_no_value_of_a_parameter_causes_a_server_error(shop, administration, campaign_path, value, statuses):
    names = ("amount", "description", "ledgerAccountKey", "expirationDate")
    for name, status in zip(names, statuses, strict=True):
        params = {"amount": 1, name: value}
        administration.post(f"{campaign_path}/actions", running(effect("mint-points", **params)), expect=status)
    # The actions that were accepted can be evaluated.
    shop.track_one({"loyaltyMemberId": shop.member(), "systemUniqueKey": "k", "eventType": "benefit-used"})


def test_a_literal_account_key_must_exist(administration, campaign_path, other_organization):
    for key in (str(uuid.uuid4()), other_organization.defaults.ledger_account_key):
        body = running(mint(1, ledgerAccountKey=key))
        problem = administration.post(f"{campaign_path}/actions", body, expect=404)
        assert problem["type"] == "/problems/unknown-ledger-account"


def test_an_action_belongs_to_its_campaign(administration, campaign_path):
    action = administration.post(f"{campaign_path}/actions", running(mint(1)))["action"]
    other_campaign = administration.post("/campaigns", {"code": new_code(), "name": "n"})["campaign"]
    path = f"/campaigns/{other_campaign['campaignId']}/actions/{action['actionId']}"
    administration.get(path, expect=404)
    administration.put(path, running(mint(1)), expect=404)
    administration.get(f"{campaign_path}/actions/{10**12}", expect=404)


@pytest.fixture
def four_actions(administration, campaign_path):
    """The path of the actions of a campaign, and its actions, oldest first."""
    path = f"{campaign_path}/actions"
    bodies = [
        {"name": "b", "status": "running", "priority": 2, "actionIndex": 5},
        {"name": None, "status": "draft", "priority": 1, "actionIndex": 4},
        {"name": "a", "status": "running", "priority": 2, "actionIndex": 3},
        {"name": "b", "status": "disabled", "priority": 3, "actionIndex": 3},
    ]
    return path, [administration.post(path, {**running(mint(1)), **body})["action"] for body in bodies]


def ids_of(actions):
    return [action["actionId"] for action in actions]


def test_actions_are_listed_newest_first_in_pages(administration, four_actions):
    path, actions = four_actions
    newest_first = ids_of(actions)[::-1]
    whole_list = administration.get(path)
    assert (whole_list["totalCount"], ids_of(whole_list["results"])) == (4, newest_first)
    assert ids_of(administration.get(path, page=1, limit=3)["results"]) == newest_first[3:]


def test_actions_can_be_filtered_by_their_status(administration, four_actions):
    path, (running_action, draft, other_running_action, disabled_action) = four_actions
    for status, expected_actions in (
        ("running", [other_running_action, running_action]),
        ("draft", [draft]),
        ("disabled", [disabled_action]),
    ):
        page = administration.get(path, status=status)
        assert (page["totalCount"], ids_of(page["results"])) == (len(expected_actions), ids_of(expected_actions))


@pytest.mark.parametrize("column", ["actionId", "actionIndex", "name", "status", "priority", "createdAt", "updatedAt"])
def test_actions_can_be_ordered_by_every_column(administration, four_actions, column):
    path, _ = four_actions
    for direction in ("", ",asc", ",desc"):
        records = administration.get(path, order=column + direction)["results"]
        assert len(records) == 4
        check_order(records, column, tie_break="actionId", descending=direction == ",desc")


@pytest.mark.parametrize(
    ("parameter", "value"), [("status", "paused"), ("order", "rules"), ("limit", 101), ("colour", "red")]
)
def test_an_invalid_query_of_the_list_of_actions_is_refused(administration, campaign_path, parameter, value):
    problem = administration.get(f"{campaign_path}/actions", expect=400, **{parameter: value})
    assert [fault["parameter"] for fault in problem["errors"]] == [parameter]


def test_keys_of_tiers_and_audiences_may_be_in_upper_case(organization):
    shop = Shop(organization)
    program_id = organization.defaults.loyalty_program_id
    [tier] = shop.administration.get(f"/loyalty-programs/{program_id}/tiers")["results"]
    body = {"name": "All", "active": True, "matcherType": "attribute-matcher", "matcher": {}}
    audience = shop.administration.post("/audiences", body)["audience"]
    tier_key, audience_key = tier["loyaltyTierKey"], audience["audienceKey"]
    campaign = shop.campaign(
        running(mint(5)),
        eventType=GENERIC,
        loyaltyTierKeys=[tier_key.upper()],
        audienceKeys=[audience_key.upper()],
    )
    assert (campaign["loyaltyTierKeys"], campaign["audienceKeys"]) == ([tier_key], [audience_key])
    member = shop.member()
    shop.track(event(member))
    assert shop.balance(member) == 5


def test_keys_of_accounts_may_be_in_upper_case(organization):
    shop = Shop(organization)
    account = shop.account()
    stars = account["ledgerAccountKey"]
    rule = {"type": "points", "limit": 7, "scope": "member", "period": "total", "ledgerAccountKey": stars.upper()}
    campaign = shop.campaign(
        running(mint(5, ledgerAccountKey=stars.upper())),
        eventType=GENERIC,
        limitRules=[rule],
        allowPartialApplicationOnLimit=True,
    )
    assert campaign["limitRules"][0]["ledgerAccountKey"] == stars
    member = shop.member()
    shop.track(event(member), event(member))
    # The limit cuts the second mint to 2.
    assert shop.balance(member, account["ledgerAccountId"]) == 7
    simulation = {"as": {"balances": {stars.upper(): 3}}, "event": {"eventType": GENERIC}}
    # The simulated event mints 5 points.
    accounts = shop.integration.post("/simulations", simulation, expect=200)["simulation"]["earn"]["accounts"]
    assert [(account["ledgerAccountKey"], account["available"]) for account in accounts] == [(stars, 5)]
