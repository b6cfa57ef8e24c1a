"""Versions of documents: their locales, their addresses, and what their fields may hold."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from domain.content.collections import RESERVED_SLUG, check_collection
from domain.content.documents import (
    DocumentAddress,
    coupon_book_key_of,
    derived_values,
    document_faults,
    is_deeper,
    locales_for,
    schedule_faults,
)
from domain.problems import InvalidRequest
from tests.domain.content.test_content_values import collection

KEY = "7c1d2e3f-4a5b-4c6d-9e8f-0a1b2c3d4e5f"
ZONES = frozenset({"UTC", "Europe/Madrid"})
MORNING = datetime(2026, 3, 4, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    ("locale", "locales"),
    [
        ("", [""]),
        ("es", ["es", ""]),
        ("es-AR", ["es-AR", "es", ""]),
        ("pt_BR", ["pt_BR", "pt", ""]),
        ("zh-Hant-TW", ["zh-Hant-TW", "zh-Hant", "zh", ""]),
        # A fallback never ends with the single letter `u`, which only introduces an extension.
        ("de-u-co-phonebk", ["de-u-co-phonebk", "de-u-co", "de", ""]),
        ("de-DE-x-loyal", ["de-DE-x-loyal", "de-DE", "de", ""]),
        ("x-loyal", ["x-loyal", "x", ""]),
    ],
)
def test_a_locale_falls_back_to_wider_ones_and_then_to_the_default(locale, locales):
    assert locales_for(locale) == locales


def test_an_address_is_a_key_if_it_is_a_uuid_and_a_slug_if_not():
    assert DocumentAddress(KEY.upper()).key == KEY
    assert DocumentAddress("hot-drinks").key is None


def pointers(of=None, attrs_bytes=10, **values):
    """The pointers of the faults of a document of the collection `of`, whose attrs are as many bytes long."""
    return [fault.pointer for fault in document_faults(of or collection(), values, attrs_bytes, ZONES)]


def test_a_document_that_ends_before_it_begins_is_refused():
    assert pointers(from_date=MORNING, to_date=MORNING) == []
    assert pointers(from_date=MORNING) == []
    assert pointers(to_date=MORNING) == []
    assert pointers(from_date=MORNING, to_date=MORNING - timedelta(seconds=1)) == ["/toDate"]


@pytest.mark.parametrize(
    ("slug", "fault_pointers"), [("hot-drinks", []), (None, []), (KEY, ["/slug"]), ("batch", ["/slug"])]
)
def test_a_slug_is_no_key_and_no_reserved_word(slug, fault_pointers):
    assert pointers(slug=slug) == fault_pointers


def test_all_faults_of_a_document_are_found_together():
    schedule = {"timezone": "Mars/Base", "schedule": []}
    fault_pointers = pointers(
        slug=KEY, from_date=MORNING, to_date=MORNING - timedelta(days=1), day_of_week_schedule=schedule
    )
    assert fault_pointers == ["/slug", "/toDate", "/dayOfWeekSchedule/timezone"]


def nested_values(levels):
    """An object of objects and lists with as many levels."""
    value = {}
    for _ in range(levels - 1):
        value = {"a": [value]} if isinstance(value, dict) and levels % 2 else {"a": value}
    return value


def test_attrs_have_a_maximum_size_depth_and_number_of_values():
    assert pointers(attrs={}, attrs_bytes=65_536) == []
    assert pointers(attrs={}, attrs_bytes=65_537) == ["/attrs"]
    assert pointers(attrs=nested_values(32)) == []
    assert pointers(attrs=nested_values(34)) == ["/attrs"]
    # 10 lists of 100 values have the maximum of 1000 values.
    lists = {f"list{number}": [str(value) for value in range(100)] for number in range(10)}
    assert pointers(attrs=lists) == []
    assert pointers(attrs={**lists, "more": "one"}) == ["/attrs"]
    # The values of attributes that are too large are not checked.
    assert pointers(attrs={**lists, "more": "one"}, attrs_bytes=65_537) == ["/attrs"]


def test_attrs_that_are_not_sent_are_not_checked():
    assert pointers(attrs_bytes=65_537) == []


@pytest.mark.parametrize(
    ("value", "levels", "is_too_deep"),
    [
        (1, 0, False),
        ([], 0, True),
        ({"a": 1, "b": []}, 1, True),
        ({"a": 1, "b": []}, 2, False),
        ([[1], {"a": [2]}], 2, True),
        ([[1], {"a": [2]}], 3, False),
    ],
)
def test_depth_counts_lists_and_objects(value, levels, is_too_deep):
    assert is_deeper(value, levels) is is_too_deep


def test_a_document_about_a_coupon_has_to_name_its_book():
    coupons = collection(content_type="coupon")
    assert pointers(coupons, attrs={"couponBookKey": KEY}) == []
    for attrs in ({}, {"couponBookKey": "free"}, {"couponBookKey": 7}):
        assert pointers(coupons, attrs=attrs) == ["/attrs/couponBookKey"]
    assert pointers(collection(content_type="static"), attrs={}) == []
    assert coupon_book_key_of({"couponBookKey": KEY.upper()}) == KEY


def test_open_hours_and_the_book_are_stored_next_to_the_document():
    """Hours are numbered from Monday, so 22:00 on Tuesday is 24 + 22."""
    schedule = {"timezone": "Europe/Madrid", "schedule": [{"day": 2, "fromHour": 22, "toHour": 23}]}
    assert derived_values({"day_of_week_schedule": schedule, "attrs": {"couponBookKey": KEY}}) == {
        "schedule_zone": "Europe/Madrid",
        "schedule_hours": [24 + 22, 24 + 23],
        "coupon_book_key": KEY,
    }
    assert derived_values({"day_of_week_schedule": None}) == {"schedule_zone": None, "schedule_hours": None}
    assert derived_values({"attrs": {}}) == {"coupon_book_key": None}
    assert derived_values({"slug": "x"}) == {}


def test_a_window_may_last_one_hour():
    schedule = {"timezone": "UTC", "schedule": [{"day": 1, "fromHour": 9, "toHour": 9}]}
    assert schedule_faults(schedule, ZONES) == []


@pytest.mark.parametrize("values", [{}, {"facet_fields": None, "slug": None}, {"facet_fields": {"f" * 100: {}}}])
def test_a_collection_that_documents_can_use_is_accepted(values):
    check_collection(values)


@pytest.mark.parametrize(
    ("values", "fault_pointers"),
    [
        ({"facet_fields": {"f" * 101: {}, "": {}}}, ["/facetFields", "/facetFields"]),
        ({"slug": RESERVED_SLUG, "facet_fields": {"": {}}}, ["/slug", "/facetFields"]),
    ],
)
def test_a_reserved_slug_and_names_of_fields_that_are_empty_or_too_long_are_refused(values, fault_pointers):
    with pytest.raises(InvalidRequest) as caught:
        check_collection(values)
    assert [fault.pointer for fault in caught.value.faults] == fault_pointers
