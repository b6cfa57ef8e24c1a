"""Messages to receivers by the Standard Webhooks specification: addresses, headers, attempts, signatures, settings."""

import base64
import binascii
import hashlib
import hmac
import re
import socket
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import timedelta
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Any
from urllib.parse import urlsplit

from domain.problems import FieldFault
from domain.triggers import ENTITY_CHANGE

# IPv4 addresses inside IPv6 ones that a translator on the way would convert back.
_NAT64 = IPv6Network("64:ff9b::/96")
# The address by which machines of Azure reach its management: public by its number, but it only responds inside Azure.
_AZURE_PLATFORM = IPv4Address("168.63.129.16")
_PORTS = {"https": 443, "http": 80}
# The beginning of the headers of CloudEvents. Older triggers may have set such headers themselves.
CLOUD_EVENTS = "ce-"
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


def url_fault(url: str, allows_http: bool, allows_private: bool, ports: Collection[int] | None = None) -> str | None:
    """The reason why messages cannot be sent to this URL, None if they can; host names are not resolved.

    `ports` are the ports that may be called, None for all.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "is not a URL"
    if parts.scheme not in (("https", "http") if allows_http else ("https",)):
        return "does not begin with https://" + (
            " or http://" if allows_http else "; http:// is called only where LOYALTY_WEBHOOK_ALLOW_HTTP is set"
        )
    if not parts.hostname or port == 0 or not url.isascii() or re.search(r"[\s\\\x00-\x1f\x7f]", url):
        return "names no host that can be called"
    if parts.username is not None or parts.password is not None:
        return "contains a user name or a password; send them in a header"
    if parts.fragment:
        return "has a fragment, the part behind #, which no receiver is sent"
    if ports is not None and (port or _PORTS[parts.scheme]) not in ports:
        allowed_ports = ", ".join(map(str, sorted(ports)))
        return f"names a port that is not called; LOYALTY_WEBHOOK_PORTS allows {allowed_ports}"
    if not allows_private and not _may_be_public(parts.hostname):
        return "names an address that is not public; such are called only where LOYALTY_WEBHOOK_ALLOW_PRIVATE is set"
    return None


def header_fault(name: str) -> str | None:
    """The reason why a header of this name cannot be added to messages, None if it can."""
    if not _HEADER_NAME.fullmatch(name):
        return "is not the name of a header field"
    if name.lower() in _OWN_HEADERS or name.lower().startswith(("webhook-", CLOUD_EVENTS)):
        return "is set by the sender"
    return None


def repeated_header(headers: Collection[str]) -> str | None:
    """A header name that repeats another one in different case, None if there is none."""
    lower_names: set[str] = set()
    for name in headers:
        if name.lower() in lower_names:
            return name
        lower_names.add(name.lower())
    return None


def is_public(address: str) -> bool:
    """True for a public IP address; an IPv4 address inside an IPv6 address must be public, too."""
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
    """The IP address without its zone, such as `%eth0`; None if the host is a name."""
    try:
        return str(ip_address(host.partition("%")[0]))
    except ValueError:
        return None


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    """True if the address is on the public internet, so that messages may be sent to it."""
    if isinstance(address, IPv6Address):
        # A mapped or translated address counts as the one inside; tunnels must be public at both ends.
        if address.ipv4_mapped is not None:
            return _is_public(address.ipv4_mapped)
        if address in _NAT64:
            return _is_public(IPv4Address(int(address) & 0xFFFFFFFF))
        tunnels = [address.sixtofour, *(address.teredo or ())]
        if address.is_site_local or not all(_is_public(tunnel) for tunnel in tunnels if tunnel is not None):
            return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address == _AZURE_PLATFORM)


# Delays after the first attempt, the second one and so on; in total a little more than 27 hours.
DELAYS = (
    timedelta(seconds=5),
    timedelta(minutes=5),
    timedelta(minutes=30),
    timedelta(hours=2),
    timedelta(hours=5),
    timedelta(hours=10),
    timedelta(hours=10),
)
MAX_ATTEMPTS = len(DELAYS) + 1
# Delays are spread by this part, so that messages that failed at once are not repeated at once.
JITTER = 0.1


def delay_after(attempts: int, fraction: float) -> timedelta | None:
    """The delay after this number of attempts, None after the last; `fraction` (0 to 1) spreads it by a tenth."""
    if attempts >= MAX_ATTEMPTS:
        return None
    return DELAYS[attempts - 1] * (1 - JITTER + 2 * JITTER * fraction)


SECRET_PREFIX = "whsec_"
SECRET_BYTES = 32
_MIN_BYTES, _MAX_BYTES = 24, 64


def secret_of(key: bytes) -> str:
    """The text of a secret, as configured at the receiver."""
    return SECRET_PREFIX + base64.b64encode(key).decode()


def key_of(secret: str) -> bytes:
    """The key that a secret encodes; raises ValueError for anything but a secret of 24 to 64 bytes."""
    try:
        key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except binascii.Error as error:
        raise ValueError("is not Base64") from error
    if not secret.startswith(SECRET_PREFIX) or not _MIN_BYTES <= len(key) <= _MAX_BYTES:
        raise ValueError(f"is not {SECRET_PREFIX} followed by {_MIN_BYTES} to {_MAX_BYTES} bytes in Base64")
    return key


def signatures(secrets: Sequence[str], message_id: str, timestamp: int, body: bytes) -> str:
    """The value of `webhook-signature`: one signature for each secret; `timestamp` is in seconds since 1970."""
    signed_content = f"{message_id}.{timestamp}.".encode() + body
    digests = (hmac.new(key_of(secret), signed_content, hashlib.sha256).digest() for secret in secrets)
    return " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests)


def faults_of_trigger(
    type_: str, settings: Mapping[str, Any], secret: str | None, stored_headers: Collection[str] = ()
) -> list[FieldFault]:
    """All faults of a trigger's secret and headers, and of a list that its type does not allow.

    The caller checks whether the event types exist. A header of CloudEvents is allowed only if it is one of the
    trigger's `stored_headers`.
    """
    return [
        *_faults_of_secret(secret),
        *_faults_of_headers(settings["headers"], stored_headers),
        *_faults_of_lists(type_, settings),
    ]


def _faults_of_secret(secret: str | None) -> Iterator[FieldFault]:
    """The fault of a secret that `key_of` refuses; none for None."""
    if secret is not None:
        try:
            key_of(secret)
        except ValueError as error:
            yield FieldFault(f"secret {error}", pointer="/settings/secret")


def _faults_of_headers(headers: Mapping[str, str | None], stored_headers: Collection[str]) -> Iterator[FieldFault]:
    """The faults of headers, in which the stored values have replaced null; a null that is left has no stored value."""
    for name, value in headers.items():
        is_kept = name in stored_headers and name.lower().startswith(CLOUD_EVENTS)
        fault = None if is_kept else header_fault(name)
        if fault is not None:
            yield FieldFault(f"headers has {name}, which {fault}", pointer="/settings/headers")
        elif value is None:
            yield FieldFault(f"headers has null for {name}, and no value of it is stored", pointer="/settings/headers")
    repeated_name = repeated_header(headers)
    if repeated_name is not None:
        yield FieldFault(f"headers has {repeated_name} twice, in letters of any case", pointer="/settings/headers")


def _faults_of_lists(type_: str, settings: Mapping[str, Any]) -> Iterator[FieldFault]:
    """A fault if the settings have the list that triggers of other types have: event types or entities."""
    name = "eventTypes" if type_ == ENTITY_CHANGE else "entities"
    if settings[name]:
        detail = f"{name} cannot be sent with the type {type_}: leave it empty"
        yield FieldFault(detail, pointer=f"/settings/{name}")
