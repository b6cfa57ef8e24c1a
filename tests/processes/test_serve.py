"""`loyalty serve`: its first start, its output, its processes, and its end."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg2
import pytest

from domain.access import INTEGRATION_ROLES
from persistence import embedded
from tests.processes.fleet import children_of, wait_until
from tests.processes.loyalty import Server, curl_line, free_port, invoke, loyalty, status, wait_until_stopped

CALLS_WAITING = """
SELECT count(*) FROM pg_stat_activity WHERE application_name = 'loyalty-serve' AND wait_event_type = 'Lock'
"""
needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")


@pytest.fixture(scope="module")
def running_server(shared_home):
    """A server with two workers that the tests do not stop, and its printed greeting."""
    server = Server(shared_home, "--workers", "2", "--no-worker")
    greeting = server.greeting()
    yield server, greeting
    assert server.stop() == 0
    server.process.stdout.close()


def test_the_printed_request_is_refused_without_its_token(running_server):
    _, greeting = running_server
    url, headers = curl_line(greeting)
    assert status(url, **headers) == 200
    assert status(url) == 401


def test_a_restarted_server_has_all_organizations_and_accepts_the_tokens_of_the_first_start(home, serve):
    server = serve()
    url, headers = curl_line(server.greeting())
    creation = invoke(home, "organizations", "create", "Second")
    assert creation.returncode == 0, creation.stderr
    assert server.stop() == 0
    # The database of the server was stopped with it.
    assert not embedded.describe(home).is_running

    restarted_server = serve("--workers", "1", "--no-worker")
    greeting = restarted_server.greeting()
    # Credentials are printed only at the first start.
    assert "client_" not in greeting
    # The request is for the first of the two organizations, whose id is at the end of the URL.
    new_url, _ = curl_line(greeting)
    assert new_url.rpartition("/")[2] == url.rpartition("/")[2]
    assert status(new_url, **headers) == 200
    lines = invoke(home, "organizations", "list", "--json").stdout.splitlines()
    assert [json.loads(line)["name"] for line in lines] == ["First organization", "Second"]


def test_an_interrupted_server_stops_its_database(home, serve):
    server = serve("--workers", "1", "--no-worker")
    server.wait_until_ready()
    assert embedded.describe(home).is_running
    assert server.stop(signal.SIGINT) == 0
    assert not embedded.describe(home).is_running


def test_credentials_are_printed_at_the_first_start_and_can_be_reset_by_a_command(running_server):
    server, greeting = running_server
    token = re.search(r"TOKEN=(\S+)", greeting).group(1)
    assert greeting.count(token) == 1
    assert max(map(len, greeting.replace(token, "").splitlines())) <= 120
    client_id = re.search(r"client_id +(\S+)", greeting).group(1)
    secret = re.search(r"client_secret +(\S+)", greeting).group(1)
    assert token_of(server, client_id, secret)["scope"] == " ".join(INTEGRATION_ROLES)
    reset = invoke(server.home, "credentials", "reset", "--organization", "1", "--json")
    assert reset.returncode == 0, reset.stderr
    new_credentials = json.loads(reset.stdout)
    assert new_credentials["clientId"] == client_id
    assert token_of(server, client_id, secret) == 401
    assert token_of(server, client_id, new_credentials["clientSecret"])["scope"] == " ".join(INTEGRATION_ROLES)


def token_of(server, client_id, secret):
    """The JSON of the response to a token request, or the status if it is refused."""
    form = {"grant_type": "client_credentials", "client_id": client_id, "client_secret": secret}
    request = urllib.request.Request(f"{server.url}/v2/oauth/token", data=urllib.parse.urlencode(form).encode())
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        return error.code


def test_the_printed_documentation_pages_exist(running_server):
    server, greeting = running_server
    pages = re.findall(r"http://\S+/docs", greeting)
    assert len(pages) == 3
    assert [status(page) for page in pages] == [200, 200, 200]
    assert status(f"{server.url}/health/live") == 200
    assert status(f"{server.url}/health/ready") == 200


def test_the_curl_line_works_in_a_shell(running_server):
    _, greeting = running_server
    export_command, curl_command = re.findall(r"^ *((?:export|curl) .*)$", greeting, re.MULTILINE)
    script = f"{export_command}\n{curl_command} -s -w '%{{http_code}}'"
    try:
        shell = subprocess.run(["sh", "-c", script], capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("needs a shell")
    if shell.returncode == 127:
        pytest.skip("needs curl")
    assert shell.stdout.endswith("200")


def test_two_servers_start_simultaneously_on_an_empty_home(home, serve):
    shutil.rmtree(home)
    servers = [serve("--workers", "1", *arguments) for arguments in ([], ["--no-worker"])]
    with ThreadPoolExecutor(2) as pool:
        greetings = list(pool.map(Server.greeting, servers))
    # Both print the request of the same organization, whose id is at the end of the URL.
    assert {curl_line(greeting)[0].rpartition("/")[2] for greeting in greetings} == {"1"}
    _, headers = curl_line(greetings[0])
    for server in servers:
        assert status(f"{server.url}/v2/organizations/1", **headers) == 200  # both servers have the same signing key
    assert servers[0].stop() == 0
    assert embedded.describe(home).is_running
    assert status(f"{servers[1].url}/v2/organizations/1", **headers) == 200
    assert servers[1].stop() == 0
    assert not embedded.describe(home).is_running


def test_workers_have_a_higher_score_for_the_out_of_memory_killer_than_the_parent(running_server):
    server, _ = running_server
    server.wait_until_ready()

    def score(pid):
        """The value that Linux adds to the score of a process; the greatest one is 1000."""
        return int(Path(f"/proc/{pid}/oom_score_adj").read_text())

    assert {score(pid) for pid in server.workers()} == {min(1000, score(server.process.pid) + 100)}


def test_metrics_of_any_worker_contain_the_calls_of_all_workers(running_server):
    server, greeting = running_server
    url, headers = curl_line(greeting)
    assert status(url, **headers) == 200
    # All workers report the same count.
    [count_before] = request_counts(server)
    for _ in range(20):
        assert status(url, **headers) == 200
    assert request_counts(server) == {count_before + 20}


def request_counts(server):
    """The different counts of successful calls of getOrganization in five requests of the metrics."""
    series = 'loyalty_http_requests_total{method="GET",operation="administration:getOrganization",status="200"}'
    counts = set()
    for _ in range(5):
        with urllib.request.urlopen(f"{server.url}/metrics", timeout=10) as response:
            lines = response.read().decode().splitlines()
        counts.update(line for line in lines if line.startswith(series))
    return {float(line.rpartition(" ")[2]) for line in counts}


def test_a_taken_port_is_reported(running_server):
    server, _ = running_server
    second_start = loyalty(server.home, "serve", "--port", str(server.port))
    assert second_start.returncode == 1
    assert str(server.port) in second_start.stderr
    assert "--port" in second_start.stderr
    assert "Traceback" not in second_start.stderr


@pytest.mark.parametrize(
    ("variable", "value", "message_part", "exit_code"),
    [
        ("LOYALTY_MANAGEMENT_BIND", "nohost.invalid:9090", "port 9090 of nohost.invalid", 1),
        # The port of the running server.
        ("LOYALTY_MANAGEMENT_BIND", "127.0.0.1:{port}", "port {port} of 127.0.0.1 is in use", 1),
        ("LOYALTY_HOST", "nohost.invalid", "of nohost.invalid", 1),
        ("LOYALTY_HOST", "http://127.0.0.1", "'http://127.0.0.1'", 2),
    ],
)
def test_an_address_that_cannot_be_used_is_reported_with_its_variable(
    running_server, variable, value, message_part, exit_code
):
    server, _ = running_server
    port = str(server.port)
    result = invoke(server.home, "serve", LOYALTY_PORT=str(free_port()), **{variable: value.format(port=port)})
    assert result.returncode == exit_code
    # The report is one line.
    assert result.stderr.count("\n") == 1
    assert variable in result.stderr
    assert message_part.format(port=port) in result.stderr


def test_the_management_address_must_differ_from_the_main_one(running_server):
    server, _ = running_server
    result = invoke(server.home, "serve", LOYALTY_PORT="9090", LOYALTY_MANAGEMENT_BIND="127.0.0.1:9090")
    assert result.returncode == 2
    assert "LOYALTY_MANAGEMENT_BIND must differ" in result.stderr


@needs_proc
def test_a_server_with_no_worker_starts_no_queue_worker(running_server):
    server, _ = running_server
    # A queue worker would have started by then.
    time.sleep(2)
    assert queue_workers(server) == set()


@needs_proc
def test_killed_processes_are_replaced_and_all_processes_end_with_a_killed_parent(home, serve):
    server = serve("--workers", "1")
    url, headers = curl_line(server.greeting())
    assert status(url, **headers) == 200
    [worker] = server.workers()
    wait_until(lambda: queue_workers(server))
    [queue_worker] = queue_workers(server)
    os.kill(worker, signal.SIGKILL)
    os.kill(queue_worker, signal.SIGKILL)
    # The log now names the killed worker and its successor.
    wait_until(lambda: status(url, **headers) == 200 and len(server.workers()) == 2)
    wait_until(lambda: queue_workers(server) - {queue_worker})
    processes = children_of(server.process.pid)
    assert len(processes) == 2
    server.process.kill()
    server.process.wait()
    wait_until(lambda: not any(map(is_running, processes)))
    restarted_server = serve("--workers", "1")
    restarted_server.greeting()
    assert status(f"{restarted_server.url}/v2/organizations/1", **headers) == 200
    wait_until(lambda: queue_workers(restarted_server))
    [new_queue_worker] = queue_workers(restarted_server)
    assert restarted_server.stop() == 0
    assert not is_running(new_queue_worker)
    wait_until_stopped(home)


def queue_workers(server):
    """The process ids of the queue workers that a server has started: its children that respond to no calls."""
    return children_of(server.process.pid) - server.workers()


def is_running(pid):
    """True if there is a process with this id that is not a zombie."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def test_a_reloaded_server_writes_all_lines_once_and_in_the_same_format(home, serve):
    server = serve("--workers", "1", "--no-worker", LOYALTY_LOG_FORMAT="json")
    server.wait_until_ready()
    workers_before = server.workers()
    server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: len(server.workers()) == 2)
    [new_worker] = server.workers() - workers_before
    assert server.stop() == 0
    messages = [json.loads(line)["message"] for line in server.log.read_text().splitlines()]
    assert messages.count(f"Booting worker with pid: {new_worker}") == 1


def test_a_stopped_server_completes_a_call_and_leaves_no_secret_in_its_log_and_no_file(home, serve):
    temporary_folder = home.parent / "tmp"
    temporary_folder.mkdir()
    server = serve("--workers", "1", LOYALTY_LOG_FORMAT="json", TMPDIR=str(temporary_folder))
    server.wait_until_ready()
    token = invoke(home, "token", "--organization", "1", "--admin").stdout.strip()
    assert list(temporary_folder.glob("loyalty-metrics-*/*"))
    with embedded.server(home) as database, ThreadPoolExecutor(1) as pool:
        blocker = psycopg2.connect(database)
        blocker.cursor().execute("LOCK TABLE organizations IN ACCESS EXCLUSIVE MODE")
        headers = {"Authorization": f"Bearer {token}"}
        # The call waits for the lock of the blocker.
        call = pool.submit(status, f"{server.url}/v2/organizations/1", **headers)
        observer = psycopg2.connect(database)
        observer.autocommit = True
        wait_until(lambda: waiting_calls(observer))
        observer.close()
        server.process.send_signal(signal.SIGTERM)
        time.sleep(1)
        assert not call.done()
        blocker.rollback()
        blocker.close()
        assert call.result() == 200
    assert server.process.wait(120) == 0
    assert not list(temporary_folder.iterdir())
    assert server.process.stdout.read() == ""
    lines = [json.loads(line) for line in server.log.read_text().splitlines()]
    [greeting] = [line["message"] for line in lines if "ready" in line["message"]]
    assert server.url in greeting
    assert "loyalty credentials reset --organization 1" in greeting
    # The beginnings of tokens and of client secrets.
    assert not re.search(r"eyJ|lsk_", server.log.read_text())


def waiting_calls(observer):
    """How many calls of the server wait for a lock."""
    with observer.cursor() as cursor:
        cursor.execute(CALLS_WAITING)
        return cursor.fetchone()[0]
