"""The evaluation of an event: order, groups, aborts, effects, and the reasons why an action did not apply."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.campaigns.discounts import Basket
from domain.campaigns.restrictions import first_violated
from domain.ledger.postings import Holding
from domain.ledger.records import MAX_AMOUNT
from tests.builders.campaigns import (
    EVENT_TYPE,
    MEMBER_ID,
    NOON,
    SPONSOR_WALLET_ID,
    WALLET_ID,
    Bench,
    account,
    action,
    campaign,
    campaign_action_and_reason,
    effect,
    facts,
    group,
    mint,
    statuses,
)

MICROSECOND = timedelta(microseconds=1)


def problem(outcome):
    """The type of the problem of a skipped or failed effect."""
    return outcome.error["type"]


# --- which campaigns apply ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("restriction", "fields_of_event", "code"),
    # The event is dated NOON, a Wednesday, and has the EVENT_TYPE, unless the fields differ.
    [
        ({}, {}, None),
        ({"active": False}, {}, "CAMPAIGN_INACTIVE"),
        ({"event_type": "benefit-used"}, {}, "EVENT_TYPE"),
        ({"event_type": EVENT_TYPE}, {}, None),
        ({"enabled_topics": ("benefit-used",)}, {}, "EVENT_TYPE"),
        ({"event_type": "benefit-used", "enabled_topics": (EVENT_TYPE,)}, {}, None),
        ({"valid_from": NOON}, {}, None),
        ({"valid_from": NOON + MICROSECOND}, {}, "OUTSIDE_WINDOW"),
        ({"valid_from": NOON - MICROSECOND}, {}, None),
        ({"valid_to": NOON}, {}, None),
        ({"valid_to": NOON + MICROSECOND}, {}, None),
        ({"valid_to": NOON - MICROSECOND}, {}, "OUTSIDE_WINDOW"),
        ({"days_of_week": (3,)}, {}, None),
        ({"days_of_week": (1, 2, 4, 5, 6, 7)}, {}, "DAY_OF_WEEK"),
        ({"location_codes": ("centre",)}, {}, "LOCATION"),
        ({"location_codes": ("centre",)}, {"location_code": "harbour"}, "LOCATION"),
        ({"location_codes": ("centre", "harbour")}, {"location_code": "harbour"}, None),
        ({"loyalty_tier_keys": ("gold",)}, {"tier_keys": frozenset({"silver"})}, "TIER"),
        ({"loyalty_tier_keys": ("gold", "silver")}, {"tier_keys": frozenset({"silver", "other"})}, None),
        ({"audience_keys": ("young",)}, {}, "AUDIENCE"),
        ({"audience_keys": ("young",)}, {"audience_keys": frozenset({"young"})}, None),
        ({"currency": "EUR"}, {}, "CURRENCY"),
        ({"currency": "EUR"}, {"currency": "USD"}, "CURRENCY"),
        ({"currency": "EUR"}, {"currency": "EUR"}, None),
        ({"min_spend_value": Decimal("0.01")}, {}, "MIN_SPEND"),
        ({"min_spend_value": Decimal(20)}, {"spend": Decimal("19.99")}, "MIN_SPEND"),
        ({"min_spend_value": Decimal(20)}, {"spend": Decimal("20.00")}, None),
    ],
)
def test_a_campaign_applies_only_if_all_of_its_restrictions_match(restriction, fields_of_event, code):
    tested_campaign = campaign(action(1, mint(5)), **restriction)
    event = facts(**fields_of_event)
    violation = first_violated(tested_campaign.restrictions, event)
    assert (violation.code if violation else None) == code
    bench = Bench(tested_campaign)
    evaluation = bench.run(event, explaining=True)
    assert bench.balance() == (0 if code else 5)
    assert campaign_action_and_reason(evaluation)[0] == (1, None, code)
    if code:
        assert evaluation.explanations[0].reason.label
        assert len(evaluation.explanations) == 1


@pytest.mark.parametrize(
    ("restriction", "fields_of_event", "sentence"),
    [
        ({"event_type": "benefit-used"}, {}, f"the campaign does not apply to events of type {EVENT_TYPE}"),
        (
            {"valid_from": NOON + timedelta(hours=1)},
            {},
            f"the campaign begins at {(NOON + timedelta(hours=1)).isoformat()}, the event is dated {NOON.isoformat()}",
        ),
        (
            {"valid_to": NOON - timedelta(hours=1)},
            {},
            f"the campaign ended at {(NOON - timedelta(hours=1)).isoformat()}, the event is dated {NOON.isoformat()}",
        ),
        ({"location_codes": ("centre",)}, {"location_code": "moon"}, "the campaign does not run at location moon"),
        ({"location_codes": ("centre",)}, {}, "the event has no location"),
        ({"min_spend_value": Decimal(20)}, {"spend": Decimal("19.99")}, "the spend 19.99 is below 20"),
        ({"min_spend_value": Decimal(20)}, {}, "the event has no spend"),
        ({"currency": "EUR"}, {}, "the event has no currency"),
        ({"currency": "EUR"}, {"currency": "USD"}, "the campaign is for EUR, the event is in USD"),
    ],
)
def test_a_reason_has_the_value_of_the_event_in_its_sentence(restriction, fields_of_event, sentence):
    evaluation = Bench(campaign(action(1, mint(5)), **restriction)).run(facts(**fields_of_event), explaining=True)
    assert evaluation.explanations[0].reason.label == sentence
    assert not evaluation.explanations[0].applied


# 2 March 2026 is a Monday.
@pytest.mark.parametrize(("day_of_march", "day_of_week"), [(2, 1), (3, 2), (8, 7), (9, 1)])
def test_the_day_of_the_week_is_that_of_the_event_in_utc(day_of_march, day_of_week):
    event = facts(at=datetime(2026, 3, day_of_march, 23, 59, 59, tzinfo=UTC))
    assert first_violated(campaign(days_of_week=(day_of_week,)).restrictions, event) is None
    next_day_of_week = day_of_week % 7 + 1
    violation = first_violated(campaign(days_of_week=(next_day_of_week,)).restrictions, event)
    assert violation.code == "DAY_OF_WEEK"
    assert violation.reason(event).actual == day_of_week


# --- in which order actions run ----------------------------------------------------------------------------------


def test_actions_run_by_priority_then_campaign_then_index():
    campaign_10 = campaign(
        action(1, mint(1), priority=2, action_index=0),
        action(2, mint(1), priority=1, action_index=9),
        action(3, mint(1), priority=1, action_index=4),
        campaign_id=10,
    )
    campaign_20 = campaign(
        action(4, mint(1), priority=1, action_index=0),
        action(5, mint(1), priority=0, action_index=7),
        campaign_id=20,
    )
    for campaigns in ((campaign_10, campaign_20), (campaign_20, campaign_10)):
        evaluation = Bench(*campaigns).run()
        # Priority 0 is first. Of priority 1, the campaign 10 is first, in the order of the indexes.
        assert [outcome.action.action_id for outcome in evaluation.effects] == [5, 3, 2, 4, 1]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3), st.integers(0, 3)), max_size=12))
def test_the_order_never_depends_on_how_campaigns_are_listed(places):
    actions_by_campaign: dict[int, list] = {}
    for action_id, (priority, campaign_id, index) in enumerate(places, 1):
        listed_action = action(action_id, mint(1), priority=priority, action_index=index, campaign_id=campaign_id)
        actions_by_campaign.setdefault(campaign_id, []).append(listed_action)
    campaigns = [campaign(*reversed(actions), campaign_id=i) for i, actions in actions_by_campaign.items()]
    # Each place is a priority, a campaign and an index, and the ids of actions are in the order of the places.
    ids_by_priority = sorted(range(1, len(places) + 1), key=lambda action_id: (*places[action_id - 1], action_id))
    assert [outcome.action.action_id for outcome in Bench(*campaigns).run().effects] == ids_by_priority
    assert [outcome.action.action_id for outcome in Bench(*reversed(campaigns)).run().effects] == ids_by_priority


def test_only_the_first_action_of_an_exclusive_group_whose_rule_is_true_applies():
    first_campaign = campaign(
        action(1, mint(1), rule="false", exclusive_group="welcome"),
        action(2, mint(2), rule="true", exclusive_group="welcome"),
        action(3, mint(4), exclusive_group="other"),
    )
    second_campaign = campaign(action(4, mint(8), exclusive_group="welcome"), action(5, mint(16)), campaign_id=2)
    bench = Bench(first_campaign, second_campaign)
    evaluation = bench.run(explaining=True)
    assert [outcome.action.action_id for outcome in evaluation.effects] == [2, 3, 5]
    # The points of the actions 2, 3 and 5.
    assert bench.balance() == 2 + 4 + 16
    assert (2, 4, "EXCLUSIVE_GROUP") in campaign_action_and_reason(evaluation)


def test_the_first_action_whose_rule_is_true_excludes_its_group_even_if_a_limit_skips_it():
    limited_campaign = campaign(action(1, mint(1), exclusive_group="g"), max_transactions_per_member=0)
    other_campaign = campaign(action(2, mint(1), exclusive_group="g"), campaign_id=2)
    # The action 2 has no outcome.
    assert statuses(Bench(limited_campaign, other_campaign).run()) == [(1, "skipped")]


def test_an_exclusive_group_starts_again_with_each_event():
    bench = Bench(campaign(action(1, mint(1), exclusive_group="g")))
    bench.run()
    assert statuses(bench.run(facts(key="second"))) == [(1, "executed")]


@pytest.mark.parametrize(
    # The rule and the flags of the first action, and whether the second one runs.
    ("flags", "rule", "second_runs"),
    [
        ({}, "false", True),
        ({"abort_evaluation_on_error": True}, "false", True),
        ({"abort_evaluation_if_false": True}, "false", False),
        ({"abort_evaluation_if_false": True}, "true", True),
        ({}, "1 / 0 == 1", True),
        ({"abort_evaluation_if_false": True}, "1 / 0 == 1", True),
        ({"abort_evaluation_on_error": True}, "1 / 0 == 1", False),
        ({"abort_evaluation_on_error": True}, "true", True),
    ],
)
def test_abort_flags_stop_the_rest_of_their_campaign_and_no_other_campaign(flags, rule, second_runs):
    tested_campaign = campaign(action(1, mint(1), rule=rule, **flags), action(2, mint(2)))
    other_campaign = campaign(action(3, mint(4)), campaign_id=2)
    evaluation = Bench(tested_campaign, other_campaign).run(explaining=True)
    executed_ids = {outcome.action.action_id for outcome in evaluation.effects}
    assert (2 in executed_ids) is second_runs
    assert 3 in executed_ids
    assert ((1, 2, "ABORTED") in campaign_action_and_reason(evaluation)) is not second_runs


def test_a_failed_effect_aborts_only_if_its_action_has_the_flag():
    """The member has no point to burn."""
    for aborts in (True, False):
        tested_campaign = campaign(
            action(1, effect("burn-points", amount=1), abort_evaluation_on_error=aborts), action(2, mint(1))
        )
        evaluation = Bench(tested_campaign).run()
        statuses_without_abort = [(1, "failed"), (2, "executed")]
        assert statuses(evaluation) == ([(1, "failed")] if aborts else statuses_without_abort)
        assert problem(evaluation.effects[0]) == "/problems/insufficient-balance"


def test_a_rule_that_fails_does_not_apply_and_is_explained():
    evaluation = Bench(campaign(action(1, mint(1), rule="order.total > 3"))).run(explaining=True)
    assert evaluation.effects == []
    assert campaign_action_and_reason(evaluation) == [(1, None, None), (1, 1, "CONDITION_ERROR")]


def test_a_false_rule_is_explained_down_to_the_part_that_was_false():
    rule = "order.total > 3 && order.total < 5"
    evaluation = Bench(campaign(action(1, mint(1), rule=rule))).run(facts(7), explaining=True, tracing=True)
    reason = evaluation.explanations[1].reason
    assert reason.code == "CONDITION_FALSE"
    start, end = reason.at
    assert rule[start:end] == "order.total < 5"
    assert reason.label == "not true: order total is less than 5 (it is 7)"
    assert reason.actual[0]["value"] == 7
    assert evaluation.explanations[1].trace["value"] is False


# --- what effects do ---------------------------------------------------------------------------------------------


def test_a_mint_goes_to_the_named_account_of_the_member_or_the_sponsor():
    stars = account(2, decimals=2)
    tested_campaign = campaign(
        action(1, mint(5), mint(Decimal("1.25"), ledgerAccountKey="account-2"), mint(3, recipient="sponsor"))
    )
    bench = Bench(tested_campaign, accounts=[account(), stars])
    evaluation = bench.run(facts(sponsor_wallet_id=SPONSOR_WALLET_ID))
    assert [outcome.status for outcome in evaluation.effects] == ["executed"] * 3
    assert bench.balance() == 5
    assert bench.balance(ledger_account_id=2) == Decimal("1.25")
    assert bench.balance(SPONSOR_WALLET_ID) == 3
    assert dict(evaluation.effects[1].params) == {
        "amount": Decimal("1.25"),
        "ledgerAccountKey": "account-2",
        "recipient": "member",
        "expirationDate": None,
        "description": None,
    }


@pytest.mark.parametrize("kind", ["mint-points", "burn-points"])
def test_an_effect_for_a_missing_sponsor_is_skipped(kind):
    evaluation = Bench(campaign(action(1, effect(kind, amount=5, recipient="sponsor")))).run()
    assert statuses(evaluation) == [(1, "skipped")]
    assert problem(evaluation.effects[0]) == "/problems/no-sponsor"


@pytest.mark.parametrize(
    ("amount", "decimals", "balance"),
    [
        ("4.99", 0, 4),
        ("4.99", 1, Decimal("4.9")),
        ("0.000001", 6, Decimal("0.000001")),
        ("18446744073709", 6, 18446744073709),
        ("0." + "9" * 60, 0, 0),
        ("7." + "9" * 60, 6, Decimal("7.999999")),
        ("18446744073708." + "9" * 60, 6, Decimal("18446744073708.999999")),
    ],
)
def test_a_computed_amount_is_rounded_down_to_the_digits_of_the_account(amount, decimals, balance):
    accounts = [account(decimals=decimals)]
    bench = Bench(campaign(action(1, mint(Decimal(amount))), accounts=accounts), accounts=accounts)
    evaluation = bench.run()
    assert bench.balance() == balance
    assert evaluation.effects[0].status == ("executed" if balance else "skipped")


@pytest.mark.parametrize("kind", ["mint-points", "burn-points"])
def test_an_effect_whose_amount_evaluates_to_zero_is_skipped(kind):
    evaluation = Bench(campaign(action(1, effect(kind, amount=("=", "0.4"))))).run()
    assert statuses(evaluation) == [(1, "skipped")]
    assert problem(evaluation.effects[0]) == "/problems/zero-amount"


@pytest.mark.parametrize(
    ("amount", "slug"),
    [
        (("=", "0.0 - 1.0"), "effect-parameter"),
        (("=", "order.total"), "effect-parameter"),
        (("=", "1.0 / 0.0"), "effect-parameter"),
        (MAX_AMOUNT + 1, "invalid-request"),
        (Decimal("1e300"), "invalid-request"),
    ],
)
def test_an_invalid_amount_fails_only_its_effect(amount, slug):
    bench = Bench(campaign(action(1, mint(amount), mint(2))))
    evaluation = bench.run()
    assert statuses(evaluation) == [(1, "failed"), (1, "executed")]
    assert problem(evaluation.effects[0]) == f"/problems/{slug}"
    assert bench.balance() == 2


@pytest.mark.parametrize(("partial", "status"), [(True, "partial"), (False, "skipped")])
def test_a_limit_cuts_or_skips_even_an_amount_beyond_all_bounds(partial, status):
    tested_campaign = campaign(
        action(1, mint(Decimal("1e300"))),
        points_monthly_limit_per_member=Decimal(10),
        allow_partial_application_on_limit=partial,
    )
    bench = Bench(tested_campaign)
    evaluation = bench.run()
    assert evaluation.effects[0].status == status
    assert bench.balance() == (10 if partial else 0)
    # Less 10 points, it is still this number with the digits of the arithmetic.
    assert evaluation.limit_discarded == Decimal("1e300")


def test_an_inactive_full_or_unknown_account_fails_only_its_effect():
    accounts = [account(), account(2, active=False), account(3, max_supply=Decimal(4))]
    tested_campaign = campaign(
        action(
            1,
            mint(1, ledgerAccountKey="account-2"),
            mint(5, ledgerAccountKey="account-3"),
            mint(1, ledgerAccountKey=("=", '"account-" + "9"')),
            mint(4, ledgerAccountKey="account-3"),
        ),
        accounts=accounts,
    )
    evaluation = Bench(tested_campaign, accounts=accounts).run()
    assert [outcome.error and outcome.error["type"] for outcome in evaluation.effects] == [
        "/problems/account-inactive",
        "/problems/supply-exceeded",
        "/problems/effect-parameter",
        None,
    ]


def test_a_program_without_a_main_account_cannot_mint_without_a_key():
    tested_campaign = replace(campaign(action(1, mint(1))), main_account=None)
    evaluation = Bench(tested_campaign).run()
    assert statuses(evaluation) == [(1, "failed")]
    assert problem(evaluation.effects[0]) == "/problems/effect-parameter"


def test_a_burn_takes_points_that_an_earlier_action_of_the_event_gave():
    bench = Bench(campaign(action(1, mint(5)), action(2, effect("burn-points", amount=3))))
    assert statuses(bench.run()) == [(1, "executed"), (2, "executed")]
    assert bench.balance() == 5 - 3


def test_a_discount_is_computed_and_executes_nothing():
    tested_campaign = campaign(action(1, effect("discount", type="percentage", value=("=", "order.total / 10.0"))))
    bench = Bench(tested_campaign)
    evaluation = bench.run(facts(45))
    assert statuses(evaluation) == [(1, "executed")]
    defaults = {"base": "reduced", "per": "order"}
    assert dict(evaluation.effects[0].params) == {"type": "percentage", "value": Decimal("4.5"), **defaults}
    assert bench.session.steps == []


def test_a_computed_choice_outside_the_choices_fails_the_effect():
    tested_campaign = campaign(action(1, effect("discount", type=("=", '"free" + ""'), value=1)))
    evaluation = Bench(tested_campaign).run()
    assert statuses(evaluation) == [(1, "failed")]
    assert problem(evaluation.effects[0]) == "/problems/effect-parameter"


def test_the_expiry_and_the_description_of_a_mint_reach_its_posting():
    until = datetime(2026, 12, 31, tzinfo=UTC)
    accounts = [account(point_tracking_enabled=True)]
    tested_campaign = campaign(
        action(1, mint(5, expirationDate="2026-12-31T00:00:00Z", description="Winter")), accounts=accounts
    )
    bench = Bench(tested_campaign, accounts=accounts)
    bench.run(facts(external_event_date=NOON))
    [posting] = bench.session.steps
    assert [move.expires_at for move in posting.lot_moves] == [until]
    assert posting.details.description == "Winter"
    assert posting.details.loyalty_event_id == 1
    assert posting.details.external_event_date == NOON


def test_postings_of_one_event_have_keys_of_their_own():
    bench = Bench(
        campaign(action(1, mint(1), mint(1)), action(2, mint(1))), campaign(action(3, mint(1)), campaign_id=2)
    )
    bench.run()
    keys = [posting.details.system_unique_key for posting in bench.session.steps]
    assert len(keys) == 4
    assert len(set(keys)) == 4


def test_a_dry_run_reports_evaluated_where_a_full_run_reports_executed():
    """The burn of 99 fails, since the member has only the 5 points of the mint."""
    tested_campaign = campaign(action(1, mint(5), effect("burn-points", amount=99)))
    assert statuses(Bench(tested_campaign).run(explaining=True)) == [(1, "evaluated"), (1, "failed")]
    assert statuses(Bench(tested_campaign).run()) == [(1, "executed"), (1, "failed")]


def test_an_explanation_shows_which_actions_applied():
    limit = {"scope": "member", "type": "points", "period": "total", "limit": Decimal(5)}
    # The first action uses the whole limit of 5 points. A mint of 0 points uses nothing of it.
    tested_campaign = campaign(
        action(1, mint(5)),
        action(2, mint(1)),
        action(3, mint(0, qualifyingAmount=1), rule="false", abort_evaluation_if_false=True),
        action(4, mint(0, qualifyingAmount=1)),
        limit_rules=(limit,),
    )
    # Of the discounts of 5.00 and 6.00, the group applies the best one.
    contestants = [
        action(number, effect("discount", type="amount", value=number), stacking_group_key="g") for number in (5, 6)
    ]
    contest_campaign = campaign(*contestants, campaign_id=2, groups=[group(name="g")])
    evaluation = Bench(tested_campaign, contest_campaign).run(
        facts(total=100, basket=Basket(MEMBER_ID, Decimal(100), None, [])), explaining=True
    )
    explanations = [
        (
            explanation.action and explanation.action.action_id,
            explanation.applied,
            explanation.reason and explanation.reason.code,
        )
        for explanation in evaluation.explanations
    ]
    assert explanations == [
        # The two campaigns, and then their actions.
        (None, True, None),
        (None, True, None),
        (1, True, None),
        (2, False, "LIMIT_REACHED"),
        (3, False, "CONDITION_FALSE"),
        (4, False, "ABORTED"),
        (5, False, "BEATEN_BY"),
        (6, True, None),
    ]


def test_the_rules_of_actions_are_traced_only_on_request():
    tested_campaign = campaign(action(1, mint(1), rule="order.total > 3"), action(2, mint(1)))
    # The explanations are about the campaign, the action with a rule, and the action without one.
    explanations = Bench(tested_campaign).run(facts(7), explaining=True, tracing=True).explanations
    assert [explanation.trace and explanation.trace["value"] for explanation in explanations] == [None, True, None]
    untraced_explanations = Bench(tested_campaign).run(facts(7), explaining=True).explanations
    assert [explanation.trace for explanation in untraced_explanations] == [None, None, None]


def test_an_evaluation_is_explained_only_on_request():
    assert Bench(campaign(action(1, mint(1), rule="false"))).run().explanations == []


@given(
    st.lists(
        st.tuples(st.sampled_from(["mint-points", "burn-points"]), st.decimals(0, 50, places=1)),
        min_size=1,
        max_size=8,
    ),
    st.decimals(0, 60, places=0),
)
def test_burns_never_take_more_than_the_balance(effects, balance):
    actions = [action(i, effect(kind, amount=amount)) for i, (kind, amount) in enumerate(effects)]
    bench = Bench(campaign(*actions), holdings={(WALLET_ID, 1): Holding(current=balance)})
    evaluation = bench.run()
    expected_balance = balance
    for (kind, amount), outcome in zip(effects, evaluation.effects, strict=True):
        whole_amount = amount // 1
        if kind == "mint-points":
            expected_balance += whole_amount
        elif whole_amount <= expected_balance:
            expected_balance -= whole_amount
        else:
            assert outcome.status == "failed"
    assert expected_balance >= 0
    assert bench.balance() == expected_balance


# --- inactive members, faulty actions, and reports ---------------------------------------------------------------


@pytest.mark.parametrize("kind", ["mint-points", "burn-points"])
def test_points_of_inactive_members_and_sponsors_do_not_move(kind):
    of_member, of_sponsor = effect(kind, amount=5), effect(kind, amount=5, recipient="sponsor")
    holdings = {(wallet, 1): Holding(current=Decimal(9)) for wallet in (WALLET_ID, SPONSOR_WALLET_ID)}
    bench = Bench(campaign(action(1, of_member, of_sponsor)), holdings=holdings)
    evaluation = bench.run(facts(sponsor_wallet_id=SPONSOR_WALLET_ID, is_active=False, is_sponsor_active=False))
    assert [outcome.status for outcome in evaluation.effects] == ["skipped"] * 2
    assert [outcome.error["detail"] for outcome in evaluation.effects] == [
        "The member of the event is not active.",
        "The sponsor of the event is not active.",
    ]
    assert (bench.balance(), bench.balance(SPONSOR_WALLET_ID)) == (9, 9)


def test_an_inactive_member_gets_no_effect_but_receivers_are_notified():
    executors = dict.fromkeys(("notify", "assign-badge", "use-coupon"), lambda event, params: None)
    effects = (
        effect("notify", name="n"),
        effect("assign-badge", badgeKey="b"),
        effect("use-coupon", couponBookKey="b"),
        effect("discount", type="amount", value=1),
    )
    evaluation = Bench(campaign(action(1, *effects)), executors=executors).run(facts(is_active=False))
    assert [outcome.status for outcome in evaluation.effects] == ["executed", "skipped", "skipped", "skipped"]


def test_an_action_that_is_not_running_is_explained():
    draft_action = action(2, mint(1), status="draft")
    tested_campaign = replace(campaign(action(1, mint(1))), inactive_actions=(draft_action,))
    evaluation = Bench(tested_campaign).run(explaining=True)
    assert campaign_action_and_reason(evaluation) == [(1, None, None), (1, 2, "ACTION_NOT_RUNNING"), (1, 1, None)]
    assert evaluation.explanations[1].reason.label == "the action is draft"
    assert not evaluation.explanations[1].applied


def test_an_action_that_cannot_be_compiled_can_abort_its_campaign_and_excludes_no_group():
    faulty_action = action(1, mint(1), rule="nosuch(1)", abort_evaluation_on_error=True, exclusive_group="g")
    other_campaign = campaign(action(3, mint(1), exclusive_group="g"), campaign_id=2)
    evaluation = Bench(campaign(faulty_action, action(2, mint(1))), other_campaign).run(explaining=True)
    assert campaign_action_and_reason(evaluation) == [(1, None, None), (2, None, None), (1, 2, "ABORTED"), (2, 3, None)]


def test_an_action_that_cannot_be_compiled_is_an_error_of_each_event():
    evaluation = Bench(campaign(action(1, mint(1), rule="nosuch(1)"), action(2, mint(1)))).run()
    [error] = evaluation.errors
    assert (error.campaign_id, error.action_id, error.at) == (1, 1, None)
    assert "nosuch" in error.message
    assert statuses(evaluation) == [(2, "executed")]


def test_a_rule_that_fails_is_reported_with_its_place():
    rule = "event.payload.n > 0 && 1 / (order == null ? 0 : 1) > 0"
    event = facts()
    event.context["event"]["payload"]["n"] = Decimal(1)
    [error] = Bench(campaign(action(1, mint(1), rule=rule))).run(event).errors
    start, end = error.at
    assert rule[start:end] == "1 / (order == null ? 0 : 1)"


def test_an_evaluation_reports_at_most_100_errors():
    faulty_actions = [action(number, mint(1), rule="nosuch(1)") for number in range(1, 200)]
    assert len(Bench(campaign(*faulty_actions)).run().errors) == 100


def test_later_actions_see_the_balances_that_earlier_ones_have_left():
    event = facts()
    event.context["balancesAfter"] = {"account-1": Decimal(0)}
    tested_campaign = campaign(action(1, mint(5)), action(2, mint(1), rule="balancesAfter['account-1'] == 5"))
    assert statuses(Bench(tested_campaign).run(event)) == [(1, "executed"), (2, "executed")]


def test_a_cut_mint_reports_the_requested_amount():
    limit = {"scope": "member", "type": "points", "period": "total", "limit": Decimal(3)}
    tested_campaign = campaign(action(1, mint(5)), limit_rules=(limit,), allow_partial_application_on_limit=True)
    evaluation = Bench(tested_campaign).run()
    [outcome] = evaluation.effects
    params = dict(outcome.params)
    assert outcome.status == "partial"
    assert (params["amount"], params["requestedAmount"]) == (3, 5)
    assert outcome.error["detail"] == "The limit of 3 points of a member (total) is reached."
    assert evaluation.limit_discarded == 5 - 3


def test_an_effect_that_was_executed_entirely_has_no_requested_amount():
    [outcome] = Bench(campaign(action(1, mint(5)))).run().effects
    assert "requestedAmount" not in dict(outcome.params)


def test_a_reason_has_the_value_of_the_event():
    evaluation = Bench(campaign(active=False), campaign(campaign_id=2, event_type="benefit-used")).run(explaining=True)
    assert [(explanation.reason.actual, explanation.applied) for explanation in evaluation.explanations] == [
        (False, False),
        (EVENT_TYPE, False),
    ]


def test_postings_of_the_sponsor_lack_the_external_id_and_the_description_of_the_event():
    to_member, to_sponsor = mint(1), mint(1, recipient="sponsor")
    bench = Bench(
        campaign(action(1, to_member, to_sponsor, mint(1, recipient="sponsor", description="Thanks")), tags=("spring",))
    )
    bench.run(facts(sponsor_wallet_id=SPONSOR_WALLET_ID, external_id="order-17", description="Two mugs"))
    details = [posting.details for posting in bench.session.steps]
    assert [(detail.external_id, detail.description) for detail in details] == [
        ("order-17", "Two mugs"),
        (None, None),
        (None, "Thanks"),
    ]
    assert {(detail.tags, detail.loyalty_event_id) for detail in details} == {(("spring",), 1)}
