"""One external key that several calls give to records at the same time."""

from __future__ import annotations

from functools import partial

import pytest

from handlers.server.configuration_files.kinds import KIND_OF
from tests.builders.external_keys import KeyedRecords
from tests.concurrency.simultaneous import run_simultaneously

TAKEN = "/problems/external-key-taken"


@pytest.mark.parametrize("name", KIND_OF)
def test_only_one_of_the_records_created_at_the_same_time_gets_the_key(shop, name):
    keyed_records = KeyedRecords.of(shop.organization, name)
    replies = run_simultaneously(partial(keyed_records.add, f"word-{n}", externalKey="early-bird") for n in range(6))
    assert sorted(reply.status for reply in replies) == [201] + [409] * 5
    assert {reply.json["type"] for reply in replies if reply.status == 409} == {TAKEN}
    assert len(keyed_records.find_all(externalKey="early-bird")) == 1


@pytest.mark.parametrize("name", ["badge", "couponBook", "ledgerAccount"])
def test_only_one_of_the_records_changed_at_the_same_time_gets_the_key(shop, name):
    keyed_records = KeyedRecords.of(shop.organization, name)
    records = [keyed_records.create(f"word-{n}") for n in range(4)]
    replies = run_simultaneously(partial(keyed_records.change, record, externalKey="early-bird") for record in records)
    assert sorted(reply.status for reply in replies) == [200] + [409] * 3
    assert {reply.json["type"] for reply in replies if reply.status == 409} == {TAKEN}
