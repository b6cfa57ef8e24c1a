"""The messages that are queued for triggers while the API is used."""

from __future__ import annotations

import pytest

import openapi
from tests.builders.campaigns import effect
from tests.builders.queue import drain, send
from tests.builders.tracking import GENERIC, ORDER_CREATED, Shop, event, order, order_update, running
from tests.builders.triggers import add_trigger, deliveries, trigger_body
from tests.contract.documents import callback_contents
from tests.contract.schemas import faults


@pytest.fixture
def administration(organization):
    return organization.administration


@pytest.fixture
def shop(organization):
    return Shop(organization)


def message_types(administration, trigger):
    """The types of all messages that are queued for the trigger, oldest first."""
    return [delivery["type"] for delivery in deliveries(administration, trigger)]


def test_an_event_is_reported_with_its_result(shop, administration):
    unfiltered_trigger, update_trigger = (
        add_trigger(administration),
        add_trigger(administration, eventTypes=["member-updated"]),
    )
    member = shop.organization.member()
    generic_event = event(member["loyaltyMemberId"], payload={"cups": 2}, tags=["a"])
    result = shop.track_one(generic_event)
    shop.administration.patch(f"/members/{member['memberId']}", {"memberType": "vip"})
    messages = deliveries(administration, unfiltered_trigger)
    assert [delivery["payload"]["data"]["event"]["eventType"] for delivery in messages] == [
        "member-created",
        GENERIC,
        "member-updated",
    ]
    assert {delivery["type"] for delivery in messages} == {"event.evaluated"}
    data = messages[1]["payload"]["data"]
    assert data["result"] == result
    assert data["payload"] == {"cups": 2}
    assert data["loyaltyMemberId"] == member["loyaltyMemberId"]
    [stored_event] = [record for record in shop.events(member["loyaltyMemberId"]) if record["eventType"] == GENERIC]
    assert {**data["event"], "actor": "operator", "userId": None} == stored_event
    [update_message] = deliveries(administration, update_trigger)
    assert update_message["payload"]["data"]["event"]["eventType"] == "member-updated"
    assert update_message["payload"]["data"]["payload"] == {"changedFields": ["memberType"]}


def test_a_new_delivery_is_listed_as_pending(shop, administration):
    trigger = add_trigger(administration)
    shop.track_one(event(shop.member()))
    delivery = deliveries(administration, trigger)[-1]
    expected_fields = {
        "organizationId": shop.organization.id,
        "triggerId": trigger["triggerId"],
        "status": "pending",
        "attempts": 0,
        "lastAttemptAt": None,
        "lastStatusCode": None,
        "lastError": None,
        "deliveredAt": None,
        "updatedAt": delivery["createdAt"],
    }
    assert {name: delivery[name] for name in expected_fields} == expected_fields
    assert delivery["payload"]["timestamp"] == delivery["createdAt"]
    assert delivery["nextAttemptAt"] is not None


def test_a_failed_event_is_reported_and_an_event_that_was_not_stored_is_not(shop, administration):
    trigger = add_trigger(administration, eventTypes=["member-purchase-order-confirmed", GENERIC])
    member = shop.member()
    assert shop.expect_refusal(order_update(member, "nowhere", "confirmed")) == "/problems/unknown-order"
    shop.expect_refusal(event("nobody"))
    [message] = deliveries(administration, trigger)
    assert message["payload"]["data"]["result"]["status"] == "failed"
    assert message["payload"]["data"]["event"]["lastError"]["type"] == "/problems/unknown-order"


@pytest.mark.parametrize("mode", ["dryRun", "captureOnly"])
def test_dry_runs_and_captured_events_are_not_reported(shop, administration, mode):
    event_trigger, order_trigger = add_trigger(administration), add_trigger(administration, "EntityChangeWebhook")
    shop.campaign(running(effect("notify", name="cake")))
    member = shop.member()
    event_messages_before = message_types(administration, event_trigger)
    order_messages_before = message_types(administration, order_trigger)
    shop.track(order(member), event(member), executionMode=mode)
    assert message_types(administration, event_trigger) == event_messages_before
    # With captureOnly the order is stored and reported.
    new_order_messages = ["purchase-order.created"] if mode == "captureOnly" else []
    assert message_types(administration, order_trigger) == order_messages_before + new_order_messages


def test_a_repeated_event_is_reported_once(shop, administration):
    trigger, generic_event = add_trigger(administration, eventTypes=[GENERIC]), event(shop.member())
    assert shop.track(generic_event, generic_event) == shop.track(generic_event) * 2
    assert message_types(administration, trigger) == ["event.evaluated"]


def test_a_campaign_notifies_with_computed_data(shop, administration):
    # The event types of a trigger do not restrict notifications.
    trigger = add_trigger(administration, eventTypes=["member-tier-set"])
    data = ("=", '{"table": event.payload.table, "total": order.total, "when": event.externalEventDate}')
    effects = effect("notify", name="cake", data=data), effect("notify", name=("=", "'bare'"))
    shop.campaign(running(*effects), eventType=ORDER_CREATED)
    member = shop.organization.member()
    purchase = order(member["loyaltyMemberId"], "12.50", externalEventDate="2026-03-01T10:00:00Z")
    purchase["payload"]["table"] = 4
    result = shop.track_one(purchase)
    assert [outcome["status"] for outcome in result["effects"]] == ["executed", "executed"]
    messages = deliveries(administration, trigger)
    event_fields = {
        "eventType": purchase["eventType"],
        "loyaltyEventKey": result["loyaltyEventKey"],
        "memberId": member["memberId"],
        "loyaltyMemberId": member["loyaltyMemberId"],
    }
    cake = {"table": 4, "total": 12.5, "when": "2026-03-01T10:00:00Z"}
    assert [delivery["payload"]["data"] for delivery in messages] == [
        {"name": "cake", "data": cake, **event_fields},
        {"name": "bare", "data": {}, **event_fields},
    ]
    assert {delivery["type"] for delivery in messages} == {"campaign.notification"}
    [data_param] = [param for param in result["effects"][0]["params"] if param["id"] == "data"]
    assert data_param["value"] == cake


def test_a_campaign_notifies_with_constant_data(shop, administration):
    trigger = add_trigger(administration, eventTypes=["member-tier-set"])
    shop.campaign(running(effect("notify", name="cake", data={"a": [1, {"b": None}]})), eventType=GENERIC)
    shop.track_one(event(shop.member()))
    assert deliveries(administration, trigger)[-1]["payload"]["data"]["data"] == {"a": [1, {"b": None}]}


@pytest.mark.parametrize("data", [{"value": "text"}, {"value": [1]}, {"expression": "1"}, {"expression": "[1]"}])
def test_data_that_is_not_an_object_is_refused_with_the_field(shop, data):
    campaign = shop.campaign()
    params = [{"id": "name", "value": "cake"}, {"id": "data", **data}]
    body = running({"effectId": "notify", "params": params})
    problem = shop.administration.post(f"/campaigns/{campaign['campaignId']}/actions", body, expect=400)
    [field] = data
    assert [fault["pointer"] for fault in problem["errors"]] == [f"/effects/items/0/params/1/{field}"]


def test_a_notification_with_too_much_data_fails(shop, administration):
    trigger = add_trigger(administration, eventTypes=["member-tier-set"])
    shop.campaign(running(effect("notify", name="cake", data=("=", '{"all": event.payload}'))), eventType=GENERIC)
    member = shop.member()
    [outcome] = shop.track_one(event(member, payload={"list": [0] * 1000}))["effects"]
    assert (outcome["status"], outcome["error"]["type"]) == ("failed", "/problems/effect-parameter")
    assert message_types(administration, trigger) == []


def test_a_cancellation_is_reported_and_revokes_no_earlier_message(shop, administration):
    trigger = add_trigger(administration, eventTypes=[GENERIC])
    shop.campaign(running(effect("notify", name="cake")), eventType=GENERIC)
    result = shop.track_one(event(shop.member()))
    path = f"/events/{result['loyaltyEventKey']}/cancel"
    shop.integration.post(path, {"description": "Typed in twice"}, expect=200)
    messages = deliveries(administration, trigger)
    assert sorted(delivery["type"] for delivery in messages) == [
        "campaign.notification",
        "event.cancelled",
        "event.evaluated",
    ]
    events_by_type = {
        delivery["type"]: delivery["payload"]["data"]["event"]
        for delivery in messages
        if delivery["type"] != "campaign.notification"
    }
    cancellation, evaluated_event = events_by_type["event.cancelled"], events_by_type["event.evaluated"]
    assert cancellation["revertedLoyaltyEventId"] == evaluated_event["loyaltyEventId"]
    assert cancellation["description"] == "Typed in twice"


def test_created_and_updated_records_are_reported(shop, administration):
    unfiltered_trigger = add_trigger(administration, "EntityChangeWebhook")
    order_trigger = add_trigger(administration, "EntityChangeWebhook", entities=["purchase-order"])
    member = shop.organization.member()
    updated_member = shop.administration.patch(f"/members/{member['memberId']}", {"memberType": "vip"})["loyalMember"]
    campaign = shop.campaign()
    campaign.pop("actions")
    body = {"code": campaign["code"], "name": "Renamed"}
    renamed_campaign = shop.administration.put(f"/campaigns/{campaign['campaignId']}", body)["campaign"]
    shop.track(order(member["loyaltyMemberId"], 5, external_id="o-1", items=[{"productCode": "latte"}]))
    shop.track(order_update(member["loyaltyMemberId"], "o-1", "confirmed"))
    messages = deliveries(administration, unfiltered_trigger)
    orders = shop.administration.get(f"/members/{member['memberId']}/purchase-orders")["results"]
    assert [delivery["type"] for delivery in messages] == [
        "member.created",
        "member.updated",
        "campaign.created",
        "campaign.updated",
        "purchase-order.created",
        "purchase-order.updated",
    ]
    records = [delivery["payload"]["data"].pop("record") for delivery in messages]
    *records_before_order, created_order, confirmed_order = records
    assert records_before_order == [member, updated_member, campaign, renamed_campaign]
    # The order is listed with its later status.
    assert [confirmed_order] == orders
    assert created_order["status"] == "created"
    assert created_order["items"] == confirmed_order["items"]
    assert [delivery["payload"]["data"] for delivery in messages[:2]] == [
        {"entity": "member", "action": "created"},
        {"entity": "member", "action": "updated"},
    ]
    assert message_types(administration, order_trigger) == ["purchase-order.created", "purchase-order.updated"]


def test_changes_of_actions_are_reported_as_updates_of_their_campaign(shop, administration):
    campaign = shop.campaign()
    trigger = add_trigger(administration, "EntityChangeWebhook", entities=["campaign"])
    path = f"/campaigns/{campaign['campaignId']}/actions"
    action = administration.post(path, running())["action"]
    campaign_after_creation = administration.get(f"/campaigns/{campaign['campaignId']}")["campaign"]
    administration.put(f"{path}/{action['actionId']}", running(priority=2))
    campaign_after_update = administration.get(f"/campaigns/{campaign['campaignId']}")["campaign"]
    messages = deliveries(administration, trigger)
    assert [delivery["type"] for delivery in messages] == ["campaign.updated"] * 2
    records = [delivery["payload"]["data"]["record"] for delivery in messages]
    assert records == [campaign_after_creation, campaign_after_update]


def test_coupon_books_are_reported_in_the_form_of_the_integration_interface(shop, administration):
    trigger = add_trigger(administration, "EntityChangeWebhook", entities=["coupon-book"])
    body = {"name": "Cake", "publishingStatus": "draft", "type": "codeless"}
    book = shop.integration.post("/coupon-books", body)["couponBook"]
    path = f"/coupon-books/{book['couponBookKey']}"
    renamed_book = shop.integration.patch(path, {"name": "Cakes"})["couponBook"]
    published_book = shop.integration.put(f"{path}/status", {"publishingStatus": "published"})["couponBook"]
    change = {"subtitle": "x", "requiredPointsConfig": None}
    response = administration.patch(f"/coupon-books/{book['couponBookId']}", change)
    messages = deliveries(administration, trigger)
    assert [delivery["type"] for delivery in messages] == ["coupon-book.created"] + ["coupon-book.updated"] * 3
    *records, last_record = (delivery["payload"]["data"]["record"] for delivery in messages)
    assert records == [book, renamed_book, published_book]
    # The last change is by the administration, whose form of a book has other fields.
    assert last_record["subtitle"] == response["couponBook"]["subtitle"] == "x"
    assert last_record.keys() == book.keys()
    document, schema = documented_messages()["coupon-book.updated"]
    for delivery in messages:
        assert faults(document, schema, delivery["payload"]) == []


def test_results_of_asynchronous_tracking_are_reported_after_the_evaluation(shop, administration):
    async_trigger = add_trigger(administration, "AsyncTrackWebhook", eventTypes=[GENERIC])
    unfiltered_trigger = add_trigger(administration, eventTypes=[GENERIC])
    member = shop.organization.member()
    [receipt] = send(shop, event(member["loyaltyMemberId"]))
    send(shop, order(member["loyaltyMemberId"]))
    assert message_types(administration, async_trigger) == []
    assert message_types(administration, unfiltered_trigger) == []
    drain(shop)
    [message] = deliveries(administration, async_trigger)
    response = shop.integration.get(f"/events/{receipt['loyaltyEventKey']}")
    assert message["payload"]["data"] == {
        "eventType": GENERIC,
        "memberId": member["memberId"],
        "loyaltyMemberId": member["loyaltyMemberId"],
        "result": response["result"],
    }
    [event_message] = deliveries(administration, unfiltered_trigger)
    assert event_message["payload"]["data"]["event"] == response["event"]
    document, schema = documented_messages()["async-event.evaluated"]
    assert faults(document, schema, message["payload"]) == []


def test_orders_created_by_the_administration_are_reported(shop, administration):
    trigger = add_trigger(administration, "EntityChangeWebhook", entities=["purchase-order"])
    member = shop.organization.member()
    body = {"externalId": "o-9", "type": "dine-in", "total": 5, "status": "confirmed"}
    purchase_order = administration.post(f"/members/{member['memberId']}/purchase-orders", body)["order"]
    [message] = deliveries(administration, trigger)
    assert message["type"] == "purchase-order.created"
    assert message["payload"]["data"]["record"] == purchase_order


def test_an_inactive_trigger_gets_no_messages_until_it_is_active(shop, administration):
    trigger = add_trigger(administration, eventTypes=[GENERIC])
    path, member = f"/triggers/{trigger['triggerId']}", shop.member()
    administration.put(path, trigger_body(eventTypes=[GENERIC], active=False))
    shop.track_one(event(member))
    assert message_types(administration, trigger) == []
    administration.put(path, trigger_body(eventTypes=[GENERIC], active=True))
    shop.track_one(event(member))
    assert message_types(administration, trigger) == ["event.evaluated"]


def test_every_message_satisfies_its_documented_schema(shop, administration):
    event_trigger, entity_trigger = add_trigger(administration), add_trigger(administration, "EntityChangeWebhook")
    shop.campaign(running(effect("notify", name="cake", data={"a": 1}), effect("mint-points", amount=3)))
    member = shop.organization.member()
    shop.track(order(member["loyaltyMemberId"], 5, external_id="o-1", items=[{"productCode": "latte"}]))
    shop.track(order_update(member["loyaltyMemberId"], "o-1", "cancelled"))
    key = shop.track_one(event(member["loyaltyMemberId"]))["loyaltyEventKey"]
    shop.integration.post(f"/events/{key}/cancel", {}, expect=200)
    messages = deliveries(administration, event_trigger) + deliveries(administration, entity_trigger)
    assert len(messages) > 10
    schema_by_type = documented_messages()
    for message in messages:
        document, schema = schema_by_type[message["type"]]
        assert faults(document, schema, message["payload"]) == []


def documented_messages():
    """The schema of each type of message, with its document."""
    document = openapi.bundle("administration")
    schema_by_type = {}
    for _, content in callback_contents(document):
        name = content["schema"]["$ref"].rsplit("/", 1)[1]
        for type_ in document["components"]["schemas"][name]["properties"]["type"]["enum"]:
            schema_by_type[type_] = (document, content["schema"])
    return schema_by_type
