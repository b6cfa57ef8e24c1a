"""What the ledger should do, said as plainly as can be: lots, debts and transactions in lists, without a database.

A balance is what its lots have left and what pending transactions took from them. An account without tracking has lots
too, which never expire. Rules of an account: active, tracked, months, idle, overdraft, cap, revolving, decimals.
"""

from calendar import monthrange
from collections import defaultdict
from datetime import UTC, datetime
from decimal import Decimal
from types import SimpleNamespace as Record

PENDING, SETTLED, REVERTED = 0, 1, 2
NEVER = datetime.max.replace(tzinfo=UTC)


class Refused(Exception):
    """Raised before anything has changed; says the slug of the problem."""


def refuse(condition, slug):
    if condition:
        raise Refused(slug)


def months_after(moment, months):
    years, month = divmod(moment.month - 1 + months, 12)
    last_day = monthrange(moment.year + years, month + 1)[1]
    return moment.replace(year=moment.year + years, month=month + 1, day=min(moment.day, last_day))


def total(things):
    return sum((each.amount for each in things), Decimal(0))


class Model:
    def __init__(self, rules, now):
        self.rules, self.now, self.done, self.serial = rules, now, {}, 0
        self.lots, self.last, self.minted = defaultdict(list), {}, defaultdict(Decimal)
        self.debt, self.repaid = defaultdict(Decimal), defaultdict(Decimal)

    def pending(self, account, **side):
        of = [t for t in self.done.values() if t.status == PENDING and t.account == account]
        return total(t for t in of if side.items() <= vars(t).items() and (side or t.source))

    def unexpired(self, pair):
        idle, last = self.rules[pair[1]].idle, self.last.get(pair)
        ended = idle and last and months_after(last, idle) <= self.now
        return [lot for lot in self.lots[pair] if lot.expires > self.now and not ended]

    def expire(self, wallets, accounts):
        for pair in ((wallet, account) for wallet in wallets for account in accounts):
            self.lots[pair] = self.unexpired(pair)

    def issued(self, account):
        held = total(lot for pair, lots in self.lots.items() if pair[1] == account for lot in lots)
        owed = sum(debt for pair, debt in self.debt.items() if pair[1] == account)
        return held + self.pending(account) - owed if self.rules[account].revolving else self.minted[account]

    def check(self, account, amount, issuing=False):
        rules = self.rules[account]
        refuse(not rules.active, "account-inactive")
        refuse(amount != round(amount, rules.decimals), "invalid-request")
        refuse(issuing and rules.cap is not None and self.issued(account) + amount > rules.cap, "supply-exceeded")

    def shortfall(self, pair, amount, allowed=False):
        short, limit = amount - total(self.unexpired(pair)), self.rules[pair[1]].overdraft if allowed else 0
        refuse(short > 0 and not limit, "insufficient-balance")
        refuse(short > 0 and self.debt[pair] + short > limit, "overdraft-limit")
        return max(short, Decimal(0))

    def lot(self, account, amount, origin, event=None, expires=None):
        rules, self.serial = self.rules[account], self.serial + 1
        expires = expires or (months_after(event or self.now, rules.months) if rules.months else NEVER)
        return Record(expires=expires if rules.tracked else NEVER, n=self.serial, amount=amount, origin=origin)

    def take(self, pair, amount, first=None):
        pieces = []  # of lots of the transaction `first`, then of those that expire soonest
        for lot in sorted(self.lots[pair], key=lambda lot: (lot.origin != first, lot.expires, lot.n)):
            pieces.append(Record(**{**vars(lot), "amount": min(lot.amount, amount - total(pieces))}))
            lot.amount -= pieces[-1].amount
        self.lots[pair] = [lot for lot in self.lots[pair] if lot.amount]
        return [piece for piece in pieces if piece.amount]

    def give(self, pair, pieces):
        for piece in pieces:  # debt is repaid first; the rest becomes lots again unless it has expired
            repaid = min(self.debt[pair], piece.amount)
            self.debt[pair], self.repaid[pair] = self.debt[pair] - repaid, self.repaid[pair] + repaid
            if piece.amount > repaid and piece.expires > self.now:
                self.lots[pair].append(Record(**{**vars(piece), "amount": piece.amount - repaid}))

    def settle(self, key, t):
        if t.kind == "mint":
            self.minted[t.account] += t.amount
            self.give((t.target, t.account), [self.lot(t.account, t.amount, key, t.event, t.expires)])
        elif t.kind == "transfer":
            self.give((t.target, t.account), [self.lot(t.account, p.amount, key, expires=p.expires) for p in t.pieces])

    def close(self, t, status):
        t.status = status
        self.last.update({(wallet, t.account): self.now for wallet in (t.source, t.target) if wallet})

    def post(self, key, t, manual=False, overdraft=False):
        rules, source = self.rules[t.account], (t.source, t.account)
        self.check(t.account, t.amount, issuing=t.kind == "mint")
        refuse(t.source == t.target, "invalid-request")
        t.debt = self.shortfall(source, t.amount, overdraft and t.kind == "burn" and not manual) if t.source else 0
        refuse(manual and rules.overdraft, "capture-not-supported")
        t.pieces = self.take(source, t.amount - t.debt) if t.source else []
        self.debt[source] += t.debt
        self.done[key] = t
        self.close(t, PENDING if manual else SETTLED)
        if not manual:
            self.settle(key, t)

    def capture(self, key, amount):
        t = self.done[key]
        refuse(t.status != PENDING, "not-pending")
        refuse(amount > t.amount, "capture-exceeds-hold")
        self.check(t.account, amount, issuing=t.kind == "mint")
        self.lots[key] = t.pieces  # what is set aside, as if it were a wallet: captured soonest to expire first
        kept = self.take(key, amount)
        self.close(t, SETTLED if amount else REVERTED)
        self.give((t.source, t.account), self.lots.pop(key))
        if amount:
            t.amount, t.pieces = amount, kept
            self.settle(key, t)

    def revert(self, key, original, overdraft=False, available=False):
        t = self.done[original]
        account, amount, source, target = t.account, t.amount, (t.source, t.account), (t.target, t.account)
        rules, pieces = self.rules[account], t.pieces
        refuse(t.status == REVERTED, "already-reverted")
        refuse(t.kind == "revert", "not-revertible")
        burned = t.kind == "burn" and t.status == SETTLED
        self.check(account, amount, issuing=burned and rules.revolving)
        if burned:
            pieces = [self.lot(account, t.debt, key), *pieces]  # what was debt comes back first, as value of today
        elif t.status == SETTLED:
            mint, left = t.kind == "mint", total(self.unexpired(target))
            if mint and available and not (overdraft and rules.overdraft):
                amount = min(amount, left)
            debt = self.shortfall(target, amount, overdraft and mint)
            self.take(target, amount - debt, first=original)
            self.debt[target] += debt
            self.minted[account] -= amount if mint else 0
        self.done[key] = Record(**{**vars(t), "kind": "revert", "amount": amount, "status": t.status or REVERTED})
        self.close(t, REVERTED)
        self.give(source, pieces)
