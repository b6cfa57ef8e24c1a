"""The `payload.value` of events of custom types, over HTTP."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.builders.campaigns import mint
from tests.builders.tracking import Shop, event, running

INVALID = "/problems/payload-invalid"
NUMBERS = [0, -5, 3, Decimal("1.5"), Decimal("18446744073709.123456")]
URLS = ["https://cornercoffee.example/menu?x=1#top", "http://localhost:8080", "ftp://[2001:db8::1]/x", "shop://cup"]
STRINGS = ["", "latte", "12", "/menu"]
NOT_URLS = [
    *(
        "",
        "latte",
        "/menu",
        "//cornercoffee.example",
        "https://",
        "https:///menu",
        "https:menu",
        "mailto:ana@x.example",
    ),
    *("https://corner coffee.example", "https://x.example/\n", "https://x.example:port", "https://x.example:99999"),
    "https://[::1",
]


@pytest.fixture
def shop(organization):
    return Shop(organization)


@pytest.fixture
def member(shop):
    return shop.member()


def create_event_type(shop, schema_type, **more):
    """Create a custom event type; return its apiCode."""
    body = {"name": "Cup", "apiCode": f"cup-{schema_type}", "schemaType": schema_type, **more}
    return shop.integration.post("/custom-event-types", body)["eventType"]["apiCode"]


@pytest.mark.parametrize(
    ("schema_type", "valid_values", "invalid_values"),
    [
        ("number", NUMBERS, [True, "12", [1], {"n": 1}]),
        ("string", [*STRINGS, *URLS], [12, True, [], {}]),
        ("url", URLS, [*NOT_URLS, 7, False, [], {}]),
        ("custom", [7, True, "x", [], {}, None], []),
    ],
)
def test_a_value_of_another_type_is_refused(shop, member, schema_type, valid_values, invalid_values):
    api_code = create_event_type(shop, schema_type)
    events = [event(member, api_code, payload={"value": value, "more": True}) for value in valid_values]
    assert {result["status"] for result in shop.track(*events)} == {"success"}
    invalid_fields = [{"payload": {"value": value}} for value in invalid_values]
    # Only events of a custom schema need no value.
    if schema_type != "custom":
        invalid_fields += [{"payload": {"value": None}}, {"payload": {}}, {}]
    invalid_events = [event(member, api_code, **fields) for fields in invalid_fields]
    results = shop.track(*invalid_events) if invalid_events else []
    for fields, result in zip(invalid_fields, results, strict=True):
        assert (result["status"], result["loyaltyEventKey"]) == ("failed", None), fields
        assert result["error"]["type"] == INVALID, fields
        assert result["error"]["detail"].startswith("payload.value is ")
    # The event of the enrolment, and those with valid values.
    assert len(shop.rows("events")) == 1 + len(valid_values)


def test_every_way_of_tracking_checks_the_value(shop, member):
    api_code = create_event_type(shop, "number")
    event_with_text = event(member, api_code, payload={"value": "12"})
    [receipt] = shop.integration.post("/events/track-async", {"events": [event_with_text]}, expect=202)["results"]
    assert (receipt["outcome"], receipt["error"]["type"]) == ("rejected", INVALID)
    for mode in ("dryRun", "captureOnly", "authorize"):
        assert shop.expect_refusal(event_with_text, executionMode=mode) == INVALID
    # The key is still free.
    shop.track_one({**event_with_text, "payload": {"value": 12}})


def test_a_rule_can_compute_with_the_number(shop, member):
    api_code = create_event_type(shop, "number")
    shop.campaign(running(mint(("=", "event.payload.value * 2")), rule="event.payload.value >= 2"), eventType=api_code)
    shop.track(*(event(member, api_code, payload={"value": value}) for value in (1, 2, 5)))
    # The rule is false for the value 1.
    assert shop.balance(member) == 2 * 2 + 5 * 2


def test_a_repeated_event_returns_its_result_after_the_type_has_changed(shop, member):
    api_code = create_event_type(shop, "custom")
    repeated_event = event(member, api_code, payload={"value": "many"})
    first_result = shop.track_one(repeated_event)
    shop.integration.patch(f"/custom-event-types/{api_code}", {"schemaType": "number"})
    assert shop.track_one(repeated_event) == first_result
    assert shop.expect_refusal(event(member, api_code, payload={"value": "many"})) == INVALID
    shop.track_one(event(member, api_code, payload={"value": 7}))


def test_built_in_types_have_the_schema_type_builtin(shop):
    event_types = shop.integration.get("/event-types")["results"]
    built_in_types = [event_type for event_type in event_types if not event_type["isCustomType"]]
    assert {event_type["schemaType"] for event_type in built_in_types} == {"builtin"}
