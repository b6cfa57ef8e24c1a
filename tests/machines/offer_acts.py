"""Random acts of the members of a random program, one after the other; each act is a request."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from tests.builders.points import Points
from tests.builders.tracking import event, order, order_update
from tests.machines.offers import CENT, MEMBERS, MIN_TOTAL, WAITS, Order, Program


class Acts:
    """Random acts of the members of a program."""

    def __init__(self, program: Program) -> None:
        self.program, self.chance = program, program.chance

    def do_random(self, steps: int, *without: str) -> None:
        """Do `steps` random acts of any kind that is not in `without`."""
        weights = {"buy": 30, "visit": 3, "bring_back": 10, "undo": 4, "give": 9, "burn": 8, "revert": 4, "pay": 12}
        weights |= {"settle": 12, "use": 6, "lock": 8, "unlock": 9, "extend": 3, "wait": 13, "release": 5, "hold": 5}
        kinds = [kind for kind in weights if kind not in without]
        for kind in self.chance.choices(kinds, [weights[kind] for kind in kinds], k=steps):
            getattr(self, kind)()

    def member(self) -> str:
        return self.chance.choice(MEMBERS)

    def buy(self) -> None:
        """Track an order, perhaps with items, late, paid with points, or only authorized."""
        program, chance, member = self.program, self.chance, self.member()
        more: dict[str, Any] = {"external_id": program.name(), "systemUniqueKey": program.name()}
        total = Decimal(chance.randint(1, 12000)) / 100
        if chance.random() < 0.6:
            parts = [
                Decimal(chance.choice([0, 33, 1000, chance.randint(1, 6000)])) / 100
                for _ in range(chance.randint(1, 4))
            ]
            more["items"] = [{"productCode": f"p-{n}", "quantity": 1, "total": part} for n, part in enumerate(parts)]
            total = sum(parts, Decimal(0)) or total
            if not any(parts):
                del more["items"]
        if chance.random() < 0.5:
            more["locationCode"] = chance.choice(["MAD", "LPA"])
        if chance.random() < 0.15:
            now = datetime.fromisoformat(program.clock.get()["now"])
            more["externalEventDate"] = (now - timedelta(hours=chance.randrange(1, 24 * 40))).isoformat()
        modes = {}
        if chance.random() < 0.25:
            more["payments"] = self.tenders(member, total)
        elif chance.random() < 0.1:
            modes = {"executionMode": "authorize"}
        more = {name: value for name, value in more.items() if value is not None}
        [result] = program.track("buy", order(member, total, **more), **modes)
        program.orders[more["external_id"]] = Order(member, more["external_id"], result["loyaltyEventKey"], total)

    def tenders(self, member: str, total: Decimal) -> Any:
        """A tender of points and two of money, or None if the member cannot pay with points."""
        payment = self.pay(member, total)
        if payment is None:
            return None
        self.program.counts["order paid with points"] += 1
        points = Decimal(payment["value"])
        if points > CENT and self.chance.random() < 0.3:
            points = (points / 2).quantize(CENT, ROUND_HALF_UP)
        tender = {"tender": "points", "amount": points, "pointsPaymentKey": payment["pointsPaymentKey"]}
        card = ((total - points) * self.chance.choice([1, Decimal("0.4")])).quantize(CENT, ROUND_HALF_UP)
        return [tender, {"tender": "card", "amount": card}, {"tender": "cash", "amount": total - points - card}]

    def pay(self, member: str | None = None, total: Decimal | None = None) -> Any:
        """Hold points for an order."""
        member, total = member or self.member(), total or Decimal(50)
        share = (total * self.chance.choice([Decimal("0.1"), Decimal("0.5")])).quantize(CENT, ROUND_HALF_UP)
        share = max(share, CENT)
        amount = {"value": share} if self.chance.random() < 0.5 else {"points": int(share * 3) or 1}
        body = {**amount, "orderTotal": total, "validFor": "P5D", "systemUniqueKey": self.program.name()}
        path = f"/members/{member}/points-payments"
        refusals = ("payment-exceeds-share", "points-not-multiple", "insufficient-balance", "payment-below-minimum")
        response = self.program.ask("pay", self.program.integration, path, body, *refusals)
        if response is None:
            return None
        self.program.payments.append(response["pointsPayment"]["pointsPaymentKey"])
        return response["pointsPayment"]

    def settle(self) -> None:
        """Capture, release or refund the newest payment that allows it."""
        what = self.chance.choice(["capture", "capture", "release", "refund"])
        bodies = {"capture": {}, "release": None, "refund": {"points": 3, "systemUniqueKey": self.program.name()}}
        refusals = (
            "payment-not-held",
            "refund-exceeds-payment",
            "supply-exceeded",
            "payment-not-captured",
            "not-pending",
        )
        name = "release payment" if what == "release" else what
        for key in reversed(self.program.payments[-4:]):
            path = f"/points-payments/{key}/{what}"
            if self.program.ask(name, self.program.integration, path, bodies[what], *refusals) is not None:
                break

    def visit(self) -> None:
        """Track an event that burns points and extends the expiry of the others."""
        visit_event = event(self.member())
        self.program.visits.append(self.program.track("visit", visit_event)[0]["loyaltyEventKey"])

    def open_order(self) -> Order | None:
        open_orders = [order for order in self.program.orders.values() if order.left and not order.is_returned]
        return self.chance.choice(open_orders) if open_orders else None

    def bring_back(self, placed_order: Order | None = None, share: Decimal | None = None) -> None:
        """Return a part of an order, or the whole order."""
        placed_order = placed_order or self.open_order()
        if placed_order is None:
            return
        share = share or self.chance.choice([Decimal("0.1"), Decimal("0.34"), Decimal("0.5"), Decimal(1)])
        if not placed_order.is_confirmed:
            self.program.track("confirm", order_update(placed_order.member, placed_order.external_id, "confirmed"))
            placed_order.is_confirmed = True
        part = max(CENT, (placed_order.left * share).quantize(CENT, ROUND_HALF_UP))
        if share == 1:
            self.program.track("return", order_update(placed_order.member, placed_order.external_id, "returned"))
        else:
            self.program.track(
                "partial return",
                order(placed_order.member, part, status="partially-returned", external_id=placed_order.external_id),
            )
            falls_below = placed_order.left >= MIN_TOTAL > placed_order.left - part
            self.program.counts["re-evaluated return"] += falls_below and self.program.reevaluates
        placed_order.left -= part if share < 1 else placed_order.left

    def undo(self) -> None:
        """Cancel an order, or its event."""
        placed_order = self.open_order()
        if placed_order is not None:
            self.cancel(placed_order)

    def cancel(self, placed_order: Order) -> None:
        """Cancel an order: by its event, or by the status cancelled or rejected."""
        way = self.chance.choice(["cancelEvent", "cancelled", "rejected"])
        if (
            way == "cancelEvent"
            or placed_order.left < self.total_of(placed_order)
            or (way == "rejected" and placed_order.is_confirmed)
        ):
            self.program.ask("cancelEvent", self.program.integration, f"/events/{placed_order.event_key}/cancel", {})
        else:
            self.program.track(way, order_update(placed_order.member, placed_order.external_id, way))
        placed_order.left = Decimal(0)

    def total_of(self, placed_order: Order) -> Decimal:
        rows = self.program.shop.rows("purchase_orders", "external_id, total")
        return next(Decimal(row.total) for row in rows if row.external_id == placed_order.external_id)

    def account(self) -> Points:
        return self.chance.choice([self.program.points, self.program.points, self.program.stars])

    def move(self, what: str, account: Points, source: int | None, target: int | None, **more: Any) -> None:
        body = {"amount": self.chance.randint(1, 60), "fromWalletId": source, "toWalletId": target, **more}
        refusals = (
            "insufficient-balance",
            "overdraft-limit",
            "supply-exceeded",
            "balance-limit",
            "capture-not-supported",
        )
        path = f"{account.path}/transactions"
        response = self.program.ask(what, self.program.administration, path, body, *refusals)
        if response is not None:
            transaction_id = response["transactions"][0]["ledgerTransactionId"]
            self.program.movements.append((account, transaction_id))
            if what == "hold":
                self.program.holds.append(transaction_id)
            elif response["transactions"][0].get("availability") == "waiting":
                self.program.waiting.append((account, transaction_id))

    def give(self) -> None:
        """Mint by request, perhaps points that wait."""
        wait = self.chance.choice((None, *WAITS)) or {}
        self.move("give", self.account(), None, self.program.wallets[self.member()], **wait)

    def burn(self) -> None:
        """Burn points; the account with an overdraft may get into debt."""
        account = self.account()
        more = {"allowOverdraft": True} if account is self.program.stars else {}
        self.move("burn", account, self.program.wallets[self.member()], None, **more)

    def hold(self) -> None:
        """Reserve points."""
        self.move("hold", self.program.points, self.program.wallets[self.member()], None, captureMethod="manual")

    def revert(self) -> None:
        """Revert a movement."""
        if self.program.movements:
            account, transaction_id = self.chance.choice(self.program.movements[-12:])
            self.take_back(account, transaction_id)

    def take_back(self, account: Points, transaction_id: str) -> None:
        path = f"{account.path}/transactions/{transaction_id}/revert"
        refusals = ("insufficient-balance", "already-reverted", "supply-exceeded")
        self.program.ask("revert", self.program.administration, path, {}, *refusals)

    def release(self) -> None:
        """Capture a hold, or if there is none, make waiting points available."""
        if self.program.holds:
            self.settle_movement("capture held", self.program.points, self.program.holds.pop())
        elif self.program.waiting:
            self.settle_movement("release", *self.program.waiting.pop())

    def settle_movement(self, what: str, account: Points, transaction_id: str) -> None:
        path = f"{account.path}/{'releases' if what == 'release' else 'captures'}"
        body = {"transactions": [{"ledgerTransactionId": str(transaction_id)}]}
        self.program.ask(what, self.program.administration, path, body, "not-pending", "supply-exceeded")

    def of_book(self) -> tuple[str, str, dict[str, Any]]:
        """A random member, the path of a random book for the member, and the fields that a use of the book needs."""
        book, member = self.chance.choice(self.program.books), self.member()
        path = f"/members/{member}/coupon-books/{book['couponBookKey']}"
        amount = {"amountDiscounted": self.chance.choice([2, 5, 12])} if book["isValueCoupon"] else {}
        return member, path, amount

    def use(self) -> None:
        """Use a coupon, or assign one."""
        _, path, amount = self.of_book()
        what, body = self.chance.choice([("use", amount), ("assign", {})])
        refusals = ("coupon-not-assigned", "coupon-value-exceeded", "coupon-locked", "coupon-out-of-stock")
        response = self.program.ask(f"{what} coupon", self.program.integration, f"{path}/{what}", body, *refusals)
        if response is not None:
            self.program.usages.append(response["couponUsage"]["couponUsageId"])

    def lock(self) -> None:
        """Lock a coupon."""
        _, path, amount = self.of_book()
        body = {"validFor": "P1D", "systemUniqueKey": self.program.name(), "autoAssign": self.chance.random() < 0.5}
        refusals = ("coupon-not-assigned", "coupon-locked", "coupon-out-of-stock")
        response = self.program.ask("lock", self.program.integration, f"{path}/lock", body, *refusals)
        if response is not None:
            self.program.locks.append((path, amount, response["couponLock"]["couponLockKey"]))

    def unlock(self) -> None:
        """Use a locked coupon, or release its lock."""
        if self.program.locks:
            path, amount, lock_key = self.program.locks.pop()
            # Cancelling the order that assigned the coupon reverts the assignment in spite of the lock.
            refusals = ("coupon-lock-ended", "coupon-value-exceeded", "coupon-not-assigned")
            if self.chance.random() < 0.5:
                self.program.ask(
                    "release lock", self.program.integration, f"/coupon-locks/{lock_key}/release", None, *refusals
                )
                return
            body = {**amount, "couponLockKey": lock_key}
            response = self.program.ask("use lock", self.program.integration, f"{path}/use", body, *refusals)
            if response is not None:
                self.program.usages.append(response["couponUsage"]["couponUsageId"])

    def extend(self) -> None:
        """Extend the expiry of the points of a member."""
        body = {"ledgerAccountId": self.program.points.account_id, "systemUniqueKey": self.program.name()}
        body |= {"memberId": self.program.member_ids[self.member()], "months": 1}
        self.program.ask("extend", self.program.administration, "/expiry-extensions", body)

    def wait(self) -> None:
        """Advance the test clock."""
        now = datetime.fromisoformat(self.program.clock.get()["now"])
        self.program.clock.advance(
            (now + timedelta(hours=self.chance.choice([1, 5, 30, 50, 24 * 9, 24 * 20]))).isoformat()
        )
        self.program.counts["wait"] += 1
