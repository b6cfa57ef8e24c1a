"""What a new user does first with a running server: the quick start, and the pages in a browser."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from persistence import embedded
from tests.builders.browser import browser, missing
from tests.http.test_campaign_examples import compare
from tests.processes.loyalty import Server, free_port

PAGE = Path(__file__).parents[2] / "docs" / "quickstart.md"
BLOCK = re.compile(r"^```(sh|json|python|text)\n(.*?)^```$", re.M | re.S)
MARK = "the end of this block"
# Whatever a proxy does for the machine, the server is on it.
DIRECT = {"no_proxy": "127.0.0.1", "NO_PROXY": "127.0.0.1"}


class Site:
    """A server that was just started for the first time, and the token that it has printed."""

    def __init__(self, home: Path) -> None:
        self.server = Server(home, "--workers", "1", LOYALTY_LOG_LEVEL="error")
        greeting = self.server.greeting()
        [self.token] = re.findall(r"^ *export TOKEN=(\S+)$", greeting, re.M)
        # The page, and the example of the field in the browser, take the first one.
        assert re.findall(r"^ *Organization +(\d+)$", greeting, re.M) == ["1"]


@pytest.fixture(scope="module")
def site(temporary_directory):
    home = temporary_directory / "first-hour" / "home"
    home.parent.mkdir(mode=0o755)
    with embedded.server(home, options={"fsync": "off"}):
        site = Site(home)
        yield site
        assert site.server.stop() == 0


def blocks() -> list[tuple[str, str]]:
    """The blocks of the quick start, each with its language."""
    return BLOCK.findall(PAGE.read_text(encoding="utf-8"))


def run(site: Site, folder: Path, command: list[str], text: str) -> str:
    """What a program of the page prints, on this server."""
    text = text.replace("http://127.0.0.1:8080", site.server.url)
    environment = {**os.environ, **DIRECT, "TOKEN": site.token}
    done = subprocess.run(
        command, input=text, env=environment, cwd=folder, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_quick_start_leads_to_points(site, tmp_path):
    shown = blocks()
    calls = [text for kind, text in shown if kind == "sh"]
    assert len(calls) == 6
    printed = run(site, tmp_path, ["bash", "-eu"], f"\necho {MARK}\n".join(calls)).split(MARK)
    compared = 0
    for (kind, text), (following, answer) in zip(shown, [*shown, ("", "")][1:], strict=True):
        if (kind, following) == ("sh", "json"):
            compare(json.loads(answer), json.loads(printed[calls.index(text)]), {}, "answer")
            compared += 1
    assert compared == 2


def test_the_same_in_python_prints_what_the_page_says(site, tmp_path):
    [program] = [text for kind, text in blocks() if kind == "python"]
    [printed] = [text for kind, text in blocks() if kind == "text"]
    assert len([line for line in program.splitlines() if line]) <= 32
    assert run(site, tmp_path, [sys.executable, "-"], program) == printed


needs_a_browser = pytest.mark.skipif(bool(missing()), reason=missing() or "there is a browser")


@needs_a_browser
def test_try_it_works_with_the_token_that_the_server_prints(site, tmp_path):
    with browser(tmp_path, free_port()) as window:
        window.open(f"{site.server.url}/v2/administration/docs")
        window.type("#token", f"{site.token}\n")
        window.type(".operation-filter-input", "getOrganization")
        window.wait_for("document.querySelectorAll('.opblock').length === 1")
        window.click(".opblock-summary-control")
        window.click(".try-out__btn")
        window.click("button.execute")
        window.wait_for("document.querySelector('.live-responses-table .response-col_status')")
        assert window.text(".live-responses-table .response .response-col_status").startswith("200")
        assert window.faults() == []


@needs_a_browser
def test_the_pages_lead_to_each_other(site, tmp_path):
    with browser(tmp_path, free_port()) as window:
        window.open(site.server.url)
        window.click("main a[href='/docs']")
        window.click("nav.pages a[href='/docs/quickstart']")
        window.wait_for("document.title.startsWith('Quick start')")
        assert site.server.url in window.text("main")
        window.type("input[name=q]", "partial return\n")
        window.click("main a[href='/docs/events#returns']")
        window.wait_for("location.hash === '#returns'")
        window.open(f"{site.server.url}/nowhere")
        assert "Not found" in window.text("main")
        # The favicon that browsers ask for by themselves, and the page that is not there.
        assert [fault for fault in window.faults() if "nowhere" not in fault and "favicon" not in fault] == []
