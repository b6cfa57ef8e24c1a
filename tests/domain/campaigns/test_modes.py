"""The effects of each mode of execution, and the evaluation plans of campaigns."""

from __future__ import annotations

from decimal import Decimal

from domain.campaigns.compiled import MAX_PLANS, EvaluationPlans, compile_action
from domain.events import AUTHORIZE, DRY_RUN
from domain.expressions import EVENT_COST
from domain.ledger.postings import Holding
from domain.ledger.records import PENDING
from tests.builders.campaigns import (
    EVENT_TYPE,
    MEMBER_ID,
    WALLET_ID,
    Bench,
    account,
    action,
    campaign,
    effect,
    mint,
    statuses,
)


def test_an_authorization_posts_pending_and_calls_no_executor():
    calls = []
    tested_campaign = campaign(
        action(1, mint(5, expirationDate="2031-01-01T00:00:00Z"), effect("burn-points", amount=2)),
        action(2, effect("discount", type="amount", value=1), effect("assign-badge", badgeKey="b")),
        max_transactions_per_member=1,
    )
    bench = Bench(
        tested_campaign,
        accounts=[account(point_tracking_enabled=True)],
        holdings={(WALLET_ID, 1): Holding(current=Decimal(9))},
        executors={"assign-badge": lambda event, params: calls.append(event)},
    )
    evaluation = bench.run(mode=AUTHORIZE)
    assert statuses(evaluation) == [(1, "authorized"), (1, "authorized"), (2, "authorized"), (2, "authorized")]
    assert calls == []
    assert [step.status for step in bench.session.steps] == [PENDING, PENDING]
    pending_mint, pending_burn = bench.session.steps
    assert pending_mint.pending_expires_at is not None
    assert pending_burn.pending_expires_at is None
    holding = bench.session.holding(WALLET_ID, 1)
    assert (holding.current, holding.pending_credit, holding.pending_debit) == (9, 5, 2)
    [change] = bench.counters.changes()
    assert (change.key.member_id, change.used) == (MEMBER_ID, 1)
    assert evaluation.explanations == []
    # The campaign has the limit of one transaction.
    assert {outcome.status for outcome in bench.run(mode=AUTHORIZE).effects} == {"skipped"}


def test_a_rule_after_an_exhausted_budget_is_explained_by_its_cost():
    ten_numbers = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
    costly_rule = (
        f"{ten_numbers}.all(a, {ten_numbers}.all(b, {ten_numbers}.all(c, {ten_numbers}.all(d, a + b + c + d < 37))))"
    )
    actions = [action(number, mint(1), rule=costly_rule) for number in range(EVENT_COST // 100_000)]
    evaluation = Bench(campaign(*actions)).run(mode=DRY_RUN)
    # The first explanation is about the campaign.
    codes = [explanation.reason and explanation.reason.code for explanation in evaluation.explanations[1:]]
    # The first actions apply, all later ones are too costly.
    assert (codes[0], codes[-1]) == (None, "COST")
    assert codes == sorted(codes, key=lambda code: code is not None)


def test_a_plan_has_the_campaigns_of_a_type_and_is_built_once():
    campaign_of_type = campaign(action(1, mint(1), priority=2), campaign_id=1, event_type=EVENT_TYPE)
    campaign_of_other_type = campaign(action(2, mint(1)), campaign_id=2, event_type="benefit-used")
    campaign_of_all_types = campaign(action(3, mint(1), priority=1), campaign_id=3)
    plans = EvaluationPlans([campaign_of_type, campaign_of_other_type, campaign_of_all_types])
    plan = plans.plan_of(EVENT_TYPE)
    assert plan.campaigns == (campaign_of_type, campaign_of_all_types)
    ids_by_turn = [[compiled_action.record.action_id for _, compiled_action in turn.actions] for turn in plan.turns]
    assert ids_by_turn == [[3], [1]]
    assert plans.plan_of(EVENT_TYPE) is plan
    assert plans.plan_of("unheard-of").campaigns == (campaign_of_all_types,)


def test_a_hundred_plans_are_kept():
    plans = EvaluationPlans([campaign(action(1, mint(1)))])
    first_plans = [plans.plan_of(f"type-{number}") for number in range(MAX_PLANS)]
    assert [plans.plan_of(f"type-{number}") for number in range(MAX_PLANS)] == first_plans
    assert plans.plan_of("type-0") is first_plans[0]
    # One plan more replaces them all.
    plan = plans.plan_of("one-more")
    assert plans.plan_of("one-more") is plan
    assert plans.plan_of("type-0") is not first_plans[0]


def test_plans_report_limits_and_cooldowns_and_a_cooldown_counts_as_a_limit():
    plain_campaign, campaign_with_cooldown = campaign(), campaign(campaign_id=2, cooldown="P1D")
    limited_campaign = campaign(campaign_id=3, max_transactions_per_member=1)
    for campaigns, have_limits, have_cooldowns in (
        ([plain_campaign], False, False),
        ([plain_campaign, campaign_with_cooldown], True, True),
        ([plain_campaign, limited_campaign], True, False),
    ):
        plans = EvaluationPlans(campaigns)
        assert plans.have_limits is have_limits
        assert plans.have_cooldowns is have_cooldowns


def test_plans_can_be_narrowed_to_some_campaigns():
    campaign_1, campaign_2, campaign_3 = (campaign(campaign_id=number) for number in (1, 2, 3))
    plans = EvaluationPlans([campaign_1, campaign_2, campaign_3])
    assert plans.restrict_to(["campaign-3", "campaign-1"]).campaigns == (campaign_1, campaign_3)


def test_an_action_with_unchanged_rules_and_effects_is_not_recompiled():
    compiled_action = compile_action(action(1, mint(1), rule="order.total > 1"))
    renamed_action = compile_action(
        action(1, mint(1), rule="order.total > 1", name="New", campaign_version_id=2), compiled_action
    )
    assert renamed_action.rule is compiled_action.rule
    assert (renamed_action.record.name, renamed_action.record.campaign_version_id) == ("New", 2)
    recompiled_action = compile_action(action(1, mint(1), rule="order.total > 2"), compiled_action)
    assert recompiled_action.rule is not compiled_action.rule
