"""The rules of the ledger, written as simply as possible: lots, debts and transactions in lists, without a database.

A balance is the remaining amount of its lots and what pending transactions took from them. An account that does not
track points has lots, too, which never expire. The rules of an account: active, tracked, months until expiry, months
until an idle balance expires, overdraft limit, cap (maximum supply), revolving, decimals.
"""

from calendar import monthrange
from collections import defaultdict
from datetime import UTC, datetime
from decimal import Decimal
from types import SimpleNamespace as Record

PENDING, SETTLED, REVERTED = 0, 1, 2
NEVER = datetime.max.replace(tzinfo=UTC)


class Refused(Exception):
    """Raised before anything has changed, with the slug of the problem."""


def refuse(condition, slug):
    if condition:
        raise Refused(slug)


def months_after(moment, months):
    years, month = divmod(moment.month - 1 + months, 12)
    last_day = monthrange(moment.year + years, month + 1)[1]
    return moment.replace(year=moment.year + years, month=month + 1, day=min(moment.day, last_day))


def total(things):
    return sum((thing.amount for thing in things), Decimal(0))


class Model:
    def __init__(self, rules, now):
        self.rules, self.now, self.done, self.serial, self.posted = rules, now, {}, 0, 0
        self.lots, self.last, self.minted = defaultdict(list), {}, defaultdict(Decimal)
        self.debt, self.repaid = defaultdict(Decimal), defaultdict(Decimal)
        # By transaction: the expired part of what it gave, and the missing amount of its revert.
        self.expired, self.missing = defaultdict(Decimal), {}
        # By transaction: the pieces of other lots that its revert took in place of spent ones.
        self.substitutes, self.unit = defaultdict(list), 0

    def pending(self, account, **side):
        pending_transactions = [
            transaction
            for transaction in self.done.values()
            if transaction.status == PENDING and transaction.account == account
        ]
        return total(
            transaction
            for transaction in pending_transactions
            if side.items() <= vars(transaction).items() and (side or transaction.source)
        )

    def unexpired_lots(self, pair):
        idle, last = self.rules[pair[1]].idle, self.last.get(pair)
        has_ended = idle and last and months_after(last, idle) <= self.now
        return [lot for lot in self.lots[pair] if lot.expires > self.now and not has_ended]

    def expire(self, wallets, accounts):
        """Expire points at the beginning of a unit of work."""
        self.unit += 1
        for pair in ((wallet, account) for wallet in wallets for account in accounts):
            for lot in self.lots[pair]:
                self.expired[lot.origin] += lot.amount
            self.lots[pair] = self.unexpired_lots(pair)
            for lot in self.lots[pair]:
                self.expired[lot.origin] -= lot.amount

    def issued_amount(self, account):
        balances = total(lot for pair, lots in self.lots.items() if pair[1] == account for lot in lots)
        owed = sum(debt for pair, debt in self.debt.items() if pair[1] == account)
        return balances + self.pending(account) - owed if self.rules[account].revolving else self.minted[account]

    def check(self, account, amount, issuing=False, expires=None):
        rules = self.rules[account]
        refuse(not rules.active, "account-inactive")
        refuse(amount != round(amount, rules.decimals), "invalid-request")
        refuse(expires is not None and not rules.tracked, "points-not-tracked")
        refuse(
            issuing and rules.cap is not None and self.issued_amount(account) + amount > rules.cap, "supply-exceeded"
        )

    def shortfall(self, pair, amount, may_overdraw=False):
        short, limit = amount - total(self.unexpired_lots(pair)), self.rules[pair[1]].overdraft if may_overdraw else 0
        refuse(short > 0 and not limit, "insufficient-balance")
        refuse(short > 0 and self.debt[pair] + short > limit, "overdraft-limit")
        return max(short, Decimal(0))

    def lot(self, account, amount, origin, earned_at=None, expires=None):
        rules, self.serial = self.rules[account], self.serial + 1
        expires = expires or (months_after(earned_at or self.now, rules.months) if rules.months else NEVER)
        return Record(expires=expires if rules.tracked else NEVER, n=self.serial, amount=amount, origin=origin)

    def take(self, pair, amount, first=None, then=()):
        # From the lots of the transaction `first`, then from the lots numbered `then`, then the soonest to expire.
        pieces = []
        order = lambda lot: (lot.origin != first, lot.n not in then, lot.expires, lot.n)  # noqa: E731
        for lot in sorted(self.lots[pair], key=order):
            pieces.append(Record(**{**vars(lot), "amount": min(lot.amount, amount - total(pieces))}))
            lot.amount -= pieces[-1].amount
        self.lots[pair] = [lot for lot in self.lots[pair] if lot.amount]
        return [piece for piece in pieces if piece.amount]

    def give(self, pair, pieces):
        arrived, back, expired_amounts = Decimal(0), Decimal(0), defaultdict(Decimal)
        for piece in pieces:  # It repays debt first; the rest is a lot again, unless it has expired.
            repaid_amount = min(self.debt[pair], piece.amount)
            self.debt[pair], self.repaid[pair] = self.debt[pair] - repaid_amount, self.repaid[pair] + repaid_amount
            rest, back = piece.amount - repaid_amount, back + repaid_amount
            for part in self.exchange(Record(**{**vars(piece), "amount": rest})) if rest else ():
                if part.expires > self.now:
                    self.lots[pair].append(part)
                    arrived += part.amount
                else:
                    expired_amounts[part.origin] += part.amount
                    self.expired[part.origin] += part.amount
        return arrived, back, expired_amounts

    def exchange(self, piece):
        """The pieces that return for a piece of a lot, first the pieces that its mint's revert took in its place."""
        parts = []
        for substitute in reversed(self.substitutes[piece.origin]):
            if substitute.unit == self.unit and piece.expires <= self.now:
                # A unit of work does not exchange points that expire at once with its own reverts.
                continue
            amount = min(substitute.amount, piece.amount)
            substitute.amount, piece.amount = substitute.amount - amount, piece.amount - amount
            parts += self.exchange(Record(**{**vars(substitute), "amount": amount})) if amount else []
        return [*parts, piece] if piece.amount else parts

    def give_back(self, transaction, pieces, lots):
        """Return points that were held or taken; they first cover missing amounts of reverted mints."""
        pair = (transaction.source, transaction.account)
        arrived, repaid_amount, expired_amounts = self.give(pair, pieces)
        for _, claim in sorted(self.missing.items()):
            if claim.pair == pair and transaction.n < claim.n:
                claim.amount = max(Decimal(0), claim.amount - expired_amounts[claim.key])
                part = min(claim.amount, arrived)
                taken_pieces = self.take(pair, part, first=claim.key, then=[lot.n for lot in lots])
                others = [piece for piece in taken_pieces if piece.origin != claim.key]
                self.substitutes[claim.key] += [Record(**{**vars(piece), "unit": self.unit}) for piece in others]
                debt = min(claim.amount - part, repaid_amount)  # Points that have repaid debt become debt again.
                arrived, repaid_amount, claim.amount = (
                    arrived - part,
                    repaid_amount - debt,
                    claim.amount - part - debt,
                )
                self.debt[pair] += debt
                self.minted[transaction.account] -= part + debt

    def settle(self, key, transaction):
        if transaction.kind == "mint":
            self.minted[transaction.account] += transaction.amount
            self.give(
                (transaction.target, transaction.account),
                [
                    self.lot(
                        transaction.account,
                        transaction.amount,
                        key,
                        transaction.event or transaction.posted_at,
                        transaction.expires,
                    )
                ],
            )
        elif transaction.kind == "transfer":
            self.give(
                (transaction.target, transaction.account),
                [
                    self.lot(transaction.account, piece.amount, key, expires=piece.expires)
                    for piece in transaction.pieces
                ],
            )

    def close(self, transaction, status):
        transaction.status, self.posted = status, self.posted + 1
        self.last.update(
            {(wallet, transaction.account): self.now for wallet in (transaction.source, transaction.target) if wallet}
        )

    def post(self, key, transaction, manual=False, overdraft=False):
        rules, source = self.rules[transaction.account], (transaction.source, transaction.account)
        self.check(transaction.account, transaction.amount, transaction.kind == "mint", transaction.expires)
        refuse(transaction.source == transaction.target, "invalid-request")
        transaction.debt = (
            self.shortfall(source, transaction.amount, overdraft and transaction.kind == "burn" and not manual)
            if transaction.source
            else 0
        )
        refuse(manual and rules.overdraft, "capture-not-supported")
        transaction.pieces = self.take(source, transaction.amount - transaction.debt) if transaction.source else []
        self.debt[source] += transaction.debt
        self.done[key] = transaction
        self.close(transaction, PENDING if manual else SETTLED)
        transaction.n, transaction.posted_at = self.posted, self.now
        if not manual:
            self.settle(key, transaction)

    def capture(self, key, amount):
        transaction = self.done[key]
        refuse(transaction.status != PENDING, "not-pending")
        refuse(amount > transaction.amount, "capture-exceeds-hold")
        self.check(transaction.account, amount, issuing=transaction.kind == "mint")
        self.lots[key] = transaction.pieces  # The hold, like a wallet: the soonest to expire are captured first.
        captured_pieces = self.take(key, amount)
        self.close(transaction, SETTLED if amount else REVERTED)
        released_pieces = self.lots.pop(key)
        self.give_back(transaction, released_pieces, released_pieces)
        if amount:
            transaction.amount, transaction.pieces = amount, captured_pieces
            self.settle(key, transaction)

    def revert(self, key, original, overdraft=False, available=False):
        transaction = self.done[original]
        account, target = transaction.account, (transaction.target, transaction.account)
        expired_amount = (
            self.expired[original] if transaction.status == SETTLED and transaction.kind != "burn" else Decimal(0)
        )
        amount = full_amount = transaction.amount - expired_amount
        rules, pieces = self.rules[account], transaction.pieces
        refuse(transaction.status == REVERTED, "already-reverted")
        refuse(transaction.kind == "revert", "not-revertible")
        was_burned = transaction.kind == "burn" and transaction.status == SETTLED
        self.check(account, amount, issuing=was_burned and rules.revolving)
        if was_burned:
            pieces = [
                self.lot(account, transaction.debt, key),
                *pieces,
            ]  # The debt is returned first, as a lot of today.
            pieces = [piece for piece in pieces if piece.amount]
        elif transaction.status == SETTLED:
            mint, available_points = transaction.kind == "mint", total(self.unexpired_lots(target))
            if mint and available and not (overdraft and rules.overdraft):
                amount = min(amount, available_points)
            debt = self.shortfall(target, amount, overdraft and mint)
            debited_pieces = self.take(target, amount - debt, first=original)
            others = [piece for piece in debited_pieces if piece.origin != original]
            self.substitutes[original] += [Record(**{**vars(piece), "unit": self.unit}) for piece in others]
            self.debt[target] += debt
            self.minted[account] -= amount if mint else 0
            pieces = self.without_first(pieces, expired_amount)
        self.done[key] = Record(
            **{**vars(transaction), "kind": "revert", "amount": amount, "status": transaction.status or REVERTED}
        )
        self.close(transaction, REVERTED)
        if transaction.kind == "mint" and full_amount > amount:
            self.missing[transaction.n] = Record(pair=target, amount=full_amount - amount, key=original, n=self.posted)
        if transaction.source:
            self.give_back(transaction, pieces, transaction.pieces)

    def without_first(self, pieces, amount):
        """Pieces without the first `amount` of them."""
        rest = []
        for piece in pieces:
            remainder = piece.amount - min(piece.amount, amount)
            amount -= piece.amount - remainder
            rest += [Record(**{**vars(piece), "amount": remainder})] if remainder else []
        return rest
