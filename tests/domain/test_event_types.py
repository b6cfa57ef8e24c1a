"""Forms of payloads that custom event types require, and built-in types in lists with custom ones."""

from __future__ import annotations

from dataclasses import fields
from decimal import Decimal

import pytest

from domain.event_types import CustomEventType, PayloadInvalid, built_in_record, check_payload, pascal_case


@pytest.mark.parametrize(
    ("schema_type", "value"),
    [
        ("number", 0),
        ("number", Decimal("1.5")),
        ("string", ""),
        ("url", "https://shop.example/a?b=c"),
        ("url", "https://shop.example:8443"),
        ("url", "app://open"),
        ("json", {"any": 1}),
        ("json", None),
    ],
)
def test_a_value_in_the_form_of_the_type_is_accepted(schema_type, value):
    check_payload("till-opened", schema_type, {"value": value})


@pytest.mark.parametrize(
    ("schema_type", "value", "form"),
    [
        ("number", "1", "a number"),
        ("number", True, "a number"),
        ("string", 1, "a string"),
        ("url", 1, "an absolute URL with a host"),
        ("url", "/path", "an absolute URL with a host"),
        ("url", "shop.example", "an absolute URL with a host"),
        ("url", "https://", "an absolute URL with a host"),
        ("url", "https://shop.example/a b", "an absolute URL with a host"),
        ("url", "https://shop.example/\x00", "an absolute URL with a host"),
        ("url", "https://shop.example:port", "an absolute URL with a host"),
        ("url", "https://[::1", "an absolute URL with a host"),
        ("url", "//shop.example", "an absolute URL with a host"),
        ("url", "mailto:ana@shop.example", "an absolute URL with a host"),
        ("url", "https:path", "an absolute URL with a host"),
        ("url", "javascript://shop.example/%0aalert(1)", "an absolute URL with a host"),
        ("url", "data://text", "an absolute URL with a host"),
    ],
)
def test_a_value_of_another_form_is_refused(schema_type, value, form):
    with pytest.raises(PayloadInvalid) as caught:
        check_payload("till-opened", schema_type, {"value": value})
    assert str(caught.value) == f"payload.value is not {form}; events of type till-opened need {form} in this field."


@pytest.mark.parametrize("payload", [None, {}, {"value": None}, {"other": 1}])
def test_a_missing_value_is_refused(payload):
    with pytest.raises(PayloadInvalid) as caught:
        check_payload("till-opened", "number", payload)
    assert str(caught.value) == "payload.value is missing; events of type till-opened need a number in this field."


def test_a_built_in_type_has_the_fields_of_a_custom_one():
    custom_type = CustomEventType(**dict.fromkeys(field.name for field in fields(CustomEventType)))
    assert custom_type.is_custom_type
    assert built_in_record("member-created") == {
        "api_code": "member-created",
        "name": "Member created",
        "description": None,
        "schema_type": "builtin",
        "active": True,
        "custom_attributes": {},
        "external_key": None,
        "is_custom_type": False,
        "created_at": None,
        "updated_at": None,
    }


def test_the_name_of_an_event_type_in_pascal_case_has_no_hyphens():
    assert pascal_case("member-created") == "MemberCreated"
