"""One POST to a receiver: which addresses are called, and what is reported of each behaviour of the receiver."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from contextlib import suppress

import httpcore
import pytest
import trustme

from handlers.services.webhooks.post_message import Reply, WebhookClient
from tests.builders.receivers import drip, hang, receiver, status

LOCAL_CLIENT = WebhookClient(allows_http=True, allows_private=True)
BODY = '{"é": 1}'.encode()
# The seconds that a slow machine may need for a call that ends at once; the receivers would never end it.
PATIENCE = 60
NOT_PUBLIC = (
    "The URL names an address that is not public; such are called only where LOYALTY_WEBHOOK_ALLOW_PRIVATE is set."
)


@pytest.fixture
def endpoint():
    with receiver() as hook:
        yield hook


def timed_post(poster, url, body=BODY):
    """The reply and how many seconds it took."""
    start = time.monotonic()
    reply = poster.post(url, {}, body)
    return reply, time.monotonic() - start


def test_a_posted_request_arrives_with_its_headers(endpoint):
    reply = LOCAL_CLIENT.post(endpoint.url + "/a?b=c", {"X-Source": "loyalty", "webhook-id": "one"}, BODY)
    assert reply == Reply(204)
    [request] = endpoint.received
    assert (request.path, request.body) == ("/hook/a?b=c", BODY)
    expected_headers = {
        "x-source": "loyalty",
        "webhook-id": "one",
        "content-length": str(len(BODY)),
        "connection": "close",
    }
    assert expected_headers.items() <= request.headers.items()
    assert request.headers["host"] == endpoint.url.removeprefix("http://").removesuffix("/hook")


@pytest.mark.parametrize("path", ["/a;key=one", "/a;b/c;d=e?f=g;h", "/?a", "//a", "/%3B"])
def test_the_path_of_the_url_arrives_unchanged(endpoint, path):
    assert LOCAL_CLIENT.post(endpoint.url + path, {}, BODY) == Reply(204)
    assert endpoint.received[0].path == "/hook" + path


@pytest.mark.parametrize("code", [200, 204, 299, 400, 404, 410, 429, 500, 503])
def test_the_status_of_the_response_is_reported(endpoint, code):
    endpoint.responses = [status(code)]
    assert LOCAL_CLIENT.post(endpoint.url, {}, BODY) == Reply(code)


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(endpoint, code):
    endpoint.responses = [status(code, Location=endpoint.url + "/elsewhere")]
    assert LOCAL_CLIENT.post(endpoint.url, {}, BODY) == Reply(code)
    assert len(endpoint.received) == 1


@pytest.mark.slow
@pytest.mark.parametrize("behaviour", [hang, drip])
def test_a_call_ends_at_its_time_limit_if_the_receiver_takes_too_long(endpoint, behaviour):
    endpoint.usual_response = behaviour
    reply, seconds = timed_post(WebhookClient(allows_http=True, allows_private=True, seconds=0.5), endpoint.url)
    assert reply == Reply(None, "The receiver did not respond within 0.5 seconds.")
    assert 0.5 <= seconds < PATIENCE


@pytest.mark.slow
def test_a_call_ends_at_its_time_limit_if_the_receiver_reads_nothing():
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        reply, seconds = timed_post(
            WebhookClient(allows_http=True, allows_private=True, seconds=0.5), url, b"x" * 20_000_000
        )
    assert reply == Reply(None, "The receiver did not respond within 0.5 seconds.")
    assert seconds < PATIENCE


@pytest.mark.slow
def test_a_call_ends_at_its_time_limit_if_the_receiver_reads_slowly():
    over = threading.Event()

    def sip(server):
        connection, _ = server.accept()
        with connection, suppress(OSError):
            while not over.wait(0.05) and connection.recv(10_000):
                pass

    with socket.create_server(("127.0.0.1", 0)) as server:
        server_thread = threading.Thread(target=sip, args=(server,))
        server_thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        reply, seconds = timed_post(
            WebhookClient(allows_http=True, allows_private=True, seconds=0.5), url, b"x" * 20_000_000
        )
        assert reply == Reply(None, "The receiver did not respond within 0.5 seconds.")
        assert seconds < PATIENCE
        over.set()
        server_thread.join(10)


def test_at_most_a_limited_part_of_a_response_is_read(endpoint):
    sent_sizes = []

    def chatter(exchange):
        connection = exchange.handler.connection
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
        while not exchange.receiver.closing.is_set():
            connection.sendall(b"x" * 65_536)
            sent_sizes.append(65_536)

    endpoint.usual_response = chatter
    reply, seconds = timed_post(LOCAL_CLIENT, endpoint.url)
    assert reply == Reply(200)
    assert seconds < PATIENCE
    # Of the 1,000,000,000 bytes that were announced.
    assert sum(sent_sizes) < 50_000_000


@pytest.mark.slow
def test_a_response_that_never_ends_is_reported_by_its_status(endpoint):
    def begin(exchange):
        exchange.handler.connection.sendall(b"HTTP/1.1 202 Accepted\r\nContent-Length: 10\r\n\r\nabc")
        hang(exchange)

    endpoint.usual_response = begin
    reply, seconds = timed_post(WebhookClient(allows_http=True, allows_private=True, seconds=0.5), endpoint.url)
    assert reply == Reply(202)
    assert seconds < PATIENCE


@pytest.mark.parametrize(
    "response",
    [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000, b"\x00" * 100, b"HTTP/1.1 99 ?\r\n\r\n"],
)
def test_a_response_that_is_not_http_is_a_failure(endpoint, response):
    endpoint.usual_response = lambda exchange: exchange.handler.connection.sendall(response)
    reply = LOCAL_CLIENT.post(endpoint.url, {}, BODY)
    assert reply.status_code is None
    assert reply.error in ("The receiver's response is not HTTP.", "The connection to the receiver was lost.")


def test_an_unreachable_receiver_is_reported():
    with receiver() as hook:
        url = hook.url
    reply = LOCAL_CLIENT.post(url, {}, BODY)
    assert reply.status_code is None
    assert reply.error == "The receiver takes no connections."


class TestAddresses:
    def test_private_addresses_are_not_called(self, endpoint):
        reply = WebhookClient(allows_http=True).post(endpoint.url, {}, BODY)
        assert reply == Reply(None, NOT_PUBLIC)
        assert endpoint.received == []

    @pytest.mark.parametrize(
        "address", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "fe80::1%lo"]
    )
    def test_host_names_with_only_private_addresses_are_not_called(self, endpoint, address):
        poster = WebhookClient(allows_http=True, resolve=lambda host, port: [address])
        reply = poster.post(endpoint.url.replace("127.0.0.1", "rebound.example"), {}, BODY)
        assert reply == Reply(None, "The host has no address that is public.")
        assert endpoint.received == []

    @pytest.mark.parametrize("host", ["localhost", "127.1", "0x7f000001", "2130706433", "0"])
    def test_private_addresses_in_other_notations_are_not_called(self, endpoint, host):
        reply = WebhookClient(allows_http=True).post(endpoint.url.replace("127.0.0.1", host), {}, BODY)
        assert reply.status_code is None
        assert reply.error == NOT_PUBLIC
        assert endpoint.received == []

    @pytest.fixture
    def called_addresses(self, monkeypatch):
        """The addresses that would have been connected to."""
        addresses = []

        def connect_tcp(self, host, port, timeout=None, local_address=None, socket_options=None):
            addresses.append(host)
            raise httpcore.ConnectError("down")

        monkeypatch.setattr("httpcore.SyncBackend.connect_tcp", connect_tcp)
        return addresses

    def test_a_host_name_is_looked_up_once_and_the_checked_address_is_called(self, called_addresses):
        """So a name server that returns a private address at the second look-up (DNS rebinding) achieves nothing."""
        lookups = []

        def rebinding(host, port):
            lookups.append((host, port))
            return ["8.8.8.8"] if len(lookups) == 1 else ["127.0.0.1"]

        poster = WebhookClient(allows_http=True, resolve=rebinding)
        assert poster.post("http://rebound.example:81/", {}, BODY) == Reply(None, "The receiver takes no connections.")
        assert (lookups, called_addresses) == ([("rebound.example", 81)], ["8.8.8.8"])
        # The next message looks the name up again.
        assert poster.post("http://rebound.example:81/", {}, BODY).error == "The host has no address that is public."
        assert called_addresses == ["8.8.8.8"]

    def test_the_client_connects_to_the_checked_address_and_sends_the_host_name(self, endpoint):
        poster = WebhookClient(allows_http=True, allows_private=True, resolve=lambda host, port: ["127.0.0.1"])
        url = endpoint.url.replace("127.0.0.1", "hooks.example")
        assert poster.post(url, {}, BODY) == Reply(204)
        assert endpoint.received[0].headers["host"].startswith("hooks.example:")

    def test_the_next_address_is_tried_if_one_refuses_the_connection(self, endpoint):
        poster = WebhookClient(
            allows_http=True,
            allows_private=True,
            resolve=lambda host, port: ["127.0.0.2", "127.0.0.3", "127.0.0.1"],
            seconds=3,
        )
        assert poster.post(endpoint.url.replace("127.0.0.1", "hooks.example"), {}, BODY) == Reply(204)

    def test_only_the_public_addresses_of_a_host_are_called(self, called_addresses):
        poster = WebhookClient(allows_http=True, resolve=lambda host, port: ["127.0.0.1", "8.8.8.8", "::1"])
        assert poster.post("http://hooks.example/", {}, BODY) == Reply(None, "The receiver takes no connections.")
        assert called_addresses == ["8.8.8.8"]

    def test_addresses_are_called_in_the_order_of_the_look_up(self, called_addresses):
        addresses = ["2001:4860:4860::8888", "8.8.8.8", "1.1.1.1"]
        poster = WebhookClient(allows_http=True, resolve=lambda host, port: addresses)
        assert poster.post("http://hooks.example/", {}, BODY) == Reply(None, "The receiver takes no connections.")
        assert called_addresses == addresses

    def test_an_unknown_host_name_is_reported(self):
        assert LOCAL_CLIENT.post("http://nowhere.invalid/", {}, BODY) == Reply(None, "The host name was not found.")
        assert LOCAL_CLIENT.post(f"http://{'a' * 70}.example/", {}, BODY) == Reply(None, "The host name was not found.")

    @pytest.mark.slow
    def test_a_slow_look_up_of_a_host_name_is_reported(self):
        stuck = threading.Event()
        poster = WebhookClient(
            allows_http=True, allows_private=True, seconds=0.3, resolve=lambda host, port: stuck.wait(5) or []
        )
        reply, seconds = timed_post(poster, "http://hooks.example/")
        stuck.set()
        assert reply == Reply(None, "The receiver did not respond within 0.3 seconds.")
        assert seconds < PATIENCE

    def test_http_is_called_only_if_it_is_allowed(self, endpoint):
        reply = WebhookClient(allows_http=False, allows_private=True).post(endpoint.url, {}, BODY)
        assert reply == Reply(
            None,
            "The URL does not begin with https://; http:// is called only where LOYALTY_WEBHOOK_ALLOW_HTTP is set.",
        )
        assert endpoint.received == []


class TestEncryption:
    @pytest.fixture
    def authority(self):
        return trustme.CA()

    @pytest.fixture
    def encrypted_endpoint(self, authority):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("hooks.example").configure_cert(context)
        with receiver(lambda plain_socket: context.wrap_socket(plain_socket, server_side=True)) as hook:
            yield hook

    @staticmethod
    def poster(authority=None):
        """A client that trusts the authority, or by default only the authorities of the system."""
        context = ssl.create_default_context()
        if authority is not None:
            authority.configure_trust(context)
        return WebhookClient(
            allows_private=True,
            resolve=lambda host, port: ["127.0.0.1"],
            ssl_context=context if authority is not None else None,
        )

    def test_the_certificate_is_checked_for_the_host_name_and_not_for_the_address(self, encrypted_endpoint, authority):
        url = encrypted_endpoint.url.replace("127.0.0.1", "hooks.example")
        assert self.poster(authority).post(url, {}, BODY) == Reply(204)
        assert encrypted_endpoint.received[0].body == BODY

    def test_a_certificate_of_another_host_name_is_refused(self, encrypted_endpoint, authority):
        reply = self.poster(authority).post(encrypted_endpoint.url.replace("127.0.0.1", "other.example"), {}, BODY)
        assert reply.status_code is None
        assert reply.error == "The receiver's certificate is not valid."

    def test_a_certificate_of_an_unknown_authority_is_refused(self, encrypted_endpoint):
        reply = self.poster().post(encrypted_endpoint.url.replace("127.0.0.1", "hooks.example"), {}, BODY)
        assert reply.error == "The receiver's certificate is not valid."
        assert encrypted_endpoint.received == []
