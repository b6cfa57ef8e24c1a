"""Repeated requests: a second request with a key gets the result of the first."""

from __future__ import annotations

import pytest

from domain.idempotency import ResultsByKey
from domain.problems import KeyReused


def results_with(key, digest, result):
    """The stored result of one request, with the digest of this request."""
    return ResultsByKey([(key, digest, result)])


def test_a_new_key_and_a_request_without_a_key_have_no_result():
    results = results_with(key="key-1", digest=b"a", result=17)
    assert results.find(key="key-2", digest=b"a") is None
    assert results.find(key=None, digest=b"a") is None


def test_the_same_request_gets_the_stored_result():
    assert results_with(key="key-1", digest=b"a", result=17).find(key="key-1", digest=b"a") == 17


# A request of the server itself has no digest, and is never the same as a stored one.
@pytest.mark.parametrize("digest", [b"b", None], ids=["another request", "no digest"])
def test_another_request_under_a_used_key_is_refused(digest):
    with pytest.raises(KeyReused, match="The key key-1 was used for another request"):
        results_with(key="key-1", digest=b"a", result=17).find("key-1", digest)


def test_a_request_cannot_use_the_key_of_an_action_of_the_server():
    with pytest.raises(KeyReused):
        results_with(key="expiry-1", digest=None, result=17).find(key="expiry-1", digest=b"a")


def test_results_of_the_same_unit_of_work_are_found_by_their_keys():
    results: ResultsByKey[int] = ResultsByKey()
    assert "key-1" not in results
    results.add(key="key-1", digest=b"a", result=17)
    assert "key-1" in results
    assert results.find(key="key-1", digest=b"a") == 17
