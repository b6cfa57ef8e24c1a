"""The price of a coupon in points: burns, mints, captures and returned points."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from domain.coupons.charges import PointsCharge, UsageDetails
from domain.ledger.postings import Capture, Holding, Posting, StoredTransaction
from domain.ledger.records import BURN, MINT, PENDING, REVERT, REVERTED, SETTLED
from domain.ledger.refusals import InsufficientBalance, UnknownLedgerAccount, UnknownLedgerTransaction
from domain.ledger.session import LedgerSession
from domain.problems import InvalidRequest
from tests.builders.campaigns import NOON, account
from tests.builders.coupon_values import coupon_book

WALLET, FIRST_ID = 7, 100
DEFAULT, OTHER = account(1), account(2)


class Shop:
    """A ledger session in which the wallet has 50 of both accounts, and the charge of coupons in it."""

    def __init__(self, *accounts, at=NOON):
        self.accounts = accounts or (DEFAULT, OTHER)
        ids = {ledger_account.ledger_account_id: ledger_account for ledger_account in self.accounts}
        holdings = {(WALLET, number): Holding(current=Decimal(50)) for number in ids}
        self.session = LedgerSession(ids, holdings, {}, at)
        keys = {ledger_account.ledger_account_key: ledger_account for ledger_account in self.accounts}
        self.charge = PointsCharge(self.session, keys, lambda number: FIRST_ID + number)

    def pay(self, price, book=None, **details):
        """Charge a price; returns the id of its transaction, or None if no points move."""
        return self.charge.pay(WALLET, book or coupon_book(), Decimal(price), UsageDetails(**details), "key-1")

    def balance(self, number=1):
        """The wallet's balance in an account; 50 before any payment."""
        return self.session.holding(WALLET, number).current

    def transaction(self, number, **values):
        """Store a burn of 10 points; returns its id, which is `number`."""
        plain = {
            "ledger_transaction_id": number,
            "ledger_account_id": 1,
            "transaction_type": BURN,
            "status": SETTLED,
            "amount": Decimal(10),
            "from_wallet_id": WALLET,
            "to_wallet_id": None,
            "is_expiry": False,
            "fiat_value": None,
            "reversal_ledger_transaction_id": None,
            "external_event_date": None,
            "pending_expires_at": None,
            "entry_count": 1,
        }
        self.charge.stored_transactions[number] = StoredTransaction(**plain | values)
        return number


def test_a_price_is_burned_from_the_default_account():
    shop = Shop(OTHER, DEFAULT)
    assert shop.pay(12) == FIRST_ID
    assert (shop.balance(1), shop.balance(2)) == (50 - 12, 50)
    assert shop.pay(1) == FIRST_ID + 1
    assert shop.balance(1) == 50 - 12 - 1


def test_a_price_is_burned_from_the_account_of_the_book():
    shop = Shop()
    shop.pay(12, coupon_book(required_points_config={"ledgerAccountKey": "account-2"}))
    assert (shop.balance(1), shop.balance(2)) == (50, 50 - 12)


def test_the_transaction_has_the_details_of_the_usage():
    at = datetime(2026, 3, 1, tzinfo=UTC)
    shop = Shop()
    shop.pay(1, external_id="till-1", external_event_date=at, description="Free", tags=["a", "b"], loyalty_event_id=9)
    details = shop.session.steps[0].details
    assert details.system_unique_key == "coupon-usage-key-1"
    assert (details.external_id, details.external_event_date, details.description) == ("till-1", at, "Free")
    assert (details.tags, details.loyalty_event_id) == (("a", "b"), 9)


def test_a_price_with_too_many_digits_is_refused():
    shop = Shop()
    with pytest.raises(InvalidRequest):
        shop.pay("0.9")
    assert shop.session.steps == []


def test_a_price_of_0_moves_no_points():
    shop = Shop()
    assert shop.pay(0) is None
    assert shop.pay(5, points_override=Decimal(0)) is None
    assert shop.session.steps == []


def test_an_override_burns_or_mints_instead_of_the_price():
    shop = Shop()
    shop.pay(5, points_override=Decimal(20))
    assert shop.balance() == 50 - 20
    shop.pay(5, points_override=Decimal(-7))
    assert shop.balance() == 50 - 20 + 7
    assert [step.transaction_type for step in shop.session.steps] == [BURN, MINT]


def test_an_override_with_too_many_digits_is_refused_at_its_field():
    detail = "pointsOverride has more than the 0 fraction digits of this account."
    for points in ("1.5", "-0.5"):
        with pytest.raises(InvalidRequest) as caught:
            Shop().pay(5, points_override=Decimal(points))
        assert [(fault.detail, fault.pointer) for fault in caught.value.faults] == [(detail, "/pointsOverride")]


def test_points_above_the_maximum_are_refused_as_the_override_or_the_amount():
    with pytest.raises(InvalidRequest) as caught:
        Shop().pay(5, points_override=Decimal(10**14))
    [fault] = caught.value.faults
    assert (fault.detail, fault.pointer) == ("pointsOverride is more than 18446744073709.", "/pointsOverride")
    with pytest.raises(InvalidRequest) as caught:
        Shop().pay(10**14)
    [fault] = caught.value.faults
    assert (fault.detail, fault.pointer) == ("amount is more than 18446744073709.", "/amount")


def test_a_price_that_the_member_cannot_pay_is_refused():
    shop = Shop()
    with pytest.raises(InsufficientBalance):
        shop.pay(51)
    assert shop.balance() == 50
    assert shop.session.steps == []


def test_a_book_without_an_account_cannot_be_paid():
    book_without_account = coupon_book(required_points_config={"ledgerAccountKey": "account-9"})
    text = r"The ledger account of the coupon book Free coffee does not exist\."
    with pytest.raises(UnknownLedgerAccount, match=text):
        Shop().pay(5, book_without_account)
    with pytest.raises(UnknownLedgerAccount):
        Shop(OTHER).pay(5)
    assert Shop(OTHER).charge.account_of(coupon_book()) is None


def test_a_pending_burn_of_the_member_is_captured_in_place_of_a_new_burn():
    shop = Shop()
    shop.session._holdings[WALLET, 1] = Holding(current=Decimal(50), pending_debit=Decimal(10))
    pending_burn = shop.transaction(5, status=PENDING, amount=Decimal(10))
    # The price of 99 does not matter.
    assert shop.pay(99, pending_burn_id=pending_burn) == 5
    [step] = shop.session.steps
    assert isinstance(step, Capture)
    assert shop.balance() == 50 - 10
    # The capture used no id of a new transaction.
    assert shop.pay(1) == FIRST_ID


@pytest.mark.parametrize(
    "values", [{"from_wallet_id": 8}, {"transaction_type": MINT}, {"ledger_account_id": 3}], ids=str
)
def test_only_a_burn_of_the_member_from_the_account_of_the_book_is_captured(values):
    shop = Shop()
    shop.transaction(5, status=PENDING, **values)
    with pytest.raises(UnknownLedgerTransaction, match=r"The member has no burn 5 that could be captured\."):
        shop.pay(1, pending_burn_id=5)
    with pytest.raises(UnknownLedgerTransaction):
        shop.pay(1, pending_burn_id=6)


def test_the_points_of_a_usage_are_returned_once():
    shop = Shop()
    settled_burn, reverted_burn = shop.transaction(5, amount=Decimal(10)), shop.transaction(6, status=REVERTED)
    assert shop.charge.reverse(reverted_burn, UsageDetails(), "key-2") is None
    assert shop.charge.reverse(settled_burn, UsageDetails(description="Back"), "key-2") == FIRST_ID
    [step] = shop.session.steps
    assert isinstance(step, Posting)
    assert (step.transaction_type, step.details.system_unique_key) == (REVERT, "coupon-usage-key-2")
    assert step.details.description == "Back"
    assert shop.balance() == 50 + 10
