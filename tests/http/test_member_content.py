"""The content of a coffee shop that members are shown, and who may read it."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

from handlers.http import dispatch
from handlers.services.content import member_documents
from handlers.services.content.member_documents import ResponseCache
from tests.builders.content import Content, document_key, item
from tests.builders.coupons import CouponBooks
from tests.builders.imports import Imports
from tests.builders.statements import count

NOW = datetime(2026, 3, 27, 12, 0, tzinfo=UTC)  # a Friday

LOST_MEMBER = "The member of this access token is no longer active in the organization, or has a new loyaltyMemberId."


class Clock(datetime):
    """Replaces `datetime` in the module where calls read the time; the time is `moment`."""

    moment = NOW

    @classmethod
    def now(cls, tz=None):
        return cls.moment


@pytest.fixture
def clock(monkeypatch):
    """A function that sets the time of calls within a `with`, with an empty cache of responses; at first it is NOW."""
    monkeypatch.setattr(dispatch, "datetime", Clock)
    cache = ResponseCache()
    monkeypatch.setattr(member_documents, "_cached_responses", cache)
    Clock.moment = NOW

    @contextmanager
    def at(moment):
        before, Clock.moment = Clock.moment, moment
        cache.clear()
        yield
        Clock.moment = before

    return at


@pytest.fixture
def shop(organization, clock):
    """The collection "drinks" of an organization with the member ana; the time is NOW."""
    organization.member("ana")
    return Content.of(organization, jsonschema={"properties": {"displayOrder": {"type": "integer"}}})


@pytest.fixture
def shop_in_real_time(organization):
    """A shop without `clock`, because tokens expire by the real time."""
    organization.member("ana")
    return Content.of(organization)


def shown_keys(shop, member="ana", **query):
    """The keys of the documents that a member is shown, by default newest first."""
    return shop.shown_to(member, **query)


def test_the_response_has_the_collection_the_query_and_the_published_documents(organization, shop):
    document = shop.put({"title": "x"}, slug="s", fromDate="2026-01-01T00:00:00Z")
    shop.put({}, status="draft")
    expected_page = {
        "collection": {name: shop.collection[name] for name in ("collectionKey", "name")},
        "query": {"sort": "displayOrder:asc", "page": 0, "limit": 20},
        "totalCount": 1,
        "items": [
            {
                name: document[name]
                for name in (
                    *("documentKey", "slug", "attrs", "status", "locale"),
                    *("fromDate", "toDate", "createdAt", "updatedAt"),
                )
            }
        ],
    }
    for path in ("/members/ana/content/collections/drinks/documents", "/members/ana/collections/drinks/documents"):
        assert shop.integration.get(path, sort="displayOrder:asc") == expected_page


def test_a_document_is_shown_from_its_first_to_its_last_moment(shop, clock):
    key = shop.put({}, fromDate="2026-04-01T00:00:00Z", toDate="2026-04-02T00:00:00Z")["documentKey"]
    begin, end = datetime(2026, 4, 1, tzinfo=UTC), datetime(2026, 4, 2, tzinfo=UTC)
    tick = timedelta(microseconds=1)
    for moment, expected_keys in ((begin - tick, []), (begin, [key]), (end, [key]), (end + tick, [])):
        with clock(moment):
            assert shown_keys(shop) == expected_keys


def test_days_of_the_week_of_a_document_are_days_in_utc(shop, clock):
    key = shop.put({}, daysOfWeek=["1", "7"])["documentKey"]
    monday = datetime(2026, 3, 23, tzinfo=UTC)
    for day in range(7):
        for moment in (monday + timedelta(days=day), monday + timedelta(days=day, hours=23, minutes=59)):
            with clock(moment):
                assert shown_keys(shop) == ([key] if day in (0, 6) else [])


def test_schedules_depend_on_the_clocks_of_their_zone_across_summer_time(shop, clock):
    # Clocks in Madrid go from 02:00 to 03:00 on Sunday 29 March 2026: UTC+1 before, UTC+2 after.
    # A schedule replaces the days of the week: the document is not shown on Wednesday, the 25th.
    window = {"day": 7, "fromHour": 1, "toHour": 3}
    key = shop.put({}, dayOfWeekSchedule={"timezone": "Europe/Madrid", "schedule": [window]}, daysOfWeek=["3"])
    shown_by_moment = {
        datetime(2026, 3, 28, 23, 59, tzinfo=UTC): False,
        datetime(2026, 3, 29, 0, 0, tzinfo=UTC): True,
        datetime(2026, 3, 29, 0, 59, tzinfo=UTC): True,
        datetime(2026, 3, 29, 1, 0, tzinfo=UTC): True,
        datetime(2026, 3, 29, 1, 59, 59, tzinfo=UTC): True,
        datetime(2026, 3, 29, 2, 0, tzinfo=UTC): False,
        datetime(2026, 3, 25, 12, 0, tzinfo=UTC): False,
    }
    for moment, is_shown in shown_by_moment.items():
        with clock(moment):
            assert shown_keys(shop) == ([key["documentKey"]] if is_shown else []), moment


def test_a_document_with_audiences_is_shown_only_to_their_members(organization, shop, clock):
    administration = organization.administration
    list_audience = administration.post("/audiences", {"matcherType": "list-matcher"})["audience"]
    vips = administration.post("/audiences", {"matcherType": "attribute-matcher", "matcher": {"tags": ["vip"]}})
    organization.member("bob", profile={"tags": ["vip"]})
    ana = organization.integration.get("/members/ana")["loyaltyMember"]
    administration.patch(f"/audiences/{list_audience['audienceId']}/members", {"add": [ana["memberId"]]})
    key_of_list, key_of_vips = list_audience["audienceKey"], vips["audience"]["audienceKey"]
    for_ana = shop.put({}, audienceKeys=[key_of_list])["documentKey"]
    # Upper case does not matter in keys.
    for_bob = shop.put({}, audienceKeys=[key_of_vips.upper()])["documentKey"]
    for_both = shop.put({}, audienceKeys=[key_of_list, key_of_vips])["documentKey"]
    for_everybody = shop.put({})["documentKey"]
    # Eve is in no audience.
    organization.member("eve")
    # The newest documents are first.
    assert shown_keys(shop, "ana") == [for_everybody, for_both, for_ana]
    assert shown_keys(shop, "bob") == [for_everybody, for_both, for_bob]
    assert shown_keys(shop, "eve") == [for_everybody]


def test_each_document_is_shown_once_in_the_requested_locale_or_the_default_one(shop, clock):
    translated_key, default_key, spanish_key, key_with_draft = (document_key() for _ in range(4))
    for key, locale, status in (
        (translated_key, "default", "published"),
        (translated_key, "es", "published"),
        (translated_key, "pt", "published"),
        (default_key, "default", "published"),
        (spanish_key, "es", "published"),
        (key_with_draft, "default", "published"),
        (key_with_draft, "es", "draft"),
    ):
        shop.put({"displayOrder": 1 if locale == "default" else 2}, key=key, locale=locale, status=status)
    path = "/members/ana/content/collections/drinks/documents"

    def versions(**query):
        """The key and the locale of each document of the response."""
        items = shop.integration.get(path, **query)["items"]
        return [(item["documentKey"], item["locale"]) for item in items]

    assert versions() == [(key_with_draft, ""), (default_key, ""), (translated_key, "")]
    assert sorted(versions(locale="es")) == sorted(
        [(key_with_draft, ""), (spanish_key, "es"), (default_key, ""), (translated_key, "es")]
    )
    # No document has French content: all are shown in the default locale.
    assert sorted(versions(locale="fr")) == sorted(versions())
    # The order is that of the shown versions.
    locales = [locale for _, locale in versions(locale="es", sort="displayOrder:desc")]
    assert locales == ["es", "es", "", ""]


def test_a_regional_locale_falls_back_to_its_language_then_to_the_default(shop):
    def document(**display_orders):
        """Publish a document with a display order for each locale; return its key."""
        key = document_key()
        for locale, display_order in display_orders.items():
            shop.put({"displayOrder": display_order}, key=key, locale=locale.replace("_", "-"))
        return key

    argentine = document(default=1, es=2, es_AR=9)
    spanish = document(default=2, es=8)
    default = document(default=7, es_MX=1, en=1)
    only_spanish = document(es=6)
    document(es_MX=5)
    path = "/members/ana/content/collections/drinks/documents"

    def versions(locale):
        items = shop.integration.get(path, locale=locale, sort="displayOrder:desc")["items"]
        return [(item["documentKey"], item["locale"]) for item in items]

    assert versions("es-AR") == [(argentine, "es-AR"), (spanish, "es"), (default, ""), (only_spanish, "es")]
    assert versions("es-AR-x-rural") == versions("es-AR")
    assert versions("es_AR") == [(spanish, "es"), (default, ""), (only_spanish, "es"), (argentine, "es")]
    assert shop.search(locale="es-AR")["totalCount"] == 1


def test_documents_about_coupons_are_shown_while_their_coupon_book_is_shown(organization, clock):
    organization.member("ana")
    content, books = Content.of(organization, name="Coupons", contentType="coupon"), CouponBooks(organization)
    open_book = books.make("A-1", type="list")
    later_book = books.make("B-1", validFromDate="2026-04-01T00:00:00Z")
    draft = books.make("C-1", publishingStatus="draft")
    key_of_open, key_of_later, key_of_draft = (
        content.put({"couponBookKey": book["couponBookKey"]})["documentKey"] for book in (open_book, later_book, draft)
    )
    # It is 27 March.
    assert shown_keys(content) == [key_of_open]
    with clock(datetime(2026, 4, 1, tzinfo=UTC)):
        assert shown_keys(content) == [key_of_later, key_of_open]
    books.set_status(draft, "published")
    books.set_status(open_book, "archived")
    with clock(datetime(2026, 4, 1, 1, tzinfo=UTC)):
        assert shown_keys(content) == [key_of_draft, key_of_later]


def test_documents_are_paged_and_ordered(shop, clock):
    key_of_3, key_of_1, key_of_2 = (shop.put({"displayOrder": number})["documentKey"] for number in (3, 1, 2))
    key_without_order = shop.put({})["documentKey"]
    assert shown_keys(shop) == [key_without_order, key_of_2, key_of_1, key_of_3]
    # Documents without the field come last in both directions.
    assert shown_keys(shop, sort="displayOrder:asc") == [key_of_1, key_of_2, key_of_3, key_without_order]
    assert shown_keys(shop, sort="displayOrder:desc") == [key_of_3, key_of_2, key_of_1, key_without_order]
    assert shown_keys(shop, sort="createdAt:asc") == [key_of_3, key_of_1, key_of_2, key_without_order]
    response = shop.integration.get("/members/ana/collections/drinks/documents", limit=2, page=1)
    assert [item["documentKey"] for item in response["items"]] == [key_of_1, key_of_3]
    assert response["totalCount"] == 4
    assert shop.integration.get("/members/ana/collections/drinks/documents", limit=2, page=9)["totalCount"] == 4


@pytest.mark.parametrize(("parameter", "value"), [("sort", "colour:asc"), ("limit", 201), ("order", "x")])
def test_an_invalid_query_of_the_content_of_a_member_is_refused(shop, parameter, value):
    path = "/members/ana/collections/drinks/documents"
    problem = shop.integration.get(path, expect=400, **{parameter: value})
    assert [fault["parameter"] for fault in problem["errors"]] == [parameter]


def test_all_processes_show_changed_content_despite_their_caches(shop, organization, monkeypatch):
    processes = [ResponseCache(), ResponseCache()]

    def shown_by_each():
        """The number of documents that each process shows."""
        counts = []
        for cache in processes:
            monkeypatch.setattr(member_documents, "_cached_responses", cache)
            counts.append(len(shown_keys(shop)))
        return counts

    def shown_after(change):
        """The numbers that the processes show after a change, although both had cached a response before it."""
        shown_by_each()
        Clock.moment += timedelta(seconds=1)
        change()
        processes.reverse()
        return shown_by_each()

    key = document_key()
    path = f"{shop.documents}/{key}"
    assert shown_after(lambda: shop.put({}, key=key)) == [1, 1]
    assert shown_after(lambda: shop.integration.patch(path, {"status": "draft"}, locale="")) == [0, 0]
    assert shown_after(lambda: shop.integration.patch(path, {"status": "published"}, locale="")) == [1, 1]
    assert shown_after(lambda: shop.batch(item({}), item({}))) == [3, 3]
    assert shown_after(lambda: shop.integration.delete(path, locale="", expect=200)) == [2, 2]
    body = {"matcherType": "attribute-matcher", "matcher": {"tags": ["vip"]}}
    audience = organization.administration.post("/audiences", body)["audience"]
    only_vips = {"audienceKeys": [audience["audienceKey"]]}
    assert shown_after(lambda: shop.put({}, **only_vips)) == [2, 2]
    vip_profile = {"profile": {"tags": ["vip"]}}
    assert shown_after(lambda: organization.integration.patch("/members/ana", vip_profile)) == [3, 3]
    path_of_audience, inactive_body = f"/audiences/{audience['audienceId']}", {**body, "active": False}
    assert shown_after(lambda: organization.administration.put(path_of_audience, inactive_body)) == [2, 2]
    list_audience = organization.administration.post("/audiences", {"matcherType": "list-matcher"})["audience"]
    assert shown_after(lambda: shop.put({}, audienceKeys=[list_audience["audienceKey"]])) == [2, 2]
    member_id = organization.integration.get("/members/ana")["loyaltyMember"]["memberId"]
    path = f"/audiences/{list_audience['audienceId']}/members"
    assert shown_after(lambda: organization.administration.patch(path, {"add": [member_id]})) == [3, 3]
    assert shown_after(lambda: organization.administration.patch(path, {"remove": [member_id]})) == [2, 2]
    rows = f"audience,loyaltyMemberId\n{list_audience['audienceKey']},ana\n"
    assert shown_after(lambda: Imports(organization).run(rows, kind="audience-members")) == [3, 3]


def test_a_changed_status_of_the_coupon_book_shows_or_hides_its_content_despite_the_cache(organization, clock):
    organization.member("ana")
    content, books = Content.of(organization, name="Coupons", contentType="coupon"), CouponBooks(organization)
    book = books.make("A-1", type="list", publishingStatus="draft")
    document = content.put({"couponBookKey": book["couponBookKey"]})
    # Each response is cached, so that the next one would be the same until 15 minutes have passed.
    assert shown_keys(content) == []
    books.set_status(book, "published")
    assert shown_keys(content) == [document["documentKey"]]
    books.set_status(book, "archived")
    assert shown_keys(content) == []


def test_responses_are_cached_for_15_minutes(shop, clock):
    path = "/members/ana/content/collections/drinks/documents"

    def request_documents(*, status=200, etag=None, **query):
        """The reply to a request for the documents, with this tag in If-None-Match."""
        headers = {} if etag is None else {"If-None-Match": etag}
        return shop.integration.request("GET", path, expect=status, headers=headers, **query)

    # The document is shown from a minute later on, but a cached response does not change.
    shop.put({}, fromDate=(NOW + timedelta(minutes=1)).isoformat())
    first_reply = request_documents()
    assert (first_reply.headers["Age"], first_reply.headers["Cache-Control"]) == ("0", "private, max-age=900")
    # The address does not name the organization: another token may be one of another organization.
    assert first_reply.headers["Vary"] == "Authorization"
    Clock.moment = NOW + timedelta(minutes=14, seconds=59)
    cached_reply = request_documents()
    assert (cached_reply.text, cached_reply.headers["Age"], cached_reply.headers["ETag"]) == (
        first_reply.text,
        "899",
        first_reply.headers["ETag"],
    )
    assert request_documents(limit=5).json["totalCount"] == 1
    unchanged_response = request_documents(status=304, etag=f'"other", W/{first_reply.headers["ETag"]}')
    assert (unchanged_response.text, unchanged_response.headers["ETag"], unchanged_response.headers["Age"]) == (
        "",
        first_reply.headers["ETag"],
        "899",
    )
    assert unchanged_response.headers["Vary"] == "Authorization"
    assert request_documents(status=304, etag="*").text == ""
    request_documents(status=200, etag='"other"')
    Clock.moment = NOW + timedelta(minutes=15)
    fresh_reply = request_documents(etag=first_reply.headers["ETag"])
    assert (fresh_reply.json["totalCount"], fresh_reply.headers["Age"]) == (1, "0")
    assert fresh_reply.headers["ETag"] != first_reply.headers["ETag"]
    # After the clock was set back, the cached response is from the future and is not used.
    Clock.moment = NOW
    assert request_documents().headers["Age"] == "0"


def test_the_cache_has_a_maximum_number_of_responses_and_of_bytes(shop, clock):
    # Two responses of 10 bytes fit, a third one or a response of 26 bytes does not.
    cached_response = member_documents._CachedResponse(NOW, b"x" * 10, "tag")
    cache = ResponseCache(max_responses=3, max_bytes=25)
    for key in range(5):
        cache.store(key, cached_response)
    # The responses that were stored last are kept.
    assert [key for key in range(5) if cache.find(key, NOW)] == [3, 4]
    cache.store(9, member_documents._CachedResponse(NOW, b"x" * 26, "tag"))
    assert cache.find(9, NOW) is None
    # The response that was used last is kept, so that 5 replaces 4.
    assert cache.find(3, NOW) is cached_response
    cache.store(5, cached_response)
    assert [key for key in range(6) if cache.find(key, NOW)] == [3, 5]


def test_the_token_of_a_member_can_only_read_the_content_for_this_member(
    organization, shop_in_real_time, other_organization
):
    organization.member("bob")
    token = organization.member_token("ana")
    surface = organization.integration.with_token(token)
    path = "/members/{}/content/collections/drinks/documents"
    surface.get(path.format("ana"))
    for other_member in ("bob", "nobody", "Ana"):
        assert surface.get(path.format(other_member), expect=403)["type"] == "/problems/forbidden"
    assert surface.get("/members/ana/content/collections/none/documents", expect=404)["type"] == "/problems/not-found"
    for other_path in (
        *("/members/ana", "/members/ana/collections/drinks/documents", "/content/collections"),
        *("/content/collections/drinks/documents", "/badges", "/members/ana/coupon-books"),
    ):
        surface.get(other_path, expect=403)
    other_content = Content.of(other_organization, name="Far away")
    surface.get(f"/members/ana/content/collections/{other_content.collection['slug']}/documents", expect=404)


def test_callers_with_the_role_to_read_content_can_read_it_for_every_member(organization, shop_in_real_time):
    path = "/members/ana/content/collections/drinks/documents"
    for role in ("benefits:read", "benefits:write"):
        organization.integration.with_token(organization.token_of(role)).get(path)
    for role in ("members:write", "coupons:read", "member"):
        organization.integration.with_token(organization.token_of(role)).get(path, expect=403)


def test_an_inactive_member_is_shown_no_content(organization, shop_in_real_time):
    token = organization.member_token("ana")
    path = "/members/ana/content/collections/drinks/documents"
    organization.integration.patch("/members/ana", {"active": False})
    problem = organization.integration.with_token(token).get(path, expect=401)
    assert problem["detail"] == LOST_MEMBER
    problem = organization.integration.get(path, expect=403)
    assert problem["type"] == "/problems/forbidden"


def test_a_token_for_a_member_ends_when_the_member_gets_another_id(organization, shop_in_real_time):
    token = organization.member_token("ana")
    organization.integration.patch("/members/ana", {"loyaltyMemberId": "anna"})
    path = "/members/anna/content/collections/drinks/documents"
    problem = organization.integration.with_token(token).get(path, expect=401)
    assert problem["detail"] == LOST_MEMBER
    assert organization.integration.with_token(organization.member_token("anna")).get(path)["totalCount"] == 0


def test_the_number_of_statements_does_not_depend_on_the_number_of_documents(api, organization, clock):
    organization.member("ana")
    content, books = Content.of(organization, name="Coupons", contentType="coupon"), CouponBooks(organization)

    def add(number):
        for _ in range(number):
            content.put({"couponBookKey": books.make("A")["couponBookKey"]})

    def request_documents():
        with clock(NOW):
            return count(api.engine, lambda: shown_keys(content))

    add(1)
    request_documents()
    count_of_1_document = request_documents()
    add(5)
    assert request_documents() == count_of_1_document
