"""Allowed receivers of messages: their URLs, addresses and headers."""

import re
import socket
from collections.abc import Collection
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from urllib.parse import urlsplit

# IPv4 addresses inside IPv6 ones that a translator on the way would convert back.
_NAT64 = IPv6Network("64:ff9b::/96")
# The address by which machines of Azure reach its management: public by its number, and answered inside only.
_AZURE_PLATFORM = IPv4Address("168.63.129.16")
_PORTS = {"https": 443, "http": 80}
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
# Headers that the sender sets, or that are about the connection rather than the message.
_OWN_HEADERS = frozenset(
    (
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "expect",
        "host",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    )
)


def url_fault(url: str, http_allowed: bool, private_allowed: bool, ports: Collection[int] | None = None) -> str | None:
    """The reason why messages cannot be sent to this URL, None if they can; names are not looked up.

    `ports` are those that may be called, None for all.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "is not a URL"
    if parts.scheme not in (("https", "http") if http_allowed else ("https",)):
        return "does not begin with https://" + (
            " or http://" if http_allowed else "; http:// is called only where LOYALTY_WEBHOOK_ALLOW_HTTP is set"
        )
    if not parts.hostname or port == 0 or not url.isascii() or re.search(r"[\s\\\x00-\x1f\x7f]", url):
        return "names no host that can be called"
    if parts.username is not None or parts.password is not None:
        return "holds a user name or a password; send them in a header"
    if parts.fragment:
        return "has a fragment, the part behind #, which no receiver is sent"
    if ports is not None and (port or _PORTS[parts.scheme]) not in ports:
        allowed = ", ".join(map(str, sorted(ports)))
        return f"names a port that is not called; LOYALTY_WEBHOOK_PORTS allows {allowed}"
    if not private_allowed and not _may_be_public(parts.hostname):
        return "names an address that is not public; such are called only where LOYALTY_WEBHOOK_ALLOW_PRIVATE is set"
    return None


def header_fault(name: str) -> str | None:
    """The reason why a header of this name cannot be added to messages, None if it can."""
    if not _HEADER_NAME.fullmatch(name):
        return "is not the name of a header field"
    if name.lower() in _OWN_HEADERS or name.lower().startswith("webhook-"):
        return "is set by the sender"
    return None


def repeated_header(headers: Collection[str]) -> str | None:
    """A header name that repeats another one in different case, None if there is none."""
    seen: set[str] = set()
    for name in headers:
        if name.lower() in seen:
            return name
        seen.add(name.lower())
    return None


def is_public(address: str) -> bool:
    """True for a public address, also if it is embedded in another one."""
    literal = _literal(address)
    if literal is None:
        return False
    return _is_public(ip_address(literal))


def _may_be_public(host: str) -> bool:
    """False for an address that is not public, in any spelling, and for names of this machine."""
    name = host.rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return False
    address = _literal(name)
    if address is None:
        try:
            # Operating systems accept `127.1`, `0x7f000001` and `2130706433` for 127.0.0.1.
            address = str(IPv4Address(socket.inet_aton(name)))
        except (OSError, UnicodeError):
            return True
    return is_public(address)


def _literal(host: str) -> str | None:
    try:
        return str(ip_address(host.partition("%")[0]))
    except ValueError:
        return None


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    if isinstance(address, IPv6Address):
        # A mapped or translated address counts as the one inside; tunnels must be public at both ends.
        if address.ipv4_mapped is not None:
            return _is_public(address.ipv4_mapped)
        if address in _NAT64:
            return _is_public(IPv4Address(int(address) & 0xFFFFFFFF))
        tunnels = [address.sixtofour, *(address.teredo or ())]
        if address.is_site_local or not all(_is_public(tunnel) for tunnel in tunnels if tunnel is not None):
            return False
    return address.is_global and not (
        address.is_multicast
        or address.is_reserved
        or address.is_unspecified
        or address.is_loopback
        or address.is_link_local
        or address.is_private
        or address == _AZURE_PLATFORM
    )
