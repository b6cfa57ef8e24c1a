"""Dry runs, which take long, hold up each other and nothing else."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from handlers.call import Answer
from handlers.settings import Settings
from tests.http.support import PROBLEMS, serve

BODY = {"content": {"application/json": {"schema": {"type": "object"}}}, "required": True}
ANSWER = {"200": {"description": "done", "content": {"application/json": {"schema": {"type": "object"}}}}}
PATHS = {
    "/events/track": {
        "post": {"operationId": "trackEvents", "requestBody": BODY, "responses": {**ANSWER, **PROBLEMS}},
    }
}


def test_a_dry_run_holds_up_no_other_call():
    begun, go_on = threading.Event(), threading.Event()

    def dispatch(request):
        if request.body.get("dryRun"):
            begun.set()
            assert go_on.wait(60)
        return Answer(200, {})

    client, _ = serve(PATHS, {}, dispatch=dispatch, settings=Settings(threads=1))
    with ThreadPoolExecutor(3) as clients:
        dry_runs = [clients.submit(client, "POST", "/v2/events/track", json_body={"dryRun": True}) for _ in range(3)]
        assert begun.wait(60)
        assert client("POST", "/v2/events/track", json_body={"events": []}).status == 200
        assert not any(dry_run.done() for dry_run in dry_runs)
        go_on.set()
        assert [dry_run.result().status for dry_run in dry_runs] == [200] * 3
