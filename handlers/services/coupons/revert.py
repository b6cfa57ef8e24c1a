"""Reverts assignments and uses of coupons by request."""

from collections.abc import Sequence
from dataclasses import dataclass

from domain.coupons.books import Coupon
from domain.coupons.charges import UsageDetails
from domain.coupons.usages import CouponUsage, NothingToRevert
from domain.members import Member
from domain.problems import Refusal
from handlers.call import Call
from handlers.services.unit_of_work.requests import RequestedChange, apply_batch, unit_of_work
from handlers.services.unit_of_work.unit import UnitOfWork
from persistence.coupons import usages
from persistence.coupons.usages import USAGES

REVERT_REASON = "A coupon usage was reverted by request."
MAX_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class UsageToRevert:
    """A usage that a call reverts; with `force` also an assignment whose coupons were used in part."""

    usage: CouponUsage
    force: bool = False


@dataclass(frozen=True, slots=True)
class RevertOutcome:
    """The outcome of reverting one usage: the reversal, or the refusal."""

    usage: CouponUsage
    reversal: CouponUsage | None = None
    refusal: Refusal | None = None


@dataclass(frozen=True, slots=True)
class RevertedCode:
    """The outcomes of reverting uses of a code, and the number of uses that are left to revert."""

    outcomes: list[RevertOutcome]
    remaining_count: int


def revert_usages(calls: Sequence[Call], requests: Sequence[UsageToRevert]) -> list[CouponUsage | Refusal]:
    """Reverse an assignment or a use for each call, with its points, one after the other in one unit of work.

    Returns the reversal or the refusal of each usage.
    """

    def prepare(unit: UnitOfWork) -> None:
        # Read again under the lock, since another transaction may have reverted them.
        ids = {request.usage.coupon_usage_id for request in requests}
        organization_id = calls[0].organization.organization_id
        unit.coupons.prepare_reverts(USAGES.find_all(calls[0].db, organization_id, coupon_usage_id=ids))
        unit.coupons.loader.expect_usages(len(ids))

    def change_of(call: Call, request: UsageToRevert) -> RequestedChange[CouponUsage]:
        return RequestedChange(
            call,
            request.usage.member_id,
            REVERT_REASON,
            lambda unit: unit.coupons.revert(request.usage, UsageDetails(), force=request.force),
        )

    return apply_batch([change_of(call, request) for call, request in zip(calls, requests, strict=True)], prepare)


def revert_code(call: Call, member: Member, coupon: Coupon, *, all_of_them: bool) -> RevertedCode:
    """Reverse the member's last use of a code, or `all_of_them` up to a hundred, newest first.

    The uses are reversed independently of each other. Raises NothingToRevert, or the first refusal if no use could be
    reverted.
    """
    with unit_of_work(call, [member.member_id], REVERT_REASON) as unit:
        coupons = unit.coupons
        limit = MAX_AT_ONCE if all_of_them else 1
        uses = usages.find_uses_of_coupon(call.db, coupon.organization_id, member.member_id, coupon.coupon_id, limit)
        if not uses:
            raise NothingToRevert("The member has no use of this code left to revert.")
        use_count = usages.count_uses_of_coupon(call.db, coupon.organization_id, member.member_id, coupon.coupon_id)
        coupons.prepare_reverts(uses)
        coupons.loader.expect_usages(len(uses))
        outcomes = []
        for usage in uses:
            try:
                outcomes.append(RevertOutcome(usage, coupons.revert(usage, UsageDetails())))
            except Refusal as refusal:
                outcomes.append(RevertOutcome(usage, refusal=refusal))
        refusals = [outcome.refusal for outcome in outcomes if outcome.refusal is not None]
        if len(refusals) == len(outcomes):
            raise refusals[0]
        reverted_count = len(outcomes) - len(refusals)
        return RevertedCode(outcomes, remaining_count=use_count - reverted_count)
