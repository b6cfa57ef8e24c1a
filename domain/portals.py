"""Portals: pages of an organization where its members help themselves (administration "Records": Portal)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from domain.fields import Key

_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Portal:
    """A portal: its appearance, its features, and the page that people return to after signing in."""

    organization_id: int
    portal_id: int
    name: str
    public_id: Key
    custom_attributes: Mapping[str, Any]
    links: Mapping[str, Any]
    theme: Mapping[str, Any]
    forms: Mapping[str, Any]
    metadata: Mapping[str, Any]
    active: bool
    loyalty_program_id: int | None
    auth_redirect_url: str | None
    auth_valid_scopes: tuple[str, ...]
    created_at: datetime
    updated_at: datetime


def redirect_url_fault(url: str) -> str | None:
    """A fault of an `authRedirectUrl`, as the end of a sentence; None if it is safe to redirect to it."""
    if not url.isprintable() or any(character.isspace() or character == "\\" for character in url):
        return "contains blanks, control characters or backslashes"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "is no URL"
    if parts.scheme not in ("https", "http") or not host:
        return "is no absolute https: URL"
    if parts.username is not None or parts.password is not None:
        return "contains a user name or password"
    if parts.fragment or url.endswith("#"):
        return "contains a fragment"
    if parts.scheme == "http" and host not in _LOCAL_HOSTS:
        return "begins with http:, which is for localhost only"
    return None
