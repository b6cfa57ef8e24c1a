"""The content that a member is shown, cached for a while for each member and query (integration 4.4, item 12)."""

import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Any

import msgspec

from domain.calendar import day_of_week, zone_named
from domain.content.collections import ContentCollection
from domain.content.documents import hours_of_week_now
from domain.content.searching import sort_of
from domain.members import Member
from domain.problems import Forbidden
from handlers.call import Call, Response
from handlers.messages.content import member_documents
from handlers.messages.json_text import encode
from handlers.services.configuration import configuration_of
from handlers.services.coupons.member_books import usable_books
from handlers.services.members.match_audiences import match_audiences
from persistence.content import member_documents as document_queries
from persistence.content.member_documents import Viewer
from persistence.paging import Paged

CACHE_LIFETIME = timedelta(minutes=15)
MAX_RESPONSES = 2_000
MAX_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _CachedResponse:
    """A response that was read at the moment `read_at`; `entity_tag` identifies its body (RFC 9110, 8.8.3)."""

    read_at: datetime
    body: bytes
    entity_tag: str


class ResponseCache:
    """The responses of this process, limited in number and bytes; the least recently used one is removed first."""

    def __init__(self, max_responses: int = MAX_RESPONSES, max_bytes: int = MAX_BYTES) -> None:
        self._max_responses, self._max_bytes = max_responses, max_bytes
        self._responses: OrderedDict[Hashable, _CachedResponse] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def find(self, key: Hashable, now: datetime) -> _CachedResponse | None:
        """The response under this key, None if it is missing or too old."""
        with self._lock:
            cached = self._responses.get(key)
            if cached is None:
                return None
            if not timedelta(0) <= now - cached.read_at < CACHE_LIFETIME:
                self._forget(key)
                return None
            self._responses.move_to_end(key)
            return cached

    def store(self, key: Hashable, response: _CachedResponse) -> None:
        """Keep a response, unless it is larger than the whole cache."""
        if len(response.body) > self._max_bytes:
            return
        with self._lock:
            if key in self._responses:
                self._forget(key)
            self._responses[key] = response
            self._bytes += len(response.body)
            while len(self._responses) > self._max_responses or self._bytes > self._max_bytes:
                self._forget(next(iter(self._responses)))

    def clear(self) -> None:
        """Forget all responses."""
        with self._lock:
            self._responses.clear()
            self._bytes = 0

    def _forget(self, key: Hashable) -> None:
        self._bytes -= len(self._responses.pop(key).body)


_cached_responses = ResponseCache()


def member_content(
    call: Call,
    member: Member,
    collection: ContentCollection,
    query: Mapping[str, Any],
    headers: Mapping[str, str],
) -> Response:
    """A page of the documents that the member is shown; 304 if the client already has it.

    Changes of documents, of the configuration and of the member appear at once, other changes after 15 minutes. Under a
    test clock nothing is cached: its time does not move, so `updated_at` does not show that a record has changed.

    Raises Forbidden for a member who is not active.
    """
    if not member.active:
        raise Forbidden(f"The member {member.loyalty_member_id} is not active and cannot read content.")
    paging = {"sort": query.get("sort"), "page": query["page"], "limit": query["limit"]}
    locale = query["locale"]
    # These are read for each call, so after a change no process returns an older page from its own cache.
    version = collection.content_version, collection.updated_at, call.organization.configuration_version
    viewed_by = member.organization_id, member.member_id, member.updated_at
    key = (*viewed_by, collection.content_collection_id, *version, locale, *paging.values())
    lifetime = CACHE_LIFETIME if call.organization.clock_now is None else timedelta(0)
    response = _cached_responses.find(key, call.now) if lifetime else None
    if response is None:
        body = encode(_read_page(call, member, collection, paging, locale))
        response = _CachedResponse(call.now, body, f'"{blake2b(body, digest_size=16).hexdigest()}"')
        if lifetime:
            _cached_responses.store(key, response)
    response_headers = (
        ("Age", str(int((call.now - response.read_at).total_seconds()))),
        ("Cache-Control", f"private, max-age={int(lifetime.total_seconds())}"),
        ("ETag", response.entity_tag),
        # Caches have to distinguish organizations, and only the token names the organization, not the address.
        ("Vary", "Authorization"),
    )
    if _client_has(headers.get("if-none-match", ""), response.entity_tag):
        return Response(304, None, response_headers)
    return Response(200, msgspec.Raw(response.body), response_headers)


def _client_has(if_none_match: str, entity_tag: str) -> bool:
    """True if `If-None-Match` names the entity tag: then the client already has the response."""
    entity_tags = [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]
    return "*" in entity_tags or entity_tag in entity_tags


def _read_page(
    call: Call, member: Member, collection: ContentCollection, paging: dict[str, Any], locale: str
) -> dict[str, Any]:
    """Read a page of the documents that the member is shown now."""
    sort_keys = sort_of(collection, paging["sort"])
    viewer = Viewer(
        at=call.now,
        day=day_of_week(call.now, zone_named(call.organization.timezone)),
        hours=hours_of_week_now(document_queries.find_zones_in_use(call.db, collection), call.now),
        audience_keys=_audience_keys(call, member),
        book_keys=_visible_book_keys(call, member, collection) if collection.is_coupon else None,
        locale=locale,
    )
    page, limit = paging["page"], paging["limit"]
    total, documents = document_queries.find_page(call.db, collection, viewer, sort_keys, page, limit)
    return member_documents(collection, paging, Paged(total_count=total, page=page, limit=limit, results=documents))


def _audience_keys(call: Call, member: Member) -> list[str]:
    """The keys of the audiences that the member is in now."""
    candidates = configuration_of(call.db, call.organization).audiences
    audiences_by_member = match_audiences(call.db, call.organization.organization_id, candidates, [member], call.now)
    return [audience.audience_key for audience in audiences_by_member[member.member_id]]


def _visible_book_keys(call: Call, member: Member, collection: ContentCollection) -> list[str]:
    """The keys of the coupon books in the collection's documents; only of books that the member is shown now."""
    keys = document_queries.find_coupon_books_in_use(call.db, collection)
    if not keys:
        return []
    return [result.book.coupon_book_key for result in usable_books(call, member, {"couponBookKeys": keys})]
