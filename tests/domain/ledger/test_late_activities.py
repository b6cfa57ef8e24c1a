"""Activities that are reported after an idle balance has expired: which of them restore which points."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from domain.ledger.lots import LotUse, RestoreLots
from domain.ledger.postings import Details, Holding
from domain.ledger.records import BURN, MINT, PENDING, REVERT, REVERTED
from domain.ledger.session import LedgerSession
from tests.builders.campaigns import NOON, account
from tests.builders.ledger_sessions import stored_transaction

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
    return stored_transaction(BURN, amount=amount, number=number, **{"from_wallet_id": ANA} | plain | values)


def session(*expiries, of=POINTS, at=NOON, supply=None, **amounts):
    """A session in which Ana has `amounts`, and late activities may revert the stored expiries."""
    holding = Holding(last_activity_date=LAST_VISIT, **{name: Decimal(value) for name, value in amounts.items()})
    ledger = LedgerSession({1: of}, {(ANA, 1): holding}, {1: Decimal(supply)} if supply else {}, at)
    ledger.expect_late_activity(expiries)
    return ledger


def visit(ledger, at=EXPIRED_AT - DAY, wallet=ANA, of=None):
    """Report a visit of a member, by default a day before the expiry; return the amounts of the reverted expiries."""
    count_before = len(ledger.steps)
    ledger.record_activity(of or ledger.accounts[1], wallet, "visit", at)
    return [step.amount for step in ledger.steps[count_before:] if step.transaction_type == REVERT]


def balance(ledger, wallet=ANA):
    """The current balance of a wallet, by default of Ana's."""
    return ledger.holding(wallet, 1).current


def test_a_late_visit_restores_expired_points():
    ledger = session(expiry())
    assert visit(ledger) == [10]
    assert balance(ledger) == 10
    assert ledger.holding(ANA, 1).last_activity_date == EXPIRED_AT - DAY
    [step] = ledger.steps
    assert (step.details.description, step.burned, step.minted, step.reverts) == ("late-activity", -10, 0, expiry())
    assert [(entry.wallet_id, entry.amount) for entry in step.entries] == [(ANA, 10), (None, -10)]
    assert step.lot_moves == (RestoreLots(ANA, 1, (LotUse(1, TEN),), reverts_expiry=True),)


@pytest.mark.parametrize(
    ("visited_at", "balance_after"), [(EXPIRED_AT - INSTANT, 10), (EXPIRED_AT, 0), (EXPIRED_AT + INSTANT, 0)]
)
def test_only_a_visit_before_the_expiry_would_have_prevented_it(visited_at, balance_after):
    ledger = session(expiry())
    visit(ledger, visited_at)
    assert balance(ledger) == balance_after


@pytest.mark.parametrize(("late", "balance_after"), [(3 * DAY, 10), (3 * DAY + INSTANT, 0)])
def test_a_visit_may_be_reported_up_to_three_days_after_the_expiry(late, balance_after):
    ledger = session(expiry(), at=EXPIRED_AT + late)
    visit(ledger)
    assert balance(ledger) == balance_after


def test_an_expiry_is_reverted_only_once():
    ledger = session(expiry())
    assert visit(ledger) == [10]
    assert visit(ledger, EXPIRED_AT - INSTANT) == []
    assert balance(ledger) == 10
    assert ledger.status_of(expiry()) == REVERTED


def test_a_visit_reverts_each_expiry_that_it_would_have_prevented():
    ledger = session(expiry(amount=4, number=8, moment=EXPIRED_AT - DAY), expiry(amount=6, number=9))
    # At the moment of the first expiry it is too late to prevent that one.
    assert visit(ledger, EXPIRED_AT - DAY) == [6]
    assert visit(ledger, EXPIRED_AT - 2 * DAY) == [4]
    assert balance(ledger) == 10
    assert len({step.details.system_unique_key for step in ledger.steps}) == 2


def test_a_visit_restores_only_points_of_its_member_and_account():
    ledger = session(expiry())
    assert visit(ledger, wallet=BEN) == []
    assert visit(ledger, of=points(2)) == []
    assert (balance(ledger), balance(ledger, BEN)) == (0, 0)


def test_an_activity_that_the_policy_does_not_count_restores_nothing():
    ledger = session(expiry())
    ledger.record_activity(POINTS, ANA, "purchase", EXPIRED_AT - DAY)
    assert balance(ledger) == 0
    assert ledger.holding(ANA, 1).last_activity_date == LAST_VISIT


@pytest.mark.parametrize(
    ("lot_expires_at", "is_reverted", "balance_after"),
    [
        (None, True, 10),
        (NOON + INSTANT, True, 10),
        # The lot expired between the expiry of the balance and now: its points are restored and expire at once.
        (NOON, True, 0),
        (EXPIRED_AT + INSTANT, True, 0),
        # The lot had expired by the expiry of the balance, which the visit would not have prevented for it.
        (EXPIRED_AT, False, 0),
        (EXPIRED_AT - DAY, False, 0),
    ],
)
def test_a_late_visit_restores_no_points_whose_lot_has_expired(lot_expires_at, is_reverted, balance_after):
    ledger = session(expiry(LotUse(1, TEN, expires_at=lot_expires_at)))
    assert visit(ledger) == ([10] if is_reverted else [])
    assert balance(ledger) == balance_after


def test_only_lots_that_have_not_expired_since_are_restored():
    ledger = session(expiry(LotUse(1, Decimal(3), EXPIRED_AT), LotUse(2, Decimal(7), NOON + DAY)))
    assert visit(ledger) == [10]
    restore_step, expiry_step = ledger.steps
    assert (expiry_step.amount, expiry_step.is_expiry, expiry_step.part_of) == (3, True, restore_step)
    assert balance(ledger) == 10 - 3


def test_points_that_expired_again_get_no_new_expiry_even_if_reverts_give_one():
    ledger = session(expiry(LotUse(1, TEN, NOON)), of=points(restored_expiry_days=30))
    visit(ledger)
    assert balance(ledger) == 0


@pytest.mark.parametrize(
    ("is_revolving", "supply", "balance_after"), [(True, 90, 10), (True, 91, 0), (False, 91, 10), (False, 100, 10)]
)
def test_points_are_not_restored_beyond_the_maximum_supply_of_a_revolving_account(is_revolving, supply, balance_after):
    """10 points fit below the maximum of 100 if at most 90 are issued."""
    limited_account = points(max_supply=Decimal(100), is_revolving=is_revolving)
    ledger = session(expiry(), of=limited_account, supply=supply)
    visit(ledger)
    assert balance(ledger) == balance_after


def test_restored_points_repay_debt_first():
    ledger = session(expiry(), of=points(overdraft_limit=TEN), overdraft=4)
    visit(ledger)
    assert balance(ledger) == 10 - 4
    assert ledger.holding(ANA, 1).overdraft == 0


def test_the_shortfall_of_a_reverted_mint_is_taken_from_restored_points():
    mint = stored_transaction(MINT, REVERTED, amount=30, number=5, to_wallet_id=ANA, missing=Decimal(7))
    ledger = session(expiry(mints_to_repay=(mint,)))
    visit(ledger)
    restore_step, clawback_step = ledger.steps
    assert (clawback_step.reverts, clawback_step.amount, clawback_step.part_of) == (mint, 7, restore_step)
    assert balance(ledger) == 10 - 7
    assert ledger.missing_of(mint) == 0


def test_a_visit_restores_points_that_expired_in_the_same_unit_of_work():
    ledger = session(current=10)
    ledger.expire(POINTS, ANA, (LotUse(1, TEN),), moment=EXPIRED_AT, key="expiry")
    assert balance(ledger) == 0
    ledger.expect_late_activity()
    assert visit(ledger) == [10]
    assert visit(ledger) == []
    assert balance(ledger) == 10


def test_a_visit_does_not_revert_other_steps_of_the_unit_of_work():
    ledger = session(current=30, pending_debit=10)
    hold = expiry(number=9, is_expiry=False, external_event_date=None, status=PENDING)
    ledger.capture(hold, POINTS, external_event_date=NOON)
    ledger.burn(POINTS, ANA, Decimal(5), Details("burn", external_event_date=EXPIRED_AT))
    ledger.expire(POINTS, ANA, (LotUse(2, TEN),), moment=EXPIRED_AT, key="expiry")
    ledger.expect_late_activity()
    assert visit(ledger) == [10]
    # The captured hold and the burn remain; only the 10 points of the expiry are restored.
    assert balance(ledger) == 30 - 10 - 5


def test_points_that_had_expired_on_arrival_are_not_restored():
    ledger = session()
    ledger.mint(POINTS, ANA, TEN, Details("mint", external_event_date=LAST_VISIT), expires_at=EXPIRED_AT)
    mint_step, expiry_step = ledger.steps
    assert (mint_step.amount, expiry_step.amount, expiry_step.is_expiry) == (10, 10, True)
    ledger.expect_late_activity()
    assert visit(ledger) == []


def test_a_rollback_removes_the_restored_points():
    ledger = session(expiry())
    savepoint = ledger.savepoint()
    visit(ledger)
    ledger.rollback_to(savepoint)
    assert balance(ledger) == 0
    assert ledger.steps == []
    assert visit(ledger) == [10]


@pytest.mark.parametrize(
    ("account_id", "activity", "happened_at", "last_activity"),
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
def test_an_event_is_an_activity_on_the_accounts_that_count_it(account_id, activity, happened_at, last_activity):
    """Ana has points of the accounts 1 and 2; 1 and 3 have a policy about visits."""
    accounts = {1: POINTS, 2: account(2), 3: points(3)}
    holdings = {(ANA, number): Holding(current=TEN, last_activity_date=LAST_VISIT) for number in (1, 2)}
    ledger = LedgerSession(accounts, holdings, {}, NOON)
    ledger.record_event(ANA, activity, happened_at)
    assert ledger.holding(ANA, account_id).last_activity_date == last_activity
