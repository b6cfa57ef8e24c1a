"""The ledger on PostgreSQL and a simple model: after random steps, both have the same state."""

from __future__ import annotations

import pickle
import uuid
from copy import deepcopy
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import product
from random import Random
from types import SimpleNamespace
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import Engine

from domain.problems import Refusal
from handlers.services.ledger.movements import Movement
from persistence.posting import lots
from tests.builders.ledger_client import START, LedgerClient
from tests.machines.effects import Effects
from tests.machines.model import NEVER, PENDING, REVERTED, SETTLED, Model, Record, Refused, months_after, refuse, total

WALLETS, ACCOUNTS = 3, 2
STEPS_BETWEEN_VERIFICATIONS = 12
STEPS_BETWEEN_ISSUED_AMOUNTS = 4

# A number, or for a debit also all available points, half of them, or ten more than are available.
amounts = st.sampled_from(
    [*(Decimal(number) for number in (1, 2, 5, 10, 10, 25, 60, "0.5")), "all", "half", "half", "more"]
)
days = st.sampled_from([-400, -62, -31, -1, 0, 1, 10, 31, 70])
rarely = st.sampled_from([False, False, False, True])
wallets = st.sampled_from([0, 0, 0, 1, 1, 2])
accounts = st.sampled_from([0, 0, 0, 1])
recent = st.integers(0, 8)

rules = st.builds(
    lambda expiry, **others: {"active": True, **expiry, **others},
    expiry=st.sampled_from(
        [
            {"tracked": False, "months": None, "idle": None},
            {"tracked": True, "months": None, "idle": None},
            {"tracked": True, "months": 1, "idle": None},
            {"tracked": True, "months": 3, "idle": None},
            {"tracked": True, "months": None, "idle": 1},
            {"tracked": True, "months": 2, "idle": 1},
        ]
    ),
    revolving=st.sampled_from([True, True, False]),
    overdraft=st.sampled_from([0, 40, 25]),
    cap=st.sampled_from([None, None, 130]),
    decimals=st.sampled_from([0, 1, 6]),
).map(lambda values: SimpleNamespace(**{**values, "overdraft": values["overdraft"] if values["revolving"] else 0}))

moves = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["mint", "mint", "burn", "burn", "transfer"]),
        "account": accounts,
        "source": wallets,
        "target": st.sampled_from([1, 1, 2, 2, 2, 0]),
        "amount": amounts,
        "manual": rarely,
        "overdraft": st.booleans(),
        "event": st.none() | days,
        "expires": st.sampled_from([None, None, 1, 10, 31, 70]),
    }
)
reverts = st.fixed_dictionaries(
    {"kind": st.just("revert"), "which": recent, "any": rarely, "overdraft": st.booleans(), "available": rarely}
)
requests = st.sampled_from([moves, moves, moves, reverts]).flatmap(lambda kind: kind)

EFFECTS = (
    *("mint", "burn", "transfer", "revert", "hold", "set", "batch of sets", "repeat"),
    *("capture all", "capture half", "capture none", "expire", "owe", "repay", "refuse on a closed account"),
)


class Figures(NamedTuple):
    """The figures of a wallet in an account; those of a wallet without a balance by default."""

    current: Decimal = Decimal(0)
    pending_debit: Decimal = Decimal(0)
    pending_credit: Decimal = Decimal(0)
    debt: Decimal = Decimal(0)
    repaid_debt: Decimal = Decimal(0)
    last_transaction_at: datetime | None = None
    earned: Decimal = Decimal(0)


class Units:
    """Runs acts on a model as one unit of work, and undoes them if it is refused."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def do(self, wallet_ids, account_ids, *acts):
        """Expire lots of these wallets and accounts and do all acts, or nothing; return the slug of the refusal."""
        before = pickle.dumps(self.model.__dict__)
        try:
            if wallet_ids:
                self.model.expire(wallet_ids, account_ids)
            for act in acts:
                act()
        except Refused as refusal:
            self.model.__dict__ = pickle.loads(before)
            return str(refusal)
        return None

    def batch(self, wallet_ids, account_ids, items):
        """Run each of (set, act) individually, but all acts of a set at the position of its first one.

        Return the slug of each refusal or None.
        """
        self.model.expire(wallet_ids, account_ids)
        outcomes, units = [None] * len(items), {}
        for position, (name, _) in enumerate(items):
            units.setdefault(name or position, []).append(position)
        for positions in units.values():
            before = pickle.dumps(self.model.__dict__)
            for position in positions:
                slug = self.do((), (), items[position][1])
                if slug:
                    self.model.__dict__ = pickle.loads(before)
                    outcomes = [
                        "atomic-set-failed" if at in positions else outcome for at, outcome in enumerate(outcomes)
                    ]
                    outcomes[position] = slug
                    break
        return outcomes


class Ledger(RuleBasedStateMachine):
    """Each rule sends one request to the product and to the model; after it, both have to show the same state."""

    engine: Engine
    effects: Effects
    model: Model | None = None

    @initialize(rules_of_accounts=st.lists(rules, min_size=ACCOUNTS, max_size=ACCOUNTS))
    def open(self, rules_of_accounts):
        self.client = LedgerClient.new(self.engine)
        self.wallets = self.client.wallets(WALLETS)
        self.accounts = [
            self.client.account(
                active=account_rules.active,
                point_tracking_enabled=account_rules.tracked,
                expires_in_months=account_rules.months,
                expiration_policies=[{"expirationType": "lastTransaction", "period": account_rules.idle}]
                if account_rules.idle
                else [],
                overdraft_limit=account_rules.overdraft or None,
                max_supply=account_rules.cap,
                is_revolving=account_rules.revolving,
                decimals=account_rules.decimals,
            )
            for account_rules in rules_of_accounts
        ]
        self.model = Model(dict(zip(self.accounts, rules_of_accounts, strict=True)), START)
        self.units = Units(self.model)
        self.ids, self.done, self.requests, self.steps, self.expired = {}, [], 0, 0, 0
        # Points to spend, in lots that expire in another order than that of their mints.
        defaults = {"kind": "mint", "source": 0, "manual": False, "overdraft": False, "event": None}
        several = [
            ({**defaults, "account": n, "target": target, "amount": Decimal(amount), "expires": days}, None)
            for n, account_rules in enumerate(rules_of_accounts)
            for target, amount, days in (
                (0, 20, None),
                (0, 20, 31 if account_rules.tracked else None),
                (0, 15, 10 if account_rules.tracked else None),
                (0, 15, 5 if account_rules.tracked else None),
                (1, 20, 31 if account_rules.tracked else None),
                (1, 10, 5 if account_rules.tracked else None),
            )
        ]
        # Holds to settle.
        hold = {**defaults, "kind": "burn", "manual": True, "amount": Decimal(10), "expires": None}
        several += [({**hold, "account": n, "source": wallet}, None) for n in range(ACCOUNTS) for wallet in (0, 1)]
        self.each_for_itself(several)

    @rule(request=requests)
    def post_one(self, request):
        """Post a single movement."""
        self.post_movement(request)

    def post_movement(self, request):
        """Post one movement on both sides; return the slug of the refusal, or None."""
        plan = self.plan_of(request)
        slug, ids = self.attempt(lambda: [self.client.post(plan.movement)])
        assert slug == self.units.do(plan.wallets, plan.accounts, plan.act)
        self.remember([plan], ids)
        return slug

    @rule(several=st.lists(requests, min_size=1, max_size=3))
    def all_or_nothing(self, several):
        """Post a transaction set."""
        plans = [self.plan_of(request) for request in several]
        slug, ids = self.attempt(lambda: self.client.post_set([plan.movement for plan in plans]))
        assert slug == self.units.do(*self.wallets_and_accounts(plans), *(plan.act for plan in plans))
        self.remember(plans, ids)
        self.effects["set"] += slug is None

    @rule(several=st.lists(st.tuples(requests, st.sampled_from([None, None, "a", "b"])), min_size=2, max_size=6))
    def each_for_itself(self, several):
        """Post a batch with items that succeed or fail as a set."""
        sets = {"a": str(uuid.uuid4()), "b": str(uuid.uuid4()), None: None}
        plans = [self.plan_of(request) for request, _ in several]
        movements = [replace(m.movement, atomic_set_id=sets[name]) for m, (_, name) in zip(plans, several, strict=True)]
        outcomes = self.client.post_batch(movements)
        items = [(name, plan.act) for plan, (_, name) in zip(plans, several, strict=True)]
        assert [None if isinstance(outcome, int) else outcome.slug for outcome in outcomes] == self.units.batch(
            *self.wallets_and_accounts(plans), items
        )
        for plan, movement, outcome in zip(plans, movements, outcomes, strict=True):
            plan.movement = movement
            self.remember([plan], [outcome] if isinstance(outcome, int) else None)
            self.effects["batch of sets"] += isinstance(outcome, int) and movement.atomic_set_id is not None

    @precondition(lambda self: self.pending_keys())
    @rule(several=st.lists(st.tuples(recent, st.sampled_from(["all", "half", "none", "more"])), min_size=1, max_size=2))
    def settle(self, several):
        """Capture a hold, in part or as a whole, or release it."""
        parts, portions = [], {}
        for which, part in several:
            # Sometimes a transaction that is not pending.
            pending = self.pending_keys()
            key = [*pending, *pending, *pending, *list(self.ids)[-1:]][which % (3 * len(pending) + 1)]
            amount = self.model.done[key].amount
            portions[key] = part
            parts.append((key, {"all": amount, "half": amount // 2, "none": Decimal(0), "more": amount + 1}[part]))
        account = self.model.done[parts[0][0]].account

        def part(key, amount):
            return None if amount == self.model.done[key].amount else amount

        parts = [(key, amount) for key, amount in parts if self.model.done[key].account == account]
        slug, _ = self.attempt(
            lambda: self.client.capture(account, [(self.ids[key], part(key, amount)) for key, amount in parts])
        )
        wallets = {
            wallet
            for key, _ in parts
            for wallet in (self.model.done[key].source, self.model.done[key].target)
            if wallet
        }
        acts = [lambda key=key, amount=amount: self.model.capture(key, amount) for key, amount in parts]
        assert slug == self.units.do(wallets, {account}, *acts)
        self.effects.update(f"capture {portions[key]}" for key, _ in parts if slug is None)

    @precondition(lambda self: not all(rules.overdraft for rules in self.model.rules.values()))
    @rule(
        kind=st.sampled_from(["burn", "transfer"]),
        source=wallets,
        which=recent,
        greedy=rarely,
        then=requests,
        part=st.sampled_from(["half", "half", "all", "none"]),
    )
    def hold(self, kind, source, which, greedy, then, part):
        """Hold an amount that the next request may need, too, and settle the hold after that request."""
        free = [n for n, account in enumerate(self.accounts) if not self.model.rules[account].overdraft]
        n = free[which % len(free)]
        hold = {"kind": kind, "account": n, "source": source, "target": 1, "amount": "all" if greedy else "half"}
        self.post_movement({**hold, "manual": True, "overdraft": False, "event": None, "expires": None})
        target = {"account": n, "source": source} if then["kind"] != "revert" else {}
        self.post_movement({**then, **target})
        if self.pending_keys():
            self.settle([(which % len(self.pending_keys()), part)])

    @precondition(lambda self: self.pending_keys())
    @rule(which=recent, part=st.sampled_from(["none", "half", "all"]), expiring=st.booleans())
    def settle_one(self, which, part, expiring):
        """Capture one of the pending transactions; the released points may expire soon after."""
        self.settle([(which % (3 * len(self.pending_keys())), part)])
        if expiring:
            self.wait_for_an_expiry(early=False)

    @precondition(lambda self: any(rules.overdraft for rules in self.model.rules.values()))
    @rule(source=wallets, which=recent, expired_first=rarely, repaid=st.sampled_from([True, True, False]))
    def owe(self, source, which, expired_first, repaid):
        """Burn ten points more than are available, so that the wallet gets into debt."""
        if expired_first:
            self.wait_for_an_expiry(early=False)
        indebted = [n for n, account in enumerate(self.accounts) if self.model.rules[account].overdraft]
        burn = {"kind": "burn", "manual": False, "overdraft": True, "event": None, "expires": None}
        debts = sum(self.model.debt.values())
        self.post_movement({**burn, "account": indebted[which % len(indebted)], "source": source, "amount": "more"})
        self.effects["owe"] += sum(self.model.debt.values()) > debts
        if repaid and any(self.model.debt.values()):
            self.repay(which, (source + 1) % WALLETS, True)

    @precondition(lambda self: any(self.model.debt.values()))
    @rule(which=recent, source=wallets, all_of_it=st.booleans())
    def repay(self, which, source, all_of_it):
        """Transfer points to a wallet with debt from another wallet, which gets a new lot before."""
        owing = [pair for pair, debt in self.model.debt.items() if debt]
        wallet, account = owing[which % len(owing)]
        n = self.accounts.index(account)
        mint = {
            "kind": "mint",
            "account": n,
            "source": 0,
            "target": source,
            "amount": Decimal(10),
            "expires": which + 1,
        }
        options, debt = {"manual": False, "overdraft": False, "event": None}, self.model.debt[wallet, account]
        self.post_movement({**mint, **options})
        transfer = {"kind": "transfer", "account": n, "source": source, "expires": None}
        target = (self.wallets.index(wallet) - source) % WALLETS
        self.post_movement({**transfer, **options, "target": target, "amount": "all" if all_of_it else Decimal(15)})
        self.effects["repay"] += self.model.debt[wallet, account] < debt

    @precondition(lambda self: self.done)
    @rule(which=recent)
    def ask_again(self, which):
        """Repeat a request: it gets the response of the first, and changes nothing."""
        movement, *wallets_and_accounts, transaction_id = self.done[-1 - which % len(self.done)]
        assert self.client.post(movement) == transaction_id
        self.units.do(*wallets_and_accounts)
        self.effects["repeat"] += 1

    @rule(passed=st.sampled_from([0, 1, 5, 20, 31, 45]), microseconds=st.sampled_from([0, 0, 1]))
    def wait(self, passed, microseconds):
        """Advance the clock."""
        self.tick(timedelta(days=passed, microseconds=microseconds))

    @rule(early=rarely, which=recent)
    def wait_for_an_expiry(self, early, which=0):
        """Advance the clock to the moment at which a lot or a balance expires, or to the moment before it."""
        moments = sorted(lot.expires for lots in self.model.lots.values() for lot in lots)
        periods = {account: rules.idle for account, rules in self.model.rules.items() if rules.idle}
        moments += [months_after(last, periods[a]) for (_, a), last in self.model.last.items() if a in periods]
        moments = [moment for moment in moments if self.model.now < moment < NEVER]
        if moments:
            self.tick(moments[which % len(moments)] - self.model.now - timedelta(microseconds=early))

    @rule(account=accounts, request=requests, captured=rarely)
    def on_a_closed_account(self, account, request, captured):
        """Deactivate an account, try a request, and activate the account again."""
        for active in (False, True):
            self.client.change(self.accounts[account], active=active)
            self.model.rules[self.accounts[account]].active = active
            if not active and captured and self.pending_keys():
                self.settle([(0, "all")])
            elif not active:
                on_it = {"account": account} if request["kind"] != "revert" else {}
                self.effects["refuse on a closed account"] += self.post_movement({**request, **on_it}) is not None

    @invariant()
    def balances_equal_the_model(self):
        expected_views = {pair: self.expected_view(*pair) for pair in product(self.wallets, self.accounts)}
        # A wallet without a balance in an account.
        empty_views = dict.fromkeys(expected_views, Figures())
        views = {pair: view_figures(view) for pair, view in self.client.balances(self.wallets).items()}
        assert empty_views | views == expected_views
        if self.steps % STEPS_BETWEEN_ISSUED_AMOUNTS == 0:
            self.issued_amounts_equal_the_model()
        expired_sum = sum(self.model.expired.values())
        self.effects["expire"] += expired_sum != self.expired
        self.expired = expired_sum
        self.steps += 1
        if self.steps % STEPS_BETWEEN_VERIFICATIONS == 0:
            assert self.client.verify() == []

    def issued_amounts_equal_the_model(self):
        issued_amounts = dict.fromkeys(self.accounts, 0) | self.client.issued_amounts(*self.accounts)
        assert issued_amounts == {account: self.model.issued_amount(account) for account in self.accounts}

    def teardown(self):
        if self.model is not None:
            self.issued_amounts_equal_the_model()
            assert self.client.verify() == []
            # Undoing takes as long as the history, so it is done in about half of the examples.
            if self.requests % 2:
                self.undo_everything()
                assert self.client.verify() == []

    def undo_everything(self):
        """Revert all transactions in any order: no balance remains, and no debt unless points had expired."""
        for account in self.accounts:
            self.client.change(account, active=True)
            self.model.rules[account].active = True
        shuffled, before = Random(self.requests), None
        while (active_keys := [key for key in self.ids if self.is_active(key)]) != before:
            before = active_keys
            for key in shuffled.sample(active_keys, len(active_keys)):
                self.post_movement({"kind": "revert", "key": key, "overdraft": False, "available": True})
        self.balances_equal_the_model()
        self.issued_amounts_equal_the_model()
        if not active_keys:
            for pair in product(self.wallets, self.accounts):
                view = self.expected_view(*pair)
                assert (view.current, view.pending_debit, view.pending_credit) == (0, 0, 0)
                assert view.debt == 0 or any(self.model.expired.values())

    def is_active(self, key):
        return self.model.done[key].status != REVERTED and self.model.done[key].kind != "revert"

    def expected_view(self, wallet, account):
        """The figures of a wallet by the model."""
        pair, model = (wallet, account), self.model
        debit, credit = model.pending(account, source=wallet), model.pending(account, target=wallet)
        return Figures(
            current=total(model.unexpired_lots(pair)) + debit,
            pending_debit=debit,
            pending_credit=credit,
            debt=model.debt[pair],
            repaid_debt=model.repaid[pair],
            last_transaction_at=model.last.get(pair),
            earned=self.earned_points(*pair),
        )

    def earned_points(self, wallet, account):
        """The points of the wallet's mints that are not reverted; nothing but the revert of a mint lowers them."""
        mints = (
            transaction
            for transaction in self.model.done.values()
            if transaction.kind == "mint" and transaction.status == SETTLED
        )
        return sum(
            (
                transaction.amount
                for transaction in mints
                if (transaction.target, transaction.account) == (wallet, account)
            ),
            Decimal(0),
        )

    def plan_of(self, request):
        """The movement of a request for the product, and its act on the model, with the wallets and accounts."""
        self.requests += 1
        key, unique = self.requests, str(uuid.uuid4())
        if request["kind"] == "revert":
            return self.plan_of_revert(key, unique, request)
        manual, overdraft, account = request["manual"], request["overdraft"], self.accounts[request["account"]]
        source = None if request["kind"] == "mint" else self.wallets[request["source"]]
        offset = request["source"] if request["kind"] == "transfer" else 0
        record = Record(
            kind=request["kind"],
            account=account,
            source=source,
            target=None if request["kind"] == "burn" else self.wallets[(request["target"] + offset) % WALLETS],
            amount=self.amount(request["amount"], (source, account)),
            event=self.in_days(request["event"]),
            expires=self.in_days(None if manual or request["kind"] != "mint" else request["expires"]),
        )
        movement = Movement(
            record.account,
            record.amount,
            record.source,
            record.target,
            system_unique_key=unique,
            external_event_date=record.event,
            expiration_date=record.expires,
            manual=manual,
            allow_overdraft=overdraft,
        )
        wallets = {wallet for wallet in (record.source, record.target) if wallet}
        act = lambda: self.model.post(key, deepcopy(record), manual, overdraft)  # noqa: E731
        return Record(key=key, movement=movement, wallets=wallets, accounts={record.account}, act=act)

    def plan_of_revert(self, key, unique, request):
        """The plan of a revert of a stored transaction, or of an unknown one if none is stored."""
        overdraft, available = request["overdraft"], request["available"]
        movement = Movement(reverts=0, system_unique_key=unique, allow_overdraft=overdraft, burn_available=available)
        if not self.ids:
            act = lambda: refuse(True, "unknown-ledger-transaction")  # noqa: E731
            return Record(key=key, movement=movement, wallets=set(), accounts=set(), act=act)
        settled_keys = [
            key for key in self.ids if self.model.done[key].status == SETTLED and self.model.done[key].kind != "revert"
        ]
        candidates = list(self.ids) if request.get("any") or not settled_keys else settled_keys
        original = request["key"] if "key" in request else candidates[-1 - request["which"] % len(candidates)]
        transaction = self.model.done[original]
        movement = replace(movement, reverts=self.ids[original])
        act = lambda: self.model.revert(key, original, overdraft, available)  # noqa: E731
        wallets = {wallet for wallet in (transaction.source, transaction.target) if wallet}
        return Record(key=key, movement=movement, wallets=wallets, accounts={transaction.account}, act=act)

    def amount(self, request, pair):
        if isinstance(request, Decimal):
            return request
        available = total(self.model.unexpired_lots(pair)) if pair[0] else Decimal(40)
        # Ten more than the available points may still be less than the available and the held points.
        return {"all": available, "half": available // 2, "more": available + 10}[request] or Decimal(20)

    def in_days(self, days):
        return None if days is None else self.model.now + timedelta(days=days)

    def wallets_and_accounts(self, plans):
        """The wallets and accounts of one unit of work, in which expired lots are burned."""
        return set().union(*(plan.wallets for plan in plans)), set().union(*(plan.accounts for plan in plans))

    def attempt(self, work):
        """Do some work; return the slug of the refusal, or None, and the result."""
        try:
            return None, work()
        except Refusal as refusal:
            return refusal.slug, None

    def remember(self, plans, ids):
        for plan, transaction_id in zip(plans, ids or (), strict=bool(ids)):
            self.ids[plan.key] = transaction_id
            self.done.append((plan.movement, plan.wallets, plan.accounts, transaction_id))
            self.effects["hold" if plan.movement.manual else self.model.done[plan.key].kind] += 1

    def pending_keys(self):
        return [key for key, transaction in self.model.done.items() if transaction.status == PENDING]

    def tick(self, passed):
        self.model.now += passed
        self.client.now += passed


def view_figures(view):
    """The figures of a wallet as the product shows them."""
    return Figures(
        current=view.current_balance,
        pending_debit=view.pending_debit_balance,
        pending_credit=view.pending_credit_balance,
        debt=view.current_overdraft_balance,
        repaid_debt=view.total_overdraft_credit_balance,
        last_transaction_at=view.last_transaction_date,
        earned=view.earned,
    )


def run(engine, **profile):
    """Run the machine, and check that each rule had an effect; `profile` are settings of Hypothesis."""
    effects = Effects()
    machine = type("LedgerOnPostgreSQL", (Ledger,), {"engine": engine, "effects": effects})
    checks = list(HealthCheck)
    run_state_machine_as_test(machine, settings=settings(database=None, suppress_health_check=checks, **profile))
    effects.check(EFFECTS)


@pytest.fixture(autouse=True)
def few_lots_at_first(monkeypatch):
    """Read only two lots of a wallet at first, so that wallets with a few lots already need more."""
    monkeypatch.setattr(lots, "_FIRST_LIMIT", 2)


def test_the_ledger_after_random_steps_equals_the_model(engine):
    run(engine, max_examples=45, stateful_step_count=25, derandomize=True)


@pytest.mark.stress
def test_the_ledger_after_many_random_steps_equals_the_model(engine):
    run(engine, max_examples=600, stateful_step_count=60)
