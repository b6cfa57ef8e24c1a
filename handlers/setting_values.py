"""Values of settings that are more than a text or a number."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}
_RATE = re.compile(r"([1-9][0-9]{0,8})/(second|minute|hour|day)")


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate: at most `count` calls in any period of `seconds`, at once or spread over the period."""

    count: int
    seconds: int

    @classmethod
    def parse(cls, text: str) -> Rate | None:
        """The rate in a text such as `600/minute`, None for `off`; raises ValueError."""
        if text == "off":
            return None
        match = _RATE.fullmatch(text)
        if not match:
            raise ValueError("a rate is a number, / and second, minute, hour or day, such as 600/minute")
        return cls(int(match[1]), _SECONDS[match[2]])


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
    return f"[{host}]" if address.version == 6 else host
