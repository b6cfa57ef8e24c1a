"""Repeated requests: a second request with a key gets the result of the first."""

from __future__ import annotations

import pytest

from domain.idempotency import ResultsByKey
from domain.problems import KeyReused


def test_a_new_key_and_a_request_without_a_key_have_no_result():
    results = ResultsByKey([("used", b"a", 1)])
    assert results.find("new", b"a") is None
    assert results.find(None, b"a") is None


def test_the_same_request_gets_the_stored_result():
    assert ResultsByKey([("used", b"a", 1)]).find("used", b"a") == 1


@pytest.mark.parametrize("digest", [b"b", None])
def test_another_request_under_a_used_key_is_refused(digest):
    with pytest.raises(KeyReused, match="The key used was used for another request"):
        ResultsByKey([("used", b"a", 1)]).find("used", digest)


def test_a_request_cannot_use_the_key_of_an_action_of_the_server():
    with pytest.raises(KeyReused):
        ResultsByKey([("expiry-1", None, 1)]).find("expiry-1", b"a")


def test_results_of_the_same_unit_of_work_are_found_by_their_keys():
    results: ResultsByKey[int] = ResultsByKey()
    assert "here" not in results
    results.add("here", b"a", 2)
    assert "here" in results
    assert results.find("here", b"a") == 2
