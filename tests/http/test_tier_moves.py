"""Tiers that depend on the balance: every kind of movement changes the tier, and campaigns evaluate the change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from domain.ledger.records import SETTLED
from handlers.services.ledger.expire import expire_next
from persistence import organizations, transactions
from tests.builders.campaigns import mint
from tests.builders.tiers import TierSchedule
from tests.builders.tracking import GENERIC, ORDER_CREATED, WHOLE_DOLLARS, Shop, event, order, running, spend

SET = "member-tier-set"
TRANSACTION = "ledger-transaction-created"


@pytest.fixture
def shop(organization):
    return Shop(organization)


@pytest.fixture
def schedule(shop):
    return TierSchedule.new(shop, Silver=200, Gold=500)


@pytest.fixture
def member(schedule, shop):
    return shop.member()


def events_of_type(shop, member, event_type):
    """The member's events of a type, oldest first."""
    return [event for event in shop.events(member)[::-1] if event["eventType"] == event_type]


# --- every way in which points move ------------------------------------------------------------------------------


def test_points_that_events_mint_and_burn_move_the_tier(shop, schedule, member):
    shop.campaign(running(WHOLE_DOLLARS), eventType=ORDER_CREATED)
    shop.campaign(running(spend(400)), eventType=GENERIC)
    assert schedule.of(member) == "Basic"
    shop.track_one(order(member, 199))
    assert schedule.of(member) == "Basic"
    shop.track_one(order(member, 1))
    assert schedule.of(member) == "Silver"
    shop.track_one(order(member, 300))
    assert schedule.of(member) == "Gold"
    shop.track_one(event(member))
    assert schedule.of(member) == "Basic"
    assert schedule.moves(member) == [(SET, "Basic", "Silver"), (SET, "Silver", "Gold"), (SET, "Gold", "Basic")]
    shop.check_ledger()


def test_points_of_a_sponsor_move_the_sponsors_tier(shop, schedule, member):
    sponsor = shop.member()
    shop.campaign(running(mint(250, recipient="sponsor")), eventType=GENERIC)
    shop.track_one(event(member, sponsorLoyaltyMemberId=sponsor))
    assert (schedule.of(member), schedule.of(sponsor)) == ("Basic", "Silver")
    assert schedule.moves(sponsor) == [(SET, "Basic", "Silver")]
    assert schedule.moves(member) == []


def test_mints_and_burns_by_request_move_the_tier(shop, schedule, member):
    shop.give(member, 500)
    assert schedule.of(member) == "Gold"
    shop.take(member, 1)
    assert schedule.of(member) == "Silver"
    assert schedule.moves(member) == [(SET, "Basic", "Gold"), (SET, "Gold", "Silver")]
    [first, _] = events_of_type(shop, member, SET)
    assert first["reason"] == "Points were moved by request."
    assert first["evaluationStatus"] == 1


def wallet(shop, member):
    return shop.integration.get(f"/members/{member}")["loyaltyMember"]["ledgerWalletId"]


def transact(shop, path, body, expect=201):
    created = shop.organization.created
    base = f"/ledgers/{created.ledger_id}/accounts/{created.ledger_account_id}/transactions"
    return shop.administration.post(base + path, body, expect=expect)


def movement(amount, source=None, target=None, **more):
    return {"amount": amount, "fromWalletId": source, "toWalletId": target, **more}


def test_ledger_transactions_captures_and_reverts_move_the_tier(shop, schedule, member):
    other, member_wallet = shop.member(), wallet(shop, member)
    other_wallet = wallet(shop, other)
    mint_id = transact(shop, "", movement(600, target=member_wallet))["transactions"][0]["ledgerTransactionId"]
    assert schedule.of(member) == "Gold"
    transact(shop, "", movement(250, member_wallet, other_wallet))
    assert (schedule.of(member), schedule.of(other)) == ("Silver", "Silver")
    hold = transact(shop, "", movement(300, source=member_wallet, captureMethod="manual"))["transactions"][0]
    assert schedule.of(member) == "Silver"
    created = shop.organization.created
    path = f"/ledgers/{created.ledger_id}/accounts/{created.ledger_account_id}/captures"
    capture = {"transactions": [{"ledgerTransactionId": str(hold["ledgerTransactionId"]), "captureAmount": 200}]}
    shop.administration.request("POST", path, capture)
    assert shop.balance(member) == 150
    assert schedule.of(member) == "Basic"
    shop.give(member, 450)
    assert schedule.of(member) == "Gold"
    reply = shop.administration.request(
        "POST",
        f"/ledgers/{created.ledger_id}/accounts/{created.ledger_account_id}/transactions/{mint_id}/revert",
        {},
    )
    assert reply.status in (200, 201), reply.text
    assert (shop.balance(member), schedule.of(member)) == (0, "Basic")


def test_transaction_sets_and_batches_move_the_tier(shop, schedule, member):
    created, member_wallet = shop.organization.created, wallet(shop, member)
    other_wallet = wallet(shop, other := shop.member())
    account = {"ledgerAccountId": created.ledger_account_id}
    create = [{**movement(300, target=wallet_id), **account} for wallet_id in (member_wallet, other_wallet)]
    reply = shop.administration.request("POST", f"/ledgers/{created.ledger_id}/transaction-sets", {"create": create})
    assert reply.status in (200, 201), reply.text
    assert (schedule.of(member), schedule.of(other)) == ("Silver", "Silver")
    item = {"organizationId": shop.organization.id, "ledgerId": created.ledger_id, **account}
    items = [{**item, **movement(200, target=member_wallet)}, {**item, **movement(200, source=other_wallet)}]
    reply = shop.administration.request("POST", "/ledger-transactions/batch", {"items": items})
    assert reply.status == 200, reply.text
    assert (schedule.of(member), schedule.of(other)) == ("Gold", "Basic")


def test_refused_requests_move_no_tier(shop, schedule, member):
    shop.give(member, 250)
    shop.administration.post(f"/members/by-loyalty-member-id/{member}/burn", {"amount": 300}, expect=409)
    assert schedule.of(member) == "Silver"
    assert schedule.moves(member) == [(SET, "Basic", "Silver")]


def test_expired_points_move_the_tier(shop, schedule, member):
    created = shop.organization.created
    path = f"/ledgers/{created.ledger_id}/accounts/{created.ledger_account_id}"
    [account] = shop.administration.get(f"/ledgers/{created.ledger_id}/accounts")["results"]
    body = {name: account[name] for name in ("name", "active", "isRevolving", "chainSyncEnabled", "alias")}
    shop.administration.put(path, {**body, "isDefaultAccount": True, "expiresInMonths": 1})
    shop.give(member, 600, externalEventDate=(datetime.now(UTC) - timedelta(days=20)).isoformat())
    assert schedule.of(member) == "Gold"
    later = datetime.now(UTC) + timedelta(days=40)
    engine = shop.organization.api.engine
    expiry = transactions.run(
        engine, lambda db: expire_next(db, organizations.find(db, shop.organization.id), 0, later)
    )
    assert sum(expiry.amounts.values()) == 600
    assert schedule.of(member) == "Basic"
    assert schedule.moves(member)[1:] == [(SET, "Gold", "Basic")]
    assert events_of_type(shop, member, SET)[-1]["reason"] == "Points had expired."


def test_an_event_sees_the_tier_of_the_points_that_have_not_expired(shop, schedule, member):
    """Campaigns evaluate the event with the tier of the remaining points, before a job posts the expiry."""
    account = shop.account(pointTrackingEnabled=True, expiresInMonths=1)
    body = {name: schedule.program[name] for name in ("ledgerId", "description", "defaultTierId", "active", "name")}
    body |= {"tierPointsLedgerAccountId": account["ledgerAccountId"], "setAsDefault": True}
    shop.administration.put(f"/loyalty-programs/{schedule.program['loyaltyProgramId']}", body)
    shop.give(member, 600, ledgerAccountId=account["ledgerAccountId"])
    assert schedule.of(member) == "Gold"
    shop.campaign(running(mint(7)), eventType=GENERIC, loyaltyTierKeys=[schedule.key("Gold")])
    shop.campaign(running(mint(1)), eventType=GENERIC, loyaltyTierKeys=[schedule.key("Basic")])
    with shop.organization.api.engine.begin() as db:
        db.exec_driver_sql(
            "UPDATE ledger_lots SET expires_at = now() - interval '1 day' WHERE organization_id = %s",
            (shop.organization.id,),
        )
    [result] = shop.track(event(member))
    assert [effect["params"][0]["value"] for effect in result["effects"]] == [1]
    assert schedule.of(member) == "Basic"
    [*_, tier_event] = events_of_type(shop, member, SET)
    assert tier_event["reason"] == "Points had expired."


def test_points_on_another_account_move_no_tier(shop, schedule, member):
    other = shop.account()
    shop.give(member, 9999, ledgerAccountId=other["ledgerAccountId"])
    assert schedule.of(member) == "Basic"
    assert shop.events(member) == []


# --- what campaigns see ------------------------------------------------------------------------------------------


def test_a_later_event_of_a_batch_sees_the_tier_that_an_earlier_event_changed(shop, schedule, member):
    shop.campaign(running(WHOLE_DOLLARS), eventType=ORDER_CREATED)
    shop.campaign(running(mint(1000)), eventType=GENERIC, loyaltyTierKeys=[schedule.key("Silver")])
    rule = f"'{schedule.key('Gold')}' in tiers"
    shop.campaign(running(mint(3), rule=rule), eventType=GENERIC)
    results = shop.track(event(member), order(member, 250), event(member), event(member))
    values = [[effect["params"][0]["value"] for effect in result["effects"]] for result in results]
    assert values == [[], [250], [1000], [3]]
    assert schedule.moves(member) == [(SET, "Basic", "Silver"), (SET, "Silver", "Gold")]


def test_a_dry_run_sees_changed_tiers_and_stores_nothing(shop, schedule, member):
    shop.campaign(running(WHOLE_DOLLARS), eventType=ORDER_CREATED)
    shop.campaign(running(mint(1000)), eventType=GENERIC, loyaltyTierKeys=[schedule.key("Silver")])
    results = shop.track(order(member, 250), event(member), executionMode="dryRun")
    assert [len(result["effects"]) for result in results] == [1, 1]
    assert schedule.of(member) == "Basic"
    assert shop.events(member) == []


def test_a_campaign_rewards_reaching_a_tier(shop, schedule, member):
    gold = f"event.payload.loyaltyTierKey == '{schedule.key('Gold')}'"
    shop.campaign(running(WHOLE_DOLLARS), eventType=ORDER_CREATED)
    shop.campaign(running(mint(1000), rule=gold), eventType=SET, maxTransactionsPerMember=1)
    [result] = shop.track(order(member, 600, externalEventDate="2026-03-04T12:00:00Z"))
    assert shop.balance(member) == 1600
    assert [effect["params"][0]["value"] for effect in result["effects"]] == [600]
    [tier_event] = events_of_type(shop, member, SET)
    assert tier_event["externalEventDate"] == "2026-03-04T12:00:00Z"
    assert tier_event["reason"] == f"Caused by {ORDER_CREATED} {result['loyaltyEventKey']}."
    assert (tier_event["status"], tier_event["evaluationStatus"]) == ("success", 1)
    purchase = events_of_type(shop, member, ORDER_CREATED)[0]
    assert tier_event["e2eTrackingId"] == purchase["e2eTrackingId"]
    assert tier_event["loyaltyEventId"] > purchase["loyaltyEventId"]
    outcome = shop.integration.get(f"/events/{tier_event['loyaltyEventKey']}")["result"]
    assert [effect["params"][0]["value"] for effect in outcome["effects"]] == [1000]
    rows = {row.loyalty_event_key: row for row in shop.rows("events")}
    cause = rows[purchase["loyaltyEventKey"]]
    assert rows[tier_event["loyaltyEventKey"]].cause_loyalty_event_id == cause.loyalty_event_id
    shop.take(member, 1600)
    shop.give(member, 600)
    # The member reaches Gold again, but the campaign is limited to one transaction.
    assert shop.balance(member) == 600


def test_the_payload_of_a_tier_event_names_both_tiers_and_the_program(shop, schedule, member):
    shop.give(member, 200)
    [row] = [row for row in shop.rows("events") if row.event_type == SET]
    assert row.payload == {
        "loyaltyProgramId": schedule.program["loyaltyProgramId"],
        "loyaltyProgramKey": schedule.program["loyaltyProgramKey"],
        "loyaltyTierId": schedule.id("Silver"),
        "loyaltyTierKey": schedule.key("Silver"),
        "previousLoyaltyTierId": schedule.id("Basic"),
        "previousLoyaltyTierKey": schedule.key("Basic"),
        "isManual": False,
        "expiresAt": None,
    }


def test_a_member_of_a_program_without_a_default_tier_can_lose_every_tier(shop, schedule, member):
    body = {name: schedule.program[name] for name in ("ledgerId", "description", "tierPointsLedgerAccountId")}
    shop.administration.put(
        f"/loyalty-programs/{schedule.program['loyaltyProgramId']}",
        {**body, "defaultTierId": None, "setAsDefault": True},
    )
    path = f"/loyalty-programs/{schedule.program['loyaltyProgramId']}/tiers/{schedule.id('Basic')}"
    shop.administration.put(path, {"name": "Basic", "active": False, "minRequiredPoints": 0, "tierOrder": 0})
    shop.give(member, 200)
    shop.take(member, 1)
    assert schedule.entry(member) is None
    assert schedule.moves(member) == [(SET, "Basic", "Silver"), ("member-tier-removed", "Silver", None)]


# --- limits of caused events -------------------------------------------------------------------------------------


def test_caused_events_are_evaluated_to_a_depth_of_five(shop, schedule, member):
    shop.campaign(running(mint(1)), enabledTopics=[GENERIC, TRANSACTION])
    shop.track_one(event(member))
    chain = events_of_type(shop, member, TRANSACTION)
    # The last event is stored and not evaluated.
    assert [event["evaluationStatus"] for event in chain] == [1, 1, 1, 1, 1, 0]
    assert [event["status"] for event in chain] == ["success"] * 6
    assert chain[-1]["reason"].endswith("Not evaluated: it is more than 5 events away from the first one.")
    # The first event and five caused ones give 1 each.
    assert shop.balance(member) == 6
    rows = [row for row in shop.rows("events", order="loyalty_event_id") if row.event_type in (GENERIC, TRANSACTION)]
    assert [row.cause_loyalty_event_id for row in rows] == [None, *(row.loyalty_event_id for row in rows[:-1])]
    shop.check_ledger()


def test_at_most_100_caused_events_of_one_event_are_evaluated(shop, schedule, member):
    shop.campaign(*(running(mint(1)) for _ in range(5)), enabledTopics=[GENERIC, TRANSACTION])
    shop.track_one(event(member))
    rows = [row for row in shop.rows("events") if row.event_type == TRANSACTION]
    evaluated_rows = [row for row in rows if row.evaluation_status == 1]
    # Each evaluated event causes five others.
    assert 0 < len(evaluated_rows) < 100 < len(rows)
    assert len(rows) == shop.balance(member) == 5 * (1 + len(evaluated_rows))
    assert any("one event caused more than 100 others" in row.reason for row in rows)
    shop.track(event(member), event(member))
    rows = [row for row in shop.rows("events") if row.event_type == TRANSACTION and row.evaluation_status == 1]
    # The limit applies to each event of a batch.
    assert len(rows) == 3 * len(evaluated_rows)


def test_transactions_are_reported_only_if_a_campaign_names_their_event_type(shop, schedule, member):
    shop.campaign(running(mint(5)), eventType=GENERIC)
    catch_all = shop.campaign(running(mint(1), rule="event.eventType == 'ledger-transaction-created'"))
    shop.track_one(event(member))
    shop.give(member, 5)
    assert events_of_type(shop, member, TRANSACTION) == []
    assert shop.balance(member) == 10
    shop.campaign(eventType=TRANSACTION)
    shop.track_one(event(member))
    assert [event["evaluationStatus"] for event in events_of_type(shop, member, TRANSACTION)][:1] == [1]
    assert catch_all["active"]


def test_a_transaction_is_reported_with_its_fields(shop, schedule, member):
    shop.campaign(eventType=TRANSACTION)
    shop.campaign(running(mint(5, description="Five")), eventType=GENERIC)
    result = shop.track_one(event(member, externalEventDate="2026-03-04T12:00:00Z"))
    transaction = shop.give(member, 7, description="Seven", tags=["a"], systemUniqueKey="seven-1", externalId="receipt")
    first, second = [row for row in shop.rows("events", order="loyalty_event_id") if row.event_type == TRANSACTION]
    rows_by_id = {str(row.ledger_transaction_id): row for row in shop.rows("ledger_transactions")}
    member_wallet = wallet(shop, member)
    created = shop.organization.created
    [account] = shop.administration.get(f"/ledgers/{created.ledger_id}/accounts")["results"]
    common = {
        "ledgerId": created.ledger_id,
        "ledgerAccountId": created.ledger_account_id,
        "ledgerAccountKey": account["ledgerAccountKey"],
        "transactionType": "mint",
        "status": SETTLED,
        "fromWalletId": None,
        "toWalletId": member_wallet,
    }
    first_payload = first.payload["ledgerTransaction"]
    assert first_payload == {
        **common,
        "ledgerTransactionId": first_payload["ledgerTransactionId"],
        "amount": 5,
        "systemUniqueKey": f"{result['loyaltyEventKey']}:1",
        "externalId": None,
        "externalEventDate": "2026-03-04T12:00:00Z",
        "description": "Five",
        "tags": [],
    }
    assert rows_by_id[str(first_payload["ledgerTransactionId"])].system_unique_key == first_payload["systemUniqueKey"]
    assert second.payload["ledgerTransaction"] == {
        **common,
        "ledgerTransactionId": int(transaction["ledgerTransactionId"]),
        "amount": 7,
        "systemUniqueKey": "seven-1",
        "externalId": "receipt",
        "externalEventDate": None,
        "description": "Seven",
        "tags": ["a"],
    }


def test_a_transfer_is_reported_once_for_the_receiving_member(shop, schedule, member):
    other = shop.member()
    shop.give(member, 10)
    shop.campaign(running(mint(1)), eventType=TRANSACTION, maxTransactionsPerMember=1)
    transact(shop, "", movement(10, wallet(shop, member), wallet(shop, other)))
    assert events_of_type(shop, member, TRANSACTION) == []
    # The transfer, and the mint that it causes.
    assert len(events_of_type(shop, other, TRANSACTION)) == 2
    assert shop.balance(other) == 11


def test_a_repeated_event_changes_no_tier(shop, schedule, member):
    shop.campaign(running(WHOLE_DOLLARS), eventType=ORDER_CREATED)
    purchase = order(member, 250)
    first = shop.track(purchase)
    shop.take(member, 100)
    assert shop.track(purchase) == first
    assert schedule.of(member) == "Basic"
    assert schedule.moves(member) == [(SET, "Basic", "Silver"), (SET, "Silver", "Basic")]


def test_campaign_keys_also_restrict_the_campaigns_of_caused_events(shop, schedule, member):
    points = shop.campaign(running(WHOLE_DOLLARS), eventType=ORDER_CREATED)
    shop.campaign(running(mint(1000)), eventType=SET)
    shop.track_one(order(member, 250), campaignKeys=[points["campaignKey"]])
    assert schedule.of(member) == "Silver"
    assert shop.balance(member) == 250
