"""A step of the job that expires points posts a limited number of lots, with the same outcome as all at once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from handlers.server import jobs
from handlers.services import tiers
from handlers.services.ledger import expire
from handlers.services.wallet_batches import MAX_EXPIRED_LOTS
from persistence import organizations
from tests.builders.campaigns import mint
from tests.builders.points import Points
from tests.builders.tiers import TierSchedule
from tests.builders.tracking import Shop, running, spend

EXPIRED_LOTS = 5


@pytest.fixture
def shop(organization):
    """A shop in which members are at the tier Silver by 10 points, and Gold by 20."""
    shop = Shop(organization)
    TierSchedule.new(shop, Silver=10, Gold=20)
    return shop


def enrol_with_lots(shop, expiry):
    """A new member with a lot of 8 points that never expires, and five lots of 3 points that have expired.

    `expiry` is SQL for the moment.
    """
    member = shop.member()
    shop.give(member, 8)
    for _ in range(EXPIRED_LOTS):
        shop.give(member, 3)
    sql = f"UPDATE ledger_lots SET expires_at = {expiry} WHERE organization_id = :id AND amount = 3 AND remaining > 0"
    Points.default(shop.organization).change(sql, id=shop.organization.id)
    return member


def expire_in_steps(shop, members, monkeypatch, *, max_lots):
    """Run the job, each step of which expires up to `max_lots` lots.

    Returns the number of lots whose expiry is left, and the members' balances, after each step.
    """
    monkeypatch.setattr(expire, "MAX_EXPIRED_LOTS", max_lots)
    steps = []
    for _ in jobs._expire_batches(shop.organization.api.engine, shop.organization.id):
        shop.check_ledger()
        lots_left = [lot for lot in shop.rows("ledger_lots") if lot.amount == 3 and lot.remaining]
        steps.append((len(lots_left), [shop.balance(member) for member in members]))
    return steps


def events_of_expiries_and_tiers(shop):
    """The types, amounts and reasons of the events of expiries and tiers, in alphabetical order."""
    events = [row for row in shop.rows("events") if row.event_type != "member-created"]
    return sorted([(row.event_type, row.payload.get("amount"), row.reason) for row in events], key=str)


def expired_amount(shop):
    """The amount that has expired of all members, in all transactions."""
    return sum(row.amount for row in shop.rows("ledger_transactions") if row.is_expiry)


@pytest.mark.parametrize(("max_lots", "lots_left"), [(1, [4, 3, 2, 1, 0]), (2, [3, 1, 0]), (3, [2, 0]), (5, [0])])
def test_steps_have_the_outcome_of_the_expiry_of_all_lots_at_once(api, shop, monkeypatch, max_lots, lots_left):
    def run(shop, max_lots):
        # Points whose expiry is left to the next step are not in the balance, and cannot be burned.
        shop.campaign(running(spend(2), mint(1), rule="balances['points'] <= 8.0"), eventType="points-expired")
        member = enrol_with_lots(shop, "created_at")
        steps = expire_in_steps(shop, [member], monkeypatch, max_lots=max_lots)
        outcome = (shop.balance(member), expired_amount(shop), events_of_expiries_and_tiers(shop))
        return [lot_count for lot_count, _ in steps], outcome

    other_shop = Shop(api.organization())
    TierSchedule.new(other_shop, Silver=10, Gold=20)
    lots_left_at_once, outcome_at_once = run(other_shop, MAX_EXPIRED_LOTS)
    lots_left_by_step, outcome = run(shop, max_lots)
    assert outcome == outcome_at_once
    balance, expired, events = outcome
    # For each expired lot of 3 points, the campaign burns 2 of the 8 points and mints 1.
    assert (balance, expired) == (8 - EXPIRED_LOTS * (2 - 1), 3 * EXPIRED_LOTS)
    assert events.count(("points-expired", 3, "Points had expired.")) == EXPIRED_LOTS
    assert (lots_left_at_once, lots_left_by_step) == ([0], lots_left)


def test_the_next_step_begins_with_the_first_wallet_that_has_lots_left(shop, monkeypatch):
    members = [enrol_with_lots(shop, "created_at") for _ in range(2)]
    steps = expire_in_steps(shop, members, monkeypatch, max_lots=3)
    # Three of the 10 lots of both members expire in each step.
    assert steps == [(lot_count, [8, 8]) for lot_count in (10 - 3, 10 - 6, 10 - 9, 0)]
    assert expired_amount(shop) == 2 * 3 * EXPIRED_LOTS


def test_an_expiry_of_many_lots_is_reported_in_parts(shop, monkeypatch):
    shop.campaign(running(mint(1)), eventType="points-expired")
    member = enrol_with_lots(shop, "now()")
    steps = expire_in_steps(shop, [member], monkeypatch, max_lots=2)
    assert steps == [(3, [8 + 1]), (1, [8 + 2]), (0, [8 + 3])]
    events = events_of_expiries_and_tiers(shop)
    # One lot of 3 points, and twice two lots.
    assert [amount for event_type, amount, _ in events if event_type == "points-expired"] == [3, 2 * 3, 2 * 3]


@pytest.mark.parametrize("job", ["expire", "evaluate-tiers"])
@pytest.mark.parametrize("due_by", ["availability", "inactivity"])
def test_a_step_takes_another_wallet_only_if_both_have_at_most_the_maximum_of_due_mints(shop, monkeypatch, due_by, job):
    policies = [{"expirationType": "inactivity", "period": 1}] if due_by == "inactivity" else []
    account = shop.account(pointTrackingEnabled=True, expirationPolicies=policies)
    account_id = account["ledgerAccountId"]
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    when_available = {} if policies else {"availableAt": tomorrow.isoformat()}
    for _ in range(3):
        member = shop.member()
        for _ in range(2):
            shop.give(member, 5, ledgerAccountId=account_id, **when_available)
    next_step = expire.expire_next if job == "expire" else partial(tiers.evaluate_next, everyone=True)
    monkeypatch.setattr(expire, "MAX_DUE_ROWS", 3)
    monkeypatch.setattr(tiers, "MAX_DUE_ROWS", 3)
    wallet_ids = [row.wallet_id for row in shop.rows("members", order="wallet_id")]
    last_wallet_ids = [0]
    moment = datetime.now(UTC) + timedelta(days=100)
    with shop.engine.connect() as db:
        organization = organizations.find(db, shop.organization.id)
        while step := next_step(db, organization, last_wallet_ids[-1], moment):
            last_wallet_ids.append(step.last_wallet_id)
    # Each wallet has 2 due mints, so a step with two wallets would have 4.
    assert last_wallet_ids == [0, *wallet_ids]


def test_a_call_posts_all_expired_lots_of_its_member(shop, monkeypatch):
    members = [enrol_with_lots(shop, "created_at") for _ in range(2)]
    batches = jobs._expire_batches(shop.organization.api.engine, shop.organization.id)
    monkeypatch.setattr(expire, "MAX_EXPIRED_LOTS", 2)
    next(batches)
    for member in members:
        shop.take(member, 8)
    assert expired_amount(shop) == 2 * 3 * EXPIRED_LOTS
    assert [shop.balance(member) for member in members] == [0, 0]
    shop.check_ledger()
