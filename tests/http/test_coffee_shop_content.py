"""A coffee shop's content in three locales: what each member is shown at any moment, compared with a full scan.

In most of its time zones the clocks change within the tested months. The full scan compares only local times.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from handlers.http import dispatch
from handlers.services.content import member_documents
from handlers.services.content.member_documents import ResponseCache
from tests.builders.content import Content, document_key, item
from tests.builders.coupons import CouponBooks

HOME = "Europe/Madrid"
ZONES = (HOME, "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu")
LOCALES = ("", "es", "pt-br")
TAGS = {"ana": {"vip"}, "bob": {"vip", "student"}, "eve": set()}
# The moments at which clocks of the zones go forward or back.
CHANGES = (
    datetime(2026, 3, 8, 7, tzinfo=UTC),
    datetime(2026, 3, 29, 1, tzinfo=UTC),
    datetime(2026, 4, 4, 15, tzinfo=UTC),
    datetime(2026, 10, 3, 15, 30, tzinfo=UTC),
    datetime(2026, 10, 25, 1, tzinfo=UTC),
    datetime(2026, 11, 1, 6, tzinfo=UTC),
)
FIRST, LAST = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 11, 30, tzinfo=UTC)
TICK = timedelta(microseconds=1)

moments = st.one_of(
    st.builds(
        lambda change, minutes, tick: change + timedelta(minutes=minutes) - tick * TICK,
        st.sampled_from(CHANGES),
        st.sampled_from(range(-36 * 60, 36 * 60 + 1, 30)),
        st.integers(0, 1),
    ),
    st.datetimes(FIRST.replace(tzinfo=None), LAST.replace(tzinfo=None), timezones=st.just(UTC)),
)
sorts = st.lists(
    st.tuples(st.sampled_from(["displayOrder", "fromDate", "slug"]), st.sampled_from(["asc", "desc"])),
    max_size=2,
    unique_by=lambda sort_key: sort_key[0],
)
questions = st.tuples(
    moments, st.sampled_from(sorted(TAGS)), st.sampled_from(LOCALES), sorts, st.sampled_from([3, 10, 200])
)


class Clock(datetime):
    """A clock that always shows `moment`."""

    moment = FIRST

    @classmethod
    def now(cls, tz=None):
        return cls.moment


@dataclass
class CoffeeShop:
    """The collections, their stored documents in the order of writing, the books by key, and the audiences by tag."""

    menu: Content
    offers: Content
    documents: dict[str, list[dict[str, Any]]]
    books: dict[str, dict[str, Any]]
    audiences: dict[str, str]
    cache: ResponseCache

    def list_content(self, content: Content, moment: datetime, member: str, locale: str, **query: Any) -> Any:
        """List the documents that a member is shown at a moment, without a cached response."""
        Clock.moment = moment
        self.cache.clear()
        if locale:
            query["locale"] = locale
        return content.integration.get(f"/members/{member}{content.documents}", **query)


def window(chance: Random) -> dict[str, str]:
    """None, one or both ends of a window, often at a moment at which clocks change."""
    ends = sorted(
        chance.choice([chance.choice(CHANGES), FIRST + (LAST - FIRST) * chance.random()]).replace(microsecond=0)
        for _ in range(2)
    )
    texts = [end.isoformat().replace("+00:00", "Z") for end in ends]
    bounds = dict(zip(("fromDate", "toDate"), texts, strict=True))
    return {name: text for name, text in bounds.items() if chance.random() < 0.4}


def schedule(chance: Random) -> dict[str, Any]:
    """Days, windows of hours in some zone, both or neither; most windows are on days and in hours of clock changes."""
    fields: dict[str, Any] = {}
    if chance.random() < 0.4:
        fields["daysOfWeek"] = sorted(chance.sample("1234567", chance.randrange(1, 5)))
    if chance.random() < 0.5:
        windows = []
        for _ in range(chance.randrange(1, 4)):
            hours = sorted(chance.choices(range(24), weights=[4] * 5 + [1] * 19, k=2))
            windows.append({"day": chance.choice([7, 7, 1, 6, 3]), "fromHour": hours[0], "toHour": hours[1]})
        fields["dayOfWeekSchedule"] = {"timezone": chance.choice(ZONES), "schedule": windows}
    return fields


def audiences_of(organization: Any) -> dict[str, str]:
    """Create an audience for each tag that members may have; return their keys by tag."""
    keys_by_tag = {}
    for tag in ("vip", "student"):
        body = {"matcherType": "attribute-matcher", "matcher": {"tags": [tag]}}
        keys_by_tag[tag] = organization.administration.post("/audiences", body)["audience"]["audienceKey"]
    return keys_by_tag


def fill(
    content: Content, chance: Random, audiences: dict[str, str], attrs: Any, *, document_count: int
) -> list[dict[str, Any]]:
    """Write documents in some locales each, in batches; return the stored documents in that order."""
    items = []
    for _ in range(document_count):
        key = document_key()
        for locale in chance.sample(LOCALES, chance.randrange(1, len(LOCALES) + 1)):
            fields = {**window(chance), **schedule(chance)}
            if chance.random() < 0.4:
                fields["audienceKeys"] = [
                    audiences[tag] for tag in chance.sample(sorted(audiences), chance.choice([1, 2]))
                ]
            if chance.random() < 0.7:
                fields["slug"] = chance.choice(["latte", "mocha", "tea"])
            status = chance.choice(["published"] * 4 + ["draft"])
            items.append(item(attrs(), documentKey=key, locale=locale, status=status, **fields))
    documents = []
    for start in range(0, len(items), 50):
        response = content.batch(*items[start : start + 50])
        assert response["failed"] == []
        documents += response["upserted"]
    return documents


@pytest.fixture(scope="module")
def coffee_shop(api) -> Iterator[CoffeeShop]:
    organization, chance = api.organization(), Random(5)
    organization.administration.put("", {"defaultLocale": "en", "timezone": HOME})
    for name, tags in TAGS.items():
        organization.member(name, profile={"tags": sorted(tags)})
    audiences = audiences_of(organization)
    schema = {"properties": {"displayOrder": {"type": "integer"}, "couponBookKey": {"type": "string"}}}
    menu = Content.of(organization, name="Menu", jsonschema=schema)
    offers = Content.of(organization, name="Offers", jsonschema=schema, contentType="coupon")
    shop, books = CouponBooks(organization), {}
    for number in range(8):
        fields = {"audienceKeys": [audiences["student"]]} if number % 4 == 3 else {}
        # `validFromDate` and `validToDate`.
        validity = {f"valid{name[0].upper()}{name[1:]}": text for name, text in window(chance).items()}
        status = "draft" if number == 5 else "published"
        book = shop.make(f"C-{number}", publishingStatus=status, **fields, **validity)
        books[book["couponBookKey"]] = book

    def attrs() -> dict[str, Any]:
        return {"displayOrder": chance.randrange(9)} if chance.random() < 0.8 else {}

    def offer_attrs() -> dict[str, Any]:
        return {**attrs(), "couponBookKey": chance.choice(list(books))}

    documents = {
        "menu": fill(menu, chance, audiences, attrs, document_count=60),
        "offers": fill(offers, chance, audiences, offer_attrs, document_count=30),
    }
    with pytest.MonkeyPatch.context() as patch:
        cache = ResponseCache()
        patch.setattr(dispatch, "datetime", Clock)
        patch.setattr(member_documents, "_cached_responses", cache)
        yield CoffeeShop(menu, offers, documents, books, audiences, cache)


def is_within(at: datetime, begin: str | None, end: str | None) -> bool:
    """True if the moment is in the range, of which both ends are optional."""
    return (begin is None or datetime.fromisoformat(begin) <= at) and (end is None or at <= datetime.fromisoformat(end))


def is_open(document: dict[str, Any], at: datetime) -> bool:
    """Check the local time against the schedule if there is one, else against the days of the shop."""
    opening_hours = document.get("dayOfWeekSchedule")
    if opening_hours is None:
        return not document["daysOfWeek"] or str(at.astimezone(ZoneInfo(HOME)).isoweekday()) in document["daysOfWeek"]
    local_time = at.astimezone(ZoneInfo(opening_hours["timezone"]))
    return any(
        hours["day"] == local_time.isoweekday() and hours["fromHour"] <= local_time.hour <= hours["toHour"]
        for hours in opening_hours["schedule"]
    )


def scan(shop: CoffeeShop, name: str, at: datetime, member: str, locale: str) -> list[dict[str, Any]]:
    """The documents of a collection that the member is to be shown, in the order of writing."""
    member_audiences = {shop.audiences[tag] for tag in TAGS[member]}

    def is_for(record: dict[str, Any]) -> bool:
        return not record["audienceKeys"] or bool(member_audiences & set(record["audienceKeys"]))

    documents = [document for document in shop.documents[name] if document["status"] == "published"]
    translated_keys = {document["documentKey"] for document in documents if document["locale"] == locale}
    visible_documents = []
    for document in documents:
        if document["locale"] != (locale if document["documentKey"] in translated_keys else ""):
            continue
        if not (is_within(at, document["fromDate"], document["toDate"]) and is_for(document) and is_open(document, at)):
            continue
        if name == "offers":
            book = shop.books[document["attrs"]["couponBookKey"]]
            is_valid = is_within(at, book["validFromDate"], book["validToDate"])
            if not (is_valid and is_for(book) and book["publishingStatus"] == "published"):
                continue
        visible_documents.append(document)
    return visible_documents


def in_order(documents: list[dict[str, Any]], sort: list[tuple[str, str]]) -> list[dict[str, Any]]:
    """Sort documents by fields, those without a value last; equal ones in the last direction, else newest first."""
    sorted_documents = list(documents) if sort and sort[-1][1] == "asc" else documents[::-1]
    for field, direction in reversed(sort):

        def value(document: dict[str, Any], field: str = field) -> Any:
            return document["attrs"].get(field) if field == "displayOrder" else document[field]

        documents_with_value = sorted(
            (document for document in sorted_documents if value(document) is not None),
            key=value,
            reverse=direction == "desc",
        )
        sorted_documents = documents_with_value + [document for document in sorted_documents if value(document) is None]
    return sorted_documents


@pytest.mark.slow
@given(questions)
@example((CHANGES[1], "ana", "", [], 200))
@example((CHANGES[1] - TICK, "bob", "es", [], 200))
@example((CHANGES[4], "bob", "pt-br", [("displayOrder", "asc")], 200))
@settings(max_examples=3 * settings.default.max_examples // 10, suppress_health_check=list(HealthCheck))
def test_members_are_shown_the_same_documents_as_a_full_scan_finds(coffee_shop, question):
    at, member, locale, sort, limit = question
    query = {"sort": ",".join(f"{field}:{direction}" for field, direction in sort)} if sort else {}
    for name, content in (("menu", coffee_shop.menu), ("offers", coffee_shop.offers)):
        expected_documents = in_order(scan(coffee_shop, name, at, member, locale), sort)
        keys = []
        for page in range(len(expected_documents) // limit + 1):
            response = coffee_shop.list_content(content, at, member, locale, limit=limit, page=page, **query)
            assert response["totalCount"] == len(expected_documents)
            keys += [(document["documentKey"], document["locale"]) for document in response["items"]]
        assert keys == [(document["documentKey"], document["locale"]) for document in expected_documents]


def test_the_full_scan_finds_many_documents_at_some_moments_and_few_at_others(coffee_shop):
    counts = {
        (at, name, member, locale): len(scan(coffee_shop, name, at, member, locale))
        for at in CHANGES
        for name in coffee_shop.documents
        for member in TAGS
        for locale in LOCALES
    }
    assert len(set(counts.values())) > 5
    assert min(counts.values()) < 3
    assert max(counts.values()) > 10
    zones = {(document.get("dayOfWeekSchedule") or {}).get("timezone") for document in coffee_shop.documents["menu"]}
    assert zones == {None, *ZONES}
