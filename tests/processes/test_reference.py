"""The API reference and the pages in a browser: links, folds, search, requests, phones, size, and checks by axe."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import openapi
from handlers.http import documentation
from persistence import embedded
from tests.builders.browser import absent_programs, browser
from tests.contract.documents import operations
from tests.processes.loyalty import Server, free_port

SURFACES = ("integration", "administration")
PAGES = sorted(path for path in (Path(__file__).parents[2] / "docs").glob("*.md") if path.stem != "README")
MAX_BYTES = 300_000
MAX_MILLISECONDS = 1_000
ENTER = "\ue007"
VISIBLE_TEXTS = """
const texts = [...document.querySelectorAll(arguments[0])].filter((node) => node.offsetHeight);
return texts.map((node) => node.innerText.replace(/\\n+/g, "\\n"))
"""

SIZES = """
return [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
  .map((entry) => entry.encodedBodySize)
"""

pytestmark = pytest.mark.skipif(bool(absent_programs()), reason=absent_programs() or "there is a browser")


class Site:
    """A running server and the token that it prints."""

    def __init__(self, home):
        self.server = Server(home, "--workers", "1", LOYALTY_LOG_LEVEL="error")
        [self.token] = re.findall(r"^ *export TOKEN=(\S+)$", self.server.greeting(), re.M)

    def docs(self, surface, fragment=""):
        """The address of the reference of a surface."""
        return f"{self.server.url}/v2/{surface}/docs{fragment}"


@pytest.fixture(scope="module")
def site(temporary_directory):
    """A running server with an empty organization."""
    home = temporary_directory / "reference" / "home"
    home.parent.mkdir(mode=0o755)
    with embedded.server(home, options={"fsync": "off"}):
        site = Site(home)
        yield site
        assert site.server.stop() == 0


@pytest.fixture(params=[False, True], ids=["light", "dark"])
def themed_window(request, tmp_path):
    """A browser that prefers light or dark pages."""
    with browser(tmp_path, free_port(), dark=request.param) as window:
        yield window


@pytest.fixture
def window(tmp_path):
    with browser(tmp_path, free_port()) as window:
        yield window


def search(window, text):
    """Type a text into the search field."""
    window.script(
        "const field = document.querySelector('#find'); field.value = arguments[0];"
        "field.dispatchEvent(new Event('input'))",
        text,
    )


def visible_texts(window, selector):
    """The texts of the visible elements."""
    return window.script(VISIBLE_TEXTS, selector)


@pytest.mark.parametrize("surface", SURFACES)
def test_every_operation_has_an_address_and_is_rendered(site, window, surface):
    window.open(site.docs(surface))
    ids = window.script(
        "return [...document.querySelectorAll('#list li a')].map((link) => link.hash.slice(1)).filter(Boolean)"
    )
    assert sorted(ids) == sorted(operation.operation_id for operation in operations(openapi.bundle(surface)))
    # The title of each operation, or false if the page lacks an example or shows a value that is none.
    ids_and_titles = window.script(
        """
        const wait = () => new Promise((done) => setTimeout(done, 0));
        return (async () => {
          const found = [];
          for (const id of arguments[0]) {
            location.hash = id;
            while (document.querySelector('#operation .crumbs code')?.innerText !== id) await wait();
            const text = document.querySelector('#operation').innerText;
            const has = document.querySelectorAll('#operation .panel .code').length >= 1;
            const title = document.querySelector('#operation h1').innerText;
            found.push([id, has && !/undefined|\\[object/.test(text) && title]);
          }
          return found;
        })()""",
        ids,
    )
    assert [operation_id for operation_id, title in ids_and_titles if not title] == []
    assert [operation_id for operation_id, _ in ids_and_titles] == ids
    assert window.faults() == []


def test_an_operation_shows_its_permission_fields_and_examples(site, window):
    window.open(site.docs("integration", "#/events/trackEvents"))
    window.find("#operation h1")
    assert window.text("#operation h1") == "Track events"
    assert window.text(".permission") == "Permission orders:write Track events, create purchase orders"
    first_field = visible_texts(window, ".parts > .fields > li")[0]
    assert first_field.startswith("events array of object required\n1 to 100 items")
    assert "loyaltyMemberId string required\n1 to 255 characters" in first_field
    assert any(field.startswith("now date-time or null extension") for field in visible_texts(window, ".fields li"))
    assert '"systemUniqueKey": "till-4-000117"' in window.text(".panel.request .code")
    assert '"limitDiscardedTotalAmount": 0' in window.text(".panel.response .code")
    # The examples are to the right of the description.
    end_of_description = window.script(
        "return document.querySelector('.about-operation').getBoundingClientRect().right"
    )
    begin_of_examples = window.script("return document.querySelector('.panels').getBoundingClientRect().left")
    assert end_of_description < begin_of_examples


def test_common_parameters_and_errors_are_folded_until_they_are_clicked(site, window):
    window.open(site.docs("administration", "#listCampaigns"))
    window.find("#operation h1")
    assert not any("Zero-based page" in text for text in visible_texts(window, ".fields li"))
    fold = "[...document.querySelectorAll('#operation summary')].find((node) => node.innerText.startsWith(%s))"
    window.script(f"({fold % repr('Common parameters')}).click()")
    window.wait_for(
        "[...document.querySelectorAll('.fields li')].some((node) => node.innerText.includes('Zero-based'))"
    )
    assert visible_texts(window, ".errors li") == []
    window.script(f"({fold % repr('Common errors')}).click()")
    window.wait_for("document.querySelectorAll('.errors li').length > 4")
    assert [text[:3] for text in visible_texts(window, ".errors li")][:4] == ["400", "401", "403", "404"]


def test_nested_schemas_open_level_by_level(site, window):
    window.open(site.docs("integration", "#getMember"))
    window.find("#operation h1")
    [include] = [text for text in visible_texts(window, ".fields li") if text.startswith("include ")]
    assert include.startswith("include array of string extension\nexactly 1 item\n")
    folds = "#operation .fields details:not([open]) > summary"
    assert not any(text.startswith("issuingCountry ") for text in visible_texts(window, ".fields li"))
    for name in ("profile", "govId"):
        find = (
            f"[...document.querySelectorAll('{folds}')].find((node) => node.innerText.startsWith('Fields of {name}'))"
        )
        window.script(f"{find}.click()")
        window.wait_for(f"!({find})")
    assert any(text.startswith("issuingCountry ") for text in visible_texts(window, ".fields li"))


@pytest.mark.parametrize("place", ["/docs/fuzzing", "/docs/quickstart", "/v2/integration/docs#trackEvents"])
def test_the_list_marks_and_shows_the_current_page(site, window, place):
    window.resize(1280, 800)
    window.open(f"{site.server.url}{place}")
    window.wait_for("document.querySelector('nav.pages [aria-current]')")
    window.wait_for("document.querySelector('#operation:not([hidden]) h1') || !document.querySelector('#operation')")
    current = "document.querySelector('nav.pages [aria-current]').getBoundingClientRect()"
    window.wait_for(f"{current}.top > 0 && {current}.bottom < innerHeight")
    assert window.script("return scrollY") == 0


def test_the_search_field_covers_the_list_below_it(site, window):
    window.resize(1280, 800)
    window.open(site.docs("integration", "#trackEvents"))
    window.find("#operation .panel")
    covering = """
        const covered = document.querySelector('#operations .search').getBoundingClientRect();
        const places = [...Array(Math.floor(covered.height))].map((_, y) => [covered.left + 20, covered.top + y]);
        return places.every((place) => document.elementFromPoint(...place).closest('.search'))"""
    for heading in range(3, 8):
        # Scroll each heading behind the field.
        window.script(
            "const list = document.querySelector('#operations');"
            "const heading = list.querySelectorAll('h2')[arguments[0]];"
            "list.scrollTop += heading.getBoundingClientRect().top - list.getBoundingClientRect().top - 40",
            heading,
        )
        assert window.script(covering), heading


def test_the_chosen_language_of_examples_applies_to_all_operations(site, window):
    window.open(site.docs("integration", "#trackEvents"))
    window.find(".panel.request")
    window.script("[...document.querySelectorAll('.choices button')].find((node) => node.innerText === 'Java').click()")
    window.wait_for("document.querySelector('.panel.request .code').innerText.includes('HttpRequest.newBuilder')")
    window.click("nav.around a[rel=next]")
    window.wait_for("location.hash !== '#trackEvents'")
    assert "HttpRequest.newBuilder" in window.text(".panel.request .code")
    window.open(site.docs("administration", "#createCampaign"))
    window.find(".panel.request")
    assert "HttpRequest.newBuilder" in window.text(".panel.request .code")


@pytest.mark.parametrize(
    ("surface", "operation_id", "python", "typescript"),
    [
        ("integration", "trackEventsAsync", "print(client.queue_events({", "console.log(await client.queueEvents({"),
        (
            "administration",
            "listCampaigns",
            "print(client.list_campaigns(limit=1))",
            'client.listCampaigns({\n  "limit": 1\n})',
        ),
        ("administration", "removeUser", "    client.remove_user(", "\nawait client.removeUser("),
    ],
)
def test_requests_are_shown_as_code_for_our_python_and_typescript_clients(
    site, window, surface, operation_id, python, typescript
):
    window.open(site.docs(surface, f"#{operation_id}"))
    window.find(".try")
    window.click(".try summary")
    if operation_id == "listCampaigns":
        window.type("#try-limit", "1")
    for language, code in (("Python", python), ("TypeScript", typescript)):
        window.script(
            "[...document.querySelectorAll('.choices button')].find((node) => node.innerText === arguments[0]).click()",
            language,
        )
        window.wait_for(f"document.querySelector('.panel.request .code').innerText.includes({json.dumps(code)})")


def test_the_copy_button_copies_the_whole_code(site, window):
    window.open(site.docs("integration", "#getMember"))
    window.find(".panel.response .copy")
    window.script("window.copied = []; navigator.clipboard.writeText = async (text) => { window.copied.push(text); }")
    window.click(".panel.request .copy")
    window.wait_for("window.copied.length === 1")
    [copied_text] = window.script("return window.copied")
    assert copied_text == f'curl -sS {site.server.url}/v2/members/ana \\\n  -H "Authorization: Bearer $TOKEN"'


def test_operations_fields_and_pages_are_found(site, window):
    window.open(site.docs("integration"))
    window.find("#find")
    search(window, "track event")
    window.wait_for("document.querySelector('#summary').innerText.endsWith('operations')")
    assert {"POST\nTrack events", "POST\nTrack events asynchronously"} <= set(visible_texts(window, "#list li"))
    assert "POST\nCreate a badge" not in visible_texts(window, "#list li")
    search(window, "publicLoyaltyMemberId")
    window.wait_for("document.querySelector('#list li:not([hidden]) small')")
    assert set(visible_texts(window, "#list .reason small")) == {"publicLoyaltyMemberId"}
    search(window, "partial return")
    window.wait_for("!document.querySelector('#found-pages').hidden")
    assert "Events: Returns" in visible_texts(window, "#found-pages li")
    for query in ("member-exists", "/problems/member-exists"):
        search(window, query)
        window.wait_for("document.querySelector('#found-pages li')?.innerText === 'Problems: /problems/member-exists'")
    window.script("document.activeElement.blur()")
    window.type("body", "/")
    window.wait_for("document.activeElement.id === 'find'")
    search(window, "")
    window.type("#find", f"getmember{ENTER}")
    window.wait_for("location.hash === '#getMember'")
    assert window.faults() == []


def test_a_request_can_be_sent_with_the_token_that_the_server_prints(site, window):
    window.open(site.docs("administration", "#listCampaigns"))
    window.find(".try")
    window.click(".try summary")
    window.type("#token", f"Bearer {site.token}\t")
    window.type("#try-limit", "1")
    window.click(".try button.main")
    window.wait_for("document.querySelector('.panel.response [role=status]')")
    assert window.text(".panel.response [role=status]").startswith("200 in ")
    assert '"limit": 1' in window.text(".panel.response .code")
    assert "/campaigns?limit=1" in window.text(".panel.request .code")
    # The tab keeps the token for all operations of both documents; the organization follows from the token.
    window.open(site.docs("integration", "#createMember"))
    window.click(".try summary")
    window.script(
        "const field = document.querySelector('#body'); field.value = '{'; field.dispatchEvent(new Event('input'))"
    )
    window.click(".try button.main")
    window.wait_for("document.querySelector('.panel.response [role=status]')")
    assert window.text(".panel.response [role=status]").startswith("400 in ")
    assert "/problems/invalid-request" in window.text(".panel.response .code")


@pytest.mark.parametrize("surface", SURFACES)
def test_the_reference_fits_a_phone_and_is_accessible(site, themed_window, surface):
    places = ("", "#getMember", "#createCampaign", "#listMembers", "#createTrigger", "#trackEvents")
    for width, height in ((390, 844), (1400, 1000)):
        themed_window.resize(width, height)
        for place in places:
            themed_window.open("about:blank")
            themed_window.open(site.docs(surface, place))
            themed_window.wait_for("document.querySelector('#operation')")
            if themed_window.script(
                "return Boolean(document.querySelector(`#list a[href='${location.hash}']`)) && location.hash"
            ):
                themed_window.find("#operation .panel")
                themed_window.script("document.querySelectorAll('#operation summary').forEach((node) => node.click())")
            assert not themed_window.is_too_wide(), (place, width)
            assert themed_window.barriers() == [], (place, width)


def test_the_pages_are_small_fit_a_phone_and_are_accessible(site, window):
    window.resize(390, 844)
    pages = ["/", "/docs", "/docs/search?q=expire", *(f"/docs/{page.stem}" for page in PAGES)]
    faults_by_page = {}
    for page in pages:
        window.open(f"{site.server.url}{page}")
        if "search" in page:
            window.find("#results li")
        faults = [*window.faults(), *window.barriers(), *(["too wide"] if window.is_too_wide() else [])]
        size = sum(window.script(SIZES))
        if size >= MAX_BYTES:
            faults.append(f"{size} bytes")
        if faults:
            faults_by_page[page] = faults
    assert len(pages) > 40
    assert faults_by_page == {}


# The texts that are wider than the box in which they begin, or wider than the drawing.
CUT_OFF = """
const boxes = [...document.querySelectorAll("rect")].map((rect) => rect.getBBox());
const { width } = document.documentElement.viewBox.baseVal;
return [...document.querySelectorAll("text")].filter((text) => {
  const own = text.getBBox();
  const box = boxes.find((box) => box.x < own.x && own.x < box.x + box.width
    && box.y < own.y + own.height / 2 && own.y + own.height / 2 < box.y + box.height);
  return own.x + own.width > (box ? box.x + box.width - 4 : width);
}).map((text) => text.textContent)
"""


def test_the_texts_of_drawings_fit_their_boxes(site, window):
    cut_off_texts = {}
    for drawing in documentation.image_names():
        window.open(f"{site.server.url}/docs/images/{drawing}")
        assert window.script("return document.querySelectorAll('text').length") > 9
        if texts := window.script(CUT_OFF):
            cut_off_texts[drawing] = texts
    assert cut_off_texts == {}


@pytest.mark.parametrize("surface", SURFACES)
def test_the_reference_is_small_and_is_displayed_within_a_second(site, window, surface):
    times = []
    for _ in range(3):
        window.open("about:blank")
        window.open(site.docs(surface, "#listMembers"))
        window.find("#operation .panel")
        times.append(window.script("return performance.getEntriesByName('first-contentful-paint')[0].startTime"))
    sizes = window.script(SIZES)
    assert len(sizes) > 8
    assert sum(sizes) < MAX_BYTES
    assert min(times) < MAX_MILLISECONDS
