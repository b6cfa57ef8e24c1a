"""Captures, reverts and partial reverts: what they move, release, refuse and record."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from domain.ledger.lots import LotUse, RestoreLots, SettleLots, TakeLots
from domain.ledger.postings import Details, Fiat, Holding, Stored
from domain.ledger.records import BURN, MINT, PENDING, REVERT, REVERTED, SETTLED, TRANSFER
from domain.ledger.refusals import (
    AccountInactive,
    AlreadyReverted,
    CaptureExceedsHold,
    CaptureNotSupported,
    FiatExceedsBurn,
    FiatNotAllowed,
    InsufficientBalance,
    NotPending,
    NotRevertible,
    OverdraftLimitExceeded,
    PointsNotTracked,
    SupplyExceeded,
)
from domain.ledger.session import LedgerSession
from domain.problems import InvalidRequest
from tests.builders.campaigns import NOON, account

ANA, BEN = 1, 2
KEY = Details("key")
POINTS, TRACKED = account(), account(point_tracking_enabled=True)
DAY = timedelta(days=1)


def session(of=POINTS, issued=None, **wallets):
    holdings = {
        (wallet, 1): Holding(**held) for wallet, held in ((ANA, wallets.get("ana")), (BEN, wallets.get("ben"))) if held
    }
    return LedgerSession({1: of}, holdings, {1: Decimal(issued)} if issued else {}, NOON)


def amounts(**values):
    return {name: Decimal(value) for name, value in values.items()}


def stored(transaction_type=BURN, status=SETTLED, amount=10, number=8, **values):
    sender = None if transaction_type == MINT else ANA
    receiver = {MINT: ANA, BURN: None, TRANSFER: BEN}.get(transaction_type)
    plain = {
        "ledger_transaction_id": number,
        "ledger_account_id": 1,
        "transaction_type": transaction_type,
        "status": status,
        "amount": Decimal(amount),
        "from_wallet_id": sender,
        "to_wallet_id": receiver,
        "is_expiry": False,
        "fiat_value": None,
        "reversal_ledger_transaction_id": None,
        "external_event_date": None,
        "pending_expires_at": None,
        "entry_count": 2,
    }
    return Stored(**plain | values)


def entries(step):
    return [(entry.wallet_id, entry.amount) for entry in step.entries]


def held(opened, wallet=ANA):
    holding = opened.holding(wallet, 1)
    return holding.current, holding.pending_debit, holding.pending_credit


# -- captures -------------------------------------------------------------------------------------------------------


def test_a_captured_burn_takes_its_amount_and_releases_the_rest():
    opened = session(ana=amounts(current=30, pending_debit=10))
    step = opened.capture(stored(status=PENDING), POINTS, Decimal(4))
    assert entries(step) == [(ANA, -4), (None, 4)]
    assert (step.minted, step.burned, held(opened)) == (0, 4, (26, 0, 0))


def test_a_capture_takes_all_by_default():
    opened = session(ana=amounts(current=30, pending_debit=10))
    step = opened.capture(stored(status=PENDING), POINTS)
    assert (step.amount, held(opened)) == (10, (20, 0, 0))


def test_a_captured_mint_gives_its_amount():
    opened = session(ana=amounts(pending_credit=10))
    step = opened.capture(stored(MINT, PENDING), POINTS, Decimal(4))
    assert entries(step) == [(ANA, 4), (None, -4)]
    assert (step.minted, step.burned, held(opened)) == (4, 0, (4, 0, 0))
    assert opened.holding(ANA, 1).earned == 4


def test_a_captured_transfer_moves_its_amount():
    opened = session(ana=amounts(current=30, pending_debit=10), ben=amounts(pending_credit=10))
    step = opened.capture(stored(TRANSFER, PENDING), POINTS)
    assert entries(step) == [(ANA, -10), (BEN, 10)]
    assert (step.minted, step.burned, held(opened), held(opened, BEN)) == (0, 0, (20, 0, 0), (10, 0, 0))


def test_a_capture_of_nothing_releases_everything():
    opened = session(ana=amounts(current=30, pending_debit=10))
    step = opened.capture(stored(status=PENDING), POINTS, Decimal(0))
    assert (step.entries, held(opened)) == ((), (30, 0, 0))
    with pytest.raises(NotPending):
        opened.capture(stored(status=PENDING), POINTS)
    with pytest.raises(AlreadyReverted):
        opened.revert(stored(status=PENDING), POINTS, KEY)


def test_a_captured_mint_earns_when_it_was_for_something():
    opened = session(ana=amounts(pending_credit=10))
    opened.capture(stored(MINT, PENDING, external_event_date=NOON - DAY), POINTS)
    [earning] = opened.earnings(ANA, 1)
    assert (earning.moment, earning.amount) == (NOON - DAY, 10)


def test_a_captured_mint_earns_the_share_of_its_qualifying_points():
    opened = session(ana=amounts(pending_credit=10))
    pending = stored(MINT, PENDING, qualifying=Decimal(20), external_event_date=NOON - DAY)
    step = opened.capture(pending, POINTS, Decimal(4))
    assert (step.amount, step.qualifying, opened.holding(ANA, 1).earned) == (4, 8, 8)
    assert [(each.moment, each.amount) for each in opened.earnings(ANA, 1)] == [(NOON - DAY, 8)]


def test_a_captured_burn_has_its_share_of_the_value_in_money():
    opened = session(ana=amounts(current=30, pending_debit=10))
    step = opened.capture(stored(status=PENDING, fiat_value=Decimal("5.00")), POINTS, Decimal(3))
    assert (step.fiat_value, opened.holding(ANA, 1).fiat) == (Decimal("1.5"), Decimal("1.5"))


def test_lots_of_a_captured_burn_are_settled():
    uses = (LotUse(1, Decimal(6), NOON + DAY), LotUse(2, Decimal(4), NOON + 2 * DAY))
    opened = session(TRACKED, ana=amounts(current=30, pending_debit=10))
    step = opened.capture(stored(status=PENDING, uses=uses), TRACKED, Decimal(6))
    [move] = step.lot_moves
    assert isinstance(move, SettleLots)
    assert (move.kept, move.released) == (uses[:1], uses[1:])


@pytest.mark.parametrize("expired_at", [NOON, NOON - DAY])
def test_points_that_expired_while_they_were_pending_are_gone_at_once(expired_at):
    opened = session(TRACKED, ana=amounts(pending_credit=10))
    opened.capture(stored(MINT, PENDING, pending_expires_at=expired_at), TRACKED)
    captured, expired = opened.steps
    assert (captured.amount, expired.amount, expired.is_expiry, expired.part_of) == (10, 10, True, captured)
    assert held(opened) == (0, 0, 0)
    kept = session(TRACKED, ana=amounts(pending_credit=10))
    kept.capture(stored(MINT, PENDING, pending_expires_at=NOON + DAY), TRACKED)
    assert held(kept) == (10, 0, 0)


def test_released_points_whose_lots_have_expired_are_gone_at_once():
    uses = (LotUse(1, Decimal(6), NOON + DAY), LotUse(2, Decimal(4), NOON))
    opened = session(TRACKED, ana=amounts(current=30, pending_debit=10))
    opened.revert(stored(status=PENDING, uses=uses), TRACKED, KEY)
    released, expired = opened.steps
    assert (released.status, expired.amount, expired.is_expiry, expired.part_of) == (REVERTED, 4, True, released)
    assert held(opened) == (26, 0, 0)


def test_more_than_is_held_is_not_captured():
    opened = session(ana=amounts(current=30, pending_debit=10))
    with pytest.raises(CaptureExceedsHold, match=r"11 is more than the 10 that are held\."):
        opened.capture(stored(status=PENDING), POINTS, Decimal(11))
    with pytest.raises(InvalidRequest):
        opened.capture(stored(status=PENDING), POINTS, Decimal("0.5"))
    with pytest.raises(NotPending, match=r"Transaction 8 is not pending\."):
        opened.capture(stored(), POINTS)
    assert opened.steps == []


def test_a_captured_mint_stays_below_the_greatest_supply():
    limited = account(max_supply=Decimal(100))
    opened = session(limited, issued=95, ana=amounts(pending_credit=10))
    with pytest.raises(SupplyExceeded):
        opened.capture(stored(MINT, PENDING), limited)
    assert opened.capture(stored(MINT, PENDING), limited, Decimal(5)).minted == 5


# -- reverts --------------------------------------------------------------------------------------------------------


def test_a_reverted_burn_gives_back():
    opened = session(ana=amounts(current=30))
    step = opened.revert(stored(), POINTS, KEY)
    assert (step.transaction_type, step.status, step.burned, step.minted) == (REVERT, SETTLED, -10, 0)
    assert entries(step) == [(ANA, 10), (None, -10)]
    assert (step.from_wallet_id, step.to_wallet_id, step.reverts) == (None, ANA, stored())
    assert held(opened) == (40, 0, 0)
    assert opened.changes_stored


def test_a_reverted_mint_takes_back_also_what_was_earned():
    opened = session(ana=amounts(current=30, earned=30))
    step = opened.revert(stored(MINT, happened_at=NOON - DAY), POINTS, KEY)
    assert entries(step) == [(ANA, -10), (None, 10)]
    assert (step.minted, step.burned, step.from_wallet_id, step.to_wallet_id) == (-10, 0, ANA, None)
    assert (held(opened), opened.holding(ANA, 1).earned) == ((20, 0, 0), 20)
    assert [(each.moment, each.amount) for each in opened.earnings(ANA, 1)] == [(NOON - DAY, -10)]
    assert opened.clamps == {}
    # It is reverted: nothing of it counts as earned anyway.
    assert opened.unearned == {}


def test_a_reverted_transfer_goes_back():
    opened = session(ana=amounts(current=30), ben=amounts(current=15))
    step = opened.revert(stored(TRANSFER), POINTS, KEY)
    assert entries(step) == [(BEN, -10), (ANA, 10)]
    assert (step.from_wallet_id, step.to_wallet_id) == (BEN, ANA)
    with pytest.raises(InsufficientBalance):
        session(ben=amounts(current=9)).revert(stored(TRANSFER), POINTS, KEY)


def test_a_mint_that_was_spent_is_not_reverted_by_default():
    opened = session(ana=amounts(current=6))
    with pytest.raises(InsufficientBalance, match=r"Only 6 of the 10 points to take back are left\."):
        opened.revert(stored(MINT), POINTS, KEY)
    # What is set aside is not available.
    with pytest.raises(InsufficientBalance):
        session(ana=amounts(current=12, pending_debit=3)).revert(stored(MINT), POINTS, KEY)


def test_a_mint_that_was_spent_is_taken_into_debt():
    indebted = account(overdraft_limit=Decimal(5))
    opened = session(indebted, ana=amounts(current=6))
    step = opened.revert(stored(MINT), indebted, KEY, allow_overdraft=True)
    assert [(entry.amount, entry.is_overdraft) for entry in step.entries] == [(-6, False), (-4, True), (10, False)]
    assert (opened.holding(ANA, 1).current, opened.holding(ANA, 1).overdraft) == (0, 4)
    with pytest.raises(OverdraftLimitExceeded):
        session(indebted, ana=amounts(current=4)).revert(stored(MINT), indebted, KEY, allow_overdraft=True)
    with pytest.raises(InsufficientBalance):
        session(indebted, ana=amounts(current=6)).revert(stored(MINT), indebted, KEY)


def test_what_is_available_of_a_spent_mint_is_taken_and_the_rest_recorded():
    opened = session(ana=amounts(current=6))
    step = opened.revert(stored(MINT), POINTS, KEY, burn_available=True)
    assert (step.amount, held(opened)) == (6, (0, 0, 0))
    assert {number: (clamp.missing, clamp.by) for number, clamp in opened.clamps.items()} == {8: (4, step)}


def test_the_missing_part_is_taken_when_an_earlier_debit_is_reverted():
    opened = session(ana=amounts(current=6))
    mint = stored(MINT, number=9)
    opened.revert(mint, POINTS, KEY, burn_available=True)
    burn = opened.revert(stored(BURN, amount=10), POINTS, Details("back", description="Why", loyalty_event_id=3))
    [part] = opened.parts_of(burn)
    assert (part.amount, part.is_partial, part.reverts) == (4, True, mint)
    assert (part.details.description, part.details.loyalty_event_id) == ("Why", 3)
    assert part.details.system_unique_key.startswith("missing-9-after-8-")
    assert (opened.clamps[9].missing, held(opened)) == (0, (6, 0, 0))


def test_the_missing_part_is_taken_when_a_hold_is_captured_in_part():
    mint = stored(MINT, status=REVERTED, number=9, missing=Decimal(4))
    opened = session(ana=amounts(current=10, pending_debit=10))
    capture = opened.capture(stored(status=PENDING, claims=(mint,)), POINTS, Decimal(7))
    [part] = opened.parts_of(capture)
    assert (part.amount, part.details.description, part.details.loyalty_event_id) == (3, None, None)
    assert (opened.missing_of(mint), opened.taken_back_of(mint), held(opened)) == (1, 3, (0, 0, 0))


def test_the_oldest_mint_gets_what_comes_back_first():
    young, old = (stored(MINT, REVERTED, number=number, missing=Decimal(8)) for number in (7, 6))
    opened = session()
    opened.revert(stored(claims=(young, old)), POINTS, KEY)
    assert (opened.missing_of(old), opened.missing_of(young)) == (0, 6)


def test_what_repaid_debt_becomes_debt_again():
    indebted = account(overdraft_limit=Decimal(50))
    mint = stored(MINT, REVERTED, number=7, missing=Decimal(8))
    opened = session(indebted, ana=amounts(overdraft=6))
    opened.revert(stored(claims=(mint,)), indebted, KEY)
    holding = opened.holding(ANA, 1)
    # Of 10 points 6 repaid debt and 4 arrived; the mint takes these 4, and 4 of the repaid ones.
    assert (opened.missing_of(mint), holding.current, holding.overdraft) == (0, 0, 4)


def test_the_expired_part_of_a_mint_is_gone_already():
    opened = session(ana=amounts(current=30))
    assert opened.revert(stored(MINT, expired=Decimal(3)), POINTS, KEY).amount == 7
    tracked = session(TRACKED, ana=amounts(current=30))
    tracked.expire(TRACKED, ANA, (LotUse(5, Decimal(4)),), NOON, "expiry")
    assert tracked.revert(stored(MINT, lots=(5,)), TRACKED, KEY).amount == 6


def test_lots_of_a_reverted_burn_come_back_the_last_to_expire_first():
    uses = (LotUse(1, Decimal(6), NOON + DAY), LotUse(2, Decimal(4), NOON + 2 * DAY))
    opened = session(account(point_tracking_enabled=True, overdraft_limit=Decimal(9)), ana=amounts(overdraft=5))
    step = opened.revert(stored(uses=uses), opened.accounts[1], KEY)
    [move] = step.lot_moves
    assert isinstance(move, RestoreLots)
    # 5 points repaid debt.
    assert [(use.ledger_lot_id, use.amount) for use in move.returned] == [(1, 1), (2, 4)]
    assert move.extra == 0


def test_lots_of_a_reverted_mint_are_its_own_first():
    opened = session(TRACKED, ana=amounts(current=30))
    [move] = opened.revert(stored(MINT), TRACKED, KEY).lot_moves
    assert isinstance(move, TakeLots)
    assert (move.amount, move.first_of) == (10, 8)


@pytest.mark.parametrize(
    ("transaction", "why"),
    [
        (stored(REVERT, from_wallet_id=ANA), "is a revert"),
        (stored(BURN, is_expiry=True), "is an expiry"),
        (stored(BURN, from_wallet_id=None), "moves no points"),
    ],
)
def test_what_cannot_be_reverted_is_refused(transaction, why):
    with pytest.raises(NotRevertible) as caught:
        session(ana=amounts(current=30)).revert(transaction, POINTS, KEY)
    assert str(caught.value) == f"Transaction 8 cannot be reverted: it {why}."


def test_a_transaction_is_reverted_once():
    opened = session(ana=amounts(current=30))
    opened.revert(stored(), POINTS, KEY)
    with pytest.raises(AlreadyReverted):
        opened.revert(stored(), POINTS, KEY)
    with pytest.raises(AlreadyReverted):
        session().revert(stored(status=REVERTED), POINTS, KEY)


def test_points_of_an_inactive_account_do_not_move():
    idle = account(active=False)
    with pytest.raises(AccountInactive):
        session(idle).revert(stored(), idle, KEY)
    with pytest.raises(AccountInactive):
        session(idle, ana=amounts(current=30)).reverse_part(stored(MINT), idle, Decimal(4), KEY)


def test_a_reverted_burn_returns_its_value_in_money_or_a_part_of_it():
    burn = stored(fiat_value=Decimal(5), fiat_currency="EUR")
    opened = session(ana=amounts(fiat=5))
    step = opened.revert(burn, POINTS, KEY)
    assert (step.fiat_value, step.details.fiat, opened.holding(ANA, 1).fiat) == (5, Fiat(currency="EUR"), 0)
    opened = session(ana=amounts(fiat=5))
    assert opened.revert(burn, POINTS, KEY, partial_fiat=Decimal(2)).fiat_value == 2
    assert opened.holding(ANA, 1).fiat == 3
    with pytest.raises(FiatExceedsBurn, match=r"partialFiatValue is 6, the fiatValue of the burn is 5\."):
        session().revert(burn, POINTS, KEY, partial_fiat=Decimal(6))
    with pytest.raises(FiatExceedsBurn):
        session().revert(stored(), POINTS, KEY, partial_fiat=Decimal(1))


@pytest.mark.parametrize(
    ("transaction", "details", "partial_fiat"),
    [
        (stored(MINT), KEY, Decimal(1)),
        (stored(TRANSFER), KEY, Decimal(0)),
        (stored(BURN), Details("key", fiat=Fiat(Decimal(1))), None),
        (stored(BURN), Details("key", fiat=Fiat(currency="EUR")), None),
        (stored(BURN), Details("key", fiat=Fiat(gross_amount=Decimal(1))), None),
    ],
)
def test_only_the_revert_of_a_burn_has_a_value_in_money(transaction, details, partial_fiat):
    opened = session(ana=amounts(current=30), ben=amounts(current=30))
    with pytest.raises(FiatNotAllowed):
        opened.revert(transaction, POINTS, details, partial_fiat=partial_fiat)


def test_a_reverted_burn_stays_below_the_greatest_supply_where_that_revolves():
    for revolves in (True, False):
        limited = account(max_supply=Decimal(100), is_revolving=revolves)
        opened = session(limited, issued=95)
        if revolves:
            with pytest.raises(SupplyExceeded):
                opened.revert(stored(), limited, KEY)
        else:
            assert opened.revert(stored(), limited, KEY).amount == 10


def test_a_reverted_hold_is_released():
    opened = session(ana=amounts(current=30, pending_debit=10), ben=amounts(pending_credit=10))
    step = opened.revert(stored(TRANSFER, PENDING), POINTS, KEY)
    assert (step.status, step.amount, entries(step)) == (REVERTED, 10, [(ANA, 0), (BEN, 0)])
    assert (held(opened), held(opened, BEN)) == ((30, 0, 0), (0, 0, 0))
    assert (step.minted, step.burned) == (0, 0)


# -- partial reverts ------------------------------------------------------------------------------------------------


def test_a_part_of_a_mint_is_taken_back_up_to_the_total_that_is_named():
    opened = session(ana=amounts(current=30, earned=30))
    part = opened.reverse_part(stored(MINT), POINTS, Decimal(4), KEY)
    assert (part.amount, part.is_partial, entries(part), held(opened)) == (4, True, [(ANA, -4), (None, 4)], (26, 0, 0))
    assert opened.reverse_part(stored(MINT), POINTS, Decimal(7), KEY).amount == 3
    assert (opened.taken_back_of(stored(MINT)), opened.unearned, opened.holding(ANA, 1).earned) == (7, {8: 7}, 23)
    assert opened.reverse_part(stored(MINT), POINTS, Decimal(7), KEY) is None
    # A revert of the whole takes the rest.
    assert opened.revert(stored(MINT), POINTS, KEY).amount == 3


def test_the_part_that_was_spent_is_recorded():
    opened = session(ana=amounts(current=3))
    part = opened.reverse_part(stored(MINT), POINTS, Decimal(5), KEY)
    assert (part.amount, opened.clamps[8].missing, opened.clamps[8].by) == (3, 2, part)
    # Asked again, there is still nothing more.
    assert opened.reverse_part(stored(MINT), POINTS, Decimal(5), KEY) is None
    assert opened.reverse_part(stored(MINT), POINTS, Decimal(6), KEY).amount == 0
    assert opened.clamps[8].missing == 3


def test_what_has_expired_of_a_mint_does_not_count_as_earned_though_nothing_is_taken():
    opened = session(ana=amounts(current=30, earned=30))
    part = opened.reverse_part(stored(MINT), POINTS, Decimal(0), KEY, unearned=Decimal(6))
    assert (part.amount, held(opened), opened.holding(ANA, 1).earned) == (0, (30, 0, 0), 24)
    assert opened.reverse_part(stored(MINT), POINTS, Decimal(0), KEY, unearned=Decimal(6)) is None


def test_a_pending_mint_is_lowered():
    opened = session(ana=amounts(pending_credit=10))
    part = opened.reverse_part(stored(MINT, PENDING), POINTS, Decimal(4), KEY)
    assert (part.amount, part.status, part.is_partial, entries(part)) == (4, REVERTED, True, [(ANA, 0)])
    assert (opened.lowered, held(opened), opened.amount_of(stored(MINT, PENDING))) == ({8: 4}, (0, 0, 6), 6)
    assert opened.given_of(stored(MINT, PENDING)) == 10
    assert opened.reverse_part(stored(MINT, PENDING), POINTS, Decimal(4), KEY) is None
    whole = opened.reverse_part(stored(MINT, PENDING), POINTS, Decimal(10), KEY)
    assert (whole.amount, whole.is_partial, held(opened)) == (6, False, (0, 0, 0))


@pytest.mark.parametrize("transaction", [stored(BURN), stored(TRANSFER), stored(MINT, REVERTED)], ids=str)
def test_only_a_mint_that_was_not_reverted_is_reversed_in_part(transaction):
    opened = session(ana=amounts(current=30))
    assert opened.reverse_part(transaction, POINTS, Decimal(4), KEY) is None
    assert (opened.steps, opened.changes_stored) == ([], False)


# -- new movements --------------------------------------------------------------------------------------------------


def test_a_transfer_is_between_two_wallets():
    opened = session(ana=amounts(current=30))
    with pytest.raises(InvalidRequest) as caught:
        opened.transfer(POINTS, ANA, ANA, Decimal(1), KEY)
    assert [fault.pointer for fault in caught.value.faults] == ["/toWalletId"]
    step = opened.transfer(POINTS, ANA, BEN, Decimal(12), KEY)
    assert (entries(step), held(opened), held(opened, BEN)) == ([(ANA, -12), (BEN, 12)], (18, 0, 0), (12, 0, 0))
    with pytest.raises(InsufficientBalance):
        opened.transfer(POINTS, ANA, BEN, Decimal(19), KEY)


@pytest.mark.parametrize("move", ["mint", "burn", "transfer"])
def test_a_manual_movement_is_set_aside(move):
    opened = session(ana=amounts(current=30), ben=amounts(current=30))
    wallets = (ANA, BEN) if move == "transfer" else (ANA,)
    step = getattr(opened, move)(POINTS, *wallets, Decimal(4), KEY, manual=True)
    assert (step.status, step.amount, step.minted, step.burned) == (PENDING, 4, 0, 0)
    assert entries(step) == [(wallet, 0) for wallet in wallets]
    assert held(opened) == {"mint": (30, 0, 4), "burn": (30, 4, 0), "transfer": (30, 4, 0)}[move]
    assert held(opened, BEN) == ((30, 0, 4) if move == "transfer" else (30, 0, 0))


def test_an_account_with_an_overdraft_sets_nothing_aside():
    indebted = account(overdraft_limit=Decimal(5))
    with pytest.raises(CaptureNotSupported):
        session(indebted).mint(indebted, ANA, Decimal(4), KEY, manual=True)


def test_only_burns_have_a_value_in_money():
    money = Details("key", fiat=Fiat(Decimal(3), Decimal(4), "EUR"))
    opened = session(ana=amounts(current=30))
    with pytest.raises(FiatNotAllowed):
        opened.mint(POINTS, ANA, Decimal(4), money)
    with pytest.raises(FiatNotAllowed):
        opened.transfer(POINTS, ANA, BEN, Decimal(4), money)
    assert opened.burn(POINTS, ANA, Decimal(4), money).fiat_value == 3
    assert opened.holding(ANA, 1).fiat == 3


def test_only_tracked_points_have_an_expiry_of_their_own():
    with pytest.raises(PointsNotTracked):
        session().mint(POINTS, ANA, Decimal(4), KEY, expires_at=NOON + DAY)
    [move] = session(TRACKED).mint(TRACKED, ANA, Decimal(4), KEY, expires_at=NOON + DAY).lot_moves
    assert move.expires_at == NOON + DAY


def test_wallets_that_moved_are_dated():
    opened = session(ana=amounts(current=30))
    opened.transfer(POINTS, ANA, BEN, Decimal(1), KEY)
    assert [(pair, holding.last_transaction_date) for pair, holding in opened.changed_holdings()] == [
        ((ANA, 1), NOON),
        ((BEN, 1), NOON),
    ]
