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
    """The tiers are Basic below 200 points of balance, Silver from 200 and Gold from 500."""
    return TierSchedule.new(shop, Silver=200, Gold=500)


@pytest.fixture
def member(schedule, shop):
    """A member without points, who has the tier Basic."""
    return shop.member()


def events_of_type(shop, member, event_type):
    """The member's events of a type, oldest first."""
    return [event for event in shop.events(member)[::-1] if event["eventType"] == event_type]


# --- every way in which points move ------------------------------------------------------------------------------


def test_points_that_events_mint_and_burn_move_the_tier(shop, schedule, member):
    shop.campaign(running(WHOLE_DOLLARS), eventType=ORDER_CREATED)
    shop.campaign(running(spend(400)), eventType=GENERIC)
    assert schedule.of(member) == "Basic"
    shop.track_one(order(member, total=199))
    assert schedule.of(member) == "Basic"
    shop.track_one(order(member, total=1))
    assert schedule.of(member) == "Silver"
    shop.track_one(order(member, total=300))
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
    [gold_event, _silver_event] = events_of_type(shop, member, SET)
    assert gold_event["reason"] == "Points were moved by request."
    # The evaluation status 1 is success.
    assert gold_event["evaluationStatus"] == 1


def wallet(shop, member):
    """The id of the member's wallet."""
    return shop.integration.get(f"/members/{member}")["loyaltyMember"]["ledgerWalletId"]


def account_path(shop):
    """The path of the default account."""
    defaults = shop.organization.defaults
    return f"/ledgers/{defaults.ledger_id}/accounts/{defaults.ledger_account_id}"


def transact(shop, body):
    """Create a transaction of the default account; return its first row."""
    return shop.administration.post(f"{account_path(shop)}/transactions", body)["transactions"][0]


def movement(amount, *, source=None, target=None, **more):
    """The fields of a transaction between two wallets, of which None mints or burns."""
    return {"amount": amount, "fromWalletId": source, "toWalletId": target, **more}


def test_ledger_transactions_captures_and_reverts_move_the_tier(shop, schedule, member):
    receiver, member_wallet = shop.member(), wallet(shop, member)
    mint_transaction = transact(shop, movement(600, target=member_wallet))
    assert schedule.of(member) == "Gold"
    transact(shop, movement(250, source=member_wallet, target=wallet(shop, receiver)))
    # The member has 350 and the receiver 250.
    assert (schedule.of(member), schedule.of(receiver)) == ("Silver", "Silver")
    hold = transact(shop, movement(300, source=member_wallet, captureMethod="manual"))
    assert schedule.of(member) == "Silver"
    capture = {"transactions": [{"ledgerTransactionId": str(hold["ledgerTransactionId"]), "captureAmount": 200}]}
    shop.administration.post(f"{account_path(shop)}/captures", capture, expect=200)
    assert shop.balance(member) == 600 - 250 - 200
    assert schedule.of(member) == "Basic"
    shop.give(member, 450)
    assert schedule.of(member) == "Gold"
    # The member has 600, all of which the revert takes.
    path = f"{account_path(shop)}/transactions/{mint_transaction['ledgerTransactionId']}/revert"
    shop.administration.post(path, {}, expect=200)
    assert (shop.balance(member), schedule.of(member)) == (0, "Basic")


def test_transaction_sets_and_batches_move_the_tier(shop, schedule, member):
    defaults, member_wallet = shop.organization.defaults, wallet(shop, member)
    other_member = shop.member()
    other_wallet = wallet(shop, other_member)
    account = {"ledgerAccountId": defaults.ledger_account_id}
    create = [{**movement(300, target=wallet_id), **account} for wallet_id in (member_wallet, other_wallet)]
    shop.administration.post(f"/ledgers/{defaults.ledger_id}/transaction-sets", {"create": create})
    assert (schedule.of(member), schedule.of(other_member)) == ("Silver", "Silver")
    item = {"organizationId": shop.organization.id, "ledgerId": defaults.ledger_id, **account}
    items = [{**item, **movement(200, target=member_wallet)}, {**item, **movement(200, source=other_wallet)}]
    shop.administration.post("/ledger-transactions/batch", {"items": items}, expect=200)
    # Of 300 points each, the member has 500 now and the other member 100.
    assert (schedule.of(member), schedule.of(other_member)) == ("Gold", "Basic")


def test_refused_requests_move_no_tier(shop, schedule, member):
    shop.give(member, 250)
    shop.administration.post(f"/members/by-loyalty-member-id/{member}/burn", {"amount": 300}, expect=409)
    assert schedule.of(member) == "Silver"
    assert schedule.moves(member) == [(SET, "Basic", "Silver")]


def test_expired_points_move_the_tier(shop, schedule, member):
    [account] = shop.administration.get(f"/ledgers/{shop.organization.defaults.ledger_id}/accounts")["results"]
    body = {name: account[name] for name in ("name", "active", "isRevolving", "chainSyncEnabled", "alias")}
    shop.administration.put(account_path(shop), {**body, "isDefaultAccount": True, "expiresInMonths": 1})
    shop.give(member, 600, externalEventDate=(datetime.now(UTC) - timedelta(days=20)).isoformat())
    assert schedule.of(member) == "Gold"
    # A month after the points were earned has passed in 40 days.
    in_40_days = datetime.now(UTC) + timedelta(days=40)
    engine = shop.organization.api.engine
    expiry = transactions.run(
        engine, lambda db: expire_next(db, organizations.find(db, shop.organization.id), 0, in_40_days)
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
    # The campaign for the tier Basic gives 1.
    assert [effect["params"][0]["value"] for effect in result["effects"]] == [1]
    assert schedule.of(member) == "Basic"
    last_tier_event = events_of_type(shop, member, SET)[-1]
    assert last_tier_event["reason"] == "Points had expired."


def test_points_on_another_account_move_no_tier(shop, schedule, member):
    stars = shop.account()
    shop.give(member, 9999, ledgerAccountId=stars["ledgerAccountId"])
    assert schedule.of(member) == "Basic"
    assert shop.events(member) == []


# --- what campaigns see ------------------------------------------------------------------------------------------


def test_a_later_event_of_a_batch_sees_the_tier_that_an_earlier_event_changed(shop, schedule, member):
    shop.campaign(running(WHOLE_DOLLARS), eventType=ORDER_CREATED)
    shop.campaign(running(mint(1000)), eventType=GENERIC, loyaltyTierKeys=[schedule.key("Silver")])
    rule = f"'{schedule.key('Gold')}' in tiers"
    shop.campaign(running(mint(3), rule=rule), eventType=GENERIC)
    results = shop.track(event(member), order(member, total=250), event(member), event(member))
    amounts = [[effect["params"][0]["value"] for effect in result["effects"]] for result in results]
    # The tier of the events is Basic, Basic, Silver and Gold.
    assert amounts == [[], [250], [1000], [3]]
    assert schedule.moves(member) == [(SET, "Basic", "Silver"), (SET, "Silver", "Gold")]


def test_a_dry_run_sees_changed_tiers_and_stores_nothing(shop, schedule, member):
    shop.campaign(running(WHOLE_DOLLARS), eventType=ORDER_CREATED)
    shop.campaign(running(mint(1000)), eventType=GENERIC, loyaltyTierKeys=[schedule.key("Silver")])
    results = shop.track(order(member, total=250), event(member), executionMode="dryRun")
    assert [len(result["effects"]) for result in results] == [1, 1]
    assert schedule.of(member) == "Basic"
    assert shop.events(member) == []


def test_a_campaign_rewards_reaching_a_tier(shop, schedule, member):
    is_gold = f"event.payload.loyaltyTierKey == '{schedule.key('Gold')}'"
    shop.campaign(running(WHOLE_DOLLARS), eventType=ORDER_CREATED)
    shop.campaign(running(mint(1000), rule=is_gold), eventType=SET, maxTransactionsPerMember=1)
    [result] = shop.track(order(member, total=600, externalEventDate="2026-03-04T12:00:00Z"))
    assert shop.balance(member) == 600 + 1000
    assert [effect["params"][0]["value"] for effect in result["effects"]] == [600]
    [tier_event] = events_of_type(shop, member, SET)
    assert tier_event["externalEventDate"] == "2026-03-04T12:00:00Z"
    assert tier_event["reason"] == f"Caused by {ORDER_CREATED} {result['loyaltyEventKey']}."
    assert (tier_event["status"], tier_event["evaluationStatus"]) == ("success", 1)
    [purchase] = events_of_type(shop, member, ORDER_CREATED)
    assert tier_event["e2eTrackingId"] == purchase["e2eTrackingId"]
    assert tier_event["loyaltyEventId"] > purchase["loyaltyEventId"]
    tier_event_result = shop.integration.get(f"/events/{tier_event['loyaltyEventKey']}")["result"]
    assert [effect["params"][0]["value"] for effect in tier_event_result["effects"]] == [1000]
    row_by_key = {row.loyalty_event_key: row for row in shop.rows("events")}
    cause = row_by_key[purchase["loyaltyEventKey"]]
    assert row_by_key[tier_event["loyaltyEventKey"]].cause_loyalty_event_id == cause.loyalty_event_id
    shop.take(member, 1600)
    shop.give(member, 600)
    # The member reaches Gold again, but the campaign is limited to one transaction.
    assert shop.balance(member) == 600


def test_the_payload_of_a_tier_event_names_both_tiers_and_the_program(shop, schedule, member):
    shop.give(member, 200)
    [tier_event] = [row for row in shop.rows("events") if row.event_type == SET]
    assert tier_event.payload == {
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
    # 199 points are below Silver.
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
    assert shop.balance(member) == 1 + 5
    rows = [row for row in shop.rows("events", order="loyalty_event_id") if row.event_type in (GENERIC, TRANSACTION)]
    assert [row.cause_loyalty_event_id for row in rows] == [None, *(row.loyalty_event_id for row in rows[:-1])]
    shop.check_ledger()


def test_at_most_100_caused_events_of_one_event_are_evaluated(shop, schedule, member):
    shop.campaign(*(running(mint(1)) for _ in range(5)), enabledTopics=[GENERIC, TRANSACTION])
    shop.track_one(event(member))
    rows = [row for row in shop.rows("events", order="loyalty_event_id") if row.event_type == TRANSACTION]
    # The first 100 caused events are evaluated, unless they are too far away.
    is_too_far = ["it is more than 5 events away from the first one" in row.reason for row in rows[:100]]
    assert [row.evaluation_status for row in rows[:100]] == [0 if too_far else 1 for too_far in is_too_far]
    evaluated_count = 100 - sum(is_too_far)
    # Each evaluated event causes five others.
    assert (evaluated_count, len(rows), shop.balance(member)) == (23, 5 * (1 + 23), 5 * (1 + 23))
    # Of the other 20, 17 are not too far away.
    assert {row.evaluation_status for row in rows[100:]} == {0}
    assert sum("one event caused more than 100 others" in row.reason for row in rows[100:]) == 17
    shop.track(event(member), event(member))
    all_rows = [row for row in shop.rows("events") if row.event_type == TRANSACTION]
    # The limit applies to each event of a batch. There are three events now.
    assert sum(row.evaluation_status == 1 for row in all_rows) == 3 * evaluated_count


def test_transactions_are_reported_only_if_a_campaign_names_their_event_type(shop, schedule, member):
    shop.campaign(running(mint(5)), eventType=GENERIC)
    # This campaign names the event type only in a rule.
    shop.campaign(running(mint(1), rule="event.eventType == 'ledger-transaction-created'"))
    shop.track_one(event(member))
    shop.give(member, 5)
    assert events_of_type(shop, member, TRANSACTION) == []
    assert shop.balance(member) == 5 + 5
    shop.campaign(eventType=TRANSACTION)
    shop.track_one(event(member))
    first_report = events_of_type(shop, member, TRANSACTION)[0]
    assert first_report["evaluationStatus"] == 1


def test_a_transaction_is_reported_with_its_fields(shop, schedule, member):
    shop.campaign(eventType=TRANSACTION)
    shop.campaign(running(mint(5, description="Five")), eventType=GENERIC)
    result = shop.track_one(event(member, externalEventDate="2026-03-04T12:00:00Z"))
    transaction = shop.give(member, 7, description="Seven", tags=["a"], systemUniqueKey="seven-1", externalId="receipt")
    report_of_five, report_of_seven = (
        row for row in shop.rows("events", order="loyalty_event_id") if row.event_type == TRANSACTION
    )
    rows_by_id = {str(row.ledger_transaction_id): row for row in shop.rows("ledger_transactions")}
    member_wallet = wallet(shop, member)
    defaults = shop.organization.defaults
    [account] = shop.administration.get(f"/ledgers/{defaults.ledger_id}/accounts")["results"]
    common_fields = {
        "ledgerId": defaults.ledger_id,
        "ledgerAccountId": defaults.ledger_account_id,
        "ledgerAccountKey": account["ledgerAccountKey"],
        "transactionType": "mint",
        "status": SETTLED,
        "fromWalletId": None,
        "toWalletId": member_wallet,
    }
    transaction_of_five = report_of_five.payload["ledgerTransaction"]
    assert transaction_of_five == {
        **common_fields,
        "ledgerTransactionId": transaction_of_five["ledgerTransactionId"],
        "amount": 5,
        "systemUniqueKey": f"{result['loyaltyEventKey']}:1",
        "externalId": None,
        "externalEventDate": "2026-03-04T12:00:00Z",
        "description": "Five",
        "tags": [],
    }
    row_of_five = rows_by_id[str(transaction_of_five["ledgerTransactionId"])]
    assert row_of_five.system_unique_key == transaction_of_five["systemUniqueKey"]
    assert report_of_seven.payload["ledgerTransaction"] == {
        **common_fields,
        "ledgerTransactionId": int(transaction["ledgerTransactionId"]),
        "amount": 7,
        "systemUniqueKey": "seven-1",
        "externalId": "receipt",
        "externalEventDate": None,
        "description": "Seven",
        "tags": ["a"],
    }


def test_a_transfer_is_reported_once_for_the_receiving_member(shop, schedule, member):
    receiver = shop.member()
    shop.give(member, 10)
    shop.campaign(running(mint(1)), eventType=TRANSACTION, maxTransactionsPerMember=1)
    transact(shop, movement(10, source=wallet(shop, member), target=wallet(shop, receiver)))
    assert events_of_type(shop, member, TRANSACTION) == []
    # The transfer, and the mint that it causes.
    assert len(events_of_type(shop, receiver, TRANSACTION)) == 2
    assert shop.balance(receiver) == 10 + 1


def test_a_repeated_event_changes_no_tier(shop, schedule, member):
    shop.campaign(running(WHOLE_DOLLARS), eventType=ORDER_CREATED)
    purchase = order(member, total=250)
    first_results = shop.track(purchase)
    # 150 points are below Silver.
    shop.take(member, 100)
    assert shop.track(purchase) == first_results
    assert schedule.of(member) == "Basic"
    assert schedule.moves(member) == [(SET, "Basic", "Silver"), (SET, "Silver", "Basic")]


def test_campaign_keys_also_restrict_the_campaigns_of_caused_events(shop, schedule, member):
    order_campaign = shop.campaign(running(WHOLE_DOLLARS), eventType=ORDER_CREATED)
    # A campaign for the tier event, which the request does not name.
    shop.campaign(running(mint(1000)), eventType=SET)
    shop.track_one(order(member, total=250), campaignKeys=[order_campaign["campaignKey"]])
    assert schedule.of(member) == "Silver"
    assert shop.balance(member) == 250
