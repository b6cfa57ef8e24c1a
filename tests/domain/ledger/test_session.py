"""Ledger sessions: random postings in any order neither lose nor create points, and examples of single rules.

The single rules are about rounding, debt, supply, expiry and fiat values.
"""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count

import pytest

from domain.ledger.allocation import Allocator
from domain.ledger.lots import Lot, LotUse
from domain.ledger.postings import (
    Capture,
    Details,
    Fiat,
    Holding,
    Posting,
    StoredTransaction,
    position_of,
    temporary_id,
)
from domain.ledger.records import BURN, MINT, PENDING, REVERTED, SETTLED, TRANSFER
from domain.ledger.refusals import (
    AccountInactive,
    AlreadyReverted,
    InsufficientBalance,
    OverdraftLimitExceeded,
    SupplyExceeded,
)
from domain.ledger.session import LedgerSession, check_amount, round_down, share_of
from domain.problems import InvalidRequest, Refusal
from tests.builders.campaigns import NOON, account
from tests.builders.ledger_sessions import stored_transaction
from tests.machines.effects import Effects

WALLETS = (1, 2, 3)
ACCOUNTS = {
    1: account(1),
    2: account(2, point_tracking_enabled=True, decimals=2),
    3: account(3, point_tracking_enabled=True, expires_in_months=2, max_supply=Decimal(100)),
    4: account(4, overdraft_limit=Decimal(40)),
    5: account(
        5, point_tracking_enabled=True, expires_in_months=1, overdraft_limit=Decimal(30), max_supply=Decimal(90)
    ),
    6: account(6, is_revolving=False, max_supply=Decimal(60)),
}


def details(key="k", **more):
    """The details of a transaction with this key."""
    return Details(key, **more)


def session(*accounts, holdings=None, supply=None, at=NOON):
    """A session with these accounts; holdings are by (wallet id, account id), and the supply is by account id."""
    return LedgerSession(
        {ledger_account.ledger_account_id: ledger_account for ledger_account in accounts},
        holdings or {},
        supply or {},
        at,
    )


KINDS = {MINT: "mint", BURN: "burn", TRANSFER: "transfer"}
EFFECTS = (
    *(f"{status}{kind}" for kind in KINDS.values() for status in ("", "pending ")),
    *("expiry", "captured", "released", "reverted", "reverted in part", "refused"),
    *("reverted_amount", "missing", "unearned"),
)


class RandomSteps:
    """Steps of all kinds on three wallets and six accounts, while the clock advances."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.effects = Effects()
        self.now = NOON
        self.holdings: dict = {}
        self.issued: dict = {}
        self.lots: list[Lot] = []
        self.stored: dict[int, StoredTransaction] = {}
        self.ids = count(1)
        # What partial reverts have reverted of each mint.
        self.returned: dict[int, Decimal] = {}
        # The earned points of mints with their own qualifying points.
        self.earned: dict[int, Decimal] = {}
        # What was minted less what was burned, by account.
        self.sums = {account_id: Decimal(0) for account_id in ACCOUNTS}

    def open(self) -> LedgerSession:
        """Open the ledger for a unit of work: release ended holds and burn expired lots."""
        ledger = LedgerSession(ACCOUNTS, self.holdings, self.issued, self.now)
        for transaction in self.stored.values():
            if (
                transaction.status == PENDING
                and transaction.held_until is not None
                and transaction.held_until <= self.now
            ):
                ledger.end_hold(transaction, ACCOUNTS[transaction.ledger_account_id])
        for (wallet, account_id), lots in self.expired().items():
            uses = tuple(LotUse(lot.ledger_lot_id, lot.remaining, lot.expires_at) for lot in lots)
            ledger.expire(ACCOUNTS[account_id], wallet, uses, self.now, f"expiry-{wallet}-{account_id}")
        return ledger

    def expired(self):
        """The lots that have expired and still have points, by wallet and account."""
        lots_by_holding: dict = {}
        for lot in self.lots:
            if lot.remaining and lot.expires_at is not None and lot.expires_at <= self.now:
                lots_by_holding.setdefault((lot.wallet_id, lot.ledger_account_id), []).append(lot)
        return lots_by_holding

    def work(self, do) -> bool:
        """Do a unit of work twice, with a rollback between, and keep it unless it is refused; return True if kept."""
        ledger = self.open()
        before = [ledger.holding(wallet, account) for wallet in WALLETS for account in ACCOUNTS]
        savepoint = ledger.savepoint()
        is_kept = True
        try:
            do(ledger)
        except Refusal:
            is_kept = False
            assert [ledger.holding(wallet, account) for wallet in WALLETS for account in ACCOUNTS] == before
            assert ledger.savepoint() == savepoint
        else:
            after_all = [ledger.holding(wallet, account) for wallet in WALLETS for account in ACCOUNTS]
            steps = list(ledger.steps)
            ledger.rollback_to(savepoint)
            assert [ledger.holding(wallet, account) for wallet in WALLETS for account in ACCOUNTS] == before
            do(ledger)
            assert [ledger.holding(wallet, account) for wallet in WALLETS for account in ACCOUNTS] == after_all
            assert ledger.steps == steps
        self.effects["refused"] += not is_kept
        self.keep(ledger)
        return is_kept

    def keep(self, ledger: LedgerSession) -> None:
        """Store what the unit of work has changed."""
        allocator = Allocator(self.lots)
        for step in ledger.steps:
            self.count(step)
            assert sum(entry.amount for entry in step.entries) == 0
            number = step.stored.ledger_transaction_id if isinstance(step, Capture) else next(self.ids)
            for move in step.lot_moves:
                allocator.apply(number, move)
            self.sums[step.account.ledger_account_id] += step.minted - step.burned
            if isinstance(step, Posting):
                if step.reverts is not None and not step.is_partial:
                    reverted_id = step.reverts.ledger_transaction_id
                    self.stored[reverted_id] = replace(self.stored[reverted_id], status=REVERTED)
                self.remember(number, step)
            else:
                self.stored[number] = replace(
                    self.stored[number],
                    status=SETTLED if step.amount else REVERTED,
                    amount=step.amount,
                    qualifying=step.qualifying,
                )
        self.holdings.update(ledger.changed_holdings())
        for name, amounts in (
            ("reverted_amount", ledger._reverted_amounts),
            ("released", ledger.released_amounts),
            ("missing", ledger._missing),
            ("unearned", ledger.unearned_amounts),
        ):
            for number, amount in amounts.items():
                transaction = self.stored[number]
                self.effects[name] += amount > getattr(transaction, name)
                lowered_fields = (
                    {"amount": transaction.amount - amount + transaction.released} if name == "released" else {}
                )
                self.stored[number] = replace(transaction, **{name: amount}, **lowered_fields)
        self.issued = dict(ledger._issued)
        self.store_lots(allocator)
        assert self.expired() == {}

    def count(self, step: Posting | Capture) -> None:
        """Count what a step did."""
        if isinstance(step, Capture):
            self.effects["captured" if step.amount else "released"] += 1
        elif step.reverts is not None:
            self.effects["reverted in part" if step.is_partial else "reverted"] += 1
        else:
            kind = "expiry" if step.is_expiry else KINDS[step.transaction_type]
            self.effects[kind if step.status == SETTLED else f"pending {kind}"] += 1

    def remember(self, number: int, step: Posting) -> None:
        """Store the transaction that a step posts."""
        self.stored[number] = StoredTransaction(
            ledger_transaction_id=number,
            ledger_account_id=step.account.ledger_account_id,
            transaction_type=step.transaction_type,
            status=step.status,
            amount=step.amount,
            from_wallet_id=step.from_wallet_id,
            to_wallet_id=step.to_wallet_id,
            is_expiry=step.is_expiry,
            fiat_value=step.fiat_value,
            reversal_ledger_transaction_id=None,
            external_event_date=step.details.external_event_date,
            pending_expires_at=step.pending_expires_at,
            entry_count=len(step.entries),
            held_until=step.held_until,
            qualifying=step.qualifying,
        )
        if step.qualifying is not None and step.status == SETTLED:
            self.earned[number] = step.qualifying

    def store_lots(self, allocator: Allocator) -> None:
        """Store the new and changed lots, and what the transactions took from them."""
        allocation = allocator.allocation
        number = max((lot.ledger_lot_id for lot in self.lots), default=0)
        new_ids = {old: number + index for index, old in enumerate(sorted(allocation.new), 1)}
        lots = [allocation.changed.get(lot.ledger_lot_id, lot) for lot in self.lots]
        lots += [replace(lot, ledger_lot_id=new_ids[old]) for old, lot in sorted(allocation.new.items())]
        self.lots = lots
        by_id = {lot.ledger_lot_id: lot for lot in lots}
        uses: dict[int, dict[int, Decimal]] = {}
        for (number, lot_id), amount in {**allocation.uses, **allocation.changed_uses}.items():
            uses.setdefault(number, {})[new_ids.get(lot_id, lot_id)] = amount
        for number, amounts in uses.items():
            uses_by_lot = {use.ledger_lot_id: use for use in self.stored[number].uses}
            for lot_id, amount in amounts.items():
                uses_by_lot[lot_id] = LotUse(lot_id, amount, by_id[lot_id].expires_at)
            remaining_uses = tuple(use for use in uses_by_lot.values() if use.amount)
            self.stored[number] = replace(self.stored[number], uses=remaining_uses)

    # --- the random steps ---

    def step(self):
        """Do one thing at random."""
        acts = {self.mint: 30, self.burn: 14, self.transfer: 12, self.capture: 14, self.revert: 14}
        acts |= {self.reverse_part: 10, self.wait: 5}
        self.chance.choices(list(acts), list(acts.values()))[0]()
        self.nothing_is_lost()
        self.only_reverts_take_away_what_was_earned()
        self.balances_keep_their_bounds()
        self.lots_cover_what_is_available()
        self.pending_amounts_are_those_of_pending_transactions()

    def flip(self):
        """True or False at random."""
        return self.chance.random() < 0.5

    def place(self):
        """A random wallet and account."""
        return self.chance.choice(WALLETS), ACCOUNTS[self.chance.choice(sorted(ACCOUNTS))]

    def mint(self):
        chance, (wallet, ledger_account) = self.chance, self.place()
        expires_at = self.now + timedelta(days=chance.randint(1, 50)) if self.flip() else None
        total = chance.randint(0, 60) + Decimal(chance.choice(["0", "0", "0.01", "0.25"]))
        age = chance.choice([0, 0, chance.randint(0, 70)])
        mint_details = details(external_event_date=self.now - timedelta(days=age))
        qualifying = Decimal(chance.randint(0, 200)) if self.flip() else None
        manual = age < 20 and self.flip()
        self.work(
            lambda b: b.mint(
                ledger_account, wallet, total, mint_details, expires_at=expires_at, manual=manual, qualifying=qualifying
            )
        )

    def burn(self):
        wallet, ledger_account = self.place()
        amount, allow_overdraft, manual = Decimal(self.chance.randint(0, 40)), self.flip(), self.flip()
        until = self.now + timedelta(days=self.chance.randint(1, 60)) if self.flip() else None
        self.work(
            lambda b: b.burn(
                ledger_account,
                wallet,
                amount,
                details(),
                allow_overdraft=allow_overdraft,
                manual=manual,
                held_until=until,
            )
        )

    def transfer(self):
        source, target = self.chance.sample(WALLETS, 2)
        (_, ledger_account), amount, manual = self.place(), Decimal(self.chance.randint(0, 30)), self.flip()
        self.work(lambda b: b.transfer(ledger_account, source, target, amount, details(), manual=manual))

    def pick(self, condition):
        """A stored transaction for which the condition holds, if there is one."""
        transactions = [transaction for _, transaction in sorted(self.stored.items()) if condition(transaction)]
        return self.chance.choice(transactions) if transactions else None

    def capture(self):
        transaction = self.pick(lambda transaction: transaction.status == PENDING)
        if transaction is not None:
            amount = transaction.amount * self.chance.randint(0, 4) // 4
            ledger_account = ACCOUNTS[transaction.ledger_account_id]
            if (
                self.work(lambda b: b.capture(transaction, ledger_account, amount))
                and transaction.qualifying is not None
                and amount
            ):
                returns = transaction.released
                qualifying = round_down(
                    ledger_account, transaction.qualifying * (amount + returns) / (transaction.amount + returns)
                )
                assert self.stored[transaction.ledger_transaction_id].qualifying == qualifying
                self.earned[transaction.ledger_transaction_id] = round_down(
                    ledger_account, qualifying * amount / (amount + returns)
                )

    def revert(self):
        transaction = self.pick(lambda transaction: True)
        choices = {"allow_overdraft": self.flip(), "burn_available": self.flip()}
        if transaction is not None:
            ledger_account = ACCOUNTS[transaction.ledger_account_id]
            if transaction.status == REVERTED:
                with pytest.raises(AlreadyReverted):
                    self.open().revert(transaction, ledger_account, details(), **choices)
            self.work(lambda b: b.revert(transaction, ledger_account, details(), **choices))

    def reverse_part(self):
        """Revert one to four quarters of what a mint gave at first; as much is no longer earned."""
        transaction, part = (
            self.pick(lambda transaction: transaction.transaction_type == MINT),
            self.chance.randint(1, 4),
        )
        if transaction is not None:
            ledger_account = ACCOUNTS[transaction.ledger_account_id]
            part_amount = round_down(ledger_account, (transaction.amount + transaction.released) * part / 4)
            kept_qualifying = (
                part_amount
                if transaction.qualifying is None
                else round_down(ledger_account, transaction.qualifying * (4 - part) / 4)
            )
            unearned = part_amount if transaction.qualifying is None else transaction.qualifying - kept_qualifying
            is_kept = self.work(
                lambda b: b.reverse_part(transaction, ledger_account, part_amount, details(), unearned=unearned)
            )
            if is_kept and transaction.ledger_transaction_id in self.earned and transaction.status == SETTLED:
                self.earned[transaction.ledger_transaction_id] = min(
                    self.earned[transaction.ledger_transaction_id], kept_qualifying
                )
            if is_kept and self.stored[transaction.ledger_transaction_id].status != REVERTED:
                before = self.returned.get(transaction.ledger_transaction_id, 0)
                self.returned[transaction.ledger_transaction_id] = max(before, part_amount)

    def wait(self):
        self.now += timedelta(days=self.chance.randint(1, 45))

    # --- the invariants ---

    def nothing_is_lost(self):
        for account_id, ledger_account in ACCOUNTS.items():
            holdings = [self.holdings.get((wallet, account_id), Holding()) for wallet in WALLETS]
            assert self.sums[account_id] == sum(holding.current - holding.overdraft for holding in holdings)
            if ledger_account.is_revolving and ledger_account.max_supply is not None:
                assert self.sums[account_id] <= ledger_account.max_supply
            if ledger_account.max_supply is not None:
                assert self.issued.get(account_id, 0) <= ledger_account.max_supply

    def only_reverts_take_away_what_was_earned(self):
        for wallet in WALLETS:
            for account_id in ACCOUNTS:
                mints = [
                    (mint_id, transaction)
                    for mint_id, transaction in self.stored.items()
                    if transaction.transaction_type == MINT and transaction.status == SETTLED
                ]
                # The amount of the mint lacks what was reverted while it was pending.
                earned_points = sum(
                    self.earned[mint_id]
                    if transaction.qualifying is not None
                    else transaction.amount
                    + transaction.released
                    - max(transaction.released, self.returned.get(mint_id, 0))
                    for mint_id, transaction in mints
                    if (transaction.to_wallet_id, transaction.ledger_account_id) == (wallet, account_id)
                )
                assert self.holdings.get((wallet, account_id), Holding()).earned == earned_points

    def balances_keep_their_bounds(self):
        for (_, account_id), holding in self.holdings.items():
            assert 0 <= holding.pending_debit <= holding.current
            assert 0 <= holding.overdraft <= (ACCOUNTS[account_id].overdraft_limit or 0)
            assert holding.pending_credit >= 0
            assert holding.overdraft_credit >= 0
            for amount in (holding.current, holding.overdraft, holding.pending_debit):
                assert amount == round_down(ACCOUNTS[account_id], amount)

    def lots_cover_what_is_available(self):
        for wallet in WALLETS:
            for account_id, ledger_account in ACCOUNTS.items():
                lots = [lot for lot in self.lots if (lot.wallet_id, lot.ledger_account_id) == (wallet, account_id)]
                assert all(0 <= lot.remaining <= lot.amount for lot in lots)
                holding = self.holdings.get((wallet, account_id), Holding())
                available = holding.available if ledger_account.point_tracking_enabled else 0
                assert sum(lot.remaining for lot in lots) == available

    def pending_amounts_are_those_of_pending_transactions(self):
        for wallet in WALLETS:
            for account_id in ACCOUNTS:
                pending = [
                    transaction
                    for transaction in self.stored.values()
                    if transaction.status == PENDING and transaction.ledger_account_id == account_id
                ]
                holding = self.holdings.get((wallet, account_id), Holding())
                assert holding.pending_debit == sum(
                    transaction.amount for transaction in pending if transaction.from_wallet_id == wallet
                )
                assert holding.pending_credit == sum(
                    transaction.amount for transaction in pending if transaction.to_wallet_id == wallet
                )


def test_random_steps_keep_all_invariants():
    histories = [RandomSteps(seed) for seed in range(40)]
    for history in histories:
        for _ in range(100):
            history.step()
    # All invariants hold after each step. Each of the EFFECTS has occurred at least 20 times, so it was tested.
    Effects.of_all(history.effects for history in histories).check(EFFECTS)


@pytest.mark.parametrize(
    ("decimals", "amount", "rounded_amount"),
    [
        (0, "1.999", "1"),
        (0, "-0.5", "-1"),
        (6, "1.0000019", "1.000001"),
        (2, "1e6000", "1e6000"),
        (6, "1e-6000", "0"),
        (0, "0." + "9" * 80, "0"),
        (3, "18446744073708.9999", "18446744073708.999"),
    ],
)
def test_amounts_are_rounded_down_to_the_decimals_of_the_account(decimals, amount, rounded_amount):
    assert round_down(account(decimals=decimals), Decimal(amount)) == Decimal(rounded_amount)


@pytest.mark.parametrize(
    ("decimals", "amount", "part", "whole", "share"),
    [(0, 10, 1, 3, "3"), (0, 20, 1, 3, "6"), (2, 10, 1, 3, "3.33"), (2, 20, 2, 3, "13.33"), (2, 10, 3, 3, "10")],
)
def test_a_share_is_rounded_down_to_the_decimals_of_the_account(decimals, amount, part, whole, share):
    share_of_amount = share_of(account(decimals=decimals), Decimal(amount), Decimal(part), Decimal(whole))
    assert share_of_amount == Decimal(share)


def test_an_amount_that_an_account_cannot_hold_is_refused():
    with pytest.raises(AccountInactive):
        check_amount(account(active=False), Decimal(1))
    for decimals, amount in ((0, "0.1"), (2, "0.001"), (6, "0.0000001"), (6, "18446744073709.000001"), (0, "1e30")):
        with pytest.raises(InvalidRequest) as refusal:
            check_amount(account(decimals=decimals), Decimal(amount))
        assert [fault.pointer for fault in refusal.value.faults] == ["/amount"]
    check_amount(account(), Decimal("5.000"))
    check_amount(account(), Decimal(18446744073709))


def test_a_mint_repays_debt_first():
    ledger_account = account(overdraft_limit=Decimal(50), point_tracking_enabled=True)
    ledger = session(ledger_account, holdings={(1, 1): Holding(current=Decimal(3))})
    ledger.burn(ledger_account, 1, Decimal(23), details("a"), allow_overdraft=True)
    assert (ledger.holding(1, 1).current, ledger.holding(1, 1).overdraft) == (0, 23 - 3)
    burn_entries = [(entry.amount, entry.is_overdraft) for entry in ledger.steps[-1].entries]
    assert burn_entries == [(-3, False), (-20, True), (23, False)]
    ledger.mint(ledger_account, 1, Decimal(15), details("b"))
    holding = ledger.holding(1, 1)
    assert (holding.current, holding.overdraft, holding.overdraft_credit) == (0, 20 - 15, 15)
    assert ledger.steps[-1].lot_moves == ()
    # 5 of the next 15 points repay the last debt.
    ledger.mint(ledger_account, 1, Decimal(15), details("c"))
    holding = ledger.holding(1, 1)
    assert (holding.current, holding.overdraft, holding.overdraft_credit) == (15 - 5, 0, 15 + 5)
    assert [move.amount for move in ledger.steps[-1].lot_moves] == [10]


def test_a_burn_may_create_debt_only_if_requested_and_only_up_to_the_limit():
    ledger_account = account(overdraft_limit=Decimal(50))
    ledger = session(ledger_account)
    ledger.burn(ledger_account, 1, Decimal(50), details(), allow_overdraft=True)
    with pytest.raises(OverdraftLimitExceeded):
        ledger.burn(ledger_account, 1, Decimal(1), details(), allow_overdraft=True)
    with pytest.raises(InsufficientBalance):
        ledger.burn(ledger_account, 1, Decimal(1), details())
    for account_without_overdraft in (
        account(),
        account(overdraft_limit=Decimal(0)),
        account(overdraft_limit=Decimal(5), is_revolving=False),
    ):
        with pytest.raises(InsufficientBalance):
            session(account_without_overdraft).burn(
                account_without_overdraft, 1, Decimal(1), details(), allow_overdraft=True
            )


def test_burned_points_can_be_issued_again_only_if_the_account_is_revolving():
    for revolving in (True, False):
        # 4 of at most 10 points have been issued.
        ledger_account = account(max_supply=Decimal(10), is_revolving=revolving)
        ledger = session(ledger_account, supply={1: Decimal(4)}, holdings={(1, 1): Holding(current=Decimal(4))})
        with pytest.raises(SupplyExceeded) as refusal:
            ledger.mint(ledger_account, 1, Decimal(7), details())
        assert refusal.value.extension_fields["available"] == 10 - 4
        ledger.mint(ledger_account, 1, Decimal(5), details())
        ledger.mint(ledger_account, 1, Decimal(1), details())
        ledger.burn(ledger_account, 1, Decimal(10), details())
        if revolving:
            ledger.mint(ledger_account, 1, Decimal(10), details())
        with pytest.raises(SupplyExceeded):
            ledger.mint(ledger_account, 1, Decimal(1), details())


def test_points_that_have_expired_by_the_time_of_their_mint_are_burned_at_once():
    ledger_account = account(point_tracking_enabled=True, expires_in_months=1)
    # Points of an event of 4 March expired on 4 April.
    at = datetime(2026, 5, 1, tzinfo=UTC)
    ledger = session(ledger_account, at=at)
    ledger.mint(ledger_account, 1, Decimal(5), details("old", external_event_date=NOON))
    mint_step, expiry_step = ledger.steps
    assert mint_step.amount == 5
    assert (expiry_step.amount, expiry_step.transaction_type, expiry_step.is_expiry) == (5, BURN, True)
    assert ledger.holding(1, 1).current == 0
    assert expiry_step.details.request_digest is None
    ledger.mint(ledger_account, 1, Decimal(5), details("new", external_event_date=at))
    assert ledger.holding(1, 1).current == 5
    # The mint of an old event keeps its points if it has a later expiry of its own.
    details_of_old_event = details("kept", external_event_date=NOON)
    ledger.mint(ledger_account, 1, Decimal(7), details_of_old_event, expires_at=at + timedelta(days=1))
    assert ledger.holding(1, 1).current == 5 + 7


def test_the_months_until_points_expire_count_from_the_date_of_their_event():
    ledger_account = account(point_tracking_enabled=True, expires_in_months=1)
    ledger = session(ledger_account)
    ledger.mint(ledger_account, 1, Decimal(5), details("a", external_event_date=NOON - timedelta(days=3)))
    ledger.mint(ledger_account, 1, Decimal(5), details("b"))
    # The events were on 1 and 4 March.
    expiries = [move.expires_at for step in ledger.steps for move in step.lot_moves]
    assert expiries == [datetime(2026, 4, 1, 12, tzinfo=UTC), datetime(2026, 4, 4, 12, tzinfo=UTC)]


def test_an_expiry_is_no_transaction_that_postpones_the_end_of_an_idle_balance():
    ledger_account = account(point_tracking_enabled=True)
    last_transaction_date = NOON - timedelta(days=9)
    holding = Holding(current=Decimal(5), last_transaction_date=last_transaction_date)
    ledger = session(ledger_account, holdings={(1, 1): holding})
    ledger.expire(ledger_account, 1, (LotUse(1, Decimal(5)),), moment=NOON, key="key")
    assert ledger.holding(1, 1) == replace(holding, current=Decimal(0))
    assert ledger.changed_holdings() == [((1, 1), replace(holding, current=Decimal(0)))]


@pytest.mark.parametrize(("days_until_expiry", "balance"), [(-1, 0), (0, 0), (1, 5)])
def test_points_that_expired_before_their_revert_are_burned_at_once(days_until_expiry, balance):
    ledger_account = account(point_tracking_enabled=True)
    use = LotUse(1, Decimal(5), NOON + timedelta(days=days_until_expiry))
    stored_burn = stored_transaction(BURN, amount=5, from_wallet_id=1, uses=(use,))
    ledger = session(ledger_account)
    ledger.revert(stored_burn, ledger_account, details())
    assert ledger.holding(1, 1).current == balance
    if balance == 0:
        revert_step, expiry_step = ledger.steps
        assert expiry_step.is_expiry
    else:
        [revert_step] = ledger.steps
    assert not revert_step.is_expiry
    with pytest.raises(AlreadyReverted):
        ledger.revert(stored_burn, ledger_account, details())


def test_fiat_values_of_many_digits_are_counted_exactly():
    value, points = Decimal("13073453037177.8703333333333333"), account()
    ledger = session(points, holdings={(1, 1): Holding(current=Decimal(10))})
    burn_step = ledger.burn(points, 1, Decimal(5), details("a", fiat=Fiat(value)))
    ledger.burn(points, 1, Decimal(5), details("b", fiat=Fiat(Decimal(1))))
    assert ledger.holding(1, 1).fiat == Decimal("13073453037178.8703333333333333")
    stored_burn = stored_transaction(BURN, amount=5, from_wallet_id=1, fiat_value=burn_step.fiat_value)
    ledger.revert(stored_burn, points, details("c"))
    assert ledger.holding(1, 1).fiat == 1


def test_the_smallest_fiat_values_are_added_exactly_to_the_largest():
    largest, smallest, points = Decimal(18446744073709), Decimal("2.2250738585e-308"), account()
    ledger = session(points, holdings={(1, 1): Holding(current=Decimal(10))})
    ledger.burn(points, 1, Decimal(5), details("a", fiat=Fiat(largest)))
    ledger.burn(points, 1, Decimal(5), details("b", fiat=Fiat(smallest)))
    # The 307 zeros are the digits between the units of the one and the first digit of the other.
    assert ledger.holding(1, 1).fiat.as_tuple().digits == (
        *map(int, "18446744073709"),
        *[0] * 307,
        *map(int, "22250738585"),
    )


def test_the_steps_of_a_session_have_ids_below_zero_until_they_are_stored():
    assert [temporary_id(place) for place in (0, 1, 5)] == [-1, -2, -6]
    assert [position_of(temporary) for temporary in (-1, -2, -6)] == [0, 1, 5]
