"""The schema as SQLAlchemy Core tables, one module per subject; migrations bring a database to exactly this."""

from persistence.tables import (  # noqa: F401  (each module adds its tables to the metadata)
    audit_log,
    badges,
    campaigns,
    content,
    coupons,
    events,
    guards,
    imports,
    ledger,
    members,
    missions,
    offline_allowances,
    organizations,
    points_payments,
    referrals,
    reports,
    triggers,
)
from persistence.tables.base import metadata

__all__ = ["metadata"]
