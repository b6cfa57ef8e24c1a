"""A headless Chromium, driven by ChromeDriver over the WebDriver protocol (W3C)."""

from __future__ import annotations

import base64
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests import npm

_AXE = "axe-core@4.14.0"
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
# Long enough for a slow machine, which must not fail a test.
_PATIENCE_SECONDS = 120
# The options from `--no-first-run` to `--disable-sync` keep Chromium from connecting to servers of its maker.
_OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1400,1000",
)


def absent_programs() -> str:
    """The reason to skip a test because the browser or its driver is not installed; empty if both are installed."""
    absent = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"{' and '.join(absent)} not installed" if absent else ""


class Browser:
    """One window of the browser."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    def open(self, url: str) -> None:
        """Load a page."""
        self._post("/url", {"url": url})

    def script(self, source: str, *arguments: Any) -> Any:
        """Run JavaScript in the page; return its result."""
        return self._post("/execute/sync", {"script": source, "args": list(arguments)})

    def find(self, selector: str) -> str:
        """Wait for the first element that matches a CSS selector; return its WebDriver id."""

        def look() -> str | None:
            response = self._client.post("/element", json={"using": "css selector", "value": selector})
            return response.json()["value"][_ELEMENT] if response.status_code == 200 else None

        return until(look, selector)

    def click(self, selector: str) -> None:
        """Click on an element as soon as that is possible."""
        until(lambda: self._client.post(f"/element/{self.find(selector)}/click", json={}).is_success, selector)

    def type(self, selector: str, text: str) -> None:
        """Type into an element."""
        self._post(f"/element/{self.find(selector)}/value", {"text": text})

    def press(self, *keys: str) -> None:
        """Press all keys down, in order, and then release them; the focused element gets them."""
        steps = [{"type": kind, "value": key} for kind in ("keyDown", "keyUp") for key in keys]
        self._post("/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": steps}]})

    def text(self, selector: str) -> str:
        """The visible text of an element."""
        return str(self.script("return document.querySelector(arguments[0]).innerText", selector))

    def wait_for(self, condition: str) -> None:
        """Wait until an expression of JavaScript is true in the page."""
        until(lambda: self.script(f"return Boolean({condition})"), condition)

    def screenshot(self, path: Path) -> None:
        """Save what the window shows as a PNG."""
        path.write_bytes(base64.b64decode(self._client.get("/screenshot").json()["value"]))

    def colour_at(self, selector: str) -> list[int]:
        """The red, green and blue of what the window shows at the centre of an element, which it scrolls to."""
        self.script("document.querySelector(arguments[0]).scrollIntoView({ block: 'center' })", selector)
        picture = self._client.get("/screenshot").json()["value"]
        self.script(
            """
            const { left, top, width, height } = document.querySelector(arguments[0]).getBoundingClientRect();
            const picture = Object.assign(new Image(), { src: `data:image/png;base64,${arguments[1]}` });
            window.colour = null;
            picture.decode().then(() => {
              const size = { width: picture.naturalWidth, height: picture.naturalHeight };
              const drawing = Object.assign(document.createElement("canvas"), size).getContext("2d");
              drawing.drawImage(picture, 0, 0);
              const scale = picture.naturalWidth / innerWidth;
              const { data } = drawing.getImageData((left + width / 2) * scale, (top + height / 2) * scale, 1, 1);
              window.colour = [...data].slice(0, 3);
            })""",
            selector,
            picture,
        )
        self.wait_for("window.colour")
        colour: list[int] = self.script("return window.colour")
        return colour

    def resize(self, width: int, height: int) -> None:
        """Show pages as on a screen of this size, which may be narrower than the narrowest window."""
        sizes = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": True}
        self._post("/goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride", "params": sizes})

    def is_too_wide(self) -> bool:
        """True if the page has to be scrolled sideways."""
        return bool(
            self.script(
                "const { scrollWidth, clientWidth } = document.documentElement; return scrollWidth > clientWidth"
            )
        )

    def barriers(self) -> list[Any]:
        """The accessibility rules of axe that the page violates: [id of the rule, HTML of the elements]."""
        source = (npm.install_packages(_AXE) / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
        self.script(source + ";window.found = null; axe.run().then((found) => { window.found = found.violations; })")
        self.wait_for("window.found")
        violations: list[Any] = self.script(
            "return window.found.map((rule) => [rule.id, rule.nodes.map((node) => node.html)])"
        )
        return violations

    def faults(self) -> list[str]:
        """The severe messages in the browser's log, such as missing files and blocked scripts."""
        entries = self._post("/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] == "SEVERE"]

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        response = self._client.post(path, json=body)
        assert response.is_success, response.text
        return response.json()["value"]


def until(look: Callable[[], Any], about: str) -> Any:
    """Call a function until its result is true and return the result; fail with `about` after the patience ends."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not (result := look()):
        assert time.monotonic() < deadline, about
        time.sleep(0.05)
    return result


@contextmanager
def browser(folder: Path, port: int, *, dark: bool = False) -> Iterator[Browser]:
    """A new browser with an empty profile in a folder; `port` is a free one for ChromeDriver."""
    driver = subprocess.Popen(["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    base = f"http://127.0.0.1:{port}"
    options = [*_OPTIONS, f"--user-data-dir={folder / 'profile'}", *(["--force-dark-mode"] if dark else [])]
    capabilities = {"goog:chromeOptions": {"args": options}, "goog:loggingPrefs": {"browser": "ALL"}}
    try:
        with httpx.Client(timeout=_PATIENCE_SECONDS, trust_env=False) as client:
            until(lambda: _is_ready(client, base), "ChromeDriver")
            response = client.post(f"{base}/session", json={"capabilities": {"alwaysMatch": capabilities}})
            assert response.is_success, response.text
            session = f"{base}/session/{response.json()['value']['sessionId']}"
            client.base_url = httpx.URL(session)
            try:
                yield Browser(client)
            finally:
                # By the whole URL: the client's base URL ends in a slash, which ChromeDriver refuses.
                assert client.delete(session).is_success
    finally:
        driver.terminate()
        driver.wait(_PATIENCE_SECONDS)


def _is_ready(client: httpx.Client, base: str) -> bool:
    try:
        return bool(client.get(f"{base}/status").json()["value"]["ready"])
    except httpx.TransportError:
        return False
