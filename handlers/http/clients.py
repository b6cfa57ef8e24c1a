"""The network address of the caller, by which rates are counted."""

import ipaddress
from collections.abc import Sequence

from handlers.setting_values import Network

# The owner of one IPv6 address has its whole network.
_IPV6_PREFIX = 64


def client_address(peer: str, forwarded: str, proxies: Sequence[Network]) -> str:
    """The address of the client: the peer's, or the one that trusted proxies report in `X-Forwarded-For`.

    The header is read from its end. An IPv6 client is represented by its network of 64 bits.
    """
    addresses = [peer]
    if proxies:
        addresses = [*(part.strip() for part in forwarded.split(",") if part.strip()), peer]
    while True:
        address = _address(addresses.pop())
        if address is None:
            return peer
        if not addresses or not any(address in network for network in proxies if network.version == address.version):
            break
    if address.version == 6:
        return str(ipaddress.ip_network((address, _IPV6_PREFIX), strict=False))
    return str(address)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return mapped or address
