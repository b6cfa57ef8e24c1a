"""The keys of exported rows: their form, and which rows have the same source."""

from __future__ import annotations

import re

import pytest

from domain.imports.export_keys import (
    BADGE_PATTERN,
    BALANCE_PATTERN,
    COUPON_PATTERN,
    ExportKey,
    balance_keys,
    parse_export_key,
    source_of,
)

RECORD = "0d9c1e9a-6a52-4f0e-8b43-6f1d53a2f0c7"
MAX_ID = 2**63 - 1


def test_the_rows_of_a_balance_have_one_source_and_one_digest():
    source = source_of(RECORD, 17)
    keys = balance_keys(source, bytes(range(32)), 2)
    assert source == f"export-{RECORD}-17"
    assert keys == [f"export-{RECORD}-17-0001020304050607-1", f"export-{RECORD}-17-0001020304050607-2"]
    assert {parse_export_key(key) for key in keys} == {ExportKey(source, RECORD, 17, "0001020304050607")}


def test_the_key_of_a_badge_names_the_member_and_the_key_of_a_coupon_does_not():
    badge_key, coupon_key = f"export-{RECORD}-17", f"export-{RECORD}"
    assert parse_export_key(badge_key) == ExportKey(badge_key, RECORD, 17, None)
    assert parse_export_key(coupon_key) == ExportKey(coupon_key, RECORD, None, None)


@pytest.mark.parametrize(
    "key",
    [
        "export-1",
        f"import-{RECORD}",
        f"export-{RECORD}-",
        f"export-{RECORD}-ana",
        f"export-{RECORD.upper()}",
        f"export-{RECORD}-17-0001020304050607",
        f"export-{RECORD}-17-0001020304050607-1-2",
        f"export-{RECORD}\n",
        f" export-{RECORD}",
    ],
)
def test_other_keys_do_not_have_the_form_of_an_exported_row(key):
    assert parse_export_key(key) is None


def test_each_pattern_finds_the_record_in_the_keys_of_one_kind():
    keys = {
        BALANCE_PATTERN: balance_keys(source_of(RECORD, MAX_ID), bytes(32), 1)[0],
        BADGE_PATTERN: source_of(RECORD, MAX_ID),
        COUPON_PATTERN: f"export-{RECORD}",
    }
    for pattern, own_key in keys.items():
        for key in keys.values():
            match = re.search(pattern, key)
            assert (match and match[1]) == (RECORD if key == own_key else None)
    assert max(map(len, keys.values())) < 255
