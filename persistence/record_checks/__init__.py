"""Checks of what members have against the records of how they got it, as queries that find violations.

Each check is one statement, as in `ledger_checks`, so that it sees one state of the records even during writes. What it
demands is true after all calls, in any order.
"""

from persistence.record_checks import badges, campaigns, coupons, lots, missions, orders, referrals, tiers

CHECKS: tuple[str, ...] = (
    *lots.CHECKS,
    *badges.CHECKS,
    *coupons.CHECKS,
    *missions.CHECKS,
    *campaigns.CHECKS,
    *orders.CHECKS,
    *referrals.CHECKS,
    *tiers.CHECKS,
)

__all__ = ["CHECKS"]
