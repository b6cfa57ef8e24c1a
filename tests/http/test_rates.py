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
    # 3 in a minute is one in 20 seconds.
    assert (refusal.remaining, refusal.seconds) == (0, 20)
    clock.now += 20
    assert [rates.take("a", rate).is_allowed for _ in range(2)] == [True, False]
    assert rates.take("b", rate).remaining == 2
    # Long enough for a full burst.
    clock.now += 1000
    assert [rates.take("a", rate).remaining for _ in range(3)] == [2, 1, 0]


def test_a_peek_takes_nothing_from_the_rate(clock):
    rates, rate = Rates(clock), Rate(count=1, seconds=60)
    assert [rates.peek("a", rate).is_allowed for _ in range(3)] == [True, True, True]
    assert rates.take("a", rate).is_allowed
    assert not rates.peek("a", rate).is_allowed


@given(
    keys_and_pauses=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 40)), max_size=60),
    count=st.integers(1, 5),
)
def test_no_key_gets_more_than_its_burst_and_its_rate(keys_and_pauses, count):
    clock, rate = Clock(), Rate(count, seconds=60)
    rates, grants_by_key, start = Rates(clock), {}, clock.now
    for key, pause in keys_and_pauses:
        clock.now += pause
        if rates.take(key, rate).is_allowed:
            grants_by_key[key] = grants_by_key.get(key, 0) + 1
    burst, grants_over_time = count, (clock.now - start) * count / 60
    assert all(grants <= burst + grants_over_time + 1e-6 for grants in grants_by_key.values())


def test_rates_work_with_more_keys_than_the_table_holds(clock):
    rates, rate = Rates(clock), Rate(count=1, seconds=60)
    assert all(rates.take(str(n), rate).is_allowed for n in range(2000))
    # Only keys that others have displaced from the table are allowed a second time.
    refusals = sum(not rates.take(str(n), rate).is_allowed for n in range(2000))
    assert refusals > 1900


def test_threads_and_processes_share_one_count():
    rates, rate = Rates(), Rate(count=100, seconds=86_400)
    reading, writing = os.pipe()
    # Three new processes and this one make 80 attempts each. A new process writes its count as one byte.
    for _ in range(3):
        if os.fork() == 0:
            os.write(writing, bytes([_grants_in_threads(rates, rate)]))
            os._exit(0)
    grants_by_process = [_grants_in_threads(rates, rate)]
    for _ in range(3):
        os.wait()
        grants_by_process.append(os.read(reading, 1)[0])
    # The rate allows 100 in a day.
    assert sum(grants_by_process) == 100


def _grants_in_threads(rates: Rates, rate: Rate) -> int:
    """Make 80 attempts in four threads; return the number of allowed ones."""
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
    outcome_of_token = rates.take("a", rate)
    outcome_of_address = rates.take("b", Rate(count=2, seconds=1))
    headers = dict(rate_headers({"token": outcome_of_token, "address": outcome_of_address}))
    # q is the quota, w the window, r the remaining calls, and t the seconds to wait for one call more.
    assert headers[b"ratelimit-policy"] == b'"token";q=10;w=60, "address";q=2;w=1'
    assert headers[b"ratelimit"] == b'"token";r=9;t=6, "address";r=1;t=1'
