"""Values of settings that are more than a text or a number."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}
_RATE = re.compile(r"([1-9][0-9]{0,8})/(second|minute|hour|day)")


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate: at most `count` calls in any period of `seconds`, at once or spread over the period."""

    count: int
    seconds: int

    @classmethod
    def parse(cls, text: str) -> Rate | None:
        """Parse a rate such as `600/minute`; None for `off`. Raises ValueError."""
        if text == "off":
            return None
        match = _RATE.fullmatch(text)
        if not match:
            raise ValueError(
                f"must be off, or a rate such as 600/minute (per second, minute, hour or day), not {text!r}"
            )
        return cls(int(match[1]), _SECONDS[match[2]])


_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}")
_DATABASE_SCHEMES = ("postgres", "postgresql", "postgresql+psycopg2")
# As SQLAlchemy reads it: a user has no colon or slash, a password no @.
_PORT_OF_URL = re.compile(r"[^:]+://(?:[^:/]*(?::[^@]*)?@)?+(?:\[[^\]]*\]|[^/:?]*):([^/?]+)")


def is_port(text: str) -> bool:
    """True for a whole number from 1 to 65535."""
    return text.isascii() and text.isdigit() and len(text) < 6 and 0 < int(text) < 65_536


def is_host(text: str) -> bool:
    """True for an IP address or a host name, whose last part is no number."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return bool(_NAME.fullmatch(text)) and not text.rpartition(".")[2].isdigit()
    return True


def fault_of_database_url(url: str) -> str | None:
    """The reason why a text is no URL of a database, None if it is one; without the text, which may hold a password."""
    scheme, separator, _ = url.partition("://")
    if not separator or scheme not in _DATABASE_SCHEMES:
        return "must be a PostgreSQL URL: postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
    match = _PORT_OF_URL.match(url)
    if match is not None and not is_port(match[1]):
        return "must have a port from 1 to 65535"
    # Imported here, since the import takes time that commands without a database should not spend.
    from persistence.engine import fault_of_url

    fault = fault_of_url(url)
    return None if fault is None else f"cannot be used: {fault}"


def is_http_url(text: str) -> bool:
    """True for an http or https URL with a host, without spaces."""
    try:
        parts = urlsplit(text)
        has_valid_port = parts.port != 0
    except ValueError:
        return False
    is_complete = parts.scheme in ("http", "https") and bool(parts.hostname) and has_valid_port
    return is_complete and text.isprintable() and " " not in text


def is_base_url(text: str) -> bool:
    """True for an http or https URL that ends in the path of the API, so that it has no query and no fragment."""
    return is_http_url(text) and urlsplit(text).path.rstrip("/").endswith("/v2") and not {"?", "#"} & set(text)


Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def networks_of(text: str) -> tuple[Network, ...]:
    """The networks in a text of networks or single addresses, separated by commas; raises ValueError."""
    return tuple(ipaddress.ip_network(part.strip()) for part in text.split(",") if part.strip())


def client_host(host: str) -> str:
    """The host in the URL by which a client on this machine reaches a server that listens on `host`."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if address.is_unspecified:
        return "127.0.0.1"
    return host_in_url(host)


def host_in_url(host: str) -> str:
    """The host for an address with a port: an IPv6 address is in brackets."""
    return f"[{host}]" if ":" in host else host


def ports_of(value: str) -> frozenset[int] | None:
    """The ports of a list separated by commas; None for `any`. Raises ValueError."""
    if value == "any":
        return None
    ports = value.split(",")
    for port in ports:
        if not is_port(port):
            raise ValueError(f"{port} is not a port from 1 to 65535")
    return frozenset(map(int, ports))
