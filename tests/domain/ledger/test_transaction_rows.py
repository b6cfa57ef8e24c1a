"""Rows of transactions at a moment: points whose moment has passed are available, even if that is not posted yet."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import timedelta

import pytest

from domain.ledger.views import TransactionRow
from tests.builders.campaigns import NOON

ROW = TransactionRow(**{field.name: None for field in fields(TransactionRow)} | {"availability": "waiting"})
INSTANT = timedelta(microseconds=1)


@pytest.mark.parametrize("available_at", [NOON - INSTANT, NOON])
def test_points_are_available_from_their_moment_on(available_at):
    row = replace(ROW, available_at=available_at).by_now(NOON)
    assert (row.availability, row.available_at) == ("available", None)


@pytest.mark.parametrize("available_at", [NOON + INSTANT, None])
def test_points_of_a_later_or_an_unknown_moment_wait(available_at):
    row = replace(ROW, available_at=available_at).by_now(NOON)
    assert (row.availability, row.available_at) == ("waiting", available_at)
