"""Extensions of the expiry of points that are requested several times at the same moment."""

from __future__ import annotations

from functools import partial

import pytest

from handlers.services.ledger.extend_expiry import extend_running
from tests.builders.points import Points
from tests.concurrency.simultaneous import run_simultaneously


@pytest.fixture
def points(shop):
    """An account whose points expire after 12 months."""
    return Points.new(shop.organization, expiresInMonths=12, timezone="UTC")


@pytest.fixture
def member(points):
    """A member with one lot of 100 points."""
    member = points.organization.member("ana")
    points.mint(member["ledgerWalletId"], 100)
    return member


def extension(points, **body):
    """A call that extends the expiry of points by a month, always with the same key; by default, of all members."""
    values = {"ledgerAccountId": points.account_id, "months": 1, "systemUniqueKey": "apology-1", **body}
    return partial(points.organization.administration.request, "POST", "/expiry-extensions", values)


def test_20_repetitions_extend_the_points_of_a_member_once(points, member):
    replies = run_simultaneously([extension(points, memberId=member["memberId"])] * 20)
    assert [reply.status for reply in replies] == [200] * 20
    assert [reply.json for reply in replies] == [{"lots": 1, "amount": 100, "status": "done"}] * 20
    # The transactions of the mint and of one extension.
    assert len(points.rows()) == 2


def test_20_repetitions_extend_the_points_of_an_account_once(points, member, busy_api):
    replies = run_simultaneously([extension(points)] * 20)
    assert [reply.status for reply in replies] == [200] * 20
    while extend_running(busy_api.engine):
        pass
    assert extension(points)().json == {"lots": 1, "amount": 100, "status": "done"}
    # The transactions of the mint and of one extension.
    assert len(points.rows()) == 2
