"""Campaigns that change badges and tiers: a dry run predicts the full run, and cancelling restores the prior state."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.builders.api import running_api
from tests.builders.badges import Badges, assigns, unassigns
from tests.builders.campaigns import effect, mint
from tests.builders.tiers import TierSchedule
from tests.builders.tracking import GENERIC, Shop, event, running

FUTURE = "2099-12-31T23:00:00Z"
# The rules of campaigns by the event type that they react to. A tier that points change is reported again when the
# points are clawed back, which would start the campaign again: the rule accepts only tiers that are set by hand.
RULES = {GENERIC: None, "badge-assigned": None, "badge-unassigned": None, "member-tier-set": "event.payload.isManual"}

EFFECTS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from([assigns, unassigns]), st.integers(0, 1), st.integers(1, 3)),
        st.tuples(st.just("set-tier"), st.sampled_from(["Basic", "Silver", "Gold"]), st.sampled_from([None, FUTURE])),
        st.tuples(st.just("mint"), st.none(), st.integers(1, 200)),
    ),
    min_size=1,
    max_size=3,
)
CAMPAIGNS = st.lists(st.tuples(st.sampled_from(sorted(RULES)), EFFECTS), min_size=1, max_size=3)


@pytest.fixture(scope="module")
def api(settings):
    with running_api(replace(settings, validate_responses=False)) as api:
        yield api


def state(shop) -> dict[str, Any]:
    """The badges, tiers and points of all members."""
    columns = "member_id, loyalty_program_id, loyalty_tier_id, is_manual, expires_at"
    return {
        "badges": {
            row[:2]: row[2] for row in shop.rows("member_badges", "member_id, badge_id, assigned_balance") if row[2]
        },
        "tiers": sorted(map(tuple, shop.rows("member_tiers", columns, order="1, 2"))),
        "points": {row.wallet_id: row.current_balance for row in shop.rows("ledger_balances") if row.current_balance},
    }


def effects_of(results):
    """Id, status and error type of each effect; the status is `executed` also for effects of a dry run."""
    return [
        (effect["effectId"], effect["status"].replace("evaluated", "executed"), effect.get("error", {}).get("type"))
        for result in results
        for effect in result["effects"]
    ]


@pytest.mark.slow
@settings(max_examples=8, suppress_health_check=list(HealthCheck))
@given(campaigns=CAMPAIGNS, badge_balances=st.tuples(st.integers(0, 3), st.integers(0, 3)), by_hand=st.booleans())
def test_a_dry_run_predicts_effects_on_badges_and_tiers_and_cancelling_reverts_them(
    api, campaigns, badge_balances, by_hand
):
    shop = Shop(api.organization())
    badges, tiers = Badges(shop), TierSchedule.new(shop, Silver=100, Gold=300)
    new_badges, member = [badges.create() for _ in badge_balances], shop.member()
    for badge, amount in zip(new_badges, badge_balances, strict=True):
        if amount:
            badges.assign(member, badge, amount=amount)
    if by_hand:
        tiers.set(member, "Silver", expiresAt=FUTURE)

    def make_effect(kind, subject, value):
        """A mint of so many points, a tier by its name with its end, or a change of a badge by its index and amount."""
        if kind == "mint":
            return mint(value)
        if kind == "set-tier":
            key = tiers.program["loyaltyProgramKey"]
            return effect(kind, loyaltyProgramKey=key, loyaltyTierKey=tiers.key(subject), expiresAt=value)
        return kind(new_badges[subject], amount=value)

    for event_type, effects in campaigns:
        action_effects = [make_effect(*arguments) for arguments in effects]
        shop.campaign(running(*action_effects, rule=RULES[event_type]), eventType=event_type)
    former_states, all_results = [state(shop)], []
    for _ in range(3):
        body = event(member)
        predictions = shop.track(body, executionMode="dryRun")
        assert state(shop) == former_states[-1]
        results = shop.track(body)
        assert effects_of(results) == effects_of(predictions)
        all_results += results
        former_states.append(state(shop))
    for result in reversed(all_results):
        former_states.pop()
        shop.integration.post(f"/events/{result['loyaltyEventKey']}/cancel", {}, expect=200)
        assert state(shop) == former_states[-1]
    shop.check_ledger()
