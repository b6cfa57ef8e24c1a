"""The examples of the README and of the page about the command line, in a new home."""

from __future__ import annotations

import re
import shlex

import pytest

from persistence import embedded
from tests.processes.loyalty import ROOT, Server, invoke

# The server is on this machine, so commands must not call it through a proxy.
DIRECT = {"no_proxy": "127.0.0.1", "NO_PROXY": "127.0.0.1"}


@pytest.fixture(scope="module")
def server(shared_home):
    """A server whose organization 2 is the sample, as in the examples."""
    with embedded.server(shared_home, options={"fsync": "off"}):
        server = Server(shared_home, "--workers", "1", LOYALTY_LOG_LEVEL="error")
        server.greeting()
        sample = invoke(shared_home, "sample", "coffee-shop")
        assert sample.stdout.startswith("Organization 2 has now:"), sample.stderr
        yield server
        assert server.stop() == 0


def examples(page: str, section: str, pattern: str) -> list[str]:
    """The commands in a section of a page that match a pattern, each without `loyalty`."""
    text = (ROOT / page).read_text(encoding="utf-8").split(f"## {section}\n", 1)[1].split("\n## ", 1)[0]
    return re.findall(pattern, text, re.MULTILINE)


def output(server: Server, command: str) -> str:
    """The output of a command, which must succeed."""
    result = invoke(server.home, *shlex.split(command), **DIRECT)
    assert result.returncode == 0, f"{command}: {result.stderr}"
    return result.stdout


def test_the_examples_about_one_member_work_after_the_sample(server):
    member_command, *simulate_commands, playground_command = examples(
        "docs/command-line.md", "One member", r"`?loyalty ((?:member|simulate|playground) [^`\n]*--organization[^`\n]*)"
    )
    assert "ana  Ana Costa" in output(server, member_command)
    output_for_ana, output_for_newcomer, output_for_app = (output(server, command) for command in simulate_commands)
    assert re.search(r"HELLO1 .* yes$", output_for_ana, re.MULTILINE)
    assert "points, action 1: applies" in output_for_newcomer
    assert "app, action 5: applies" in output_for_app
    assert f"{server.url}/playground#" in output(server, f"{playground_command} --no-browser")


def test_the_examples_about_time_move_and_remove_the_clock(server):
    commands = examples("docs/command-line.md", "Time", r"^loyalty (.*)$")
    outputs = [output(server, command) for command in commands]
    # The last two examples show the clock and remove it.
    assert '"now":"2026-04-01T09:00:00Z"' in outputs[-2]
    assert "uses the real time" in outputs[-1]


def test_the_examples_of_the_readme_work_after_the_sample(server):
    commands = examples(
        "README.md", "The command", r"^    loyalty ((?:member|simulate|organizations|credentials|token) .*?)  "
    )
    assert len(commands) == 7
    # The reset removes what the other examples print, so it runs last.
    outputs = {command.split()[0]: output(server, command) for command in commands if "reset" not in command}
    assert "ana  Ana Costa" in outputs["member"]
    assert "points, action 1: applies" in outputs["simulate"]
    assert "Corner Coffee" in outputs["organizations"]
    reset_text = output(server, 'organizations reset "Coffee Shop" --yes')
    assert reset_text.startswith("Organization 2 is empty: ")
    failure = invoke(server.home, "member", "ana")
    assert "name one by --organization; `loyalty organizations list` lists them" in failure.stderr
