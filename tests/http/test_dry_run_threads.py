"""Dry runs may take long, so they have their own threads: they delay each other and no other calls."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from handlers.call import Response
from handlers.settings import Settings
from tests.http.support import PROBLEMS, serve

BODY = {"content": {"application/json": {"schema": {"type": "object"}}}, "required": True}
RESPONSES = {"200": {"description": "done", "content": {"application/json": {"schema": {"type": "object"}}}}}
PATHS = {
    "/events/track": {
        "post": {"operationId": "trackEvents", "requestBody": BODY, "responses": {**RESPONSES, **PROBLEMS}},
    },
    "/simulations": {
        "post": {"operationId": "simulate", "requestBody": BODY, "responses": {**RESPONSES, **PROBLEMS}},
    },
}


@pytest.mark.parametrize("path", ["/v2/events/track", "/v2/simulations"])
def test_dry_runs_delay_no_other_call(path):
    dry_run_is_running, go_on = threading.Event(), threading.Event()

    def dispatch(request):
        # Only the bodies of the dry runs below have no events.
        if "events" not in request.body:
            dry_run_is_running.set()
            assert go_on.wait(60)
        return Response(200, {})

    # All other calls share one thread.
    client, _ = serve(PATHS, {}, dispatch=dispatch, settings=Settings(threads=1))
    with ThreadPoolExecutor(3) as clients:
        body = {"dryRun": True} if path == "/v2/events/track" else {"order": {"total": 5}}
        dry_runs = [clients.submit(client, "POST", path, json_body=body) for _ in range(3)]
        assert dry_run_is_running.wait(60)
        assert client("POST", "/v2/events/track", json_body={"events": []}).status == 200
        assert not any(dry_run.done() for dry_run in dry_runs)
        go_on.set()
        assert [dry_run.result().status for dry_run in dry_runs] == [200] * 3
