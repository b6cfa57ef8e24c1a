"""Triggers over HTTP: their settings, secrets and queued messages."""

from __future__ import annotations

import base64
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from handlers.services.webhooks import outbox
from handlers.services.webhooks import triggers as webhook_triggers
from tests.builders import queue
from tests.builders.api import running_api
from tests.builders.tracking import GENERIC, Shop, event, order
from tests.builders.triggers import SECRET, add_trigger, deliveries, trigger_body


@pytest.fixture
def administration(organization):
    return organization.administration


@pytest.fixture
def shop(organization):
    return Shop(organization)


def refuse_settings(administration, **settings):
    """Create a trigger whose settings must be refused with a 400; return the faults."""
    return administration.post("/triggers", trigger_body(**settings), expect=400)["errors"]


class TestRecords:
    def test_a_trigger_is_created_and_read(self, organization, administration):
        trigger = administration.post(
            "/triggers",
            trigger_body(key="crm", headers={"X-Source": "loyalty"}, eventTypes=[GENERIC], name="CRM", active=False),
        )["trigger"]
        secret = trigger["settings"].pop("secret")
        assert len(base64.b64decode(secret.removeprefix("whsec_"))) == 32
        assert trigger == {
            "triggerId": trigger["triggerId"],
            "organizationId": organization.id,
            "triggerKey": "crm",
            "type": "WebHook",
            "name": "CRM",
            "active": False,
            "settings": {
                "url": "https://hooks.invalid/loyalty",
                "headers": {"X-Source": None},
                "eventTypes": [GENERIC],
                "entities": [],
            },
            "externalKey": None,
            "createdAt": trigger["createdAt"],
            "updatedAt": trigger["createdAt"],
        }
        stored_trigger = administration.get(f"/triggers/{trigger['triggerId']}")["trigger"]
        assert stored_trigger["settings"].pop("secret") is None
        assert stored_trigger == trigger

    def test_settings_have_defaults(self, administration):
        trigger = administration.post("/triggers", trigger_body())["trigger"]
        assert trigger["active"] is True
        assert trigger["settings"]["headers"] == {}
        assert (trigger["settings"]["eventTypes"], trigger["settings"]["entities"]) == ([], [])

    def test_values_of_headers_are_never_shown_and_null_keeps_the_stored_value(self, administration, organization):
        trigger = add_trigger(administration, headers={"Authorization": "Bearer sesame", "X-A": "1"})
        assert trigger["settings"]["headers"] == {"Authorization": None, "X-A": None}
        path = f"/triggers/{trigger['triggerId']}"
        body = trigger_body(headers={"Authorization": None, "X-A": "2"}, name="Other")
        assert "sesame" not in str([administration.put(path, body), administration.get(path)])
        with organization.api.engine.begin() as db:
            headers = db.execute(
                text("SELECT settings -> 'headers' FROM triggers WHERE trigger_id = :id"), {"id": trigger["triggerId"]}
            ).scalar_one()
        assert headers == {"Authorization": "Bearer sesame", "X-A": "2"}
        [fault] = refuse_settings(administration, headers={"X-New": None})
        assert fault["detail"] == "headers has null for X-New, and no value of it is stored."

    def test_a_secret_that_is_sent_is_stored(self, administration):
        assert add_trigger(administration, secret=SECRET)["settings"]["secret"] == SECRET

    def test_an_update_replaces_everything_but_the_secret(self, administration):
        trigger = add_trigger(administration, headers={"X-A": "1"}, eventTypes=[GENERIC])
        path = f"/triggers/{trigger['triggerId']}"
        empty = {"headers": {}, "eventTypes": []}
        body = trigger_body("AsyncTrackWebhook", key="other", name="Other", active=False, **empty)
        updated_trigger = administration.put(path, body)["trigger"]
        assert updated_trigger["settings"] == {
            "url": "https://hooks.invalid/loyalty",
            "secret": None,
            "headers": {},
            "eventTypes": [],
            "entities": [],
        }
        assert (updated_trigger["triggerKey"], updated_trigger["type"]) == ("other", "AsyncTrackWebhook")
        assert (updated_trigger["name"], updated_trigger["active"]) == ("Other", False)
        assert updated_trigger["createdAt"] == trigger["createdAt"]
        assert updated_trigger["updatedAt"] > trigger["updatedAt"]
        # A record that was read can be sent back unchanged.
        unchanged_body = {name: updated_trigger[name] for name in ("triggerKey", "type", "name", "active", "settings")}
        assert administration.put(path, unchanged_body)["trigger"]["settings"] == updated_trigger["settings"]

    def test_a_new_secret_is_shown_once_and_the_old_one_is_stored_for_a_day(self, shop, administration):
        trigger = add_trigger(administration)
        path, old_secret = f"/triggers/{trigger['triggerId']}", trigger["settings"]["secret"]
        time_before = datetime.now(UTC)
        assert administration.put(path, trigger_body(secret=SECRET))["trigger"]["settings"]["secret"] == SECRET
        [stored_trigger] = shop.rows("triggers", "secret, previous_secret, previous_secret_until")
        assert (stored_trigger.secret, stored_trigger.previous_secret) == (SECRET, old_secret)
        # The test takes less than a minute.
        storage_time = stored_trigger.previous_secret_until - time_before
        assert timedelta(hours=24) <= storage_time < timedelta(hours=24, minutes=1)
        # Sending the same secret again is not a rotation.
        assert administration.put(path, trigger_body(secret=SECRET))["trigger"]["settings"]["secret"] is None
        assert shop.rows("triggers", "secret, previous_secret, previous_secret_until") == [stored_trigger]
        assert administration.get(path)["trigger"]["settings"]["secret"] is None

    def test_a_key_is_unique(self, administration, other_organization):
        add_trigger(administration, key="crm")
        add_trigger(other_organization.administration, key="crm")
        other_trigger = add_trigger(administration, key="other")
        problem = administration.post("/triggers", trigger_body(key="crm"), expect=409)
        assert problem["type"] == "/problems/name-taken"
        path = f"/triggers/{other_trigger['triggerId']}"
        assert administration.put(path, trigger_body(key="crm"), expect=409)["type"] == "/problems/name-taken"
        administration.put(path, trigger_body(key="other", name="Renamed"))

    def test_unknown_event_types_are_refused(self, administration):
        path = f"/triggers/{add_trigger(administration)['triggerId']}"
        body = trigger_body(eventTypes=["cup-returned"])
        for problem in (
            administration.post("/triggers", body, expect=404),
            administration.put(path, body, expect=404),
        ):
            assert problem["type"] == "/problems/unknown-event-type"
        event_type = {"name": "Cup", "schemaType": "custom", "apiCode": "cup-returned"}
        administration.post("/custom-event-types", event_type)
        assert add_trigger(administration, eventTypes=["cup-returned"])["settings"]["eventTypes"] == ["cup-returned"]

    def test_a_trigger_of_another_organization_is_not_found(self, administration, other_organization):
        trigger = add_trigger(other_organization.administration)
        path = f"/triggers/{trigger['triggerId']}"
        assert administration.get(path, expect=404)["type"] == "/problems/not-found"
        administration.put(path, trigger_body(), expect=404)
        administration.get(f"{path}/deliveries", expect=404)


class TestRefusedSettings:
    @pytest.mark.parametrize(
        ("url", "reason"),
        [
            ("http://hooks.example.com/", "does not begin with https://"),
            ("ftp://hooks.example.com/", "does not begin with https://"),
            ("hooks.example.com", "does not begin with https://"),
            ("https:///path", "no host"),
            ("https://hooks.example.com:0/", "no host"),
            ("https://hooks.example.com:99999/", "not a URL"),
            ("https://[::1/", "not a URL"),
            ("https://hooks.example.com/a b", "no host"),
            ("https://hooks.example.com\\@10.0.0.1/", "no host"),
            ("https://höoks.example.com/", "no host"),
            ("https://ana:secret@hooks.example.com/", "user name"),
            ("https://hooks.example.com/#part", "fragment"),
            ("https://127.0.0.1/", "not public"),
            ("https://10.1.2.3/", "not public"),
            ("https://[::1]/", "not public"),
            ("https://[::ffff:169.254.169.254]/", "not public"),
        ],
    )
    def test_an_unusable_url_is_refused(self, administration, url, reason):
        [fault] = refuse_settings(administration, url=url)
        assert fault["pointer"] == "/settings/url"
        assert reason in fault["detail"]

    @pytest.mark.parametrize(
        "secret",
        [
            "whsec_short",
            pytest.param("whsec_" + "A" * 31, id="not base64"),
            pytest.param("whsec_" + "A" * 30 + "==", id="too few bytes"),
            pytest.param("whsec_" + "A" * 92, id="too many bytes"),
            pytest.param("secret", id="no prefix"),
        ],
    )
    def test_a_malformed_secret_is_refused(self, administration, secret):
        [fault] = refuse_settings(administration, secret=secret)
        assert fault["pointer"] == "/settings/secret"

    @pytest.mark.parametrize(
        "headers",
        [
            {"Content-Type": "text/plain"},
            {"host": "other"},
            {"Webhook-Id": "mine"},
            {"X Source": "a"},
            {"X:Source": "a"},
            {"": "a"},
            {"X-Source": "a", "x-source": "b"},
        ],
    )
    def test_reserved_malformed_and_repeated_headers_are_refused(self, administration, headers):
        [fault] = refuse_settings(administration, headers=headers)
        assert fault["pointer"] == "/settings/headers"

    @pytest.mark.parametrize("value", ["", "two\r\nlines", " led by a space", "é"])
    def test_malformed_values_of_headers_are_refused(self, administration, value):
        [fault] = refuse_settings(administration, headers={"X-Source": value})
        assert fault["pointer"] == "/settings/headers/X-Source"

    def test_filters_of_another_trigger_type_are_refused(self, administration):
        def pointers(body):
            """Create a trigger, which must be refused; return the pointers of the faults."""
            return [error["pointer"] for error in administration.post("/triggers", body, expect=400)["errors"]]

        assert pointers(trigger_body("EntityChangeWebhook", eventTypes=[GENERIC])) == ["/settings/eventTypes"]
        assert pointers(trigger_body("WebHook", entities=["member"])) == ["/settings/entities"]
        assert pointers(trigger_body("AsyncTrackWebhook", entities=["member"])) == ["/settings/entities"]

    def test_all_faults_are_reported_at_once(self, administration):
        faults = refuse_settings(
            administration, url="http://a/", secret="whsec_short", headers={"Host": "a"}, entities=["member"]
        )
        assert [fault["pointer"] for fault in faults] == [
            "/settings/url",
            "/settings/secret",
            "/settings/headers",
            "/settings/entities",
        ]

    @pytest.mark.parametrize(
        ("change", "pointer"),
        [
            ({"triggerKey": ""}, "/triggerKey"),
            ({"triggerKey": "a b"}, "/triggerKey"),
            ({"type": "Hook"}, "/type"),
            ({"name": ""}, "/name"),
            ({"settings": {}}, "/settings/url"),
            ({"colour": "red"}, "/colour"),
        ],
    )
    def test_a_malformed_body_is_refused_with_the_field(self, administration, change, pointer):
        problem = administration.post("/triggers", {**trigger_body(), **change}, expect=400)
        assert [fault["pointer"] for fault in problem["errors"]] == [pointer]

    @pytest.mark.slow
    def test_http_and_private_addresses_are_accepted_if_the_settings_allow_them(self, settings):
        with running_api(
            replace(settings, webhook_allow_http=True, webhook_allow_private=True, webhook_ports="any")
        ) as api:
            administration = api.organization().administration
            trigger = add_trigger(administration, url="http://127.0.0.1:9/hook")
            assert trigger["settings"]["url"] == "http://127.0.0.1:9/hook"
            [fault] = refuse_settings(administration, url="ftp://127.0.0.1/")
            assert fault["pointer"] == "/settings/url"


class TestLists:
    def test_triggers_are_filtered_and_sorted(self, administration):
        crm = add_trigger(administration, key="crm", name="For the CRM")
        sync = add_trigger(administration, "AsyncTrackWebhook", key="sync", name="100% results", active=False)
        books = add_trigger(administration, "EntityChangeWebhook", key="books", name="Changed records")

        def keys(**query):
            """The keys of the listed triggers."""
            page = administration.get("/triggers", **query)
            assert page["totalCount"] == len(page["results"])
            return [result["triggerKey"] for result in page["results"]]

        assert keys() == ["books", "sync", "crm"]
        assert keys(type="AsyncTrackWebhook") == ["sync"]
        assert keys(active=True) == ["books", "crm"]
        assert keys(active=False) == ["sync"]
        assert keys(name="crm") == ["crm"]
        assert keys(name="%") == ["sync"]
        assert keys(name="e", active=True, type="EntityChangeWebhook") == ["books"]
        assert keys(order="name") == ["sync", "books", "crm"]
        assert keys(order="triggerKey,desc") == ["sync", "crm", "books"]
        for column in ("triggerId", "createdAt", "updatedAt"):
            assert keys(order=column) == ["crm", "sync", "books"]
        assert keys(order="type") == ["sync", "books", "crm"]
        assert keys(order="active") == ["sync", "crm", "books"]
        page = administration.get("/triggers", limit=2, page=1)
        assert (page["totalCount"], page["results"][0]["triggerId"]) == (3, crm["triggerId"])
        results = administration.get("/triggers")["results"]
        assert [result["settings"]["secret"] for result in results] == [None, None, None]
        assert [result["triggerId"] for result in results] == [books["triggerId"], sync["triggerId"], crm["triggerId"]]

    @pytest.mark.parametrize(
        "query", [{"type": "Hook"}, {"limit": 101}, {"order": "secret"}, {"name": ""}, {"colour": "red"}]
    )
    def test_an_invalid_query_of_triggers_is_refused(self, administration, query):
        problem = administration.get("/triggers", expect=400, **query)
        assert [fault["parameter"] for fault in problem["errors"]] == list(query)

    @pytest.mark.parametrize("query", [{"status": "done"}, {"limit": 26}, {"order": "payload"}])
    def test_an_invalid_query_of_deliveries_is_refused(self, administration, query):
        path = f"/triggers/{add_trigger(administration)['triggerId']}/deliveries"
        problem = administration.get(path, expect=400, **query)
        assert [fault["parameter"] for fault in problem["errors"]] == list(query)

    def test_deliveries_are_filtered_ordered_and_paged(self, shop, administration):
        trigger = add_trigger(administration, "EntityChangeWebhook")
        # Each new campaign is a change that the trigger reports.
        for _ in range(3):
            shop.campaign()
        path = f"/triggers/{trigger['triggerId']}/deliveries"
        page = administration.get(path)
        assert page["totalCount"] == 3
        ids = [result["triggerDeliveryId"] for result in page["results"]]
        assert ids == sorted(ids, reverse=True)
        for column in ("triggerDeliveryId", "type", "status", "attempts", "nextAttemptAt", "createdAt", "updatedAt"):
            results = administration.get(path, order=f"{column},asc")["results"]
            assert [result["triggerDeliveryId"] for result in results] == ids[::-1], column
        assert administration.get(path, order="lastAttemptAt", limit=1, page=2)["totalCount"] == 3
        assert administration.get(path, status="pending")["totalCount"] == 3
        assert administration.get(path, status="failed")["results"] == []


class TestRedelivery:
    def test_a_delivery_is_queued_again(self, shop, administration):
        trigger = add_trigger(administration, "EntityChangeWebhook")
        shop.campaign()
        [delivery] = deliveries(administration, trigger)
        path = f"/triggers/{trigger['triggerId']}/deliveries/{delivery['triggerDeliveryId']}/redeliver"
        queued_delivery = administration.post(path, expect=202)["triggerDelivery"]
        assert queued_delivery["updatedAt"] > delivery["updatedAt"]
        assert queued_delivery["nextAttemptAt"] > delivery["nextAttemptAt"]
        for name in ("triggerDeliveryId", "triggerDeliveryKey", "payload", "status", "attempts", "createdAt"):
            assert queued_delivery[name] == delivery[name], name

    def test_a_delivery_of_an_inactive_trigger_is_not_queued_again(self, shop, administration):
        trigger = add_trigger(administration, "EntityChangeWebhook", key="quiet")
        shop.campaign()
        [delivery] = deliveries(administration, trigger)
        path = f"/triggers/{trigger['triggerId']}"
        administration.put(path, trigger_body("EntityChangeWebhook", key="quiet", active=False))
        problem = administration.post(f"{path}/deliveries/{delivery['triggerDeliveryId']}/redeliver", expect=409)
        assert problem["type"] == "/problems/trigger-inactive"
        assert deliveries(administration, trigger) == [delivery]

    def test_a_delivery_of_another_trigger_is_not_found(self, shop, administration):
        trigger, other_trigger = add_trigger(administration, "EntityChangeWebhook"), add_trigger(administration)
        shop.campaign()
        [delivery] = deliveries(administration, trigger)
        path = f"/triggers/{other_trigger['triggerId']}/deliveries/{delivery['triggerDeliveryId']}/redeliver"
        assert administration.post(path, expect=404)["type"] == "/problems/not-found"


class TestLimits:
    def test_an_organization_has_a_maximum_of_active_triggers(self, administration, monkeypatch):
        monkeypatch.setattr(webhook_triggers, "MAX_ACTIVE_TRIGGERS", 2)
        add_trigger(administration)
        add_trigger(administration)
        assert administration.post("/triggers", trigger_body(), expect=409)["type"] == "/problems/trigger-limit"
        inactive_trigger = add_trigger(administration, key="third", active=False)
        path = f"/triggers/{inactive_trigger['triggerId']}"
        problem = administration.put(path, trigger_body(key="third", active=True), expect=409)
        assert problem["type"] == "/problems/trigger-limit"
        assert problem["detail"] == "The organization has 2 active triggers, the maximum."
        assert administration.get("/triggers", active=True)["totalCount"] == 2

    @pytest.mark.parametrize(("limit", "maximum"), [("MAX_DELIVERIES", 3), ("MAX_DELIVERED_CHARACTERS", 3500)])
    def test_a_call_with_too_many_deliveries_changes_nothing(self, shop, administration, monkeypatch, limit, maximum):
        # Two triggers report each event, so two events have 4 deliveries, of more than 3500 characters.
        triggers = [add_trigger(administration, eventTypes=[GENERIC]) for _ in range(2)]
        ana = shop.member()
        monkeypatch.setattr(outbox, limit, maximum)
        body = {"events": [event(ana), event(ana)]}
        problem = shop.organization.integration.post("/events/track", body, expect=503)
        assert problem["type"] == "/problems/deadline-exceeded"
        assert [deliveries(administration, trigger) for trigger in triggers] == [[], []]
        shop.organization.integration.post("/events/track", {"events": [event(ana)]}, expect=200)
        assert [len(deliveries(administration, trigger)) for trigger in triggers] == [1, 1]

    @pytest.mark.parametrize(
        ("type_", "limit", "maximum"),
        [
            ("WebHook", "MAX_DELIVERIES", 3),
            ("WebHook", "MAX_DELIVERED_CHARACTERS", 3500),
            ("AsyncTrackWebhook", "MAX_DELIVERIES", 3),
            ("AsyncTrackWebhook", "MAX_DELIVERED_CHARACTERS", 2000),
        ],
    )
    def test_queued_events_with_too_many_deliveries_are_evaluated_one_by_one(
        self, shop, administration, monkeypatch, caplog, limit, maximum, type_
    ):
        # Two triggers report each event. The maximum is reached by two events, but not by one.
        triggers = [add_trigger(administration, type_, eventTypes=[GENERIC]) for _ in range(2)]
        monkeypatch.setattr(outbox, limit, maximum)
        results = queue.send(shop, *(event(shop.member()) for _ in range(3)))
        queue.drain(shop)
        assert "a batch of 3 events failed: more than 10,000 messages for triggers" in caplog.text
        assert [queue.outcome(shop, result)["event"]["status"] for result in results] == ["success"] * 3
        # A message about each event, for both triggers.
        assert [len(deliveries(administration, trigger)) for trigger in triggers] == [3, 3]

    @pytest.mark.parametrize(("type_", "message_count"), [("WebHook", 1), ("AsyncTrackWebhook", 2)])
    @pytest.mark.parametrize(("limit", "maximum"), [("MAX_DELIVERIES", 1), ("MAX_DELIVERED_CHARACTERS", 100)])
    def test_a_queued_event_with_too_many_deliveries_becomes_a_dead_letter_at_once(
        self, shop, administration, monkeypatch, limit, maximum, type_, message_count
    ):
        # Two triggers report the generic event, which is more than the maximum. None reports the order.
        triggers = [add_trigger(administration, type_, eventTypes=[GENERIC]) for _ in range(2)]
        ana = shop.member()
        with monkeypatch.context() as patch:
            patch.setattr(outbox, limit, maximum)
            generic_receipt, order_receipt = queue.send(shop, event(ana), order(ana))
            queue.drain(shop)
        dead_event = queue.outcome(shop, generic_receipt)["event"]
        detail = "The evaluation failed: more than 10,000 messages for triggers, or more than 32 MiB of them."
        assert (dead_event["status"], dead_event["lastError"]["detail"]) == ("failed", detail)
        # The later event of the member does not wait.
        assert queue.outcome(shop, order_receipt)["event"]["status"] == "success"
        administration.post(f"/events/{generic_receipt['loyaltyEventKey']}/requeue", expect=202)
        queue.drain(shop)
        assert queue.outcome(shop, generic_receipt)["event"]["status"] == "success"
        # Triggers of the type AsyncTrackWebhook also have a message about the failure.
        assert [len(deliveries(administration, trigger)) for trigger in triggers] == [message_count, message_count]
