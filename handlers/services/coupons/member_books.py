"""The coupon books of a member: the books that the member could use now, or all with their exclusions."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Generic, TypeVar

from domain.coupons.books import LIST, BookTerms, CouponBook, stock_left
from domain.coupons.conditions import condition_may_read_orders, context_of
from domain.coupons.eligibility import MemberFacts, exclusions_from_list, is_usable
from domain.coupons.locks import CouponLock
from domain.coupons.lots import period_starts
from domain.coupons.usages import CouponUsage, UsageTotals
from domain.expressions import Deadline, TimeExceeded
from domain.ledger.views import WalletView
from domain.members import Member
from domain.orders import NO_ORDERS
from domain.problems import Conflict, DeadlineExceeded
from handlers.call import Call
from handlers.services.configuration import configuration_of
from handlers.services.members.match_audiences import match_audiences
from handlers.services.members.view import current_tiers
from handlers.services.unit_of_work.deadlines import call_deadline
from persistence import badges, ledger_wallets, orders
from persistence.coupons import books, holdings, member_books, usages
from persistence.coupons.member_books import Amounts
from persistence.paging import Page, Paged

_NO_AMOUNTS, _NO_TOTALS = Amounts(), UsageTotals()
# The CPU time for the conditions of a list of books; a larger `call_evaluation_ms` does not extend it.
_CONDITIONS_SECONDS = 1.0

Book = TypeVar("Book", bound=BookTerms)


@dataclass(frozen=True, slots=True)
class MemberBook(Generic[Book]):
    """A book for a member: the amounts that the member has and has used, and the reasons that exclude a use."""

    book: Book
    amounts: Amounts
    exclusions: tuple[Conflict, ...]
    last_usage: CouponUsage | None = None

    @property
    def is_eligible(self) -> bool:
        """True if there are no exclusions."""
        return not self.exclusions


def member_books_page(
    call: Call,
    member: Member,
    query: Mapping[str, Any],
    *conditions: Any,
    in_stock: bool | None = None,
    explain: bool = False,
) -> Paged[MemberBook[CouponBook]]:
    """A page of the books that match the query and the conditions, and that the member could use now.

    With `explain` all matching books are included, with their exclusions. If `in_stock` is True, an empty stock is an
    exclusion, too; if it is False, which only works without `explain`, only books with an empty stock are included.
    Raises DeadlineExceeded if the conditions of the books take too much CPU time.
    """
    organization_id = call.organization.organization_id
    if explain:
        matching = books.find_page(call.db, organization_id, query, *conditions)
        visible = _MemberView(call, member).books(matching.results, with_stock_only=in_stock is True, explain=True)
        return matching.with_results(visible)
    all_usable_books = usable_books(call, member, query, *conditions, in_stock=in_stock)
    page = Page.of(query)
    start = page.page * page.limit
    results = all_usable_books[start : start + page.limit]
    whole_books = books.find_whole(call.db, organization_id, [result.book.coupon_book_id for result in results])
    whole_results = [
        MemberBook(whole_books[result.book.coupon_book_id], result.amounts, result.exclusions)
        for result in results
        # The records of a test organization may be deleted meanwhile.
        if result.book.coupon_book_id in whole_books
    ]
    return Paged(len(all_usable_books), page.page, page.limit, whole_results)


def usable_books(
    call: Call, member: Member, query: Mapping[str, Any], *conditions: Any, in_stock: bool | None = None
) -> list[MemberBook[BookTerms]]:
    """All books that `member_books_page` has on its pages without `explain`, but only their terms."""
    view = _MemberView(call, member)
    candidates = member_books.find_candidates(
        call.db,
        call.organization.organization_id,
        query,
        *conditions,
        tier_keys=view.tier_keys,
        audience_keys=view.audience_keys,
        now=call.now,
    )
    if in_stock is False:
        candidates = view.out_of_stock(candidates)
    return view.books(candidates, with_stock_only=in_stock is True, explain=False)


def with_last_usages(call: Call, member: Member, page: Paged[MemberBook[CouponBook]]) -> Paged[MemberBook[CouponBook]]:
    """The books of the page, each with the member's last use of it."""
    last_uses = usages.find_last_uses(call.db, member, [result.book.coupon_book_id for result in page.results])
    results = [replace(result, last_usage=last_uses.get(result.book.coupon_book_id)) for result in page.results]
    return replace(page, results=results)


class _MemberView:
    """The data of a member that books need, looked up once for all books."""

    def __init__(self, call: Call, member: Member) -> None:
        self._call, self._member = call, member
        self._configuration = configuration_of(call.db, call.organization)
        keys = self._configuration.tier_keys
        tiers = current_tiers(call, [member])[member.member_id]
        # Tiers that were created after the configuration was read do not matter to any book yet.
        self.tier_keys = frozenset(keys[tier.loyalty_tier_id] for tier in tiers if tier.loyalty_tier_id in keys)
        audiences_by_member = match_audiences(
            call.db, call.organization.organization_id, self._configuration.audiences, [member], call.now
        )
        audiences = audiences_by_member[member.member_id]
        self.audience_keys = frozenset(audience.audience_key for audience in audiences)

    def books(self, books: Sequence[Book], *, with_stock_only: bool, explain: bool) -> list[MemberBook[Book]]:
        """The books that the member could use now, or with `explain` all; in a fixed number of statements.

        If `with_stock_only`, an empty stock is an exclusion. Raises DeadlineExceeded.
        """
        if not books:
            return []
        try:
            return list(self._books(books, with_stock_only, explain))
        except TimeExceeded:
            detail = "The conditions of the coupon books take too much time. Filter the list or simplify them."
            raise DeadlineExceeded(detail) from None

    def _books(self, books: Sequence[Book], with_stock_only: bool, explain: bool) -> Iterator[MemberBook[Book]]:
        """The books as `books` returns them; raises TimeExceeded."""
        call, member = self._call, self._member
        ids = [book.coupon_book_id for book in books]
        amounts = member_books.find_amounts(call.db, member, ids, call.now)
        zone = call.organization.zone
        starts_by_book = {book.coupon_book_id: period_starts(book, call.now, zone) for book in books}
        assigned_amounts = {
            (member.member_id, book_id): amounts_of_book.assigned for book_id, amounts_of_book in amounts.items()
        }
        totals_of_books = holdings.find_usage_totals(
            call.db, member.organization_id, [member.member_id], assigned_amounts, starts_by_book
        )
        locks_by_book, reserved_stock = self._locks(books)
        stock = self._stock(books, reserved_stock) if with_stock_only else {}
        needs_balances = any(
            book.condition or book.assignment_required_points or book.usage_required_points for book in books
        )
        wallets = self._wallet_views() if needs_balances else []
        conditions = [book.condition for book in books if book.condition]
        available_points = {view.ledger_account_key: view.available_balance for view in wallets}
        context = self._context(available_points, conditions) if conditions else {}
        deadline = call_deadline().earlier(Deadline(_CONDITIONS_SECONDS, time.thread_time))
        for book in books:
            totals = totals_of_books.get((member.member_id, book.coupon_book_id), _NO_TOTALS)
            amounts_of_book = amounts.get(book.coupon_book_id, _NO_AMOUNTS)
            locks = locks_by_book.get(book.coupon_book_id, ())
            account_key = (book.required_points_config or {}).get("ledgerAccountKey", "")
            # A lock reserves either stock, as an assignment would, or an unused coupon of the member.
            stock_locks = [lock for lock in locks if lock.reserves_stock]
            facts = MemberFacts(
                at=call.now,
                zone=zone,
                is_active=member.active,
                tier_keys=self.tier_keys,
                audience_keys=self.audience_keys,
                context=context,
                stock_left=stock.get(book.coupon_book_id),
                assigned=totals.assigned + len(stock_locks),
                unused=amounts_of_book.unused - (len(locks) - len(stock_locks)),
                has_locks=bool(locks),
                used_in_period=totals.used + len(locks),
                discounted_in_period=totals.discounted,
                points=available_points.get(account_key, Decimal(0)),
            )
            if explain:
                yield MemberBook(book, amounts_of_book, tuple(exclusions_from_list(book, facts, deadline=deadline)))
            elif is_usable(book, facts, deadline=deadline):
                yield MemberBook(book, amounts_of_book, exclusions=())

    def out_of_stock(self, books: Sequence[BookTerms]) -> list[BookTerms]:
        """The books that have nothing left to assign."""
        _, reserved_stock = self._locks(books)
        stock = self._stock(books, reserved_stock)
        return [book for book in books if (remaining := stock[book.coupon_book_id]) is not None and remaining < 1]

    def _locks(self, books: Sequence[BookTerms]) -> tuple[Mapping[int, Sequence[CouponLock]], Mapping[int, int]]:
        """The member's active locks by book, and for each book how many locks of all members reserve its stock."""
        now, member = self._call.now, self._member
        ids = [book.coupon_book_id for book in books if book.locked_until is not None and book.locked_until > now]
        if not ids:
            return {}, {}
        member_locks, reserved_stock = holdings.find_active_locks(
            self._call.db, member.organization_id, [member.member_id], ids, now
        )
        by_book: dict[int, list[CouponLock]] = {}
        for lock in member_locks:
            by_book.setdefault(lock.coupon_book_id, []).append(lock)
        return by_book, reserved_stock

    def _stock(self, books: Sequence[BookTerms], reserved_stock: Mapping[int, int]) -> dict[int, Decimal | None]:
        """The amount left to assign of each book, by id; None without a limit.

        For a list of codes, 1 means at least one.
        """
        list_ids = [book.coupon_book_id for book in books if book.type == LIST]
        books_with_free_codes: set[int] = set()
        if list_ids:
            books_with_free_codes = member_books.find_books_with_free_codes(
                self._call.db, self._call.organization.organization_id, list_ids, self._call.now
            )
        stock: dict[int, Decimal | None] = {}
        for book in books:
            book_id = book.coupon_book_id
            amount = stock_left(book, int(book_id in books_with_free_codes))
            # A locked code of a list is not free, so only the locks of other books are subtracted here.
            if amount is not None and book.type != LIST:
                amount -= reserved_stock.get(book_id, 0)
            stock[book_id] = amount
        return stock

    def _wallet_views(self) -> list[WalletView]:
        """The member's balances, one for each account."""
        call, wallet_id, organization = self._call, self._member.wallet_id, self._call.organization
        balances = ledger_wallets.find_balances_of_wallets(
            call.db, organization.organization_id, [wallet_id], call.now, organization.timezone
        )
        return balances.get(wallet_id, [])

    def _context(
        self, available_points: Mapping[str, Decimal], conditions: Sequence[Mapping[str, Any]]
    ) -> Mapping[str, Any]:
        """The variables of the conditions of books; `available_points` are by the keys of their accounts."""
        call, member = self._call, self._member
        earlier_orders = NO_ORDERS
        if any(map(condition_may_read_orders, conditions)):
            history = orders.find_order_history(call.db, member.organization_id, [member.member_id], call.now)
            earlier_orders = history.before(member.member_id, call.now)
        balances: dict[str, Decimal] = {}
        for account in self._configuration.accounts.values():
            points = available_points.get(account.ledger_account_key, Decimal(0))
            balances[account.ledger_account_key] = points
            if account.alias is not None:
                balances[account.alias] = points
        badge_balances = badges.find_balances(call.db, call.organization.organization_id, [member.member_id])
        return context_of(
            member,
            balances=balances,
            badges={
                key: Decimal(badge_balances.get((member.member_id, badge.badge_id), 0))
                for key, badge in self._configuration.badges.items()
            },
            audience_keys=self.audience_keys,
            tier_keys=self.tier_keys,
            now=call.now,
            orders=earlier_orders,
        )
