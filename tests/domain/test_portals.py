"""The address that a portal sends people back to after they signed in."""

from __future__ import annotations

import pytest

from domain.portals import redirect_url_fault


@pytest.mark.parametrize(
    "url",
    [
        "https://shop.example/welcome?from=portal",
        "https://shop.example:8443",
        "http://localhost:3000/back",
        "http://127.0.0.1",
        "http://[::1]:3000",
    ],
)
def test_a_redirect_url_is_https_or_on_localhost(url):
    assert redirect_url_fault(url) is None


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("https://shop.example/a b", "contains blanks, control characters or backslashes"),
        ("https://shop.example\\@evil.example", "contains blanks, control characters or backslashes"),
        ("https://shop.example/\x07", "contains blanks, control characters or backslashes"),
        ("https://shop.example:port", "is no URL"),
        ("https://[::1", "is no URL"),
        ("/welcome", "is no absolute https: URL"),
        ("https:///welcome", "is no absolute https: URL"),
        ("javascript://shop.example", "is no absolute https: URL"),
        ("https://ana@shop.example", "contains a user name or password"),
        ("https://:secret@shop.example", "contains a user name or password"),
        ("https://shop.example/#here", "contains a fragment"),
        ("https://shop.example/#", "contains a fragment"),
        ("http://shop.example", "begins with http:, which is for localhost only"),
    ],
)
def test_any_other_address_is_refused(url, fault):
    assert redirect_url_fault(url) == fault
