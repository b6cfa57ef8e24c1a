"""The playground in a browser: dry runs with reasons, members, use by keyboard, on a phone, and checked by axe."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from persistence import embedded
from tests.builders.browser import absent_programs, browser
from tests.processes.loyalty import Server, free_port, loyalty

TAB, ENTER, CONTROL, RIGHT, DOWN = "\ue004", "\ue007", "\ue009", "\ue014", "\ue015"
TOMORROW = datetime.now(UTC) + timedelta(days=1)
MORNING, AFTERNOON = f"{TOMORROW:%Y-%m-%d}T07:00", f"{TOMORROW:%Y-%m-%d}T14:00"
DIRECT = {"no_proxy": "127.0.0.1", "NO_PROXY": "127.0.0.1"}

pytestmark = pytest.mark.skipif(bool(absent_programs()), reason=absent_programs() or "there is a browser")


@pytest.fixture(scope="module")
def server(temporary_directory):
    """A server with an empty first organization, and the sample coffee shop, a test organization."""
    home = temporary_directory / "playground" / "home"
    home.parent.mkdir(mode=0o755)
    with embedded.server(home, options={"fsync": "off"}):
        server = Server(home, "--workers", "1", LOYALTY_LOG_LEVEL="error")
        server.greeting()
        sample = loyalty(home, "sample", "coffee-shop")
        [server.coffee_shop] = re.findall(r"loyalty token --organization (\d+)", sample.stdout)
        server.home = home
        yield server
        assert server.stop() == 0


def address_of(server, organization):
    """The address of the playground with a token, which the command prints."""
    command = loyalty(server.home, "playground", "--organization", organization, "--no-browser", **DIRECT)
    assert command.returncode == 0, command.stderr
    assert command.stdout.startswith(f"{server.url}/playground#token=")
    return command.stdout.strip()


@pytest.fixture(scope="module")
def address(server):
    """The address of the playground with a token for the coffee shop."""
    return address_of(server, server.coffee_shop)


@pytest.fixture
def window(address, tmp_path):
    """The playground of the coffee shop, in which the member ana is chosen."""
    with browser(tmp_path, free_port()) as window:
        window.open(address)
        window.find("#payload")
        choose(window, "#member", "ana")
        yield window


def choose(window, selector, value):
    """Set the value of a field, with the events of a person's input."""
    window.script(
        "const field = document.querySelector(arguments[0]); field.value = arguments[1];"
        "field.dispatchEvent(new Event('input')); field.dispatchEvent(new Event('change'));",
        selector,
        value,
    )


def dry_run(window):
    """Start a dry run and wait for its result."""
    window.click("button.main")
    window.find("#outcome")


def balance_rows(window):
    """The rows of the table of changes: each is a name, the value before, and the value after the dry run."""
    return rows_of(window, "changes")


def rows_of(window, table):
    """The rows of the table with the class `table`, the cells separated by tabs."""
    return window.script(
        "return [...document.querySelectorAll(`#panel .${arguments[0]} tbody tr`)].map((row) => row.innerText)", table
    )


def test_an_open_page_takes_the_token_of_its_address(address, tmp_path):
    # The printed address is pasted into a tab that already shows the page.
    page, _, token = address.partition("#token=")
    with browser(tmp_path, free_port()) as window:
        window.open(page)
        window.find("#token")
        # A token begins with these letters.
        assert "eyJ" not in window.script("return document.querySelector('#token').value")
        window.open(address)
        window.find("#payload")
        assert window.script("return sessionStorage.getItem('token')") == token
        assert window.script("return location.hash") == ""
        assert window.script("return document.querySelector('#member').value") != ""


def test_a_dry_run_shows_changes_and_their_reasons(window):
    assert "token" not in window.script("return location.href")
    choose(window, "#payload", '{"order": {"externalId": "playground-1", "total": 12.5}}')
    # The coffee shop gives a badge before nine, so that the afternoon has one effect less.
    choose(window, "#moment", AFTERNOON)
    dry_run(window)
    assert window.text("#outcome") == "2 effects of 2 actions would be executed."
    [beans, tier] = balance_rows(window)
    _, before, after = beans.split("\t")
    # 12 for the whole units spent, and as many from another campaign.
    assert int(after) - int(before) == 12 + 12
    assert tier.split("\t") == ["Tier", "Silver", "Gold"]
    assert window.text(".entries caption") == "Ledger entries"
    [first_entry, second_entry] = [row.split("\t") for row in rows_of(window, "entries")]
    assert first_entry[:5] == ["Beans", "ana", "+12", before, str(int(before) + 12)]
    assert second_entry[:5] == ["Beans", "ana", "+12", str(int(before) + 12), after]
    assert re.fullmatch(r"expires .*20\d\d or later", first_entry[5])
    reasons = window.text(".campaigns")
    assert "mint-points amount 12 recipient member evaluated" in reasons
    assert "A bean for each unit spent" in reasons
    assert "hours of event date is less than 9: false" in reasons
    choose(window, "#moment", MORNING)
    dry_run(window)
    window.wait_for("document.querySelector('#outcome').innerText.startsWith('3 effects')")
    assert re.search(r"assign-badge badgeKey \S{36} \(Early bird\) amount 1 evaluated", window.text(".campaigns"))
    assert "curl -sS -X POST" in window.text("#code")
    assert window.faults() == []


def test_a_dry_run_of_the_default_event_shows_the_progress_of_a_mission(window):
    dry_run(window)
    [mission_row] = [row for row in balance_rows(window) if row.startswith("Mission ")]
    name, before, after = mission_row.split("\t")
    assert name == "Mission The tenth coffee"
    count_before, count_after = (int(text.removesuffix(" of 10")) for text in (before, after))
    assert count_after == count_before + 1


def test_tracking_the_event_changes_the_balance_as_the_dry_run_showed(window):
    choose(window, "#payload", '{"order": {"externalId": "playground-2", "total": 3}}')
    dry_run(window)
    _, _, forecast_balance = balance_rows(window)[0].split("\t")
    window.script("[...document.querySelectorAll('button')].find((button) => button.innerText === 'Track it').click()")
    window.wait_for("document.querySelector('#outcome').innerText.includes('were executed')")
    choose(window, "#payload", '{"order": {"externalId": "playground-3", "total": 3}}')
    dry_run(window)
    window.wait_for("document.querySelector('#outcome').innerText.includes('would be')")
    _, balance_before, _ = balance_rows(window)[0].split("\t")
    assert balance_before == forecast_balance


def test_refusals_are_shown_with_the_field_that_is_wrong(window):
    choose(window, "#payload", '{"order": {"total": 12.5}}')
    window.click("button.main")
    window.wait_for("document.querySelector('[role=alert]').innerText.includes('externalId')")
    choose(window, "#payload", '{"order": ')
    window.click("button.main")
    window.wait_for("document.querySelector('[role=alert]').innerText.includes('The payload is not JSON')")


def test_the_page_of_an_organization_without_members_names_the_command_for_a_sample(server, address, tmp_path):
    with browser(tmp_path, free_port()) as window:
        window.open(address_of(server, "1"))
        window.find("#payload")
        assert "loyalty sample coffee-shop" in window.text("#panel")
        # The tabs for events and for members.
        for tab in (0, 1):
            window.script(f"document.querySelectorAll('#playground > [role=tablist] > [role=tab]')[{tab}].click()")
            window.click("button.main")
            window.wait_for("document.querySelector('[role=alert]').innerText === 'Choose a member.'")
        window.open(address)
        window.wait_for("document.querySelector('#member').value !== ''")
        assert "loyalty sample coffee-shop" not in window.text("#panel")


def test_a_field_name_can_be_completed_by_the_keyboard(window):
    window.script("const field = document.querySelector('#payload'); field.value = ''; field.focus()")
    window.type("#payload", '{"order": {"loc')
    window.wait_for("document.querySelectorAll('[role=option]').length === 1")
    window.type("#payload", f"{DOWN}{ENTER}")
    assert window.script("return document.querySelector('#payload').value") == '{"order": {"locationCode": '


def press_tab_until(window, condition):
    """Press Tab until a JavaScript condition is true, in which `here` is the element with the focus."""
    for _ in range(20):
        window.press(TAB)
        if window.script(f"const here = document.activeElement; return {condition}"):
            return
    raise AssertionError(condition)


def test_the_keyboard_leads_from_the_token_to_the_result(address, tmp_path):
    page, _, token = address.partition("#token=")
    with browser(tmp_path, free_port()) as window:
        window.open(page)
        window.find("#token")
        press_tab_until(window, "here.id === 'token'")
        for character in token:
            window.press(character)
        window.press(ENTER)
        window.find("#payload")
        press_tab_until(window, "here.id === 'member'")
        window.press(CONTROL, "a")
        for character in "ben":
            window.press(character)
        press_tab_until(window, "here.id === 'payload'")
        window.press(CONTROL, ENTER)
        window.find("#outcome")
        assert window.text("#outcome").endswith(("action would be executed.", "actions would be executed."))
        assert '"loyaltyMemberId": "ben"' in window.text("#code")
        press_tab_until(window, "here.innerText === 'curl'")
        window.press(RIGHT)
        window.wait_for("document.querySelector('#code').innerText.startsWith('import os')")
        press_tab_until(window, "here.innerText === 'The response'")
        window.press(ENTER)
        window.wait_for("document.querySelector('#panel details:last-of-type pre').checkVisibility()")
        window.open(address)
        window.find("#payload")
        press_tab_until(window, "here.innerText === 'Try an event'")
        window.press(RIGHT)
        window.find("table.timeline")
        assert window.script("return document.activeElement.innerText") == "A member"


def test_a_member_has_balances_lots_and_a_timeline(window):
    window.script("document.querySelectorAll('[role=tab]')[1].click()")
    window.click("button.main")
    window.find("table.timeline")
    panel = window.text("#panel")
    for part in ("Ana Costa", "Beans: what expires when", "The coupon Free coffee was used"):
        assert part in panel
    assert window.script("return document.querySelectorAll('#panel figure path.line').length") == 1
    assert window.script("return document.querySelectorAll('.chart img').length") == 2
    assert window.faults() == []


@pytest.mark.parametrize(("dark", "background"), [(False, [255, 255, 255]), (True, [20, 24, 29])])
def test_charts_have_the_background_of_the_page(address, tmp_path, dark, background):
    with browser(tmp_path, free_port(), dark=dark) as window:
        window.open(address)
        window.find("#payload")
        window.script("document.querySelectorAll('[role=tab]')[1].click()")
        window.click("button.main")
        window.find(".chart img")
        window.wait_for("[...document.querySelectorAll('.chart img')].every((image) => image.complete)")
        assert window.colour_at(".chart") == background


def test_the_playground_fits_a_phone_and_is_accessible(window):
    dry_run(window)
    window.resize(390, 844)
    for tab in (0, 1):
        window.script(f"document.querySelectorAll('[role=tab]')[{tab}].click()")
        if tab:
            window.click("button.main")
            window.find("table.timeline")
        window.script("document.querySelectorAll('#panel details').forEach((node) => { node.open = true; })")
        assert not window.is_too_wide()
        assert window.barriers() == []
        if not tab:
            assert window.script(
                "return ((table) => table.scrollWidth <= table.clientWidth)(document.querySelector('.entries'))"
            )
            # A heading is not broken within its word.
            line_counts = window.script(
                "return [...document.querySelectorAll('.entries th')].map((cell) => {"
                " const text = document.createRange();"
                " text.selectNodeContents(cell);"
                " return text.getClientRects().length; })"
            )
            assert line_counts == [1] * 6
    window.wait_for("[...document.querySelectorAll('.chart img')].every((image) => image.complete)")
    scales = window.script(
        "return [...document.querySelectorAll('#panel svg, .chart img')].map((drawing) =>"
        " drawing.getBoundingClientRect().width / (drawing.viewBox?.baseVal.width ?? drawing.naturalWidth))"
    )
    assert len(scales) == 3
    # Texts of 12 pixels stay readable.
    assert min(scales) >= 0.8
