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
    source = source_of(RECORD, member_id=17)
    keys = balance_keys(source, digest=bytes(range(32)), count=2)
    assert source == f"export-{RECORD}-17"
    # A key has the first 8 bytes of the digest.
    assert keys == [f"export-{RECORD}-17-0001020304050607-1", f"export-{RECORD}-17-0001020304050607-2"]
    for key in keys:
        assert parse_export_key(key) == ExportKey(source, RECORD, member_id=17, digest="0001020304050607")


def test_the_key_of_a_badge_names_the_member_and_the_key_of_a_coupon_does_not():
    badge_key, coupon_key = f"export-{RECORD}-17", f"export-{RECORD}"
    assert parse_export_key(badge_key) == ExportKey(badge_key, RECORD, member_id=17, digest=None)
    assert parse_export_key(coupon_key) == ExportKey(coupon_key, RECORD, member_id=None, digest=None)


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
    [balance_key] = balance_keys(source_of(RECORD, MAX_ID), digest=bytes(32), count=1)
    keys = {
        BALANCE_PATTERN: balance_key,
        BADGE_PATTERN: source_of(RECORD, MAX_ID),
        COUPON_PATTERN: f"export-{RECORD}",
    }
    for pattern, own_key in keys.items():
        for key in keys.values():
            match = re.search(pattern, key)
            record_key = match[1] if match else None
            assert record_key == (RECORD if key == own_key else None)
    # Columns with keys have 255 characters.
    assert max(map(len, keys.values())) < 255
