"""Dry runs: the reasons why campaigns do not apply, and evaluations at another moment."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.builders.campaigns import effect, mint
from tests.builders.tracking import ORDER_CREATED, Shop, event, order, running


@pytest.fixture
def shop(organization):
    return Shop(organization)


@pytest.fixture
def member(shop):
    return shop.member()


def dry_run(shop, loyalty_event, **body):
    """Track an event in a dry run; return its result."""
    [result] = shop.track(loyalty_event, executionMode="dryRun", **body)
    return result


def reasons(result):
    """The code of the reason and the actual value, by the name of the action, else the code of the campaign."""
    return {
        explanation["actionName"] or explanation["campaignCode"]: (
            explanation["reason"]["code"],
            explanation["reason"]["actual"],
        )
        for explanation in result["explain"]
        if "reason" in explanation
    }


def test_a_dry_run_also_explains_inactive_campaigns_and_actions(shop, member):
    shop.campaign(running(mint(1), name="Runs"), code="off", active=False)
    draft, disabled = ({**running(mint(1)), "name": status, "status": status} for status in ("draft", "disabled"))
    campaign = shop.campaign(draft, running(mint(1), name="Runs"), disabled, code="on")
    shop.campaign({**draft, "name": "unseen"}, code="elsewhere", eventType="benefit-used")
    result = dry_run(shop, event(member))
    assert reasons(result) == {
        "off": ("CAMPAIGN_INACTIVE", False),
        "elsewhere": ("EVENT_TYPE", "member-generic-event"),
        "draft": ("ACTION_NOT_RUNNING", "draft"),
        "disabled": ("ACTION_NOT_RUNNING", "disabled"),
    }
    assert [explanation["actionName"] for explanation in result["explain"] if explanation["applied"]] == [None, "Runs"]
    assert [outcome["status"] for outcome in result["effects"]] == ["evaluated"]
    result_of_one_campaign = dry_run(shop, event(member), campaignKeys=[campaign["campaignKey"]])
    assert {explanation["campaignCode"] for explanation in result_of_one_campaign["explain"]} == {"on"}
    assert shop.track_one(event(member))["effects"][0]["actionName"] == "Runs"


def test_an_explanation_has_the_first_reason_and_the_actual_value(shop, member):
    shop.campaign(running(mint(1)), code="spend", eventType=ORDER_CREATED, minSpendValue=20)
    shop.campaign(running(mint(1)), code="place", locationCodes=["moon"])
    shop.campaign(running(mint(1)), code="day", daysOfWeek=[1, 2, 3, 4, 5, 6])
    shop.campaign(running(mint(1)), code="later", validFrom="2026-03-02T00:00:00Z")
    shop.campaign(running(mint(3), name="limit"), code="limited", pointsMonthlyLimitPerMember=4)
    shop.campaign(running(mint(1), name="first", exclusiveGroup="g"), running(mint(1), name="2nd", exclusiveGroup="g"))
    # 1 March is a Sunday, the day 7. The limited campaign has given 3 of at most 4 points then.
    shop.track_one(order(member, 1, externalEventDate="2026-03-01T12:00:00Z"))
    purchase = order(member, Decimal("19.99"), externalEventDate="2026-03-01T12:00:00Z")
    purchase["payload"]["order"]["locationCode"] = "harbour"
    assert reasons(dry_run(shop, purchase)) == {
        "spend": ("MIN_SPEND", Decimal("19.99")),
        "place": ("LOCATION", "harbour"),
        "day": ("DAY_OF_WEEK", 7),
        "later": ("OUTSIDE_WINDOW", "2026-03-01T12:00:00Z"),
        "limit": ("LIMIT_REACHED", 3),
        "2nd": ("EXCLUSIVE_GROUP", "g"),
    }


def test_a_requested_trace_includes_rules_that_were_true(shop, member):
    rule = "order.total > 3 && order.total < 9"
    shop.campaign(running(mint(1), rule=rule), eventType=ORDER_CREATED)
    for total, rule_value in ((5, True), (9, False)):
        # One explanation of the campaign, and one of its action.
        explanations = dry_run(shop, order(member, total))["explain"]
        assert [explanation["trace"] for explanation in explanations] == [{}, {}]
        traced_explanations = dry_run(shop, order(member, total), trace=True)["explain"]
        assert traced_explanations[0]["trace"] == {}
        trace = traced_explanations[1]["trace"]
        assert (trace["expression"], trace["value"]) == (rule, rule_value)
        assert [child["expression"] for child in trace["children"]] == ["order.total > 3", "order.total < 9"]
        assert [{**explanation, "trace": {}} for explanation in traced_explanations] == explanations


def test_a_dry_run_can_be_evaluated_as_of_a_later_moment(shop, member):
    shop.campaign(running(mint(1), rule="now > timestamp('2030-03-01T00:00:00Z')"), daysOfWeek=[5], code="fridays")
    # 7 March 2030 is a Thursday, 8 March a Friday.
    assert reasons(dry_run(shop, event(member), now="2030-03-07T18:00:00Z")) == {"fridays": ("DAY_OF_WEEK", 4)}
    result = dry_run(shop, event(member), now="2030-03-08T18:00:00+00:00")
    assert [outcome["status"] for outcome in result["effects"]] == ["evaluated"]
    # An event with a date is evaluated as of its date.
    result_of_thursday = dry_run(
        shop, event(member, externalEventDate="2030-03-07T18:00:00Z"), now="2030-03-08T18:00:00Z"
    )
    assert reasons(result_of_thursday) == {"fridays": ("DAY_OF_WEEK", 4)}


def test_limits_and_windows_depend_on_the_requested_moment(shop, member):
    shop.campaign(running(mint(5)), pointsMonthlyLimitPerMember=5, validTo="2031-01-01T00:00:00Z")
    # All points of this month.
    shop.track_one(event(member))
    [outcome] = dry_run(shop, event(member))["effects"]
    assert outcome["status"] == "skipped"
    [outcome] = dry_run(shop, event(member), now="2030-03-07T18:00:00Z")["effects"]
    assert outcome["status"] == "evaluated"
    assert dry_run(shop, event(member), now="2031-03-07T18:00:00Z")["effects"] == []


def test_points_that_expire_before_the_requested_moment_have_expired_only_in_the_dry_run(shop, member):
    account = shop.account(pointTrackingEnabled=True, expiresInMonths=1)
    shop.give(member, 50, ledgerAccountId=account["ledgerAccountId"])
    shop.campaign(running(mint(1), rule=f"balances['{account['ledgerAccountKey']}'] >= 50"))
    assert len(dry_run(shop, event(member))["effects"]) == 1
    assert dry_run(shop, event(member), now="2040-01-01T00:00:00Z")["effects"] == []
    assert shop.balance(member, account["ledgerAccountId"]) == 50
    shop.check_ledger()


def test_points_that_become_available_and_holds_that_end_before_the_requested_moment_count_in_the_dry_run(shop, member):
    account = shop.account(redemption={"pointsPerUnit": 1, "currency": "EUR"})
    account_key = account["ledgerAccountKey"]
    payment = {"points": 30, "orderTotal": 30, "ledgerAccountKey": account_key, "systemUniqueKey": "held"}
    shop.give(member, 30, ledgerAccountId=account["ledgerAccountId"])
    shop.integration.post(f"/members/{member}/points-payments", {**payment, "validFor": "PT1H"})
    shop.give(member, 7, ledgerAccountId=account["ledgerAccountId"], availableAt="2100-01-01T00:00:00Z")
    balance = f"balances['{account_key}']"
    shop.campaign(running(mint(("=", balance)), rule=f"{balance} > 0"))
    assert dry_run(shop, event(member))["effects"] == []
    [effect_in_2099] = dry_run(shop, event(member), now="2099-12-31T23:59:59Z")["effects"]
    [effect_in_2100] = dry_run(shop, event(member), now="2100-01-01T00:00:00Z")["effects"]
    amounts = [outcome["params"][0] for outcome in (effect_in_2099, effect_in_2100)]
    assert amounts == [{"id": "amount", "value": 30}, {"id": "amount", "value": 37}]


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"])
def test_the_first_and_the_last_moment_can_be_requested(shop, member, moment):
    account = shop.account(pointTrackingEnabled=True, expiresInMonths=1, name="Tracked")
    shop.give(member, 5, ledgerAccountId=account["ledgerAccountId"])
    shop.campaign(
        running(mint(1, ledgerAccountKey=account["ledgerAccountKey"])),
        limitRules=[
            {"scope": "member", "type": "points", "period": period, "limit": 9} for period in ("weekly", "yearly")
        ],
    )
    assert [outcome["status"] for outcome in dry_run(shop, event(member), now=moment)["effects"]] == ["evaluated"]


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"])
@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Niue"])
def test_the_first_and_the_last_moment_can_be_requested_in_any_time_zone(shop, member, moment, zone):
    limits = {"maxUsagesPerPeriod": 2, "usagePeriodType": "weekly", "timezone": zone, "daysOfWeek": list(range(1, 8))}
    body = {"name": "Cup", "type": "generated", "publishingStatus": "published", **limits}
    book = shop.integration.post("/coupon-books", body)["couponBook"]
    uses = (effect(name, couponBookKey=book["couponBookKey"]) for name in ("assign-coupon", "use-coupon"))
    shop.campaign(running(*uses))
    outcomes = dry_run(shop, event(member), now=moment)["effects"]
    assert [outcome["status"] for outcome in outcomes] == ["evaluated", "evaluated"]


@pytest.mark.parametrize("mode", ["full", "captureOnly", "authorize"])
def test_only_a_dry_run_accepts_a_moment_or_a_trace(shop, member, mode):
    body = {"events": [event(member)], "executionMode": mode, "now": "2030-01-01T00:00:00Z", "trace": True}
    problem = shop.integration.post("/events/track", body, expect=400)
    assert [error["pointer"] for error in problem["errors"]] == ["/now", "/trace"]
    assert shop.events(member) == []
    shop.track_one(event(member), executionMode=mode, now=None, trace=False)


def test_an_invalid_moment_is_refused(shop, member):
    body = {"events": [event(member)], "executionMode": "dryRun", "now": "2030-02-30T00:00:00Z"}
    problem = shop.integration.post("/events/track", body, expect=400)
    assert [error["pointer"] for error in problem["errors"]] == ["/now"]
