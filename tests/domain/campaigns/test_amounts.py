"""Effects report the executed amounts: all outcomes add up to the balances of the ledger."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from domain.campaigns.context import ExecutorResult
from domain.ledger.postings import Posting
from domain.problems import Conflict
from tests.builders.campaigns import Bench, account, action, campaign, effect, facts, mint
from tests.builders.tracking import spend

WHOLE, CENTS = account(1), account(2, decimals=2)
ACCOUNTS = [WHOLE, CENTS]

amounts = st.sampled_from(["0", "1", "2.5", "7.125", "10"]).map(Decimal) | st.sampled_from(
    [("=", "order.total * 0.15"), ("=", "order.total / 3.0"), ("=", "order.total - 20.0")]
)
accounts = st.sampled_from([{}, {"ledgerAccountKey": "account-2"}])
effects = st.one_of(
    st.builds(lambda amount, more: mint(amount, **more), amounts, accounts),
    st.builds(lambda amount, more: spend(amount, **more), amounts, accounts),
    st.builds(lambda amount: mint(amount, recipient="sponsor"), amounts),
)
rules = st.fixed_dictionaries(
    {
        "scope": st.sampled_from(["member", "campaign"]),
        "type": st.sampled_from(["points", "points", "transactions"]),
        "period": st.sampled_from(["daily", "total"]),
        "limit": st.sampled_from(["1", "3", "9.5", "40"]).map(Decimal),
    },
    optional={"ledgerAccountKey": st.sampled_from(["account-1", "account-2"])},
)
campaigns = st.lists(
    st.fixed_dictionaries(
        {
            "effects": st.lists(st.lists(effects, min_size=1, max_size=2), min_size=1, max_size=3),
            "limit_rules": st.lists(rules, max_size=2),
            "allow_partial_application_on_limit": st.booleans(),
        }
    ),
    min_size=1,
    max_size=3,
)


def amounts_of(evaluation):
    """The sums of the amounts of effects, by effect and account."""
    sums = {}
    for outcome in evaluation.effects:
        params = dict(outcome.params)
        effect_and_account = (outcome.effect_id, params["ledgerAccountKey"] or "account-1")
        sums[effect_and_account] = sums.get(effect_and_account, 0) + params["amount"]
    return sums


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    descriptions=campaigns, totals=st.lists(st.integers(0, 9999).map(lambda cents: Decimal(cents) / 100), max_size=5)
)
def test_the_amounts_of_effects_add_up_to_the_postings_of_the_ledger(descriptions, totals):
    compiled_campaigns = []
    for number, description in enumerate(descriptions, 1):
        actions = [
            action(10 * number + place, *action_effects) for place, action_effects in enumerate(description["effects"])
        ]
        settings = {name: value for name, value in description.items() if name != "effects"}
        settings["limit_rules"] = tuple(settings["limit_rules"])
        compiled_campaigns.append(campaign(*actions, campaign_id=number, accounts=ACCOUNTS, **settings))
    bench = Bench(*compiled_campaigns, accounts=ACCOUNTS)
    # Both sums are by effect and account.
    reported_sums = {}
    for total in totals:
        for effect_and_account, amount in amounts_of(bench.run(facts(total))).items():
            reported_sums[effect_and_account] = reported_sums.get(effect_and_account, 0) + amount
    posted_sums = {}
    for step in bench.session.steps:
        assert isinstance(step, Posting)
        effect_and_account = ("mint-points" if step.minted else "burn-points", step.account.ledger_account_key)
        posted_sums[effect_and_account] = posted_sums.get(effect_and_account, 0) + step.amount
    assert {key: amount for key, amount in reported_sums.items() if amount} == posted_sums


def test_an_outcome_has_the_requested_amount_if_another_was_executed():
    limits = ({"scope": "member", "type": "points", "period": "total", "limit": Decimal(3)},)
    limited_campaign = campaign(
        action(1, mint(("=", "order.total"))), limit_rules=limits, allow_partial_application_on_limit=True
    )
    [cut_outcome] = Bench(limited_campaign).run(facts("10.5")).effects
    assert cut_outcome.status == "partial"
    assert cut_outcome.params[:2] == (("amount", 3), ("requestedAmount", Decimal("10.5")))
    # The member has no points.
    [failure] = Bench(campaign(action(1, spend(5)))).run(facts()).effects
    assert failure.status == "failed"
    assert failure.params[:2] == (("amount", 0), ("requestedAmount", 5))
    [full_outcome] = Bench(campaign(action(1, mint(5)))).run(facts()).effects
    assert "requestedAmount" not in dict(full_outcome.params)


@pytest.mark.parametrize(
    ("performed_amount", "reported_amount"),
    [
        pytest.param(Decimal(1), 1, id="amount of the executor"),
        pytest.param(None, Decimal("1.5"), id="requested amount if the executor reports none"),
    ],
)
def test_effects_with_an_executor_report_the_executed_amount(performed_amount, reported_amount):
    badge_campaign = campaign(action(1, effect("assign-badge", badgeKey="b", amount=Decimal("1.5"))))
    executors = {"assign-badge": lambda event, params: ExecutorResult(amount=performed_amount)}
    [outcome] = Bench(badge_campaign, executors=executors).run(facts()).effects
    assert dict(outcome.params)["amount"] == reported_amount
    [planned_outcome] = Bench(badge_campaign).run(facts(), mode="authorize").effects
    assert dict(planned_outcome.params)["amount"] == Decimal("1.5")


def test_an_effect_that_executes_a_part_is_partial_and_reports_the_reason():
    part = ExecutorResult(amount=Decimal(6), refusal=Conflict("No more."))
    mission_campaign = campaign(action(1, effect("advance-mission", missionKey="m", amount=7)))
    [outcome] = Bench(mission_campaign, executors={"advance-mission": lambda event, params: part}).run(facts()).effects
    params = dict(outcome.params)
    assert (outcome.status, outcome.error["detail"]) == ("partial", "No more.")
    assert (params["amount"], params["requestedAmount"]) == (6, 7)


def test_a_refused_effect_has_the_amount_0():
    def refuse(event, params):
        raise Conflict("No.")

    badge_campaign = campaign(action(1, effect("assign-badge", badgeKey="b", amount=2)))
    [outcome] = Bench(badge_campaign, executors={"assign-badge": refuse}).run(facts()).effects
    params = dict(outcome.params)
    assert outcome.status == "skipped"
    assert (params["amount"], params["requestedAmount"]) == (0, 2)
