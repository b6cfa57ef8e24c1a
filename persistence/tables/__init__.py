"""The schema as SQLAlchemy Core tables, one module a subject; migrations bring a database to exactly this."""

from persistence.tables import (
    audiences,
    badges,
    campaigns,
    coupon_usages,
    coupons,
    events,
    guards,
    ledger,
    matchers,
    members,
    missions,
    organizations,
    periodic_jobs,
    programs,
    queue,
    referrals,
    triggers,
)
from persistence.tables.base import metadata

__all__ = [
    "audiences",
    "badges",
    "campaigns",
    "coupon_usages",
    "coupons",
    "events",
    "guards",
    "ledger",
    "matchers",
    "members",
    "metadata",
    "missions",
    "organizations",
    "periodic_jobs",
    "programs",
    "queue",
    "referrals",
    "triggers",
]
