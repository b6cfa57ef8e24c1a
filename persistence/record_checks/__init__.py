"""Checks of what members have against the records of how they got it, as queries that find violations.

Each is one statement, as `ledger_checks` has them: it sees one state of the records even while others write, and names
what every history of calls keeps true, whatever their order.
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
