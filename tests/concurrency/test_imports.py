"""The files of one organization's imports, uploaded by many calls at the same time."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tests.builders.api import running_api
from tests.builders.imports import Imports
from tests.concurrency.conftest import THREADS
from tests.concurrency.simultaneous import run_simultaneously, statuses


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
