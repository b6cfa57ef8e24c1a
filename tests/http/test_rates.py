"""Rates: how often a key may be used, counted in all threads and processes."""

from __future__ import annotations

import os
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.http.rates import Rates, rate_headers
from handlers.setting_values import Rate


class Clock:
    """A clock that tests move forward."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.mark.parametrize(
    "text", ["", "10", "0/second", "-1/minute", "10/week", "10 / minute", "1.5/second", "10/minutes"]
)
def test_a_malformed_rate_is_refused(text):
    with pytest.raises(ValueError, match="such as 600/minute"):
        Rate.parse(text)


def test_a_burst_is_allowed_then_the_rate_applies(clock):
    rates, rate = Rates(clock), Rate.parse("3/minute")
    assert [rates.take("a", rate).is_allowed for _ in range(5)] == [True, True, True, False, False]
    refusal = rates.take("a", rate)
    assert (refusal.remaining, refusal.seconds) == (0, 20)
    clock.now += 20
    assert [rates.take("a", rate).is_allowed for _ in range(2)] == [True, False]
    assert rates.take("b", rate).remaining == 2
    clock.now += 1000
    assert [rates.take("a", rate).remaining for _ in range(3)] == [2, 1, 0]


def test_a_peek_takes_nothing_from_the_rate(clock):
    rates, rate = Rates(clock), Rate(count=1, seconds=60)
    assert [rates.peek("a", rate).is_allowed for _ in range(3)] == [True, True, True]
    assert rates.take("a", rate).is_allowed
    assert not rates.peek("a", rate).is_allowed


@given(steps=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 40)), max_size=60), count=st.integers(1, 5))
def test_no_key_gets_more_than_its_burst_and_its_rate(steps, count):
    clock, rate = Clock(), Rate(count, seconds=60)
    rates, grants_by_key, start = Rates(clock), {}, clock.now
    for key, pause in steps:
        clock.now += pause
        if rates.take(key, rate).is_allowed:
            grants_by_key[key] = grants_by_key.get(key, 0) + 1
    maximum = count + (clock.now - start) * count / 60
    assert all(grants <= maximum + 1e-6 for grants in grants_by_key.values())


def test_rates_work_with_more_keys_than_the_table_holds(clock):
    rates, rate = Rates(clock), Rate(count=1, seconds=60)
    assert all(rates.take(str(n), rate).is_allowed for n in range(2000))
    # Only keys that others have displaced from the table are allowed a second time.
    refusals = sum(not rates.take(str(n), rate).is_allowed for n in range(2000))
    assert refusals > 1900


def test_threads_and_processes_share_one_count():
    rates, rate = Rates(), Rate(count=100, seconds=86_400)
    reading, writing = os.pipe()
    # Four processes with 80 attempts each.
    for _ in range(3):
        if os.fork() == 0:
            os.write(writing, bytes([_in_threads(rates, rate)]))
            os._exit(0)
    counts = [_in_threads(rates, rate)]
    for _ in range(3):
        os.wait()
        counts.append(os.read(reading, 1)[0])
    assert sum(counts) == 100


def _in_threads(rates: Rates, rate: Rate) -> int:
    """The allowed ones of 80 attempts in four threads."""
    grants = []

    def take() -> None:
        for _ in range(20):
            if rates.take("a", rate).is_allowed:
                grants.append(1)

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(grants)


def test_rate_headers_contain_quota_window_remaining_calls_and_wait(clock):
    rates, rate = Rates(clock), Rate.parse("10/minute")
    assert rate_headers({}) == []
    headers = dict(rate_headers({"token": rates.take("a", rate), "address": rates.take("b", Rate(count=2, seconds=1))}))
    assert headers[b"ratelimit-policy"] == b'"token";q=10;w=60, "address";q=2;w=1'
    assert headers[b"ratelimit"] == b'"token";r=9;t=6, "address";r=1;t=1'
