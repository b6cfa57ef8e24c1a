"""The cost of searches of content where there are many documents: `python -m bench.content`.

Two organizations in one database have 10,000 and 100,000 published documents in one collection. Each search runs in
both in turn. Prints a table for `docs/performance.md`.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random
from typing import Any

from sqlalchemy import Connection, text

from bench.databases import new_database
from bench.turns import measure_in_turns
from domain.content.collections import ContentCollection
from domain.content.documents import PUBLISHED
from domain.content.searching import Search
from handlers.schemas.content_search import search_of
from handlers.services.organizations.create import create_organization
from persistence import transactions
from persistence.content import documents, member_documents, search
from persistence.content.collections import COLLECTIONS
from persistence.content.languages import languages_of
from persistence.content.member_documents import Viewer
from persistence.engine import autocommit

SMALL, LARGE, BATCH = 10_000, 100_000, 200
ROUNDS = 9
NOW = datetime(2026, 6, 1, tzinfo=UTC)
COLOURS = [f"colour-{n}" for n in range(10)]
WORDS = [f"word{n}" for n in range(2_000)]
_QUERY: dict[str, Any] = {"locale": "", "status": PUBLISHED, "page": 0, "limit": 20}


@dataclass(frozen=True)
class Tenant:
    """An organization with all its documents in one collection."""

    collection: ContentCollection
    count: int

    def search(self, **query: Any) -> Search:
        return search_of(self.collection, {**_QUERY, **query})[0]


def _tenant(db: Connection, count: int) -> Tenant:
    """Create an organization with a collection of `count` documents."""
    created = create_organization(db, name="Corner Coffee", now=NOW)
    attribute_schema = {"properties": {"price": {"type": "number"}, "since": {"type": "string", "format": "date"}}}
    values = {
        "collection_key": str(uuid.uuid4()),
        "name": "Drinks",
        "description": "",
        "slug": "drinks",
        "fts_fields": ["title", "body"],
        "facet_fields": {"colour": {}, "tags": {}, "vegan": {"type": "boolean"}},
        "jsonschema": attribute_schema,
        "tags": [],
        "content_type": "static",
        "custom_attributes": {},
        "language": "english",
    }
    collection = COLLECTIONS.add(db, created.organization_id, values, NOW)
    languages = languages_of(collection, [""])
    for rows in _batches(count):
        documents.upsert(db, collection, rows, languages, NOW)
    return Tenant(collection, count)


def _batches(count: int) -> Iterator[list[dict[str, Any]]]:
    """The rows of `count` documents with random attributes, in batches; the same rows in each run."""
    chance = Random(8)
    for first in range(0, count, BATCH):
        yield [
            {
                "document_key": str(uuid.UUID(int=n + 1)),
                "locale": "",
                "slug": f"document-{n}",
                "status": PUBLISHED,
                "from_date": None,
                "to_date": None,
                "audience_keys": [],
                "days_of_week": [],
                "day_of_week_schedule": None,
                "attrs": {
                    "title": " ".join(chance.choices(WORDS, k=4)),
                    "body": "common " + " ".join(chance.choices(WORDS, k=12)),
                    "price": chance.randrange(100_000),
                    "since": (NOW - timedelta(days=chance.randrange(3_000))).date().isoformat(),
                    "colour": chance.choice(COLOURS),
                    "tags": chance.sample(COLOURS, 2),
                    "vegan": chance.random() < 0.5,
                },
            }
            for n in range(first, min(first + BATCH, count))
        ]


def _searches() -> dict[str, Callable[[Connection, Tenant], Any]]:
    """The kinds of search by name; shares are those of the documents that match."""

    def ask(without_facets: bool = False, **query: Any) -> Callable[[Connection, Tenant], Any]:
        def run_search(db: Connection, tenant: Tenant) -> Any:
            if without_facets:
                tenant = replace(tenant, collection=replace(tenant.collection, facet_fields={}))
            return search.find(db, tenant.search(**query))

        return run_search

    narrow = {"range": ["price:500..599"]}
    return {
        "everything, newest, no facets to count": ask(without_facets=True),
        "everything, newest": ask(),
        "everything by price, no facets to count": ask(without_facets=True, sort="price:asc"),
        "everything by price and date, page 100, no facets to count": ask(
            without_facets=True, sort="price:asc,since:desc", page=100
        ),
        "a range (0.1 %)": ask(**narrow),
        "a range (0.1 %), by price": ask(sort="price:desc", **narrow),
        "a range of dates (3 %)": ask(range=["since:2026-01-01..2026-03-31"]),
        "a facet (10 %), by price": ask(facet=["colour=colour-3"], sort="price:asc"),
        "two facets (5 %), newest": ask(facet=["colour=colour-3", "vegan=true"]),
        "two words (0.07 %)": ask(q="word12 word77"),
        "a prefix of words (8 %)": ask(q="word123"),
        "a prefix of words (59 %), by price": ask(q="word12", sort="price:asc"),
        "a prefix of words and a range (0.8 %)": ask(q="word123", range=["price:0..9999"]),
        "what a member sees, by price": lambda db, t: member_documents.find_page(
            db, t.collection, Viewer(NOW, 1, {}, [], None), t.search(sort="price:asc").sort, 0, 20
        ),
        "what a member sees": lambda db, t: member_documents.find_page(
            db, t.collection, Viewer(NOW, 1, {}, [], None), (), 0, 20
        ),
    }


def main() -> None:
    """Fill the two organizations, run the searches, and print the table."""
    with new_database(threads=2) as (engine, _):
        started = time.perf_counter()
        tenants = [transactions.run(engine, lambda db, n=n: _tenant(db, n)) for n in (SMALL, LARGE)]
        milliseconds = (time.perf_counter() - started) / (SMALL + LARGE) * BATCH * 1000
        with autocommit(engine).connect() as db:
            db.execute(text("SET statement_timeout = 0"))
            db.execute(text("VACUUM ANALYZE"))
        print(f"A batch of {BATCH} documents is written in {milliseconds:.0f} ms.\n", flush=True)
        print(f"| search | {SMALL:,} documents | {LARGE:,} documents | ratio |\n|---|---|---|---|")
        for name, ask in _searches().items():
            with autocommit(engine).connect() as db:
                works = {tenant.count: partial(ask, db, tenant) for tenant in tenants}
                times = measure_in_turns(works, ROUNDS)
            small, large = times[SMALL], times[LARGE]
            print(f"| {name} | {small:.1f} ms | {large:.1f} ms | {large / small:.1f} |", flush=True)


if __name__ == "__main__":
    main()
