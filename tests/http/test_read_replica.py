"""Searches are served from the read replica if one is set, and from the primary if it lacks the content or fails."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from sqlalchemy import make_url, text

from handlers.http import dispatch
from persistence import schema
from persistence.engine import autocommit, create_engine
from tests.builders.api import Api, running_api
from tests.builders.content import Content


@contextmanager
def database(url: str, name: str) -> Iterator[str]:
    """Create a database with all tables on the server of the tests; yield its URL and drop it at the end."""
    server = create_engine(url, threads=1)
    with autocommit(server).connect() as db:
        db.execute(text(f"CREATE DATABASE {name}"))
        database_url = make_url(url).set(database=name).render_as_string(hide_password=False)
        engine = create_engine(database_url, threads=1)
        schema.migrate(engine)
        engine.dispose()
        yield database_url
        db.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    server.dispose()


# The tests create databases that the pooler of the tests does not know.
pytestmark = pytest.mark.skipif("LOYALTY_TEST_POOLED" in os.environ, reason="needs PostgreSQL without a pooler")


@pytest.fixture(scope="module")
def replica_url(settings) -> Iterator[str]:
    with database(settings.database_url, "replica_of_tests") as url:
        yield url


@pytest.fixture(scope="module")
def primary_url(settings) -> Iterator[str]:
    with database(settings.database_url, "primary_of_tests") as url:
        yield url


def add_content(api: Api, title: str) -> Content:
    """Create a collection with a document in the first organization of a database.

    The first organization of every database has the same id.
    """
    content = Content.of(api.organization(), ftsFields=["title"])
    content.put({"title": title})
    return content


@pytest.fixture(scope="module")
def content(settings, primary_url, replica_url) -> Iterator[Content]:
    """A collection on a server with a replica.

    The primary has a document "of the primary"; the replica has "of the replica" in a collection of the same slug.
    """
    with running_api(replace(settings, database_url=replica_url)) as replica_api:
        add_content(replica_api, "of the replica")
    with_replica = replace(settings, database_url=primary_url, read_database_url=replica_url)
    with running_api(with_replica) as api:
        yield add_content(api, "of the primary")


def titles(content: Content) -> list[str]:
    """The titles of the listed documents."""
    page = content.organization.integration.get("/content/collections/drinks/documents")
    return [item["attrs"]["title"] for item in page["items"]]


def test_lists_and_searches_are_read_from_the_replica_and_single_records_from_the_primary(content):
    integration = content.organization.integration
    assert titles(content) == ["of the replica"]
    replica_key = integration.get("/content/collections")["results"][0]["collectionKey"]
    assert replica_key != content.collection["collectionKey"]
    assert integration.get("/content/collections/drinks") == content.collection


def test_content_that_the_replica_lacks_is_read_from_the_primary(content):
    new_collection = Content.of(content.organization, name="New")
    document = new_collection.put({"title": "new"})
    assert new_collection.search()["items"] == [document]


def test_permissions_are_read_from_the_primary(content):
    # The replica lacks this organization. If permissions were read there, the call would be refused.
    second_organization = content.organization.api.organization()
    reply = second_organization.integration.request("GET", "/content/collections")
    assert (reply.status, reply.json["results"]) == (200, [])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("replica_database", "fault"),
    [("nowhere", "does not respond"), ("postgres", "does not have the schema of this version")],
)
def test_the_primary_serves_while_the_replica_is_unusable(
    settings, primary_url, monkeypatch, caplog, replica_database, fault
):
    unavailable_url = make_url(primary_url).set(database=replica_database).render_as_string(hide_password=False)
    with_replica = replace(settings, database_url=primary_url, read_database_url=unavailable_url)
    with running_api(with_replica) as api:
        organization = api.organization()
        content = Content.of(organization, name="Here")
        document = content.put({"title": "here"})
        urls_of_reads = []
        monkeypatch.setattr(dispatch.transactions, "read", recording_urls(dispatch.transactions.read, urls_of_reads))
        for _ in range(3):
            assert content.search()["items"] == [document]
    # After the failure the next searches do not try the replica.
    assert [make_url(url).database for url in urls_of_reads].count(replica_database) == 1
    assert f"the read replica {fault}" in caplog.text


def recording_urls(read, urls):
    """`read` that also adds the URL of each database that it reads to `urls`."""

    def note_and_read(engine, work):
        urls.append(str(engine.url))
        return read(engine, work)

    return note_and_read
