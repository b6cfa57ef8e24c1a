"""Webhooks as CloudEvents: their headers in binary mode, and triggers that have such headers of their own."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_http_event
from sqlalchemy import text

from handlers.services.webhooks.post_message import WebhookClient
from handlers.services.webhooks.send_deliveries import Sender
from tests.builders.api import running_api
from tests.builders.receivers import receiver, status
from tests.builders.test_clocks import Clock
from tests.builders.tracking import GENERIC, Shop, event
from tests.builders.triggers import add_trigger, deliveries, trigger_body


@pytest.fixture(scope="module")
def api(settings):
    with running_api(
        replace(settings, webhook_allow_http=True, webhook_allow_private=True, webhook_ports="any")
    ) as running:
        yield running


@pytest.fixture
def shop(api):
    return Shop(api.organization())


@pytest.fixture
def webhook_receiver():
    with receiver() as running:
        yield running


def send(shop):
    """Send all deliveries that are due."""
    api = shop.organization.api
    client = WebhookClient(allows_http=True, allows_private=True, seconds=2.0)
    return Sender(api.engine, api.settings, client, shop.organization.id).send_due()


def track(shop):
    """Track an event of a new member; return the memberId."""
    member = shop.member()
    shop.track(event(member))
    [event_record] = shop.events(member)
    return event_record["memberId"]


class TestHeaders:
    def test_the_headers_of_an_event_name_its_member_as_the_subject(self, shop, webhook_receiver):
        trigger = add_trigger(shop.administration, "WebHook", url=webhook_receiver.url, eventTypes=[GENERIC])
        member_id = track(shop)
        send(shop)
        [request] = webhook_receiver.received
        [delivery] = deliveries(shop.administration, trigger)
        organization_key = shop.administration.get("")["organization"]["organizationKey"]
        assert {name: value for name, value in request.headers.items() if name.startswith("ce-")} == {
            "ce-specversion": "1.0",
            "ce-id": delivery["triggerDeliveryKey"],
            "ce-type": "loyalty.event.evaluated",
            "ce-source": f"/organizations/{organization_key}",
            "ce-time": delivery["payload"]["timestamp"],
            "ce-subject": f"members/{member_id}",
        }

    def test_the_headers_of_a_created_campaign_have_no_subject(self, shop, webhook_receiver):
        add_trigger(shop.administration, "EntityChangeWebhook", url=webhook_receiver.url, entities=["campaign"])
        body = {"code": "latte", "name": "Latte", "eventType": GENERIC}
        shop.administration.post("/campaigns", body)
        send(shop)
        [request] = webhook_receiver.received
        assert request.headers["ce-type"] == "loyalty.campaign.created"
        assert "ce-subject" not in request.headers

    def test_a_redelivery_has_the_same_id_and_time(self, shop, webhook_receiver):
        trigger = add_trigger(shop.administration, "WebHook", url=webhook_receiver.url, eventTypes=[GENERIC])
        track(shop)
        webhook_receiver.responses = [status(500)]
        send(shop)
        [delivery] = deliveries(shop.administration, trigger)
        path = f"/triggers/{trigger['triggerId']}/deliveries/{delivery['triggerDeliveryId']}/redeliver"
        shop.administration.post(path, None, expect=202)
        send(shop)
        failed_request, repeated_request = webhook_receiver.received
        for name in ("ce-id", "ce-time"):
            assert failed_request.headers[name] == repeated_request.headers[name]

    def test_the_cloudevents_sdk_reads_the_request(self, shop, webhook_receiver):
        add_trigger(shop.administration, "WebHook", url=webhook_receiver.url, eventTypes=[GENERIC])
        track(shop)
        send(shop)
        [request] = webhook_receiver.received
        cloud_event = from_http_event(HTTPMessage(headers=request.headers, body=request.body))
        assert cloud_event.get_type() == "loyalty.event.evaluated"
        assert cloud_event.get_id() == request.headers["webhook-id"]
        assert cloud_event.get_data()["data"]["event"]["eventType"] == GENERIC

    def test_the_time_is_that_of_the_test_clock(self, api, webhook_receiver):
        shop = Shop(Clock.new(api, starts_at="2027-05-01T08:00:00Z").organization)
        add_trigger(shop.administration, "WebHook", url=webhook_receiver.url, eventTypes=[GENERIC])
        track(shop)
        send(shop)
        assert webhook_receiver.received[-1].headers["ce-time"] == "2027-05-01T08:00:00Z"


class TestHeadersOfTriggers:
    def test_a_trigger_cannot_set_cloudevents_headers(self, shop):
        body = trigger_body("WebHook", headers={"CE-Subject": "mine"})
        problem = shop.administration.post("/triggers", body, expect=400)
        [fault] = problem["errors"]
        assert fault["detail"] == "headers has CE-Subject, which is set by the sender."

    def test_a_stored_cloudevents_header_is_kept_and_overrides_the_default(self, shop, webhook_receiver):
        trigger = add_trigger(shop.administration, "WebHook", url=webhook_receiver.url, eventTypes=[GENERIC])
        # An older version of the server accepted such headers.
        with shop.organization.api.engine.begin() as db:
            db.execute(
                text(
                    """UPDATE triggers SET settings = jsonb_set(settings, '{headers}', '{"Ce-Source": "/shop"}')"""
                    " WHERE organization_id = :organization_id AND trigger_id = :trigger_id"
                ),
                {"organization_id": shop.organization.id, "trigger_id": trigger["triggerId"]},
            )
        # A header of null keeps its stored value.
        changes = trigger_body(
            "WebHook",
            key=trigger["triggerKey"],
            url=webhook_receiver.url,
            headers={"Ce-Source": None, "X-Shop": "4"},
            eventTypes=[GENERIC],
        )
        updated_trigger = shop.administration.put(f"/triggers/{trigger['triggerId']}", changes)["trigger"]
        assert set(updated_trigger["settings"]["headers"]) == {"Ce-Source", "X-Shop"}
        track(shop)
        send(shop)
        [request] = webhook_receiver.received
        assert request.headers["ce-source"] == "/shop"
        assert request.headers["ce-type"] == "loyalty.event.evaluated"
