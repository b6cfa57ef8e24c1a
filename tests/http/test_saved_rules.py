"""Refusals when campaigns and other rules are saved, and rules that fail later."""

from __future__ import annotations

import pytest

from domain.campaigns.compiled import compile_action
from handlers import metrics
from tests.builders import missions
from tests.builders.campaigns import action, effect, mint
from tests.builders.points import Points
from tests.builders.tracking import GENERIC, ORDER_CREATED, Shop, event, order, running


@pytest.fixture
def shop(organization):
    return Shop(organization)


@pytest.fixture
def member(shop):
    return shop.member()


def refuse_action(shop, body, **campaign):
    """Add an action to a new campaign, which must be refused with a 400; return the texts of the faults."""
    saved_campaign = shop.campaign(**campaign)
    path = f"/campaigns/{saved_campaign['campaignId']}/actions"
    problem = shop.administration.post(path, body, expect=400)
    assert shop.administration.get(path)["results"] == []
    return [error["detail"] for error in problem["errors"]]


@pytest.mark.parametrize(
    ("refused_effect", "text"),
    [
        (mint(-5), "amount of mint-points is -5, not more than 0."),
        (mint(0), "amount of mint-points is 0, not more than 0."),
        (
            effect("discount", type="percentage", value=150),
            "value of discount is 150 percent, which is more than 100.",
        ),
        (effect("discount", type="amount", value=-1), "value of discount is -1, which is not more than 0."),
        (mint(1, expirationDate="2001-01-01T00:00:00Z"), "expirationDate of mint-points is not in the future."),
        (effect("mint-point", amount=1), "effectId mint-point is no effect. Did you mean mint-points?"),
        (mint(1, amonut=2), "id amonut is no parameter of mint-points. Did you mean amount?"),
        (mint(1, recipient="nobody"), "value of recipient is not one of: member, sponsor."),
    ],
)
def test_an_effect_with_an_invalid_name_or_constant_is_refused(shop, refused_effect, text):
    assert refuse_action(shop, running(refused_effect)) == [text]


@pytest.mark.parametrize("rule", ["balances.pionts > 1", 'balancesAfter["pionts"] > 1'])
def test_the_refusal_of_an_unknown_account_names_the_existing_accounts(shop, rule):
    account = shop.account(alias="stars")
    [text] = refuse_action(shop, running(mint(1), rule=rule))
    assert text.startswith('rules.expression names "pionts", which is the key of no ledger account. ')
    assert f"{account['ledgerAccountKey']} (Stars)" in text
    assert "stars (Stars)" in text
    # A rule with the right alias is accepted.
    shop.campaign(running(mint(1), rule="balances.stars >= 0 && balancesAfter.stars >= 0"))


@pytest.mark.parametrize(
    "rule",
    [
        '"gold" in tiers',
        '!("gold" in tiers)',
        'tiers.exists(t, t == "gold")',
        'tiers.exists(t, t in ["gold"])',
        '["gold"] == tiers',
        'tiers.size() > 0 && tiers[0] == "gold"',
    ],
)
def test_a_rule_with_the_name_of_a_tier_is_refused_with_the_keys_of_the_tiers(shop, rule):
    program = shop.organization.defaults.loyalty_program_id
    tiers = shop.administration.get(f"/loyalty-programs/{program}/tiers")["results"]
    [text] = refuse_action(shop, running(mint(1), rule=rule))
    assert text.startswith('rules.expression names "gold", which is the key of no tier. ')
    assert f"{tiers[0]['loyaltyTierKey']} ({tiers[0]['name']})" in text
    # A rule with the key of a tier is accepted.
    shop.campaign(running(mint(1), rule=rule.replace("gold", tiers[0]["loyaltyTierKey"])))


@pytest.mark.parametrize(
    ("rule", "kind"),
    [
        ('"vip" in audiences', "audience"),
        ('"vip" in badges', "badge"),
        ("has(badges.vip)", "badge"),
        ('missions["vip"].timesAchieved > 1', "mission"),
    ],
)
def test_unknown_keys_of_other_kinds_are_refused(shop, rule, kind):
    assert refuse_action(shop, running(mint(1), rule=rule)) == [
        f'rules.expression names "vip", which is the key of no {kind}. There is none at all.'
    ]


def test_the_closest_key_is_suggested(shop):
    shop.account(alias="stars")
    [text] = refuse_action(shop, running(mint(1), rule="balances.satrs > 1"))
    assert "which is the key of no ledger account. Did you mean stars (Stars)? The existing keys are " in text
    program = shop.organization.defaults.loyalty_program_id
    [tier] = shop.administration.get(f"/loyalty-programs/{program}/tiers", limit=1)["results"]
    [text] = refuse_action(shop, running(mint(1), rule=f'"{tier["name"].lower()}" in tiers'))
    assert f"Did you mean {tier['loyaltyTierKey']} ({tier['name']})?" in text


def test_the_closest_event_type_is_suggested(shop):
    body = {"code": "c", "name": "n", "eventType": "member-creatd"}
    problem = shop.administration.post("/campaigns", body, expect=404)
    assert problem["detail"] == "There is no active event type member-creatd. Did you mean member-created?"


def test_keys_are_not_checked_for_a_local_variable_that_hides_tiers(shop):
    shop.campaign(running(mint(1), rule='[["gold"]].exists(tiers, "gold" in tiers)'))


def test_keys_in_effects_are_checked(shop):
    defaults = shop.organization.defaults
    [tier] = shop.administration.get(f"/loyalty-programs/{defaults.loyalty_program_id}/tiers")["results"]
    place = "effects.items[0].params[0].expression"
    assert refuse_action(shop, running(mint(("=", 'balances.nothing + ("gold" in tiers ? 1 : 2)')))) == [
        f'{place} names "nothing", which is the key of no ledger account.'
        f" The existing keys are {defaults.ledger_account_key} (Points), points (Points).",
        f'{place} names "gold", which is the key of no tier. The existing keys are {tier["loyaltyTierKey"]} (Member).',
    ]


def test_a_matcher_is_refused_where_events_have_no_items(shop):
    condition = {"field": "productCode", "operator": "equals", "value": "c"}
    matcher = {"name": "Coffee", "type": "item-matcher", "matcher": {"operator": "AND", "conditions": [condition]}}
    key = shop.administration.post("/matchers", matcher)["matcher"]["matcherKey"]
    rule = f'order.items.exists(i, matches(i, "{key}"))'
    texts = refuse_action(shop, running(mint(1), rule=rule), eventType="member-created")
    assert texts == ["rules call matches(), which looks at items of orders, and member-created has none."]


def test_limits_of_transactions_are_whole_numbers(shop):
    limit = {"scope": "member", "type": "transactions", "period": "daily", "limit": 1.5}
    body = {"code": "c", "name": "n", "limitRules": [limit]}
    problem = shop.administration.post("/campaigns", body, expect=400)
    [fault] = problem["errors"]
    assert (fault["detail"], fault["pointer"]) == (
        "limit of transactions is 1.5, not a whole number.",
        "/limitRules/0/limit",
    )


def test_a_campaign_that_ends_before_it_begins_is_refused(shop):
    window = {"validFrom": "2026-02-01T00:00:00Z", "validTo": "2026-01-01T00:00:00Z"}
    problem = shop.administration.post("/campaigns", {"code": "c", "name": "n", **window}, expect=400)
    assert problem["errors"][0]["detail"] == "validTo is before validFrom."


@pytest.mark.parametrize(
    ("param", "rules"),
    [
        ({"id": "amount", "value": None, "expression": "2 + 3"}, {"expression": "true", "node": None}),
        ({"id": "amount", "value": 5, "expression": None}, {"expression": "true", "node": {}}),
    ],
)
def test_null_next_to_a_value_is_the_same_as_a_missing_field(shop, member, param, rules):
    action_body = {**running({"effectId": "mint-points", "params": [param]}), "rules": rules}
    [saved_action] = shop.campaign(action_body, eventType=GENERIC)["actions"]
    assert saved_action["rules"] == {"expression": "true"}
    [applied_effect] = shop.track_one(event(member))["effects"]
    assert applied_effect["params"][0] == {"id": "amount", "value": 5}


def test_a_parameter_without_value_and_expression_is_refused(shop):
    body = running({"effectId": "mint-points", "params": [{"id": "amount", "expression": None}]})
    assert refuse_action(shop, body) == ["amount needs either a value or an expression."]


def test_campaigns_and_missions_of_a_deactivated_event_type_can_still_be_changed(shop):
    administration = shop.administration
    visit = {"apiCode": "visit", "name": "Visit", "schemaType": "custom"}
    shop.integration.post("/custom-event-types", visit)
    campaign = shop.campaign(eventType="visit", enabledTopics=["visit"])
    mission = {"name": "m", "eventType": "visit", "maxRepetitions": 1, "goalCount": 1, "code": "m"}
    mission_id = administration.post("/missions", mission)["mission"]["missionId"]
    shop.integration.patch("/custom-event-types/visit", {"active": False})
    body = {"code": campaign["code"], "name": "n", "eventType": "visit", "enabledTopics": ["visit"], "active": False}
    updated_campaign = administration.put(f"/campaigns/{campaign['campaignId']}", body)["campaign"]
    assert updated_campaign["active"] is False
    updated_mission = administration.put(f"/missions/{mission_id}", {**mission, "active": False})["mission"]
    assert updated_mission["active"] is False
    # New ones are refused.
    administration.post("/campaigns", {**body, "code": "other"}, expect=404)
    administration.post("/missions", {**mission, "code": "other"}, expect=404)


def test_rules_that_fail_are_reported_in_every_mode_and_counted(shop, member):
    # A generic event has no payment, so the first rule fails. The third rule is false.
    campaign = shop.campaign(
        running(mint(1), rule="payment.total > 5"), running(mint(2)), running(mint(3), rule="false"), eventType=GENERIC
    )
    error = {
        "campaignId": campaign["campaignId"],
        "actionId": campaign["actions"][0]["actionId"],
        "missionId": None,
        "message": 'null has no field "total"',
        "position": {"start": 0, "end": 13},
    }
    tracked_event = event(member)
    result = shop.track_one(tracked_event)
    assert result["errors"] == [error]
    assert [outcome["params"][0]["value"] for outcome in result["effects"]] == [2]
    assert shop.track_one(tracked_event)["errors"] == [error]
    [dry_result] = shop.track(event(member), executionMode="dryRun")
    assert dry_result["errors"] == [error]
    [authorization_result] = shop.track(event(member), executionMode="authorize")
    assert authorization_result["errors"] == [error]
    assert shop.track_one(order(member))["errors"] == []
    # The first event and the authorization are counted, the dry run and the repeated event are not.
    metric = (
        f'loyalty_rule_errors_total{{campaign="{campaign["campaignId"]}",organization="{shop.organization.id}"}} 2.0'
    )
    assert metric in metrics.exposition().decode()


def test_rules_see_the_balance_after_the_effects_of_the_event(shop, member):
    shop.account(alias="stars")
    key = shop.organization.defaults.ledger_account_key
    crosses_100 = f'balances["{key}"] < 100 && balancesAfter["{key}"] >= 100'
    shop.campaign(
        running(mint(60)),
        running(mint(7), rule=crosses_100, priority=2),
        eventType=ORDER_CREATED,
    )
    amounts = [
        [outcome["params"][0]["value"] for outcome in shop.track_one(order(member))["effects"]] for _ in range(3)
    ]
    # The balance is 60 after the first order, 120 + 7 after the second, which crosses 100, and 187 after the third.
    assert amounts == [[60], [60, 7], [60]]


def test_a_stored_action_whose_rule_is_no_longer_valid_has_a_fault_and_no_rule():
    # The repetitions of the pattern are too many.
    compiled_action = compile_action(action(1, mint(1), rule='"a".matches("(((a{1,99}){1,99}){1,99})")'))
    assert compiled_action.fault
    assert compiled_action.rule is None


def test_balances_include_rewards_of_missions_and_exclude_effects_of_the_event(shop):
    missions.create(shop, goalCount=1, pointsAccrual=5)
    actions = [running(mint(10)), running(mint(1, description=("=", "string(balances.points)")), priority=2)]
    shop.campaign(*actions, eventType=GENERIC)
    member = shop.member()
    # 5 by the mission before the effects; 10 and 1 by earlier effects.
    rule = "balances.points == 5 && balancesAfter.points == 16"
    shop.campaign(running(mint(100), rule=rule, priority=3), eventType=GENERIC)
    shop.track_one(event(member))
    assert shop.balance(member) == 5 + 10 + 1 + 100
    # The description of the second effect is the balance that its expression sees.
    assert "5" in {row.description for row in shop.rows("ledger_transactions", "description")}


def test_balances_exclude_points_on_hold(shop):
    member = shop.member()
    shop.give(member, 10)
    wallet = shop.integration.get(f"/members/{member}")["loyaltyMember"]["ledgerWalletId"]
    # A burn with manual capture holds the points.
    Points.default(shop.organization).burn(wallet, 4, captureMethod="manual")
    shop.campaign(running(mint(("=", "balances.points + 10.0 * balancesAfter.points"))), eventType=GENERIC)
    shop.track_one(event(member))
    # 6 of the 10 points are available: 6 + 10 * 6 are minted.
    assert shop.balance(member) == 10 + (6 + 10 * 6)
