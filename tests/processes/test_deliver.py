"""`loyalty deliver`, also when it is killed during an attempt, and `loyalty remove-deliveries`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import psycopg2
import pytest

from persistence import embedded
from tests.builders.receivers import receiver
from tests.processes.loyalty import environment, invoke, loyalty

HTTP_ALLOWED = {
    "LOYALTY_WEBHOOK_ALLOW_HTTP": "true",
    "LOYALTY_WEBHOOK_ALLOW_PRIVATE": "true",
    "LOYALTY_WEBHOOK_PORTS": "any",
}

# For each organization a trigger with the URL of the parameter, and one pending delivery.
_QUEUE_ONE_DELIVERY = """
INSERT INTO triggers (organization_id, trigger_key, type, name, active, settings, secret, created_at, updated_at)
SELECT organization_id, 'told', 'WebHook', 'Told', true,
    json_build_object('url', %s, 'headers', '{}'::json, 'eventTypes', '[]'::json, 'entities', '[]'::json),
    'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', now(), now()
FROM organizations;
INSERT INTO trigger_deliveries
    (organization_id, trigger_id, type, payload, status, next_attempt_at, created_at, updated_at)
SELECT organization_id, trigger_id, 'event.evaluated', '{"type":  "event.evaluated"}', 'pending', now(), now(), now()
FROM triggers;
"""


@pytest.fixture
def endpoint():
    """A running receiver of webhooks."""
    with receiver() as hook:
        yield hook
        # The payloads of these tests are not in the AsyncAPI document, which the receiver checks.
        hook.faults.clear()


@pytest.fixture
def database(home):
    """A cursor on the database of a home with one organization."""
    with embedded.server(home, options={"fsync": "off"}) as url:
        result = invoke(home, "organizations", "create", "Corner Coffee")
        assert result.returncode == 0, result.stderr
        connection = psycopg2.connect(url)
        connection.autocommit = True
        yield connection.cursor()
        connection.close()


def statuses_and_attempts(database):
    """(status, number of attempts) of each delivery."""
    database.execute("SELECT status, attempts FROM trigger_deliveries")
    return database.fetchall()


def test_messages_of_a_killed_sender_are_sent_again(home, database, endpoint):
    database.execute(_QUEUE_ONE_DELIVERY, (endpoint.url,))
    process = subprocess.Popen(
        [sys.executable, "-m", "handlers", "deliver"],
        env=environment(home, **HTTP_ALLOWED),
        cwd=home.parent,
        stderr=subprocess.DEVNULL,
    )
    # The receiver kills the sender when the message arrives, before the sender gets a response and records it.
    endpoint.responses = [lambda exchange: os.kill(process.pid, signal.SIGKILL)]
    assert process.wait(60) == -signal.SIGKILL
    assert statuses_and_attempts(database) == [("pending", 1)]
    # The lease of the killed sender has not ended yet.
    result_during_lease = invoke(home, "deliver", **HTTP_ALLOWED)
    assert (result_during_lease.returncode, result_during_lease.stdout) == (0, "Nothing to send.\n")
    database.execute("UPDATE trigger_deliveries SET next_attempt_at = now()")
    result_after_lease = loyalty(home, "deliver", **HTTP_ALLOWED)
    assert (result_after_lease.returncode, result_after_lease.stdout) == (0, "Attempts made: 1.\n"), (
        result_after_lease.stderr
    )
    assert statuses_and_attempts(database) == [("succeeded", 2)]
    first_request, second_request = endpoint.received
    assert first_request.body == second_request.body == b'{"type":  "event.evaluated"}'
    assert first_request.headers["webhook-id"] == second_request.headers["webhook-id"]


def test_http_is_not_sent_without_permission_and_old_deliveries_are_removed(home, database, endpoint):
    database.execute(_QUEUE_ONE_DELIVERY, (endpoint.url,))
    assert invoke(home, "deliver", "--organization", "999").returncode == 1
    assert invoke(home, "deliver", "--organization", "1").stdout == "Attempts made: 1.\n"
    assert endpoint.received == []
    database.execute("UPDATE trigger_deliveries SET status = 'failed', created_at = now() - interval '3 days'")
    # Deliveries are kept for more than 3 days by default, and forever with 0.
    assert invoke(home, "remove-deliveries").stdout == "Nothing to remove.\n"
    assert invoke(home, "remove-deliveries", LOYALTY_DELIVERIES_KEPT_DAYS="0").stdout == "Nothing to remove.\n"
    assert loyalty(home, "remove-deliveries", LOYALTY_DELIVERIES_KEPT_DAYS="2").stdout == "Deliveries removed: 1.\n"
    assert statuses_and_attempts(database) == []
