"""Signatures, schedules, URLs and addresses of messages to receivers."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from domain.triggers import ENTITY_CHANGE
from domain.webhooks import (
    DELAYS,
    MAX_ATTEMPTS,
    delay_after,
    faults_of_trigger,
    header_fault,
    is_public,
    key_of,
    repeated_header,
    secret_of,
    signatures,
    url_fault,
)

OLD, NEW, OTHER = (secret_of(bytes([n]) * 32) for n in (1, 2, 3))


def headers(secrets, body):
    """The headers of a message that is sent now, with a signature by each secret."""
    # The published library refuses messages that are five minutes old, so this is the moment of the test.
    timestamp = int(datetime.now(UTC).timestamp())
    return {
        "webhook-id": "a-message",
        "webhook-timestamp": str(timestamp),
        "webhook-signature": signatures(secrets, "a-message", timestamp, body),
    }


class TestSignatures:
    def test_a_signature_equals_that_of_other_libraries(self):
        # The example of the specification of Standard Webhooks.
        signature = signatures(
            ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1614265330,
            b'{"test": 2432232314}',
        )
        assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="

    @given(text=st.text(max_size=200), key=st.binary(min_size=24, max_size=64))
    def test_the_published_library_accepts_signatures(self, text, key):
        secret, body = secret_of(key), json.dumps({"text": text}).encode()
        assert key_of(secret) == key
        assert Webhook(secret).verify(body, headers([secret], body)) == json.loads(body)

    def test_while_a_secret_is_replaced_the_old_and_the_new_one_are_accepted_and_no_other(self):
        body = '{"é": 1}'.encode()
        headers_of_both = headers([NEW, OLD], body)
        assert Webhook(NEW).verify(body, headers_of_both) == {"é": 1}
        assert Webhook(OLD).verify(body, headers_of_both) == {"é": 1}
        with pytest.raises(WebhookVerificationError):
            Webhook(OTHER).verify(body, headers_of_both)
        with pytest.raises(WebhookVerificationError):
            Webhook(OLD).verify(body, headers([NEW], body))

    def test_another_body_id_or_time_is_not_accepted(self):
        body = b"{}"
        valid_headers = headers([NEW], body)
        for wrong_header in (
            {"webhook-id": "another"},
            {"webhook-timestamp": str(int(valid_headers["webhook-timestamp"]) + 1)},
        ):
            with pytest.raises(WebhookVerificationError):
                Webhook(NEW).verify(body, {**valid_headers, **wrong_header})
        with pytest.raises(WebhookVerificationError):
            Webhook(NEW).verify(b"{ }", valid_headers)

    @pytest.mark.parametrize(
        "secret", ["", "whsec_", secret_of(b"x" * 23), secret_of(b"x" * 65), OLD.removeprefix("whsec_"), f"{OLD}!"]
    )
    def test_a_malformed_secret_is_refused(self, secret):
        with pytest.raises(ValueError, match="Base64"):
            key_of(secret)


class TestAttempts:
    def test_delays_follow_the_published_schedule(self):
        # Delays are random: 0.5 is the middle.
        middle_delays = [delay_after(attempt, 0.5) for attempt in range(1, MAX_ATTEMPTS)]
        assert middle_delays == list(DELAYS)
        assert [delay.total_seconds() for delay in middle_delays] == [5, 300, 1800, 7200, 18_000, 36_000, 36_000]
        assert sum(middle_delays, timedelta()) == timedelta(hours=27, minutes=35, seconds=5)

    @given(attempt=st.integers(1, MAX_ATTEMPTS - 1), fraction=st.floats(0, 1))
    def test_each_delay_is_spread_by_a_tenth(self, attempt, fraction):
        delay = delay_after(attempt, fraction)
        assert DELAYS[attempt - 1] * 0.9 <= delay <= DELAYS[attempt - 1] * 1.1

    def test_the_last_attempt_has_no_delay(self):
        assert delay_after(MAX_ATTEMPTS, 0.5) is None
        assert delay_after(MAX_ATTEMPTS + 1, 0.5) is None


PUBLIC = [
    "8.8.8.8",
    "93.184.216.34",
    "2606:4700:4700::1111",
    "2001:4860:4860::8888",
    "::ffff:8.8.8.8",
    "64:ff9b::808:808",
    # The IPv4 address differs from 168.63.129.16, which is not public, only in the last bit.
    "64:ff9b::a83f:8111",
]
NOT_PUBLIC = [
    "0.0.0.0",
    "10.0.0.1",
    "100.64.0.1",
    "127.0.0.1",
    "127.255.255.254",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.2.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "::127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::1",
    "168.63.129.16",
    "::ffff:168.63.129.16",
    "64:ff9b::a83f:8110",
    "4000::1",
    "ff0e::1",
    "100::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:a9fe:a9fe::1",
    "2001:0:7f00:1::",
    "fc00::1",
    "fd12:3456::1",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
]


class TestAddresses:
    @pytest.mark.parametrize("address", PUBLIC)
    def test_public_addresses_are_recognized(self, address):
        assert is_public(address)

    @pytest.mark.parametrize("address", NOT_PUBLIC)
    def test_private_addresses_are_recognized(self, address):
        assert not is_public(address)

    @pytest.mark.parametrize("text", ["", "localhost", "127.1", "0x7f.1", "2130706433", "8.8.8.8.", "8.8.8.8/32"])
    def test_a_malformed_address_is_not_public(self, text):
        assert not is_public(text)


class TestUrls:
    @pytest.mark.parametrize(
        "url",
        [
            "https://hooks.example.com",
            "https://hooks.example.com:8443/a/b?c=d&e=f",
            "HTTPS://HOOKS.example.com/",
            "https://xn--hooks-jua.example/",
            "https://8.8.8.8/",
            "https://[2606:4700:4700::1111]:444/",
        ],
    )
    def test_a_callable_url_has_no_fault(self, url):
        assert url_fault(url, allows_http=False, allows_private=False) is None

    @pytest.mark.parametrize(
        ("url", "fault"),
        [
            ("https:///path", "names no host that can be called"),
            ("https://hooks.example.com:0/", "names no host that can be called"),
            ("https://höoks.example.com/", "names no host that can be called"),
            ("https://hooks.example.com/a b", "names no host that can be called"),
            ("https://hooks.example.com:1/", None),
            ("https://ana@hooks.example.com/", "contains a user name or a password; send them in a header"),
            ("https://:secret@hooks.example.com/", "contains a user name or a password; send them in a header"),
            ("https://hooks.example.com/#a", "has a fragment, the part behind #, which no receiver is sent"),
            ("https://hooks.example.com:65536/", "is not a URL"),
        ],
    )
    def test_a_url_names_a_host_and_neither_a_user_nor_a_fragment(self, url, fault):
        assert url_fault(url, allows_http=False, allows_private=False) == fault

    @pytest.mark.parametrize("address", ["127.0.0.1", "[::1]", "192.168.0.1:8080"])
    def test_private_addresses_are_accepted_only_if_allowed(self, address):
        url = f"https://{address}/"
        assert "not public" in url_fault(url, allows_http=False, allows_private=False)
        assert url_fault(url, allows_http=False, allows_private=True) is None
        assert url_fault(f"http://{address}/", allows_http=True, allows_private=True) is None
        fault_without_tls = url_fault(f"http://{address}/", allows_http=False, allows_private=True)
        assert fault_without_tls.startswith("does not begin with https://")

    @pytest.mark.parametrize(
        "host",
        ["127.1", "2130706433", "0x7f.1", "0177.0.0.1", "localhost", "LOCALHOST", "localhost.", "a.localhost", "10.1"],
    )
    def test_odd_spellings_of_private_addresses_are_recognized(self, host):
        assert "not public" in url_fault(f"https://{host}/", allows_http=False, allows_private=False)
        assert url_fault(f"https://{host}/", allows_http=False, allows_private=True) is None

    def test_urls_may_use_only_allowed_ports(self):
        def fault(url, ports=(80, 443)):
            return url_fault(url, allows_http=True, allows_private=False, ports=ports)

        for url in ("https://a.example/", "http://a.example/", "https://a.example:80/", "http://a.example:443/"):
            assert fault(url) is None
        assert "LOYALTY_WEBHOOK_PORTS allows 80, 443" in fault("https://a.example:8443/")
        assert "a port" in fault("http://a.example/", ports=(443,))

    def test_faults_name_the_valid_form(self):
        detail = url_fault("http://a.example/", allows_http=False, allows_private=False)
        assert detail == "does not begin with https://; http:// is called only where LOYALTY_WEBHOOK_ALLOW_HTTP is set"

    @given(st.text(max_size=60))
    def test_a_url_of_any_text_names_a_host_or_has_a_fault(self, text):
        url = f"https://{text}"
        fault = url_fault(url, allows_http=True, allows_private=False)
        assert fault or urlsplit(url).hostname


class TestHeaders:
    def test_headers_of_the_sender_and_malformed_names_are_refused(self):
        assert header_fault("X-Source") is None
        assert header_fault("Authorization") is None
        for name in ("Host", "CONTENT-TYPE", "webhook-anything", "Ce-Id", "Connection"):
            assert header_fault(name) == "is set by the sender"
        for name in ("a b", "a:b", "", "é", "a\n", "x" * 101):
            assert header_fault(name) == "is not the name of a header field"

    def test_header_names_that_differ_only_in_case_count_as_repeated(self):
        assert repeated_header({"X-A": "1", "X-B": "2"}) is None
        assert repeated_header({"X-A": "1", "x-a": "2"}) == "x-a"


SETTINGS = {"url": "https://a.example/", "headers": {}, "eventTypes": [], "entities": []}
SECRET = secret_of(bytes(range(32)))


class TestTriggers:
    @pytest.mark.parametrize("type_", ["event", ENTITY_CHANGE])
    def test_a_trigger_may_be_about_its_own_subjects(self, type_):
        subjects = {"entities": ["member"]} if type_ == ENTITY_CHANGE else {"eventTypes": ["member-generic-event"]}
        assert faults_of_trigger(type_, {**SETTINGS, **subjects, "headers": {"X-A": "1"}}, SECRET) == []

    @pytest.mark.parametrize(
        ("type_", "changes", "secret", "faults"),
        [
            ("event", {"entities": ["member"]}, None, ["entities cannot be sent with the type event: leave it empty"]),
            (
                ENTITY_CHANGE,
                {"eventTypes": ["a"]},
                None,
                [f"eventTypes cannot be sent with the type {ENTITY_CHANGE}: leave it empty"],
            ),
            ("event", {"headers": {"Host": "a"}}, None, ["headers has Host, which is set by the sender"]),
            ("event", {"headers": {"X-A": None}}, None, ["headers has null for X-A, and no value of it is stored"]),
            ("event", {"headers": {"X-A": "1", "x-a": "2"}}, None, ["headers has x-a twice, in letters of any case"]),
            ("event", {}, "short", ["secret "]),
        ],
    )
    def test_each_fault_of_a_trigger_is_reported(self, type_, changes, secret, faults):
        trigger_faults = faults_of_trigger(type_, {**SETTINGS, **changes}, secret)
        assert len(trigger_faults) == len(faults)
        for fault, start in zip(trigger_faults, faults, strict=True):
            assert fault.detail.startswith(start)

    @pytest.mark.parametrize(
        ("name", "stored_headers", "is_accepted"),
        [
            ("ce-shop", ["ce-shop"], True),
            ("ce-shop", [], False),
            ("ce-shop", ["ce-till"], False),
            ("Host", ["Host"], False),
        ],
    )
    def test_a_header_of_cloud_events_is_accepted_only_if_it_is_already_stored(self, name, stored_headers, is_accepted):
        faults = faults_of_trigger("event", {**SETTINGS, "headers": {name: "a"}}, SECRET, stored_headers)
        assert len(faults) == (0 if is_accepted else 1)

    def test_all_faults_are_found_at_once(self):
        trigger_faults = faults_of_trigger(
            "event", {**SETTINGS, "headers": {"Host": "a"}, "entities": ["member"]}, "short"
        )
        assert [fault.pointer for fault in trigger_faults] == [
            "/settings/secret",
            "/settings/headers",
            "/settings/entities",
        ]
