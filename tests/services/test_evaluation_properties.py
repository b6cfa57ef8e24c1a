"""For random campaigns, members and events: a dry run predicts the full run and changes nothing; cancelling reverts it.

The events of an example name the keys of its campaigns, so that no other campaigns apply; all examples share the
mission and the tiers.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import Phase, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from sqlalchemy import text

from tests.builders import missions
from tests.builders.badges import Badges, assigns, unassigns
from tests.builders.campaigns import effect, mint
from tests.builders.tiers import TierSchedule
from tests.builders.tracking import GENERIC, ORDER_CREATED, Shop, event, order, running, spend

# An example takes half a second: shrinking would take minutes, and the examples are small.
QUICK = hypothesis_settings(
    max_examples=hypothesis_settings.default.max_examples // 10, phases=[Phase.explicit, Phase.reuse, Phase.generate]
)


@dataclass(frozen=True)
class World:
    """The organization, and the keys of the records that its campaigns use; `points` and `stars` are accounts."""

    shop: Shop
    points: str
    stars: str
    gold: str
    badge: dict[str, Any]
    mission: str


@pytest.fixture(scope="module")
def world(api):
    shop = Shop(api.organization())
    stars = shop.account(decimals=2, pointTrackingEnabled=True, expiresInMonths=12)["ledgerAccountKey"]
    badge = Badges(shop).create()
    mission = missions.create(shop, goalCount=2, pointsAccrual=4, maxRepetitions=2)
    accounts = shop.rows("ledger_accounts", "ledger_account_key::text", order="is_default_account DESC")
    yield World(shop, accounts[0][0], stars, TierSchedule.new(shop, Gold=10).key("Gold"), badge, mission["missionKey"])
    shop.check_ledger()


# --- random campaigns and events ---------------------------------------------------------------------------------

AMOUNT = st.integers(1, 9) | st.sampled_from([("=", "0.0"), ("=", "order.total / 3"), Decimal("2.5"), Decimal("7.125")])


def effects(world: World) -> st.SearchStrategy[dict[str, Any]]:
    recipient = st.sampled_from(["member", "member", "sponsor"])
    return st.one_of(
        st.builds(lambda amount, to: mint(amount, recipient=to), AMOUNT, recipient),
        st.builds(lambda amount: mint(amount, ledgerAccountKey=world.stars), AMOUNT),
        st.builds(spend, st.integers(1, 8)),
        st.builds(lambda value: effect("discount", type="amount", value=value), st.integers(1, 5)),
        st.builds(lambda amount: assigns(world.badge, amount=amount), st.integers(1, 2)),
        st.just(unassigns(world.badge)),
        st.just(effect("advance-mission", missionKey=world.mission)),
        st.just(effect("notify", name="hello")),
    )


def rules(world: World) -> st.SearchStrategy[str | None]:
    return st.sampled_from(
        [
            None,
            None,
            "order.total >= 20",
            "balances['points'] >= 5",
            f"'{world.gold}' in tiers",
            f"badges['{world.badge['badgeKey']}'] < 2",
            f"missions['{world.mission}'].timesAchieved > 0",
            "event.tags.exists(t, t == 'red')",
        ]
    )


def actions(world: World) -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(
        lambda action_effects, rule, **more: running(*action_effects, rule=rule, **more),
        st.lists(effects(world), min_size=1, max_size=3),
        rules(world),
        priority=st.integers(1, 3),
        exclusiveGroup=st.sampled_from([None, None, "one"]),
        abortEvaluationIfFalse=st.booleans(),
        abortEvaluationOnError=st.booleans(),
    )


def limits(scopes: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {
            "scope": st.sampled_from(scopes),
            "type": st.sampled_from(["points", "transactions"]),
            "period": st.sampled_from(["daily", "monthly", "total"]),
            "limit": st.integers(1, 12),
        }
    )


def campaigns(world: World, types: list[str | None], scopes: list[str]) -> st.SearchStrategy[Any]:
    body = st.fixed_dictionaries(
        {
            "eventType": st.sampled_from(types),
            "limitRules": st.lists(limits(scopes), max_size=2),
            "allowPartialApplicationOnLimit": st.booleans(),
            "minSpendValue": st.sampled_from([None, None, 10]),
            "loyaltyTierKeys": st.sampled_from([[], [], [], [world.gold]]),
        }
    )
    return st.lists(st.tuples(body, st.lists(actions(world), min_size=1, max_size=3)), min_size=1, max_size=2)


def events(has_sponsor: bool) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Drafts of events of two members, whose ids `tracked_events` fills in."""
    sponsor = st.sampled_from([None, "ana", "ben"] if has_sponsor else [None])
    draft = st.fixed_dictionaries(
        {
            "member": st.sampled_from(["ana", "ana", "ben"]),
            "total": st.none() | st.integers(1, 40),
            "sponsor": sponsor,
            "tags": st.sampled_from([[], ["red"]]),
        }
    )
    return st.lists(draft, min_size=1, max_size=5)


@contextmanager
def running_campaigns(shop: Shop, drawn_campaigns: Any) -> Iterator[list[str]]:
    """The keys of new campaigns, which are made inactive afterwards, so that other examples do not use them."""
    campaigns = [shop.campaign(*acts, **body) for body, acts in drawn_campaigns]
    try:
        yield [campaign["campaignKey"] for campaign in campaigns]
    finally:
        # Also if Hypothesis ends an example early, else cancellations in other examples would start these campaigns.
        for campaign in campaigns:
            body = {"code": campaign["code"], "name": campaign["name"], "active": False}
            shop.administration.put(f"/campaigns/{campaign['campaignId']}", body)


def tracked_events(drawn_events: list[dict[str, Any]], names: dict[str, str]) -> list[dict[str, Any]]:
    """The bodies of the drawn events; `names` has the loyaltyMemberId of each drafted member."""
    bodies = []
    for draft in drawn_events:
        member, more = names[draft["member"]], {"tags": draft["tags"]}
        if draft["sponsor"] is not None:
            more["sponsorLoyaltyMemberId"] = names[draft["sponsor"]]
        body = event(member) if draft["total"] is None else order(member, draft["total"])
        bodies.append({**body, **more})
    return bodies


def new_members(shop: Shop) -> dict[str, str]:
    """Two new members: ana with 6 points, and ben with none."""
    names = {name: shop.member(loyalty_member_id=f"{name}-{uuid.uuid4()}") for name in ("ana", "ben")}
    shop.give(names["ana"], 6)
    return names


# --- what is compared --------------------------------------------------------------------------------------------


def all_rows(shop: Shop) -> tuple[Any, ...]:
    """A digest of every row of the organization in every table, and the value of every sequence."""
    with shop.organization.api.engine.connect() as db:
        tables = db.execute(
            text("SELECT table_name FROM information_schema.columns WHERE column_name = 'organization_id' ORDER BY 1")
        ).scalars()
        digest = "SELECT count(*), md5(coalesce(string_agg(t::text, '|' ORDER BY t::text), '')) FROM {} t"
        rows = {
            table: tuple(
                db.execute(
                    text(f"{digest.format(table)} WHERE organization_id = :id"), {"id": shop.organization.id}
                ).one()
            )
            for table in tables
        }
        sequences = db.execute(text("SELECT sequencename, last_value FROM pg_sequences ORDER BY 1")).all()
        return rows, [tuple(sequence) for sequence in sequences]


STATE = {
    "points": (
        "SELECT m.loyalty_member_id, b.ledger_account_id, b.current_balance, b.pending_debit_balance,"
        " b.pending_credit_balance, b.current_overdraft_balance FROM ledger_balances b JOIN members m"
        " USING (organization_id, wallet_id) WHERE b.organization_id = :id AND b.current_balance <> 0"
    ),
    "lots": (
        "SELECT m.loyalty_member_id, l.ledger_account_id, l.expires_at, sum(l.remaining) FROM ledger_lots l"
        " JOIN members m USING (organization_id, wallet_id) WHERE l.organization_id = :id AND l.remaining > 0"
        " GROUP BY 1, 2, 3"
    ),
    "limits": (
        "SELECT coalesce(m.loyalty_member_id, ''), campaign_id, type, period, used FROM campaign_limit_counters"
        " LEFT JOIN members m USING (organization_id, member_id) WHERE organization_id = :id AND used <> 0"
    ),
    "tiers": (
        "SELECT m.loyalty_member_id, t.loyalty_tier_id FROM member_tiers t JOIN members m"
        " USING (organization_id, member_id) WHERE organization_id = :id"
    ),
    "badges": (
        "SELECT m.loyalty_member_id, badge_id, assigned_balance FROM member_badges JOIN members m"
        " USING (organization_id, member_id) WHERE organization_id = :id AND assigned_balance <> 0"
    ),
}


def state(shop: Shop) -> dict[str, set[tuple[Any, ...]]]:
    """What each member has, by loyaltyMemberId; the limits of all members together have the empty text."""
    rows_by_member: dict[str, set[tuple[Any, ...]]] = defaultdict(set)
    with shop.organization.api.engine.connect() as db:
        for subject, statement in STATE.items():
            for row in db.execute(text(statement), {"id": shop.organization.id}):
                rows_by_member[row[0]].add((subject, *row[1:]))
    return rows_by_member


def progress(world: World, names: dict[str, str]) -> dict[str, Any]:
    """The members' progress in the mission: how often they achieved it, and the current count."""
    balances = {name: missions.progress_of(world.shop, member, world.mission) for name, member in names.items()}
    return {name: (balance["timesAchieved"], balance["currentCounterCount"]) for name, balance in balances.items()}


def comparable(result: dict[str, Any]) -> dict[str, Any]:
    """A result without the fields in which a dry run and a full run differ."""
    fields = {name: value for name, value in result.items() if name not in ("loyaltyEventKey", "explain")}
    fields["effects"] = list(map(as_executed, result["effects"]))
    fields["missions"] = [
        {**mission, "rewards": list(map(as_executed, mission["rewards"]))} for mission in result["missions"]
    ]
    return fields


def as_executed(outcome: dict[str, Any]) -> dict[str, Any]:
    """An effect or a reward as if it had been executed."""
    return {**outcome, "status": outcome["status"].replace("evaluated", "executed")}


POSTED = """
SELECT t.transaction_type, a.ledger_account_key::text, t.status, sum(t.amount) FROM ledger_transactions t
JOIN ledger_accounts a USING (organization_id, ledger_account_id)
JOIN members m ON m.organization_id = t.organization_id AND m.wallet_id = coalesce(t.to_wallet_id, t.from_wallet_id)
WHERE t.organization_id = :id AND m.loyalty_member_id = ANY(:names) GROUP BY 1, 2, 3
"""
TYPES = {"mint-points": 1, "burn-points": 2}


def posted_amounts(shop: Shop, names: dict[str, str]) -> dict[tuple[Any, ...], Decimal]:
    """The minted (1) and burned (2) amounts by type, account key and status, which is pending (0) or settled (1)."""
    with shop.organization.api.engine.connect() as db:
        rows = db.execute(text(POSTED), {"id": shop.organization.id, "names": list(names.values())})
        return {tuple(key): amount for *key, amount in rows}


def reported_sums(results: list[dict[str, Any]], default: str, mode: str) -> dict[tuple[Any, ...], Decimal]:
    """The points that effects and rewards of missions mint and burn by the responses, as `posted_amounts`."""
    sums: dict[tuple[Any, ...], Decimal] = defaultdict(Decimal)
    for result in results:
        for outcome in result["effects"]:
            if outcome["effectId"] in TYPES and outcome["status"] != "failed":
                params = {param["id"]: param["value"] for param in outcome["params"]}
                # An effect that a limit has cut is `partial`, also if it was authorized.
                is_reserved = outcome["status"] == "authorized" or (
                    outcome["status"] == "partial" and mode == "authorize"
                )
                status = 0 if is_reserved else 1
                sums[TYPES[outcome["effectId"]], params.get("ledgerAccountKey") or default, status] += params["amount"]
        for reward in (reward for mission in result["missions"] for reward in mission["rewards"]):
            if reward["kind"] == "points":
                sums[TYPES["mint-points"], reward["ledgerAccountKey"], 1] += reward["amount"]
    return {place: amount for place, amount in sums.items() if amount}


# --- the properties ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@QUICK
@given(data=st.data())
def test_a_dry_run_predicts_the_full_run_and_changes_nothing(world, data):
    shop = world.shop
    types = [None, GENERIC, ORDER_CREATED, "badge-assigned", "member-tier-set", "mission-status-updated"]
    with running_campaigns(shop, data.draw(campaigns(world, types, ["member", "campaign"]))) as keys:
        names = new_members(shop)
        batch = tracked_events(data.draw(events(has_sponsor=True)), names)
        before = all_rows(shop)
        predictions = shop.track(*batch, executionMode="dryRun", campaignKeys=keys, trace=data.draw(st.booleans()))
        assert all_rows(shop) == before
        results = shop.track(*batch, campaignKeys=keys)
        assert [comparable(result) for result in results] == list(map(comparable, predictions))


@pytest.mark.slow
@QUICK
@given(data=st.data())
def test_cancelling_all_events_newest_first_restores_the_state_before_them(world, data):
    shop = world.shop
    with running_campaigns(shop, data.draw(campaigns(world, [GENERIC, ORDER_CREATED], ["member", "campaign"]))) as keys:
        names = new_members(shop)
        before, missions_before = state(shop), progress(world, names)
        results = shop.track(*tracked_events(data.draw(events(has_sponsor=True)), names), campaignKeys=keys)
        for result in reversed(results):
            shop.integration.post(f"/events/{result['loyaltyEventKey']}/cancel", {}, expect=200)
        assert state(shop) == before
        assert progress(world, names) == missions_before


@pytest.mark.slow
@QUICK
@given(data=st.data())
def test_cancelling_the_events_of_one_member_keeps_those_of_another_in_between(world, data):
    shop = world.shop
    with running_campaigns(shop, data.draw(campaigns(world, [GENERIC, ORDER_CREATED], ["member"]))) as keys:
        names = new_members(shop)
        state_before, missions_before = state(shop), progress(world, names)
        drawn_events = data.draw(events(has_sponsor=False))
        results = shop.track(*tracked_events(drawn_events, names), campaignKeys=keys)
        state_between, missions_between = state(shop), progress(world, names)
        for drawn_event, result in reversed(list(zip(drawn_events, results, strict=True))):
            if drawn_event["member"] == "ana":
                shop.integration.post(f"/events/{result['loyaltyEventKey']}/cancel", {}, expect=200)
        state_after, missions_after = state(shop), progress(world, names)
        assert state_after[names["ana"]] == state_before[names["ana"]]
        assert state_after[names["ben"]] == state_between[names["ben"]]
        assert missions_after == {"ana": missions_before["ana"], "ben": missions_between["ben"]}


@pytest.mark.slow
@QUICK
@given(data=st.data())
def test_tracking_reports_exactly_the_points_that_the_ledger_mints_and_burns(world, data):
    shop = world.shop
    with running_campaigns(shop, data.draw(campaigns(world, [GENERIC, ORDER_CREATED], ["member", "campaign"]))) as keys:
        names = new_members(shop)
        before = posted_amounts(shop, names)
        mode = data.draw(st.sampled_from(["full", "full", "authorize"]))
        results = shop.track(
            *tracked_events(data.draw(events(has_sponsor=True)), names), campaignKeys=keys, executionMode=mode
        )
        after = posted_amounts(shop, names)
        increases = {place: amount - before.get(place, 0) for place, amount in after.items()}
        reported_amounts = reported_sums(results, world.points, mode)
        assert reported_amounts == {place: amount for place, amount in increases.items() if amount}
        for result in results:
            assert shop.integration.get(f"/events/{result['loyaltyEventKey']}")["result"] == result


def test_every_effect_of_the_examples_can_be_executed(world):
    """The properties above prove something only if effects of every kind are executed."""
    shop = world.shop
    names = new_members(shop)
    all_effects = [
        mint(5),
        mint(Decimal("2.5"), ledgerAccountKey=world.stars),
        mint(1, recipient="sponsor"),
        spend(2),
        effect("discount", type="amount", value=1),
        assigns(world.badge),
        unassigns(world.badge),
        effect("advance-mission", missionKey=world.mission),
        effect("notify", name="hello"),
    ]
    with running_campaigns(shop, [({"eventType": GENERIC}, [running(*all_effects)])]) as keys:
        sponsored_event = event(names["ana"], sponsorLoyaltyMemberId=names["ben"])
        [result] = shop.track(sponsored_event, campaignKeys=keys)
        assert [outcome["error"] for outcome in result["effects"] if outcome["status"] != "executed"] == []
        # Ana had 6 points. The event and the effect count for the mission, whose goal is 2, so it gives 4 points.
        assert shop.balance(names["ana"]) == 6 + 5 - 2 + 4
        assert state(shop)[names["ana"]] != set()
