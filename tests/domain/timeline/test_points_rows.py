"""The sentences and ids of timeline rows about points, and where the points came from."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from domain.ledger.records import BURN, MINT, PENDING, REVERT, REVERTED, SETTLED, TRANSFER
from domain.timeline.points import PointsFact, PointsReleaseFact, Source, source_of_request, sources_of_event

RECORDED_AT = datetime(2026, 3, 2, 8, 15, tzinfo=UTC)
HAPPENED_AT = datetime(2026, 3, 1, 17, 0, tzinfo=UTC)
SPRING = Source("campaign", "SPRING", 3)
REQUEST = Source("request")

RECEIVED_POINTS = PointsFact(
    ledger_transaction_id=1,
    created_at=RECORDED_AT,
    external_event_date=None,
    ledger_account_id=2,
    ledger_account_key="account-2",
    account_name="Points",
    transaction_type=MINT,
    status=SETTLED,
    amount=Decimal(30),
    reserved_amount=None,
    captured_at=None,
    moved=Decimal("30.00"),
    balance=Decimal("1130.00"),
    is_expiry=False,
    is_extension=False,
    is_requested=False,
    system_unique_key="event-7:0",
    description=None,
    is_outgoing=False,
    reverted_ledger_transaction_id=None,
    reversal_ledger_transaction_id=None,
    loyalty_event_id=7,
    has_wait=False,
    reverts_pending=False,
)
NOTHING_MOVED = {"moved": Decimal(0), "balance": None}


@pytest.mark.parametrize(
    ("changes", "source", "sentence"),
    [
        # 30 points were received, and the balance is 1130, unless `changes` says otherwise.
        ({}, SPRING, "30 Points were received by the campaign SPRING; the balance was 1,130."),
        ({"balance": None}, SPRING, "30 Points were received by the campaign SPRING."),
        ({"balance": None}, Source("campaign"), "30 Points were received by the campaign."),
        ({"balance": None}, Source("mission", "m-1"), "30 Points were received as the reward of the mission m-1."),
        ({"balance": None}, Source("referral"), "30 Points were received for a referral."),
        # A description that repeats the name of the campaign is left out.
        ({"balance": None, "description": "SPRING"}, SPRING, "30 Points were received by the campaign SPRING."),
        (
            {"balance": None, "description": "Double."},
            SPRING,
            "30 Points were received by the campaign SPRING: Double.",
        ),
        (
            {"balance": None, "description": "Winter"},
            SPRING,
            "30 Points were received by the campaign SPRING: Winter.",
        ),
        ({"balance": None, "moved": Decimal(-30)}, Source("coupon"), "30 Points were taken for a coupon."),
        ({"balance": None, "moved": Decimal(-30)}, Source("expiry"), "30 Points expired."),
        (
            {"balance": None, "moved": Decimal(-30)},
            Source("reversal"),
            "30 Points were taken by the reversal of an event.",
        ),
        (
            {"balance": None, "transaction_type": TRANSFER},
            REQUEST,
            "30 Points came from another wallet by request.",
        ),
        (
            {"balance": None, "transaction_type": TRANSFER, "moved": Decimal("0.5")},
            REQUEST,
            "0.5 Points came from another wallet by request.",
        ),
        ({"balance": None, "moved": Decimal("0.5")}, REQUEST, "0.5 Points were received by request."),
        (
            {"balance": None, "transaction_type": TRANSFER, "moved": Decimal(-30)},
            REQUEST,
            "30 Points went to another wallet by request.",
        ),
        (
            {"balance": None, "transaction_type": REVERT, "reverted_ledger_transaction_id": 4},
            REQUEST,
            "30 Points were received, since the transaction 4 was reverted.",
        ),
        (
            {"balance": None, "transaction_type": REVERT, "reverted_ledger_transaction_id": 4},
            Source("coupon"),
            "30 Points were received for a coupon.",
        ),
        (
            {**NOTHING_MOVED, "status": PENDING, "reserved_amount": Decimal(40)},
            REQUEST,
            "40 Points are pending by request.",
        ),
        ({**NOTHING_MOVED, "status": PENDING}, REQUEST, "30 Points are pending by request."),
        (
            {**NOTHING_MOVED, "status": PENDING, "is_outgoing": True, "transaction_type": BURN},
            REQUEST,
            "30 Points are held by request.",
        ),
        (
            {**NOTHING_MOVED, "status": REVERTED, "reserved_amount": Decimal(40)},
            REQUEST,
            "40 Points were released by request.",
        ),
        (
            {**NOTHING_MOVED, "transaction_type": REVERT, "reverted_ledger_transaction_id": 4},
            Source("reversal"),
            "30 Points could not be taken by the reversal of an event.",
        ),
        ({**NOTHING_MOVED, "amount": Decimal(0)}, REQUEST, "0 Points were received by request."),
        (
            {**NOTHING_MOVED, "amount": Decimal(0), "is_outgoing": True, "transaction_type": BURN},
            REQUEST,
            "0 Points were taken by request.",
        ),
        (
            {
                **NOTHING_MOVED,
                "transaction_type": REVERT,
                "reverted_ledger_transaction_id": 4,
                "reverts_pending": True,
            },
            REQUEST,
            "30 Points were cancelled while they were pending, since the transaction 4 was reverted.",
        ),
        (
            {"captured_at": RECORDED_AT, "reserved_amount": Decimal("40.00")},
            REQUEST,
            "30 Points were received by request, of 40 that were pending; the balance was 1,130.",
        ),
        (
            {"is_extension": True, "moved": Decimal(0)},
            SPRING,
            "The expiry of Points was extended by the campaign SPRING.",
        ),
        ({"reserved_amount": Decimal(40), "balance": None}, REQUEST, "30 Points were received by request."),
    ],
)
def test_the_text_of_a_points_row_says_what_happened_and_where_the_points_came_from(changes, source, sentence):
    assert replace(RECEIVED_POINTS, **changes).row(source).text == sentence


def test_a_row_of_points_has_the_ids_of_its_event_and_its_transaction():
    row = replace(RECEIVED_POINTS, description="Double", reversal_ledger_transaction_id=5).row(SPRING, "shop")
    assert (row.kind, row.by, row.loyalty_event_id, row.is_reversed) == ("points", "shop", 7, False)
    assert row.details == {
        "ledgerTransactionId": 1,
        "ledgerAccountId": 2,
        "ledgerAccountKey": "account-2",
        "transactionType": "mint",
        "isPending": False,
        "amount": 30,
        "pending": None,
        "balance": 1130,
        "source": "campaign",
        "campaignId": 3,
        "description": "Double",
        "systemUniqueKey": "event-7:0",
        "revertedLedgerTransactionId": None,
        "reversalLedgerTransactionId": 5,
    }


def test_the_row_of_pending_points_has_the_amount_0():
    row = replace(RECEIVED_POINTS, **NOTHING_MOVED, status=PENDING).row(REQUEST)
    assert (row.details["isPending"], row.details["amount"], row.is_reversed) == (True, 0, False)


def test_a_row_about_points_that_have_waited_reports_the_pending_amount():
    points = replace(RECEIVED_POINTS, moved=Decimal(0), amount=Decimal(20), reserved_amount=Decimal(30), has_wait=True)
    row = replace(points, captured_at=RECORDED_AT).row(SPRING)
    assert row.text == "30 Points were pending by the campaign SPRING; the balance was 1,130."
    assert (row.details["isPending"], row.details["amount"], row.details["pending"]) == (False, 0, 30)


def test_the_row_of_a_reverted_transaction_is_marked_as_reversed():
    assert replace(RECEIVED_POINTS, status=REVERTED).row(SPRING).is_reversed


@pytest.mark.parametrize(("external_date", "happened_at"), [(None, RECORDED_AT), (HAPPENED_AT, HAPPENED_AT)])
def test_a_points_row_happened_at_the_external_event_date_or_else_when_it_was_recorded(external_date, happened_at):
    row = replace(RECEIVED_POINTS, external_event_date=external_date).row(SPRING)
    assert (row.recorded_at, row.happened_at) == (RECORDED_AT, happened_at)


def effect(effect_id="mint-points", status="executed", campaign="SPRING", campaign_id=3):
    """A stored outcome of an effect, by default of the campaign `SPRING`."""
    return {"effectId": effect_id, "status": status, "campaignCode": campaign, "campaignId": campaign_id}


def mission(key, *rewards):
    """A stored outcome of a mission; `rewards` are pairs of a kind and a status."""
    return {"missionKey": key, "rewards": [{"kind": kind, "status": status} for kind, status in rewards]}


def test_the_source_of_a_transaction_of_an_event_follows_from_its_key():
    transactions = [
        (10, "e-7:0"),
        (11, "e-7:mission-0"),
        (12, "e-7:referral-4"),
        (13, "coupon-usage-5"),
        (14, "e-8:undo-1"),
        (15, "e-7:something"),
    ]
    missions = [mission("coffees", ("badge", "executed"), ("points", "executed"))]
    assert sources_of_event(transactions, [effect()], missions) == {
        10: SPRING,
        11: Source("mission", "coffees"),
        12: Source("referral"),
        13: Source("coupon"),
        14: Source("reversal"),
        15: Source("reversal"),
    }


def test_effects_that_posted_nothing_are_no_source_of_a_transaction():
    effects = [
        effect(status="skipped", campaign="A"),
        effect("assign-badge", campaign="B"),
        effect("burn-points", status="partial", campaign="C", campaign_id=5),
        effect(status="authorized", campaign="D", campaign_id=6),
    ]
    # Positions count all effects, also effects without a posting; as texts, 10 sorts before 2.
    sources = sources_of_event([(1, "e:10"), (2, "e:2")], effects, missions=None)
    assert sources == {2: Source("campaign", "C", 5), 1: Source("campaign", "D", 6)}


def test_an_executed_extension_of_the_expiry_is_the_source_of_a_transaction():
    # An authorized extension posts nothing.
    effects = [
        effect("extend-expiry", status="authorized", campaign="A"),
        effect("extend-expiry", campaign="B", campaign_id=5),
        effect(campaign="C", campaign_id=6),
    ]
    sources = sources_of_event([(1, "e:1"), (2, "e:2")], effects, missions=None)
    assert sources == {1: Source("campaign", "B", 5), 2: Source("campaign", "C", 6)}


def test_a_reward_that_was_paid_in_part_is_the_source_of_a_transaction():
    missions = [mission("a", ("points", "partial")), mission("b", ("points", "executed"))]
    sources = sources_of_event([(1, "e:mission-0"), (2, "e:mission-1")], effects=None, missions=missions)
    assert sources == {1: Source("mission", "a"), 2: Source("mission", "b")}


def test_rewards_that_gave_no_points_are_no_source_of_a_transaction():
    missions = [
        mission("a", ("points", "failed"), ("coupon", "executed")),
        mission("b", ("points", "executed"), ("points", "executed")),
    ]
    sources = sources_of_event([(1, "e:mission-3"), (2, "e:mission-1")], effects=None, missions=missions)
    assert sources == {2: Source("mission", "b"), 1: Source("mission", "b")}


def test_sources_have_no_names_after_the_stored_outcomes_were_removed():
    transactions = [(1, "e:0"), (2, "e:1"), (3, "e:mission-0")]
    assert sources_of_event(transactions, effects=None, missions=None) == {
        1: Source("campaign"),
        2: Source("campaign"),
        3: Source("mission"),
    }
    # One effect is stored for two transactions, so neither has a name.
    assert sources_of_event(transactions[:2], [effect()], missions=None)[1] == Source("campaign")


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        pytest.param({"system_unique_key": "any"}, "request", id="another key"),
        pytest.param({"system_unique_key": "coupon-usage-1"}, "coupon", id="key of a coupon usage"),
        pytest.param({"system_unique_key": "mission-progress-1"}, "mission", id="key of a mission"),
        # Callers may choose any key, even one like those of the server.
        pytest.param({"system_unique_key": "coupon-usage-1", "is_requested": True}, "request", id="key of a caller"),
        pytest.param({"system_unique_key": "any", "is_expiry": True}, "expiry", id="expiry"),
    ],
)
def test_the_source_of_a_transaction_without_an_event_follows_from_its_key_unless_a_caller_chose_it(changes, kind):
    assert source_of_request(replace(RECEIVED_POINTS, **changes)) == Source(kind)


RELEASED_POINTS = PointsReleaseFact(
    loyalty_event_id=9,
    created_at=RECORDED_AT,
    external_event_date=None,
    loyalty_event_key="event-9",
    ledger_account_id=2,
    ledger_account_key="account-2",
    account_name="Points",
    amount=Decimal("30.00"),
    ledger_transaction_ids=(4, 5),
    cause_loyalty_event_id=7,
    actor=None,
)


def test_the_row_of_points_that_became_available_has_the_ids_of_their_transactions():
    row = RELEASED_POINTS.row()
    assert (row.kind, row.details_name, row.loyalty_event_id, row.is_reversed) == ("points", "pointsRelease", 7, False)
    assert (row.text, row.by, row.happened_at) == ("30 Points became available.", None, RECORDED_AT)
    assert row.details == {
        "loyaltyEventKey": "event-9",
        "ledgerAccountId": 2,
        "ledgerAccountKey": "account-2",
        "amount": 30,
        "ledgerTransactionIds": [4, 5],
    }


def test_points_that_a_caller_released_became_available_by_request():
    row = replace(RELEASED_POINTS, actor="shop", external_event_date=HAPPENED_AT).row()
    assert (row.text, row.by) == ("30 Points became available by request.", "shop")
    assert (row.recorded_at, row.happened_at) == (RECORDED_AT, HAPPENED_AT)
