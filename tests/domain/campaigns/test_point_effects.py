"""Effects on points: what a mint gives within limits and balances, what it is worth, and extensions of expiry."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from domain.ledger.availability import Wait
from domain.ledger.postings import Holding
from tests.builders.campaigns import (
    SPONSOR_WALLET_ID,
    WALLET_ID,
    Bench,
    account,
    action,
    campaign,
    effect,
    facts,
    mint,
    statuses,
)

DECEMBER, MARCH = datetime(2026, 12, 31, tzinfo=UTC), datetime(2027, 3, 31, tzinfo=UTC)


EQUAL_LIMITS = [("points", 50), ("money", Decimal("0.50"))]


def bench_of(*effects, ledger_account=None, holdings=None, **values):
    """A bench with a campaign of one action with these effects, and one account."""
    accounts = [ledger_account or account()]
    return Bench(campaign(action(1, *effects), accounts=accounts, **values), accounts=accounts, holdings=holdings)


def limit(amount):
    """Settings of a campaign that cuts the points of a member at a limit."""
    rules = ({"scope": "member", "type": "points", "period": "total", "limit": amount},)
    return {"limit_rules": rules, "allow_partial_application_on_limit": True}


def problems(evaluation):
    """The type of the problem of each effect, None if it was executed."""
    return [outcome.error and outcome.error["type"] for outcome in evaluation.effects]


# --- bounds of a mint ---------------------------------------------------------------------------------------------


def test_a_mint_is_cut_at_the_maximum_balance_of_its_account():
    bench = bench_of(mint(60), ledger_account=account(max_balance=Decimal(100)))
    evaluations = [bench.run() for _ in range(3)]
    assert [evaluation.effects[0].status for evaluation in evaluations] == ["executed", "partial", "skipped"]
    assert problems(evaluations[0]) == [None]
    assert problems(evaluations[1]) == problems(evaluations[2]) == ["/problems/balance-limit"]
    assert bench.balance() == 100


def test_a_limit_counts_only_the_points_that_the_maximum_balance_allows():
    """The limit of 110 allows 50 of the second 60 points, and the maximum balance only 40."""
    bench = bench_of(mint(60), ledger_account=account(max_balance=Decimal(100)), **limit(110))
    evaluations = [bench.run() for _ in range(2)]
    assert [count.amount for count in bench.counters.count_log] == [60, 40]
    assert [evaluation.limit_discarded for evaluation in evaluations] == [0, 60 - 50]


@pytest.mark.parametrize(
    ("amount", "minted_amount", "qualifying_amount"),
    [
        pytest.param(100, 40, 50 * 40 // 100, id="40 % of the mint are within the limit"),
        pytest.param(30, 30, 50, id="the whole mint is within the limit"),
        pytest.param(0, 0, 50, id="a mint of nothing"),
    ],
)
def test_a_limit_cuts_qualifying_points_in_proportion_to_the_mint(amount, minted_amount, qualifying_amount):
    """The limit is 40 points, and the mint has 50 qualifying points."""
    bench = bench_of(mint(amount, qualifyingAmount=50), **limit(40))
    bench.run()
    [posting] = bench.session.steps
    assert (posting.amount, posting.qualifying) == (minted_amount, qualifying_amount)


def test_qualifying_points_are_rounded_down_to_the_digits_of_the_account():
    bench = bench_of(mint(10, qualifyingAmount=Decimal("7.9")))
    bench.run()
    assert [posting.qualifying for posting in bench.session.steps] == [7]


def test_a_mint_of_nothing_that_qualifies_for_nothing_is_skipped():
    evaluation = bench_of(mint(Decimal("0.4"), qualifyingAmount=Decimal("0.4"))).run()
    assert (statuses(evaluation), problems(evaluation)) == ([(1, "skipped")], ["/problems/zero-amount"])


@pytest.mark.parametrize("partial", [True, False])
def test_a_limit_discards_nothing_of_a_mint_without_a_recipient(partial):
    """There is no sponsor who could get the 60. Of the limit of 50, a cut mint of the member leaves 10 of its 60."""
    values = {**limit(50), "allow_partial_application_on_limit": partial}
    evaluation = bench_of(mint(60), mint(60, recipient="sponsor"), **values).run()
    assert evaluation.limit_discarded == (60 - 50 if partial else 60)


def test_the_first_of_two_equally_strict_limits_is_named():
    """50 points are worth 0.50."""
    rules = [{"scope": "member", "type": kind, "period": "total", "limit": maximum} for kind, maximum in EQUAL_LIMITS]
    values = {"limit_rules": tuple(rules), "allow_partial_application_on_limit": True, "default_currency": "EUR"}
    evaluation = bench_of(mint(60), ledger_account=account(fiat_per_point=Decimal("0.01")), **values).run(
        facts(home_currency="EUR")
    )
    assert (statuses(evaluation), evaluation.limit_discarded) == ([(1, "partial")], 60 - 50)
    assert evaluation.effects[0].error["detail"] == "The limit of 50 points of a member (total) is reached."


def test_a_limit_that_prevents_a_mint_discards_its_points_and_not_their_worth():
    rules = {"limit_rules": ({"scope": "member", "type": "points", "period": "total", "limit": 50},)}
    ledger_account = account(fiat_per_point=Decimal(2))
    assert bench_of(mint(60), ledger_account=ledger_account, **rules).run().limit_discarded == 60


@pytest.mark.parametrize(
    ("key", "detail"),
    [
        (None, "The campaign's program has no main account."),
        ("account-9", "There is no ledger account account-9."),
    ],
)
def test_the_error_of_a_mint_without_an_account_names_the_account(key, detail):
    tested_campaign = replace(campaign(action(1, mint(5, ledgerAccountKey=key))), main_account=None)
    [outcome] = Bench(tested_campaign).run().effects
    assert (outcome.status, outcome.error["detail"]) == ("failed", detail)


# --- worth and availability ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("home_currency", "redemption", "worth"),
    [
        ("EUR", None, "1.01"),
        ("JPY", None, "1"),
        # The currency of the redemption settings replaces that of the organization.
        ("JPY", {"currency": "EUR"}, "1.01"),
    ],
)
def test_points_are_worth_money_with_the_digits_of_its_currency(home_currency, redemption, worth):
    # 67 times 0.015 is 1.005.
    ledger_account = account(fiat_per_point=Decimal("0.015"), redemption=redemption)
    evaluation = bench_of(mint(67), ledger_account=ledger_account).run(facts(home_currency=home_currency))
    assert str(evaluation.effects[0].worth) == worth


def test_points_without_a_rate_have_no_worth():
    assert bench_of(mint(67)).run().effects[0].worth is None


def test_a_mint_waits_by_the_terms_of_its_effect():
    bench = bench_of(mint(5, availableAfter="P14D"), mint(7))
    evaluation = bench.run()
    # The event is dated 4 March at noon.
    in_14_days = datetime(2026, 3, 4 + 14, 12, tzinfo=UTC)
    assert [outcome.wait for outcome in evaluation.effects] == [Wait(in_14_days), None]
    holding = bench.session.holding(WALLET_ID, 1)
    assert (holding.current, holding.pending_credit) == (7, 5)


def test_invalid_terms_fail_the_mint():
    evaluation = bench_of(mint(5, availableAfter=("=", '"P" + "14X"'))).run()
    assert (statuses(evaluation), problems(evaluation)) == ([(1, "failed")], ["/problems/effect-parameter"])


def test_points_without_a_moment_of_availability_are_available_at_once():
    bench = bench_of(mint(5, availableRounding="none"))
    bench.run()
    assert bench.balance() == 5


# --- extensions ---------------------------------------------------------------------------------------------------


def extension(**params):
    """An effect that extends the expiry of points."""
    return effect("extend-expiry", **params)


def test_an_extension_posts_a_transaction_with_the_amount_0():
    tracked_account = account(point_tracking_enabled=True)
    bench = bench_of(
        mint(5, expirationDate="2026-12-31T00:00:00Z"), extension(months=3), ledger_account=tracked_account
    )
    assert statuses(bench.run()) == [(1, "executed")] * 2
    _, posting = bench.session.steps
    assert (posting.amount, posting.is_extension) == (0, True)
    # It is the second transaction of the event.
    assert posting.details.system_unique_key == "event:2"
    [change] = posting.lot_moves
    assert change.extension.new_end(DECEMBER, change.calendar) == MARCH
    assert bench.balance() == 5


def test_without_a_balance_nothing_is_extended():
    evaluation = bench_of(extension(months=3), ledger_account=account(point_tracking_enabled=True)).run()
    assert (statuses(evaluation), problems(evaluation)) == ([(1, "skipped")], ["/problems/zero-amount"])


def test_an_authorization_extends_nothing():
    holdings = {(WALLET_ID, 1): Holding(current=Decimal(9))}
    bench = bench_of(extension(months=3), ledger_account=account(point_tracking_enabled=True), holdings=holdings)
    assert statuses(bench.run(mode="authorize")) == [(1, "authorized")]
    assert bench.session.steps == []


@pytest.mark.parametrize(
    "params",
    [
        pytest.param({"months": 3, "until": "2026-12-31T00:00:00Z"}, id="two terms"),
        pytest.param({"months": ("=", "1.5")}, id="a part of a month"),
        pytest.param({"months": 3, "ledgerAccountKey": ("=", '"account-" + "9"')}, id="an unknown account"),
    ],
)
def test_an_invalid_extension_fails(params):
    evaluation = bench_of(extension(**params), holdings={(WALLET_ID, 1): Holding(current=Decimal(9))}).run()
    assert (statuses(evaluation), problems(evaluation)) == ([(1, "failed")], ["/problems/effect-parameter"])


def test_an_extension_for_a_missing_or_inactive_sponsor_is_skipped():
    holdings = {(SPONSOR_WALLET_ID, 1): Holding(current=Decimal(9))}
    bench = bench_of(extension(months=3, recipient="sponsor"), holdings=holdings)
    assert problems(bench.run()) == ["/problems/no-sponsor"]
    event_of_inactive_sponsor = facts(sponsor_wallet_id=SPONSOR_WALLET_ID, is_sponsor_active=False)
    assert problems(bench.run(event_of_inactive_sponsor)) == ["/problems/member-inactive"]
