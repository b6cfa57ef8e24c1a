"""Lists of coupon books under random combinations of filters, compared with a scan of every record."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.builders.coupons import CouponBooks

START = datetime(2026, 1, 1, tzinfo=UTC)
WORDS = {
    "tags": ["red", "green", "blue"],
    "locations": ["centre", "north"],
    "categories": ["drinks", "food"],
    "productCategories": ["hot", "cold"],
    "paymentMethods": ["card", "cash"],
    "channels": ["app", "web"],
}
# A book that names no location applies to all locations; so do the other fields.
APPLIES_TO_ALL_IF_EMPTY = {"locations", "paymentMethods", "channels", "daysOfWeek"}
NAMES = ["Flat White", "flat iron", "50% off_tea", "Tea", "\\Cake"]
STATUSES = ["draft", "published", "disabled", "archived"]
TYPES = ["single", "list", "generated", "codeless"]
FEW = settings(
    max_examples=3 * settings.default.max_examples // 10, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

Book = Mapping[str, Any]
Keys = Mapping[str, list[str]]


def start_of_day(day: int) -> str:
    """Midnight this many days after 1 January 2026."""
    return (START + timedelta(days=day)).isoformat().replace("+00:00", "Z")


@pytest.fixture(scope="module")
def organization(api):
    return api.organization()


@pytest.fixture(scope="module")
def keys(organization) -> Keys:
    """Keys that books may reference."""
    administration, defaults = organization.administration, organization.defaults
    audiences = [administration.post("/audiences", {"matcherType": "null-matcher"})["audience"] for _ in range(2)]
    path = f"/loyalty-programs/{defaults.loyalty_program_id}/tiers"
    body = {"name": "Gold", "active": True, "minRequiredPoints": 10**9, "tierOrder": 9}
    tiers = [administration.post(path, body)["tier"] for _ in range(2)]
    program = administration.get(f"/loyalty-programs/{defaults.loyalty_program_id}")["loyaltyProgram"]
    return {
        "audienceKeys": [audience["audienceKey"] for audience in audiences],
        "tierKeys": [tier["loyaltyTierKey"] for tier in tiers],
        "loyaltyProgramKey": [program["loyaltyProgramKey"]],
    }


@pytest.fixture(scope="module")
def all_books(organization, keys) -> list[Book]:
    """Sixty books that differ in every field that lists are filtered by, newest first, as in lists."""
    books, chance = CouponBooks(organization), random.Random(1)

    def sample(values: list[Any]) -> list[Any]:
        return chance.sample(values, chance.randint(0, len(values)))

    for _ in range(60):
        begin, end = sorted(chance.sample(range(10), 2))
        body = {
            "name": chance.choice(NAMES),
            "description": chance.choice([None, *NAMES]),
            "externalId": chance.choice([None, "crm-1", "CRM-12"]),
            "publishingStatus": chance.choice(STATUSES[:3]),
            "type": chance.choice(TYPES),
            "rankingIndex": chance.choice([None, 1, 2]),
            "locale": chance.choice([None, "es", "en"]),
            "validFromDate": chance.choice([None, start_of_day(begin)]),
            "validToDate": chance.choice([None, start_of_day(end)]),
            "daysOfWeek": sample([1, 2, 3]),
            "audienceKeys": sample(keys["audienceKeys"]),
            "tierKeys": sample(keys["tierKeys"]),
            "loyaltyProgramKey": chance.choice([None, *keys["loyaltyProgramKey"]]),
            **{name: sample(words) for name, words in WORDS.items()},
        }
        book = books.make(**body)
        if chance.random() < 0.15:
            books.set_status(book, "archived")
    pages = [books.surface.get("/coupon-books", limit=50, page=page) for page in range(2)]
    return [book for page in pages for book in page["results"]]


@pytest.fixture(scope="module")
def member(organization) -> str:
    return organization.member()["loyaltyMemberId"]


def any_of(name: str, values: list[Any], *, or_empty: bool = False) -> Callable[[Book], bool]:
    """A predicate: the field has one of the values, or is empty and `or_empty` is set."""
    return lambda book: bool(set(book[name]) & set(values)) or (or_empty and not book[name])


def contains(text: str) -> Callable[[Book], bool]:
    """A predicate: a field that searches cover contains the text, in upper or lower case."""
    columns = ("name", "description", "externalId")
    return lambda book: any(text.lower() in (book[column] or "").lower() for column in columns)


def at_least(name: str, limit: str, *, or_null: bool = False) -> Callable[[Book], bool]:
    """A predicate: the field has at least this value, or is null and `or_null` is set."""
    return lambda book: or_null if book[name] is None else book[name] >= limit


def at_most(name: str, limit: str, *, or_null: bool = False) -> Callable[[Book], bool]:
    """A predicate: the field has at most this value, or is null and `or_null` is set."""
    return lambda book: or_null if book[name] is None else book[name] <= limit


@st.composite
def list_conditions(draw: Callable[..., Any], keys: Keys) -> dict[str, tuple[Any, Callable[[Book], bool]]]:
    """Query parameters on the list fields of a book, each with its predicate."""
    lists = {**WORDS, "daysOfWeek": [1, 2, 3, 4], "audiences": keys["audienceKeys"], "tierKeys": keys["tierKeys"]}
    conditions: dict[str, tuple[Any, Callable[[Book], bool]]] = {}
    for name in draw(st.sets(st.sampled_from([*lists, "tagsAny"]), max_size=4)):
        words = draw(st.lists(st.sampled_from(lists.get(name, WORDS["tags"])), min_size=1, max_size=2, unique=True))
        field = {"audiences": "audienceKeys", "tagsAny": "tags"}.get(name, name)
        matches = any_of(field, words, or_empty=name in APPLIES_TO_ALL_IF_EMPTY)
        if name == "tags":
            matches = lambda book, words=words: set(words) <= set(book["tags"])  # noqa: E731
        if name == "channels":
            match = draw(st.sampled_from(["effective", "exact"]))
            conditions["channelsMatch"] = (match, lambda book: True)
            matches = any_of(field, words, or_empty=match == "effective")
        conditions[name] = (",".join(map(str, words)), matches)
    return conditions


@st.composite
def value_conditions(draw: Callable[..., Any], keys: Keys) -> dict[str, tuple[Any, Callable[[Book], bool]]]:
    """Query parameters on the single-valued fields of a book, each with its predicate."""
    text = draw(st.sampled_from(["flat", "WHITE", "%", "_", "\\", "t", "crm-1", "nothing like it"]))
    statuses = draw(st.lists(st.sampled_from(STATUSES), min_size=1, max_size=3, unique=True))
    day = start_of_day(draw(st.integers(0, 9)))
    end = start_of_day(draw(st.integers(0, 9)))
    locale = draw(st.sampled_from(["es", "fr"]))
    external_id, type_ = draw(st.sampled_from(["crm-1", "CRM-1"])), draw(st.sampled_from(TYPES))
    program = keys["loyaltyProgramKey"][0]
    conditions = {
        "search": (text, contains(text)),
        "status": (",".join(statuses), lambda book: book["publishingStatus"] in statuses),
        "locale": (locale, lambda book: book["locale"] in (None, locale)),
        "externalId": (external_id, lambda book: book["externalId"] == external_id),
        "type": (type_, lambda book: book["type"] == type_),
        "loyaltyProgramKey": (program, lambda book: book["loyaltyProgramKey"] == program),
        "validFromDate": (day, at_least("validToDate", day, or_null=True)),
        "validToDate": (end, at_most("validFromDate", end, or_null=True)),
        "validFromDateMin": (day, at_least("validFromDate", day)),
        "validToDateMax": (end, at_most("validToDate", end)),
    }
    filters = {name: conditions[name] for name in draw(st.sets(st.sampled_from([*conditions]), max_size=3))}
    if {"validFromDate", "validToDate"} <= filters.keys() and end < day:
        # No moment is between the two.
        filters["validToDate"] = (end, lambda book: False)
    return filters


def list_ids(surface: Any, path: str, query: Mapping[str, Any]) -> tuple[int, list[Any]]:
    """The total count, and the ids of the books on all pages of a list."""
    ids: list[Any] = []
    for page in range(5):
        response = surface.get(path, limit=25, page=page, **query)
        ids += [book["couponBookId"] for book in response["results"]]
        if len(response["results"]) < 25:
            break
    return response["totalCount"], ids


def test_no_book_is_valid_in_a_range_that_ends_before_it_begins(organization, member, all_books):
    for path in ("/coupon-books", f"/members/{member}/coupon-books"):
        query = {"validFromDate": "2999-01-02T00:00:00Z", "validToDate": "2999-01-01T00:00:00Z"}
        assert list_ids(organization.integration, path, query) == (0, [])
        # Every book is valid at some moment of this range.
        query = {"validFromDate": "1999-01-01T00:00:00Z", "validToDate": "2999-01-01T00:00:00Z"}
        assert list_ids(organization.integration, path, query) == list_ids(organization.integration, path, {})
    assert list_ids(organization.integration, "/coupon-books", query)[0] == len(all_books)


@pytest.mark.slow
@FEW
@given(data=st.data())
def test_lists_contain_the_books_that_match_every_filter(organization, keys, all_books, data):
    conditions = {**data.draw(list_conditions(keys)), **data.draw(value_conditions(keys))}
    query = {name: value for name, (value, _) in conditions.items()}
    expected_ids = [
        book["couponBookId"] for book in all_books if all(matches(book) for _, matches in conditions.values())
    ]
    listing = list_ids(organization.integration, "/coupon-books", query)
    assert listing == (len(expected_ids), expected_ids), query
    # The other surface offers fewer filters, and the program by its id.
    for name in ("tierKeys", "externalId", "type"):
        conditions.pop(name, None)
    query = {name: value for name, (value, _) in conditions.items()}
    if query.pop("loyaltyProgramKey", None):
        query["loyaltyProgramId"] = organization.defaults.loyalty_program_id
    expected_ids = [
        book["couponBookId"] for book in all_books if all(matches(book) for _, matches in conditions.values())
    ]
    listing = list_ids(organization.administration, "/coupon-books", query)
    assert listing == (len(expected_ids), expected_ids), query


@pytest.mark.slow
@FEW
@given(data=st.data())
def test_lists_of_a_member_contain_the_books_that_match_every_filter(organization, member, keys, all_books, data):
    conditions = {**data.draw(list_conditions(keys)), **data.draw(value_conditions(keys))}
    for name in (
        "audiences",
        "tierKeys",
        "search",
        "status",
        "loyaltyProgramKey",
        "validFromDateMin",
        "validToDateMax",
    ):
        conditions.pop(name, None)
    query = {name: value for name, (value, _) in conditions.items()}
    expected_ids = [
        book["couponBookId"] for book in all_books if all(matches(book) for _, matches in conditions.values())
    ]
    path = f"/members/{member}/coupon-books"
    assert list_ids(organization.integration, path, {**query, "dryRun": True}) == (
        len(expected_ids),
        expected_ids,
    ), query
    candidates = [
        book
        for page in range(3)
        for book in organization.integration.get(path, limit=25, page=page, dryRun=True, **query)["results"]
    ]
    eligible_ids = [book["couponBookId"] for book in candidates if book["eligible"]]
    assert list_ids(organization.integration, path, query) == (len(eligible_ids), eligible_ids), query


@pytest.mark.parametrize("column", ["name", "rankingIndex", "validToDate", "type", "externalId"])
@pytest.mark.parametrize("direction", ["", ",asc", ",desc"])
def test_books_are_sorted_by_each_column_with_empty_values_last(organization, all_books, column, direction):
    """Null values are last in both directions; equal values are ordered by age."""
    backwards = direction == ",desc"
    books_with_value = [book for book in all_books if book[column] is not None]
    books_without_value = [book for book in all_books if book[column] is None]
    expected_books = sorted(books_with_value, key=lambda book: (book[column], book["couponBookId"]), reverse=backwards)
    expected_books += sorted(books_without_value, key=lambda book: book["couponBookId"], reverse=backwards)
    query = {"order": f"{column}{direction}"}
    _, ids = list_ids(organization.integration, "/coupon-books", query)
    by_id = {book["couponBookId"]: book for book in all_books}
    assert [by_id[id_][column] for id_ in ids] == [book[column] for book in expected_books]
    assert ids == [book["couponBookId"] for book in expected_books]
