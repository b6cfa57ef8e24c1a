"""Imports as jobs: their kinds, states and refusals, and the columns of members."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, get_type_hints

from domain.fields import Internal, wire_name
from domain.members import MemberProperties
from domain.problems import Conflict
from domain.profiles import NOTIFICATIONS, PROFILE

MEMBERS, BALANCES, COUPON_CODES, COUPONS, BADGES = "members", "balances", "coupon-codes", "coupons", "badges"
AUDIENCE_MEMBERS, EVENTS, MISSION_PROGRESS = "audience-members", "events", "mission-progress"
# The role that a kind of import needs besides the role for imports: that of operations that write the same records.
ROLE_OF_KIND: Mapping[str, str] = {
    MEMBERS: "members:write",
    BALANCES: "ledgers:write",
    COUPON_CODES: "coupons:write",
    COUPONS: "coupons:write",
    BADGES: "badges:write",
    AUDIENCE_MEMBERS: "members:write",
    EVENTS: "orders:write",
    MISSION_PROGRESS: "campaigns:write",
}
# The formats, the modes and the statuses of imports.
CSV, NDJSON = "csv", "ndjson"
CREATE, UPSERT = "create", "upsert"
UPLOADING, QUEUED, RUNNING, DONE, FAILED, CANCELLED = "uploading", "queued", "running", "done", "failed", "cancelled"
UNFINISHED = (UPLOADING, QUEUED, RUNNING)
ENDED = (DONE, FAILED, CANCELLED)
MAX_PARTS = 10_000
MAX_UNFINISHED_IMPORTS = 1_000
"""How many imports of an organization may be uploaded, queued or running."""
MAX_UPLOAD_AGE = timedelta(days=1)
"""How long after its last part an import may wait for its start."""


@dataclass(frozen=True, slots=True)
class ImportJob:
    """An import: what it reads, how, and its progress.

    `header` are the columns of a CSV file. `next_byte` is where the next row begins in the unpacked file, and
    `next_line` its line; `bytes_read` counts bytes of the uploaded file. `crashes` counts the steps whose worker died,
    and a step under way. It is 0 again once `careful_until` rows are read, among them the rows at which workers died.
    """

    organization_id: int
    import_id: int
    kind: str
    format: str
    mode: str
    dry_run: bool
    emit_events: bool
    ignore_unknown_columns: bool
    delimiter: str | None
    encoding: str
    column_names: Mapping[str, str]
    description: str | None
    status: str
    rows_read: int
    rows_done: int
    rows_failed: int
    bytes_total: int
    bytes_read: int
    # The number of parts, None until the work has started.
    parts: int | None
    header: Internal[Sequence[str] | None]
    next_byte: Internal[int]
    next_line: Internal[int]
    worked_ms: Internal[int]
    crashes: Internal[int]
    careful_until: Internal[int]
    error: str | None
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None
    finished_at: datetime | None

    @property
    def rows_per_second(self) -> int | None:
        """The rows read in a second of work; None until some work is done."""
        return round(self.rows_read * 1000 / self.worked_ms) if self.worked_ms else None

    def estimated_end(self, now: datetime) -> datetime | None:
        """The moment at which the import ends at its present speed; None if it does not run or has read nothing yet."""
        if self.status != RUNNING or self.started_at is None or not self.bytes_read or not self.bytes_total:
            return None
        share = min(1.0, self.bytes_read / self.bytes_total)
        return now + (now - self.started_at) * (1 / share - 1)


@dataclass(frozen=True, slots=True)
class ImportPart:
    """A part of the file of an import, in the order of the numbers, from 1."""

    organization_id: int
    import_id: int
    part_number: int
    size: int
    sha256: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class FailedRow:
    """A row that was not imported: its line, its faulty column, if the fault is in one, the reason, and its text."""

    line: int
    column_name: str | None
    reason: str
    row: Sequence[str] | str
    loyalty_member_id: str | None = None


class ImportState(Conflict, title="The state of the import does not allow it"):
    """The state of the import does not allow the request."""


class ImportLimit(Conflict, title="The organization has the maximum number of unfinished imports"):
    """The organization has too many unfinished imports."""


class ImportIncomplete(Conflict, title="Parts of the file are missing"):
    """Parts of the file are missing."""


class ImportEnded(Exception):
    """The import was cancelled while its rows were imported, or another worker has continued it."""


class FileFault(Exception):
    """A fault of a file as a whole, which ends its import."""


class RowFault(Exception):
    """A fault of one row, which does not affect other rows; `column` is the faulty one, None if there is none."""

    def __init__(self, reason: str, column: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.column = column


# Fields of a member that are no columns: objects whose fields are columns, and a field that only the API sets.
_NO_COLUMNS = frozenset({"profile", "notifications", "on_chain"})
_ATTRIBUTES = "customAttributes"
# The tier that was set, and when the member joined, have no place in the body of `createMember`.
_IMPORT_ONLY = ("joinedAt", "tier", "tierExpiresAt", "tierHold")

# The types in JSON of the fields that are columns; there are none of other types yet.
_FORMS: Mapping[Any, type[Any]] = {bool: bool, str: str, str | None: str}

_Column = tuple[str, tuple[str, ...], type[Any]]


def _columns() -> Iterator[_Column]:
    """The columns with their places in the body of `createMember`, and their types in JSON."""
    for name, hint in get_type_hints(MemberProperties).items():
        if name not in _NO_COLUMNS and wire_name(name) != _ATTRIBUTES:
            yield wire_name(name), (wire_name(name),), _FORMS[hint]
    for name, part in PROFILE.items():
        if not part.parts:
            yield part.column or name, ("profile", name), part.form
        yield from ((column, ("profile", name, inner), str) for inner, column in part.parts.items())
    yield from ((column, ("notifications", name), bool) for name, column in NOTIFICATIONS.items())
    yield _ATTRIBUTES, (_ATTRIBUTES,), dict


PLACES: Mapping[str, tuple[str, ...]] = {column: place for column, place, _ in _columns()}
"""The place of each column in the body of `createMember`."""

_TOP_LEVEL_COLUMNS = {column: form for column, place, form in _columns() if len(place) == 1 and form is not dict}
MEMBER_COLUMNS: Mapping[str, type[Any]] = {
    **_TOP_LEVEL_COLUMNS,
    **dict.fromkeys(_IMPORT_ONLY, str),
    **{column: form for column, _, form in _columns() if column not in _TOP_LEVEL_COLUMNS},
}
"""The columns by name, in the order of exports, with their types in JSON: `str`, `bool`, `list` or `dict`."""
