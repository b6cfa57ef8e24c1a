"""The facts that decide, apart from coupons, whether a member may have a coupon of a book in a unit of work."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial
from typing import Any

from domain.coupons.books import CouponBook
from domain.coupons.conditions import context_of
from domain.coupons.eligibility import MemberFacts
from domain.members import Member
from handlers.services.members.match_audiences import match_audiences
from handlers.services.unit_of_work.derived_events import balance_of
from handlers.services.unit_of_work.scope import UnitScope

Badges = Callable[[int], Mapping[str, Decimal]]


class EligibilityFacts:
    """The facts of members; `badges` returns the badge variables of one for conditions of books."""

    def __init__(self, scope: UnitScope, badges: Badges) -> None:
        self._scope = scope
        self._badges = badges
        self._audiences: Mapping[int, frozenset[str]] | None = None

    def of(self, member: Member, book: CouponBook) -> MemberFacts:
        """The facts of a member that decide about a book; only those that the book needs are looked up."""
        tiers = self._tier_keys(member) if book.tier_keys or book.condition else frozenset()
        audiences = self._audience_keys(member) if book.audience_keys or book.condition else frozenset()
        return MemberFacts(
            at=self._scope.now,
            zone=self._scope.organization.zone,
            is_active=member.active,
            tier_keys=tiers,
            audience_keys=audiences,
            context=self._context(member, tiers, audiences) if book.condition else {},
        )

    def _tier_keys(self, member: Member) -> frozenset[str]:
        known = self._scope.configuration.tier_keys
        points = self._scope.tier_points.of(member.wallet_id)
        tier_ids = self._scope.tier_assignments.tier_ids(member.member_id, points)
        return frozenset(known[tier_id] for tier_id in tier_ids if tier_id in known)

    def _audience_keys(self, member: Member) -> frozenset[str]:
        if self._audiences is None:
            scope = self._scope
            among, members = scope.configuration.audiences, scope.members.values()
            by_member = match_audiences(scope.db, scope.organization.organization_id, among, members, scope.now)
            self._audiences = {
                member_id: frozenset(a.audience_key for a in matching) for member_id, matching in by_member.items()
            }
        return self._audiences[member.member_id]

    def _context(self, member: Member, tiers: frozenset[str], audiences: frozenset[str]) -> dict[str, Any]:
        points = partial(balance_of, self._scope.ledger, member.wallet_id)
        balances = {
            name: points(account.ledger_account_id)
            for account in self._scope.configuration.accounts.values()
            for name in (account.ledger_account_key, account.alias)
            if name is not None
        }
        return context_of(
            member,
            balances=balances,
            badges=self._badges(member.member_id),
            audience_keys=audiences,
            tier_keys=tiers,
            now=self._scope.now,
        )
