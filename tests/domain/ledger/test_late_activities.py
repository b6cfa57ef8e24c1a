"""Activities that become known after an idle balance has expired: which of them bring which points back."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from domain.ledger.lots import LotUse, RestoreLots
from domain.ledger.postings import Details, Holding, Stored
from domain.ledger.records import BURN, MINT, PENDING, REVERT, REVERTED, SETTLED
from domain.ledger.session import LedgerSession
from tests.builders.campaigns import NOON, account

ANA, BEN = 1, 2
DAY, INSTANT = timedelta(days=1), timedelta(microseconds=1)
# The balance expired a day ago, after a month without a visit.
EXPIRED_AT = NOON - DAY
LAST_VISIT = EXPIRED_AT.replace(month=EXPIRED_AT.month - 1)
TEN = Decimal(10)


def points(ledger_account_id=1, **values):
    """An account whose points expire a month after the last visit, unless a visit is reported at most 3 days late."""
    policy = {"expirationType": "inactivity", "period": 1, "rounding": "none", "activities": ["visit"]}
    settings = {"point_tracking_enabled": True, "expiration_policies": (policy,), "late_activity_days": 3}
    return account(ledger_account_id, **settings | values)


POINTS = points()


def expiry(*uses, number=8, amount=10, moment=EXPIRED_AT, **values):
    """The stored burn of the 10 points of a lot that had expired."""
    plain = {"uses": uses or (LotUse(1, Decimal(amount)),), "external_event_date": moment, "is_expiry": True}
    burn = Stored(number, 1, BURN, SETTLED, Decimal(amount), ANA, None, True, None, None, None, None, 2)
    fields = {name: getattr(burn, name) for name in Stored.__slots__}
    return Stored(**fields | plain | values)


def session(*expiries, of=POINTS, at=NOON, issued=None, **held):
    holding = Holding(last_activity_date=LAST_VISIT, **{name: Decimal(value) for name, value in held.items()})
    opened = LedgerSession({1: of}, {(ANA, 1): holding}, {1: Decimal(issued)} if issued else {}, at)
    opened.expect_late_activity(expiries)
    return opened


def visit(opened, at=EXPIRED_AT - DAY, wallet=ANA, of=None):
    """Report a visit of a member; the amounts that it brings back."""
    before = len(opened.steps)
    opened.record_activity(of or opened.accounts[1], wallet, "visit", at)
    return [step.amount for step in opened.steps[before:] if step.transaction_type == REVERT]


def balance(opened, wallet=ANA):
    return opened.holding(wallet, 1).current


def test_a_late_visit_brings_back_what_had_expired():
    opened = session(expiry())
    assert visit(opened) == [10]
    assert (balance(opened), opened.holding(ANA, 1).last_activity_date) == (10, EXPIRED_AT - DAY)
    [step] = opened.steps
    assert (step.details.description, step.burned, step.minted, step.reverts) == ("late-activity", -10, 0, expiry())
    assert [(entry.wallet_id, entry.amount) for entry in step.entries] == [(ANA, 10), (None, -10)]
    assert step.lot_moves == (RestoreLots(ANA, 1, (LotUse(1, TEN),), unexpires=True),)


@pytest.mark.parametrize(
    ("visited_at", "balance_after"), [(EXPIRED_AT - INSTANT, 10), (EXPIRED_AT, 0), (EXPIRED_AT + INSTANT, 0)]
)
def test_only_a_visit_before_the_expiry_would_have_prevented_it(visited_at, balance_after):
    opened = session(expiry())
    visit(opened, visited_at)
    assert balance(opened) == balance_after


@pytest.mark.parametrize(("late", "balance_after"), [(3 * DAY, 10), (3 * DAY + INSTANT, 0)])
def test_a_visit_may_become_known_three_days_after_the_expiry(late, balance_after):
    opened = session(expiry(), at=EXPIRED_AT + late)
    visit(opened)
    assert balance(opened) == balance_after


def test_the_expiry_is_reverted_once():
    opened = session(expiry())
    assert visit(opened) == [10]
    assert visit(opened, EXPIRED_AT - INSTANT) == []
    assert balance(opened) == 10
    assert opened.status_of(expiry()) == REVERTED


def test_a_visit_brings_back_each_expiry_that_it_would_have_prevented():
    opened = session(expiry(amount=4, number=8, moment=EXPIRED_AT - DAY), expiry(amount=6, number=9))
    assert visit(opened, EXPIRED_AT - DAY) == [6]
    assert visit(opened, EXPIRED_AT - 2 * DAY) == [4]
    assert balance(opened) == 10
    assert len({step.details.system_unique_key for step in opened.steps}) == 2


def test_a_visit_brings_back_only_points_of_its_member_and_account():
    opened = session(expiry())
    assert visit(opened, wallet=BEN) == []
    assert visit(opened, of=points(2)) == []
    assert (balance(opened), balance(opened, BEN)) == (0, 0)


def test_an_activity_that_the_policy_does_not_count_brings_nothing_back():
    opened = session(expiry())
    opened.record_activity(POINTS, ANA, "purchase", EXPIRED_AT - DAY)
    assert (balance(opened), opened.holding(ANA, 1).last_activity_date) == (0, LAST_VISIT)


@pytest.mark.parametrize(
    ("expires_at", "is_reverted", "balance_after"),
    [
        (None, True, 10),
        (NOON + INSTANT, True, 10),
        (NOON, True, 0),
        (EXPIRED_AT + INSTANT, True, 0),
        (EXPIRED_AT, False, 0),
        (EXPIRED_AT - DAY, False, 0),
    ],
)
def test_points_that_would_have_expired_by_now_anyhow_stay_gone(expires_at, is_reverted, balance_after):
    opened = session(expiry(LotUse(1, TEN, expires_at)))
    assert visit(opened) == ([10] if is_reverted else [])
    assert balance(opened) == balance_after


def test_of_several_lots_those_come_back_that_live_on():
    opened = session(expiry(LotUse(1, Decimal(3), EXPIRED_AT), LotUse(2, Decimal(7), NOON + DAY)))
    assert visit(opened) == [10]
    back, gone = opened.steps
    assert (gone.amount, gone.is_expiry, gone.part_of, balance(opened)) == (3, True, back, 7)


def test_an_account_that_revives_points_of_reverts_does_not_revive_those_of_an_expiry():
    opened = session(expiry(LotUse(1, TEN, NOON)), of=points(restored_expiry_days=30))
    visit(opened)
    assert balance(opened) == 0


@pytest.mark.parametrize(
    ("is_revolving", "issued", "balance_after"), [(True, 90, 10), (True, 91, 0), (False, 91, 10), (False, 100, 10)]
)
def test_points_that_were_issued_again_meanwhile_stay_gone(is_revolving, issued, balance_after):
    limited = points(max_supply=Decimal(100), is_revolving=is_revolving)
    opened = session(expiry(), of=limited, issued=issued)
    visit(opened)
    assert balance(opened) == balance_after


def test_points_that_come_back_repay_debt_first():
    opened = session(expiry(), of=points(overdraft_limit=TEN), overdraft=4)
    visit(opened)
    assert (balance(opened), opened.holding(ANA, 1).overdraft) == (6, 0)


def test_a_mint_that_was_spent_when_it_was_reverted_takes_its_points_from_those_that_come_back():
    mint = Stored(5, 1, MINT, REVERTED, Decimal(30), None, ANA, False, None, None, None, None, 2, missing=Decimal(7))
    opened = session(expiry(mints_to_repay=(mint,)))
    visit(opened)
    back, taken = opened.steps
    assert (taken.reverts, taken.amount, taken.part_of, balance(opened)) == (mint, 7, back, 3)
    assert opened.missing_of(mint) == 0


def test_a_visit_brings_back_what_has_expired_in_the_same_unit_of_work():
    opened = session(current=10)
    opened.expire(POINTS, ANA, (LotUse(1, TEN),), EXPIRED_AT, "expiry")
    assert balance(opened) == 0
    opened.expect_late_activity()
    assert visit(opened) == [10]
    assert visit(opened) == []
    assert balance(opened) == 10


def test_other_steps_of_the_unit_of_work_do_not_come_back():
    opened = session(current=30, pending_debit=10)
    hold = expiry(number=9, is_expiry=False, external_event_date=None, status=PENDING)
    opened.capture(hold, POINTS, external_event_date=NOON)
    opened.burn(POINTS, ANA, Decimal(5), Details("burn", external_event_date=EXPIRED_AT))
    opened.expire(POINTS, ANA, (LotUse(2, TEN),), EXPIRED_AT, "expiry")
    opened.expect_late_activity()
    assert visit(opened) == [10]
    assert balance(opened) == 15


def test_what_has_expired_on_arrival_does_not_come_back():
    opened = session()
    opened.mint(POINTS, ANA, TEN, Details("mint", external_event_date=LAST_VISIT), expires_at=EXPIRED_AT)
    minted, expired = opened.steps
    assert (minted.amount, expired.amount, expired.is_expiry) == (10, 10, True)
    opened.expect_late_activity()
    assert visit(opened) == []


def test_a_rollback_takes_the_points_away_again():
    opened = session(expiry())
    savepoint = opened.savepoint()
    visit(opened)
    opened.rollback_to(savepoint)
    assert (balance(opened), opened.steps) == (0, [])
    assert visit(opened) == [10]


@pytest.mark.parametrize(
    ("account_id", "activity", "happened_at", "last"),
    [
        (1, "visit", NOON - 9 * DAY, NOON - 9 * DAY),
        (1, "purchase", NOON - 9 * DAY, LAST_VISIT),
        # An earlier visit does not move the date back.
        (1, "visit", LAST_VISIT - DAY, LAST_VISIT),
        # Accounts without a policy, or of which the member has nothing, are not concerned.
        (2, "visit", NOON - 9 * DAY, LAST_VISIT),
        (3, "visit", NOON - 9 * DAY, None),
    ],
)
def test_an_event_is_an_activity_on_the_accounts_that_count_it(account_id, activity, happened_at, last):
    accounts = {1: POINTS, 2: account(2), 3: points(3)}
    holdings = {(ANA, number): Holding(current=TEN, last_activity_date=LAST_VISIT) for number in (1, 2)}
    opened = LedgerSession(accounts, holdings, {}, NOON)
    opened.note_event(ANA, activity, happened_at)
    assert opened.holding(ANA, account_id).last_activity_date == last
