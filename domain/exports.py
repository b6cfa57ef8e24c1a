"""Exports as jobs: their kinds, states and refusals."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from domain.fields import Internal
from domain.imports.records import (
    AUDIENCE_MEMBERS,
    BADGES,
    BALANCES,
    COUPON_CODES,
    COUPONS,
    EVENTS,
    MEMBERS,
    MISSION_PROGRESS,
)
from domain.problems import Conflict, NotFound

EVENT_RESULTS, LEDGER_TRANSACTIONS, COUPON_USAGES, AUDIT_LOG = (
    "event-results",
    "ledger-transactions",
    "coupon-usages",
    "audit-log",
)
# The role that a kind of export needs besides the role for exports: that of operations that read the same records.
ROLE_OF_KIND: Mapping[str, str] = {
    MEMBERS: "members:read",
    BALANCES: "ledgers:read",
    COUPON_CODES: "coupons:read",
    COUPONS: "coupons:read",
    BADGES: "badges:read",
    AUDIENCE_MEMBERS: "members:read",
    EVENTS: "orders:read",
    MISSION_PROGRESS: "campaigns:read",
    EVENT_RESULTS: "orders:read",
    LEDGER_TRANSACTIONS: "ledgers:read",
    COUPON_USAGES: "coupons:read",
    AUDIT_LOG: "admin",
}
# Filters of rows, by their names on the wire.
CREATED_FROM, CREATED_TO, MEMBER_ID, EVENT_TYPE, LEDGER_ACCOUNT_ID, COUPON_BOOK_ID = (
    "createdFrom",
    "createdTo",
    "memberId",
    "eventType",
    "ledgerAccountId",
    "couponBookId",
)
FILTERS = (CREATED_FROM, CREATED_TO, MEMBER_ID, EVENT_TYPE, LEDGER_ACCOUNT_ID, COUPON_BOOK_ID)
_CREATED = frozenset({CREATED_FROM, CREATED_TO})
FILTERS_OF_KIND: Mapping[str, frozenset[str]] = {
    MEMBERS: _CREATED | {MEMBER_ID},
    BALANCES: frozenset({MEMBER_ID, LEDGER_ACCOUNT_ID}),
    COUPON_CODES: _CREATED | {COUPON_BOOK_ID},
    COUPONS: _CREATED | {MEMBER_ID, COUPON_BOOK_ID},
    BADGES: frozenset({MEMBER_ID}),
    AUDIENCE_MEMBERS: frozenset({MEMBER_ID}),
    EVENTS: _CREATED | {MEMBER_ID, EVENT_TYPE},
    MISSION_PROGRESS: frozenset({MEMBER_ID}),
    EVENT_RESULTS: _CREATED | {MEMBER_ID, EVENT_TYPE},
    LEDGER_TRANSACTIONS: _CREATED | {MEMBER_ID, LEDGER_ACCOUNT_ID},
    COUPON_USAGES: _CREATED | {MEMBER_ID, COUPON_BOOK_ID},
    AUDIT_LOG: _CREATED | {MEMBER_ID},
}
# The statuses of exports.
QUEUED, RUNNING, DONE, FAILED, CANCELLED, EXPIRED = "queued", "running", "done", "failed", "cancelled", "expired"
# How long the rows of an export can be read.
ROWS_KEPT_FOR = timedelta(days=7)
# A worker that has added nothing to its export for this time is considered dead.
ABANDONED_AFTER = timedelta(minutes=2)
# An export fails if so many workers have died while they wrote it.
MAX_CRASHES = 5
MAX_UNFINISHED_EXPORTS = 20
"""How many exports of an organization may be queued or running; enough for one of each kind at once."""


@dataclass(frozen=True, slots=True)
class ExportJob:
    """An export: which rows it consists of, and its progress.

    `filters` are the set filters, by their names on the wire. `attempt` is how many times a worker has begun the
    export; only the last of these workers continues it. `crashes` is how many of them have died. `last_id` is the
    maximum id of the rows.
    """

    organization_id: int
    export_id: int
    kind: str
    updated_from: datetime | None
    after: int
    filters: Mapping[str, Any]
    description: str | None
    status: str
    attempt: Internal[int]
    crashes: Internal[int]
    parts: int
    rows: int
    bytes: int
    last_id: int | None
    error: str | None
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None
    finished_at: datetime | None

    @property
    def all_filters(self) -> dict[str, Any]:
        """Every filter by its name on the wire; None for a filter that is not set."""
        return {name: self.filters.get(name) for name in FILTERS}

    @property
    def expires_at(self) -> datetime | None:
        """The moment until which the rows can be read; None until they are complete."""
        if self.finished_at is None or self.status not in (DONE, EXPIRED):
            return None
        end = self.finished_at + ROWS_KEPT_FOR
        # The erasing of a member removes the rows sooner, which is the last change of the export.
        return min(end, self.updated_at) if self.status == EXPIRED else end


class ExportState(Conflict, title="The state of the export does not allow it"):
    """The state of the export does not allow the request."""


class ExportLimit(Conflict, title="The organization has reached a limit of exports"):
    """The organization has too many unfinished exports, or its exports have stored too many bytes."""


class ExportTooLarge(Exception):
    """The rows of an export would exceed a limit: of a balance, or the bytes that an organization may store."""


class UnknownExportPart(NotFound, title="The part does not exist"):
    """The export has no part with this number."""
