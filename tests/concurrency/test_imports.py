"""The imports of one organization, and their files: created and uploaded by many calls at the same time."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from handlers.services.imports import manage
from tests.builders.api import running_api
from tests.builders.imports import Imports
from tests.concurrency.conftest import THREADS
from tests.concurrency.simultaneous import run_simultaneously, statuses


def test_simultaneous_calls_create_the_maximum_of_unfinished_imports(shop, monkeypatch):
    monkeypatch.setattr(manage, "MAX_UNFINISHED_IMPORTS", 3)
    administration = shop.administration
    create = partial(administration.request, "POST", "/imports", {"kind": "members", "format": "csv"})
    replies = run_simultaneously([create] * THREADS)
    assert statuses(replies) == {(201, None): 3, (409, "/problems/import-limit"): THREADS - 3}
    assert administration.get("/imports")["totalCount"] == 3


def test_simultaneous_uploads_store_at_most_the_maximum_of_an_organization(settings):
    limited_settings = replace(settings, threads=THREADS, validate_responses=False, import_stored_bytes=3000)
    with running_api(limited_settings) as api:
        imports = Imports(api.organization())
        paths = [imports.begin() for _ in range(THREADS)]
        put = imports.organization.administration.request
        replies = run_simultaneously([partial(put, "PUT", f"{path}/parts/1", b"x" * 1000) for path in paths])
        # Three files of 1000 bytes fit into the maximum of 3000.
        assert statuses(replies) == {(200, None): 3, (409, "/problems/import-state"): THREADS - 3}
        assert sum(imports.get(path)["bytesTotal"] for path in paths) == 3000
