"""Coupon books of an organization, used through the services without HTTP, at any moment."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, text, update

from domain.coupons.books import CODELESS, Coupon, CouponBook
from domain.coupons.usages import CouponUsage
from domain.ledger.records import MINT
from domain.members import Member
from handlers.call import INTEGRATION, Call
from handlers.services.coupons.assign_and_use import CouponCommand, CouponRequest, assign_coupons, use_coupons
from handlers.services.coupons.lock import LockRequest, LockView, lock_coupon
from handlers.services.coupons.revert import UsageToRevert, revert_usages
from handlers.services.ledger.move_points import PointsMove, PointsRequest, move_points
from handlers.services.organizations.create import CreatedOrganization, create_organization
from handlers.settings import Settings
from persistence import members, organizations, transactions
from persistence.coupons import codes
from persistence.coupons.books import BOOKS
from persistence.coupons.codes import COUPONS
from persistence.coupons.usages import USAGES
from persistence.rows import add
from persistence.tables.coupons import coupon_books
from tests.builders.verification import verify

START = datetime(2026, 3, 2, 12, tzinfo=UTC)
PUBLISHED = {"publishing_status": "published", "name": "Book"}

Result = TypeVar("Result")


def only(outcomes: Sequence[Any]) -> Any:
    """The outcome of the only call of a batch; a refusal is raised, so that nothing is committed."""
    [outcome] = outcomes
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


@dataclass
class CouponShop:
    """An organization with coupon books; each of its methods is one database transaction, committed, at `now`."""

    engine: Engine
    defaults: CreatedOrganization
    now: datetime = START

    @classmethod
    def new(cls, engine: Engine, now: datetime = START) -> CouponShop:
        """An organization with its default ledger and program, and nothing else."""
        defaults = transactions.run(engine, lambda db: create_organization(db, name="Corner Coffee", now=now))
        return cls(engine, defaults, now)

    @property
    def id(self) -> int:
        return self.defaults.organization_id

    def run(self, work: Callable[[Call], Result], now: datetime | None = None) -> Result:
        """Run any work as the product does: commit it, and retry it after a conflict with other transactions."""

        def begin(db: Connection) -> Result:
            organization = organizations.find(db, self.id)
            assert organization is not None
            return work(
                Call(
                    db=db,
                    organization=organization,
                    caller=None,
                    now=now or self.now,
                    request_id="test",
                    surface=INTEGRATION,
                    settings=Settings(database_url="", home=Path()),
                )
            )

        return transactions.run(self.engine, begin)

    def member(self, points: int = 0) -> Member:
        """A new member with `points` in the default account."""

        def enrol(call: Call) -> Member:
            empty_fields: dict[str, Any] = {"profile": {}, "custom_attributes": {}, "notifications": {}, "on_chain": {}}
            row = {
                "loyalty_member_id": f"member-{uuid.uuid4()}",
                "active": True,
                "wallet_key": call.new_key(),
                **empty_fields,
            }
            [(member, _)] = members.add_members(
                call.db,
                self.id,
                [row],
                ledger_id=call.organization.default_ledger_id,
                loyalty_program_id=call.organization.default_loyalty_program_id,
                now=call.now,
            )
            return member

        member = self.run(enrol)
        if points:
            self.mint(member, points)
        return member

    def mint(self, member: Member, points: int) -> None:
        """Mint points for the member in the default account."""
        request = PointsRequest(member, MINT, PointsMove(amount=Decimal(points)))
        self.run(lambda call: only(move_points([call], [request])))

    def book(self, type_: str = "codeless", **settings: Any) -> CouponBook:
        """A published book of the type, without restrictions except those in `settings`."""

        def make(call: Call) -> CouponBook:
            values = {**PUBLISHED, "type": type_, "organization_id": self.id, "coupon_book_key": call.new_key()}
            stamps = {"created_at": self.now, "updated_at": self.now}
            book = add(call.db, coupon_books, CouponBook, {**values, **stamps, **settings})
            if type_ == CODELESS:
                codes.add_codes(call.db, book, [None], self.now)
            return book

        return self.run(make)

    def change(self, book: CouponBook, **settings: Any) -> None:
        """Change the row of a book without any check, under the lock that changes of a book use."""

        def work(call: Call) -> None:
            BOOKS.lock(call.db, book)
            of_book = coupon_books.c.organization_id == self.id, coupon_books.c.coupon_book_id == book.coupon_book_id
            call.db.execute(update(coupon_books).where(*of_book).values(**settings))

        self.run(work)

    def add_codes(self, book: CouponBook, new_codes: Sequence[str]) -> list[Coupon]:
        """Add codes to a book."""
        return self.run(lambda call: codes.add_codes(call.db, book, list(new_codes), self.now))

    def lock(self, member: Member, book: CouponBook, **settings: Any) -> LockView:
        """Lock a coupon for a member."""
        request = LockRequest(system_unique_key=str(uuid.uuid4()), **settings)
        return self.run(lambda call: lock_coupon(call, member, book, request))

    def assign(self, member: Member, book: CouponBook, **command: Any) -> list[CouponUsage]:
        """Assign coupons to a member."""
        return self.run(
            lambda call: only(assign_coupons([call], [CouponRequest(member, book, CouponCommand(**command))]))
        )

    def use(self, member: Member, book: CouponBook, *, now: datetime | None = None, **command: Any) -> CouponUsage:
        """Use a coupon."""
        request = CouponRequest(member, book, CouponCommand(**command))
        return self.run(lambda call: only(use_coupons([call], [request])), now=now)

    def revert(self, usage: CouponUsage, *, force: bool = False) -> CouponUsage:
        """Revert a usage."""
        return self.run(lambda call: only(revert_usages([call], [UsageToRevert(usage, force)])))

    def find_book(self, book: CouponBook) -> CouponBook:
        """The stored state of a book."""
        current_book = self.run(lambda call: BOOKS.find(call.db, self.id, book.coupon_book_id))
        assert current_book is not None
        return current_book

    def usage(self, usage: CouponUsage) -> CouponUsage:
        """The stored state of a usage."""
        current_usage = self.run(lambda call: USAGES.find(call.db, self.id, usage.coupon_usage_id))
        assert current_usage is not None
        return current_usage

    def coupons(self, book: CouponBook) -> list[Coupon]:
        """The stored coupons of the book, in their order."""
        statement = (
            "SELECT coupon_id FROM coupons WHERE organization_id = :org AND coupon_book_id = :book ORDER BY position"
        )
        ids = [row[0] for row in self.ask(statement, book=book.coupon_book_id)]
        coupons = self.run(lambda call: [COUPONS.find(call.db, self.id, coupon_id) for coupon_id in ids])
        return [coupon for coupon in coupons if coupon is not None]

    def points(self, member: Member) -> Decimal:
        """The member's balance in the default account."""
        statement = """SELECT current_balance FROM ledger_balances
            WHERE organization_id = :org AND wallet_id = :wallet AND ledger_account_id = :account"""
        rows = self.ask(statement, wallet=member.wallet_id, account=self.defaults.ledger_account_id)
        return rows[0][0] if rows else Decimal(0)

    def ask(self, statement: str, **values: Any) -> list[Any]:
        """The rows of a query; `:org` is the organization."""
        return self.run(lambda call: list(map(tuple, call.db.execute(text(statement), {"org": self.id, **values}))))

    def check(self) -> None:
        """Assert that all totals agree with the usages and all balances with the ledger transactions."""
        with self.engine.connect() as db:
            assert verify(db, self.id) == []


def priced(shop: CouponShop, **points: Any) -> Mapping[str, Any]:
    """Settings of a book whose points are paid from the default account; `points` are the prices."""
    statement = (
        "SELECT ledger_account_key::text FROM ledger_accounts WHERE organization_id = :org AND is_default_account"
    )
    return {"required_points_config": {"ledgerAccountKey": shop.ask(statement)[0][0]}, **points}
