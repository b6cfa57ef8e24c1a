"""The first steps of a new user with a running server: the quick start, commands, and the pages in a browser."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import urllib.request
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner

from handlers.server.cli import main
from persistence import embedded
from tests.builders.browser import absent_programs, browser
from tests.http.test_campaign_examples import compare
from tests.processes.loyalty import Server, copy_home, environment, free_port, invoke

PAGE = Path(__file__).parents[2] / "docs" / "quickstart.md"
BLOCK = re.compile(r"^```(sh|json|python|text)\n(.*?)^```$", re.M | re.S)
MARK = "the end of this block"
# The server is on this machine, so programs must not call it through a proxy.
DIRECT = {"no_proxy": "127.0.0.1", "NO_PROXY": "127.0.0.1"}


class Site:
    """A server on a new home, and the token that it prints at its first start."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.server = Server(home, "--workers", "1", LOYALTY_LOG_LEVEL="error")
        greeting = self.server.greeting()
        [self.token] = re.findall(r"^ *export TOKEN=(\S+)$", greeting, re.M)
        assert re.findall(r"^ *Playground +(\S+)$", greeting, re.M) == [f"{self.server.url}/playground"]
        # The quick start and the examples in the browser use the organization 1.
        assert re.findall(r"^ *Organization +(\d+)$", greeting, re.M) == ["1"]


@pytest.fixture(scope="module")
def site(shared_home):
    """A running server on a new home."""
    with embedded.server(shared_home, options={"fsync": "off"}):
        site = Site(shared_home)
        yield site
        assert site.server.stop() == 0


def blocks() -> list[tuple[str, str]]:
    """The blocks of the quick start, each with its language."""
    return BLOCK.findall(PAGE.read_text(encoding="utf-8"))


def run(site: Site, folder: Path, command: list[str], text: str) -> str:
    """Run a program of the quick start against this server; returns its output."""
    text = text.replace("http://127.0.0.1:8080", site.server.url)
    environment = {**os.environ, **DIRECT, "TOKEN": site.token}
    result = subprocess.run(
        command, input=text, env=environment, cwd=folder, capture_output=True, text=True, timeout=240, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("time", ["first", "second"])
def test_the_calls_of_the_quick_start_return_its_responses_also_the_second_time(site, tmp_path, time):
    page_blocks = blocks()
    calls = [text for language, text in page_blocks if language == "sh"]
    assert len(calls) == 6
    outputs = run(site, tmp_path, ["bash", "-eu"], f"\necho {MARK}\n".join(calls)).split(MARK)
    # A block of JSON after a call shows its response.
    responses_by_call = {
        call: response
        for (language, call), (next_language, response) in pairwise(page_blocks)
        if (language, next_language) == ("sh", "json")
    }
    assert len(responses_by_call) == 2
    for call, response in responses_by_call.items():
        compare(json.loads(response), json.loads(outputs[calls.index(call)]), {}, "response")


@pytest.mark.parametrize("time", ["first", "second"])
def test_the_python_program_of_the_quick_start_prints_its_output_also_the_second_time(site, tmp_path, time):
    [program] = [text for language, text in blocks() if language == "python"]
    [output] = [text for language, text in blocks() if language == "text"]
    assert len([line for line in program.splitlines() if line]) <= 32
    assert run(site, tmp_path, [sys.executable, "-"], program) == output


@pytest.fixture(scope="module")
def carla(site):
    """A member whose name no other test uses."""
    body = json.dumps({"loyaltyMemberId": "carla"}).encode()
    headers = {"Authorization": f"Bearer {site.token}", "Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(f"{site.server.url}/v2/members", body, headers)) as response:
        assert response.status == 201
    return "carla"


def simulate(site: Site, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command `simulate` against the running server."""
    return invoke(site.home, "simulate", *arguments, "--base-url", f"{site.server.url}/v2", **DIRECT)


def test_the_command_simulate_returns_the_result_of_a_purchase_and_tracks_nothing(site, carla):
    result = simulate(site, carla, "--total", "12.5", "--json")
    assert result.returncode == 0, result.stderr
    simulation = json.loads(result.stdout)
    assert (simulation["earn"]["discounts"], simulation["errors"], simulation["nextComplete"]) == ([], [], True)
    view = json.loads(invoke(site.home, "member", carla, "--json").stdout)
    timeline = [entry["text"] for entry in view["timeline"]["results"]]
    assert [text for text in timeline if "order" in text.lower()] == []
    refusal = simulate(site, "nobody-has-this", "--total", "1")
    assert (refusal.returncode, refusal.stdout) == (1, "")
    assert refusal.stderr == "Error: POST /simulations returned 404: There is no member nobody-has-this.\n"


@pytest.mark.parametrize("options", [["--total", "a lot"], ["--total", "NaN"], ["--payload", "{"], []])
def test_wrong_options_of_simulate_are_reported_before_any_request(options):
    result = CliRunner().invoke(main, ["simulate", "carla", *options])
    assert result.exit_code == 2
    assert "--payload" in result.output or "--total" in result.output


def test_simulate_reports_an_unreachable_server(site):
    address = f"http://127.0.0.1:{free_port()}/v2"
    result = invoke(site.home, "simulate", "ana", "--total", "1", "--base-url", address, **DIRECT)
    assert result.returncode == 1
    assert "--base-url" in result.stderr


def test_commands_find_the_server_of_this_folder_on_any_port(site, carla):
    result = invoke(site.home, "simulate", carla, "--total", "12.5", "--json", **DIRECT)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["nextComplete"] is True
    doctor = json.loads(invoke(site.home, "doctor", "--json", **DIRECT).stdout)
    [server_finding] = [finding for finding in doctor["findings"] if finding["subject"] == "server"]
    assert (server_finding["isWell"], server_finding["detail"]) == (True, f"running, at {site.server.url}/v2")


def test_the_command_playground_warns_if_no_server_responds(site):
    arguments = ("playground", "--organization", "1", "--no-browser")
    with_server = invoke(site.home, *arguments, **DIRECT)
    assert (with_server.returncode, with_server.stderr) == (0, "")
    assert with_server.stdout.startswith(f"{site.server.url}/playground#token=")
    address = f"http://127.0.0.1:{free_port()}"
    without_server = invoke(site.home, *arguments, "--base-url", f"{address}/v2", **DIRECT)
    assert without_server.returncode == 0
    assert without_server.stderr.startswith(f"Warning: no server responds at {address}/v2: ")
    assert "`loyalty serve` starts one" in without_server.stderr
    assert without_server.stdout.startswith(f"{address}/playground#token=")


def test_a_wrong_base_path_is_reported(site, carla):
    address = f"{site.server.url}/other/v2"
    playground = invoke(site.home, "playground", "--organization", "1", "--no-browser", "--base-url", address, **DIRECT)
    assert f"Warning: a server responds at {address}, and has no API there" in playground.stderr
    result = invoke(site.home, "simulate", carla, "--total", "1", "--base-url", address, **DIRECT)
    assert result.returncode == 1
    assert f"a server responds at {address}, and has no API there" in result.stderr
    assert f"such as {site.server.url}/v2" in result.stderr
    doctor = invoke(site.home, "doctor", LOYALTY_BASE_URL=address, **DIRECT)
    assert doctor.returncode == 1
    assert f"BAD  server: a server responds at {address}, and has no API there" in doctor.stdout


def test_a_base_url_without_the_path_of_the_api_is_refused(site):
    result = invoke(site.home, "playground", "--no-browser", "--base-url", site.server.url)
    assert result.returncode == 2
    assert result.stderr == (
        "Error: LOYALTY_BASE_URL must be an http or https URL ending in /v2, such as https://a.example/v2, "
        f"not '{site.server.url}'\n"
    )


def test_commands_use_the_management_address_for_pages_and_the_base_url_for_the_api(new_home, migrated_home):
    copy_home(migrated_home, new_home)
    management = f"127.0.0.1:{free_port()}"
    server = Server(new_home, "--workers", "1", LOYALTY_MANAGEMENT_BIND=management)
    variables = {"LOYALTY_PORT": str(server.port), "LOYALTY_MANAGEMENT_BIND": management, **DIRECT}
    try:
        greeting = server.greeting()
        for path in ("/playground", "/v2/integration/docs"):
            assert f"http://{management}{path}" in greeting
        doctor = invoke(new_home, "doctor", **variables)
        assert doctor.returncode == 0
        assert f"ok   server: running, at {server.url}/v2" in doctor.stdout
        playground = invoke(new_home, "playground", "--no-browser", **variables)
        assert (playground.returncode, playground.stderr) == (0, "")
        address, _, _ = playground.stdout.partition("#")
        assert address == f"http://{management}/playground"
        with urllib.request.urlopen(address, timeout=30) as page:
            assert page.status == 200
        without_server = invoke(new_home, "doctor", LOYALTY_BASE_URL="https://loyalty.invalid/v2", **variables)
        assert without_server.returncode == 0
        assert "ok   server: no server responds at https://loyalty.invalid/v2; `loyalty serve`" in without_server.stdout
    finally:
        server.stop()


def test_an_assistant_can_read_a_member_and_simulate_events(site, carla):
    mcp = pytest.importorskip("mcp", reason="the extra mcp is not installed")
    variables = environment(site.home, LOYALTY_BASE_URL=f"{site.server.url}/v2", **DIRECT)
    arguments = ["-m", "handlers", "mcp", "--tag", "members", "--tag", "events"]
    server_parameters = mcp.StdioServerParameters(command=sys.executable, args=arguments, env=variables)
    events = [{"loyaltyMemberId": carla, "eventType": "member-updated", "payload": {}}]

    async def talk() -> None:
        async with mcp.Client(server_parameters) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            assert {"getMember", "simulateEvents"} <= names
            assert not {"createMember", "trackEvents", "listCampaigns"} & names
            member_result = await client.call_tool("getMember", {"loyaltyMemberId": carla})
            assert json.loads(member_result.content[0].text)["loyaltyMember"]["loyaltyMemberId"] == carla
            simulation = await client.call_tool("simulateEvents", {"events": events})
            assert json.loads(simulation.content[0].text)["executionMode"] == "dryRun"
            refusal = await client.call_tool("getMember", {"loyaltyMemberId": "nobody-has-this"})
            assert refusal.is_error
            assert "404" in refusal.content[0].text

    asyncio.run(talk())


needs_a_browser = pytest.mark.skipif(bool(absent_programs()), reason=absent_programs() or "there is a browser")


@needs_a_browser
def test_the_pages_link_to_each_other_and_search_finds_headings(site, tmp_path):
    with browser(tmp_path, free_port()) as window:
        window.open(site.server.url)
        window.click("main a[href='/docs']")
        window.click("nav.pages a[href='/docs/quickstart']")
        window.wait_for("document.title.startsWith('Quick start')")
        assert site.server.url in window.text("main")
        window.type("input[name=q]", "partial return\n")
        window.find("main a[href='/docs/events#returns']")
        # The field still contains the words before.
        window.type("input[name=q]", " xylophone")
        window.wait_for("document.querySelector('#summary').innerText.startsWith('Nothing was found')")
        # With a typing error.
        window.open(f"{site.server.url}/docs/search?q=partiel+return")
        window.click("main a[href='/docs/events#returns']")
        window.wait_for("location.hash === '#returns'")
        window.open(f"{site.server.url}/nowhere")
        assert "Not found" in window.text("main")
        # Except the favicon, which browsers request, and the page that does not exist.
        assert [fault for fault in window.faults() if "nowhere" not in fault and "favicon" not in fault] == []


@needs_a_browser
def test_every_page_fits_a_phone(site, tmp_path):
    names = [path.relative_to(PAGE.parent).with_suffix("").as_posix() for path in PAGE.parent.rglob("*.md")]
    assert len(names) > 60
    with browser(tmp_path, free_port()) as window:
        window.resize(390, 844)
        too_wide_pages = []
        for path in ["", "problems/not-found", "docs/search?q=return", *(f"docs/{name}" for name in names)]:
            window.open(f"{site.server.url}/{path}")
            too_wide_pages += [path] if window.is_too_wide() else []
        assert too_wide_pages == []


@needs_a_browser
def test_code_can_be_copied_and_pages_link_to_the_next_and_the_previous_one(site, tmp_path):
    with browser(tmp_path, free_port()) as window:
        window.open(f"{site.server.url}/docs/quickstart")
        block_count = window.script("return document.querySelectorAll('main pre').length")
        button_count = window.script("return document.querySelectorAll('main button.copy').length")
        assert block_count == button_count > 8
        window.script(
            "window.copied = []; navigator.clipboard.writeText = async (text) => { window.copied.push(text); }"
        )
        window.click(".code:has(.language-sh) button.copy")
        window.wait_for("document.querySelector('.code:has(.language-sh) button.copy').innerText === 'Copied'")
        assert window.script("return window.copied") == [f"API={site.server.url}/v2\nORGANIZATION=1\n"]
        window.click("nav.around a[rel=next]")
        window.wait_for("document.title.startsWith('Concepts')")
        window.click("nav.around a[rel=prev]")
        window.wait_for("document.title.startsWith('Quick start')")
        assert window.faults() == []
