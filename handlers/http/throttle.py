"""Rate limits by address, access token and client, and for wrong secrets."""

import ipaddress
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any

from domain.problems import TooManyRequests
from handlers import metrics
from handlers.call import Caller, Request, Response
from handlers.http.exchange import Exchange
from handlers.http.rates import Rates, RateState
from handlers.services.sign_in import decode_basic_credentials
from handlers.setting_values import Network, Rate, networks_of
from handlers.settings import Settings

Dispatch = Callable[[Sequence[Request]], Sequence[Response | Exception]]

_log = logging.getLogger("loyalty.security")
_MAX_CLIENT_ID_LENGTH = 80
_MAX_CACHED_ADDRESSES = 256
# The owner of an IPv6 address has the whole network of this prefix.
_IPV6_PREFIX = 64


class TooOften(TooManyRequests):
    """A rate is used up; `state` has the seconds until further calls are allowed."""

    def __init__(self, detail: str, state: RateState) -> None:
        super().__init__(f"{detail} Try again in {state.seconds} seconds.")
        self.state = state


class Throttle:
    """The rates of a server according to its settings; a rate that is off is not counted."""

    def __init__(self, settings: Settings) -> None:
        self._rates = Rates()
        # Finds the address by which a client is counted, from the peer's address and `X-Forwarded-For`.
        self.address_of: Callable[[str, str], str] = lru_cache(_MAX_CACHED_ADDRESSES)(
            partial(_client_address, networks_of(settings.trusted_proxies))
        )
        self._per_address = Rate.parse(settings.rate_per_address)
        self._per_token = Rate.parse(settings.rate_per_token)
        self._per_client = Rate.parse(settings.rate_per_client)
        self._wrong_secrets_per_client = Rate.parse(settings.wrong_secrets_per_client)
        self._wrong_secrets_per_address = Rate.parse(settings.wrong_secrets_per_address)

    def count_address(self, exchange: Exchange) -> None:
        """Count a call from an address, before all other checks; raises TooOften."""
        self._count(exchange, "address", self._per_address, exchange.address)

    def count_caller(self, exchange: Exchange) -> None:
        """Count a call by its credentials, which are already verified; raises TooOften."""
        if exchange.caller is None:
            return
        self._count(exchange, "token", self._per_token, _credentials(exchange.caller))
        client = f"{exchange.caller.organization_id}/{exchange.caller.subject}"
        self._count(exchange, "client", self._per_client, client)

    def _count(self, exchange: Exchange, source: str, rate: Rate | None, key: str) -> None:
        """Count a call of `key`, and store the state for the headers; raises TooOften. A rate of None is off.

        `source` is the kind of the key: address, token or client.
        """
        if rate is None:
            return
        state = self._rates.take(f"{source} {key}", rate)
        exchange.rates[source] = state
        if not state.is_allowed:
            metrics.count_throttled(source)
            phrases = {"address": "from this address", "token": "with these credentials", "client": "of this client"}
            raise TooOften(f"There were too many requests {phrases[source]}.", state)

    def guard(self, dispatch: Dispatch) -> Dispatch:
        """A dispatcher of requests for access tokens, which raises TooOften if too many secrets were wrong.

        Wrong secrets are counted for each client at each address, so that an attacker at another address cannot lock
        the client out by guessing, and for each address, whatever clients are tried from it.
        """

        def guarded_dispatch(requests: Sequence[Request]) -> Sequence[Response | Exception]:
            [request] = requests
            client_id = client_id_of(request.headers, request.body)
            keys = (
                (f"wrong {request.address} {client_id}", self._wrong_secrets_per_client),
                (f"wrong {request.address}", self._wrong_secrets_per_address),
            )
            limited_keys = [(key, rate) for key, rate in keys if rate is not None]
            for key, rate in limited_keys:
                state = self._rates.peek(key, rate)
                if not state.is_allowed:
                    metrics.count_throttled("token-requests")
                    raise TooOften("There were too many wrong secrets.", state)
            [response] = dispatch(requests)
            if isinstance(response, Response) and response.status == 401:
                for key, rate in limited_keys:
                    self._rates.take(key, rate)
                metrics.count_refused_client()
                _log.warning("a token request was refused: client %s, address %s", client_id, request.address)
            return [response]

        return guarded_dispatch


def _client_address(proxies: Sequence[Network], peer: str, forwarded: str) -> str:
    """The address by which a client is counted: the peer's, or the one that trusted proxies report.

    The header `X-Forwarded-For` is read from its end: the last address that is not a trusted proxy is the client. If an
    address cannot be read before that, the peer counts as the client. An IPv6 client is counted by its network of 64
    bits.
    """
    addresses = [peer]
    if proxies:
        addresses = [*(part.strip() for part in forwarded.split(",") if part.strip()), peer]
    while True:
        address = _parsed_address(addresses.pop())
        if address is None:
            return peer
        if not addresses or not any(address in network for network in proxies if network.version == address.version):
            break
    if address.version == 6:
        return str(ipaddress.ip_network((address, _IPV6_PREFIX), strict=False))
    return str(address)


def _parsed_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address in a text, as IPv4 if an IPv6 address maps one; None for other texts."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return mapped or address


def _credentials(caller: Caller) -> str:
    """The key by which calls with an API key or token are counted; a token without an id counts by its subject."""
    if caller.partner is not None:
        return f"{caller.organization_id} {caller.partner.partner_api_key_id}"
    return f"{caller.is_external} {caller.subject} {caller.token_id}"


def client_id_of(headers: Mapping[str, str], form: Any) -> str:
    """The client id of a token request, however it is encoded, in a form for keys and logs; empty if unreadable."""
    client_id = form.get("client_id", "") if isinstance(form, dict) else ""
    with suppress(ValueError):
        basic = decode_basic_credentials(headers.get("authorization", ""))
        if basic is not None:
            client_id, _ = basic
    return ascii(client_id[:_MAX_CLIENT_ID_LENGTH])
