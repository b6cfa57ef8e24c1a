"""The data that a call carries to its handler, from HTTP, the command line or a worker."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from domain.access import Grant, limit_grant
from domain.events import EventOrigin
from handlers.audit_trail import AuditTrail

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from domain.expressions import Deadline
    from domain.organizations import Organization
    from handlers.settings import Settings

INTEGRATION = "integration"
ADMINISTRATION = "administration"
JSON = "application/json"
# The header with the time of the test clock, in responses and messages of organizations that have one.
TEST_CLOCK_HEADER = "X-Test-Clock"
# The scope of a member's own token, and the prefix of the member's id in its subject.
MEMBER = "member"
MEMBER_SUBJECT = "member:"


@dataclass(frozen=True, slots=True)
class PartnerKey:
    """A valid API key: `partner` is the partner's name in paths, `name` the organization's name for the partner."""

    partner_api_key_id: int
    partner: str
    name: str


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller according to the bearer token: claims that were verified, but not yet compared with the database.

    `organization_id` is None if a system administrator's token names no organization. `user_id` is None for a token
    that the operator issued on the command line, and for a token of the external issuer whose subject is not a user
    here. `token_generation` is the user's token generation when the token was issued. `is_external` is true for a token
    of the external issuer. `partner` is set only for a partner that calls with an API key, which has no scopes.
    """

    subject: str
    organization_id: int | None
    roles: frozenset[str]
    is_admin: bool = False
    is_system_admin: bool = False
    user_id: int | None = None
    loyalty_member_id: str | None = None
    token_id: str | None = None
    partner: PartnerKey | None = None
    is_external: bool = False
    token_generation: int = 1

    @property
    def grant(self) -> Grant:
        """The permissions of the caller."""
        return Grant(self.roles, self.is_admin, self.is_system_admin)

    def limited_to(self, user_grant: Grant) -> Caller:
        """The caller limited to the present permissions of its user."""
        grant = limit_grant(self.grant, user_grant)
        if grant == self.grant:
            return self
        return replace(self, roles=grant.roles, is_admin=grant.is_admin, is_system_admin=grant.is_system_admin)

    def holds(self, scope: str) -> bool:
        """True if the caller has the scope that an operation requires; `x:write` implies `x:read`.

        A member's token has only the scope MEMBER, which no other token has.
        """
        if self.loyalty_member_id is not None or scope == MEMBER:
            return self.loyalty_member_id is not None and scope == MEMBER
        if self.is_admin or self.is_system_admin or scope in self.roles:
            return True
        resource, _, action = scope.partition(":")
        return action == "read" and f"{resource}:write" in self.roles


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request that the OpenAPI document accepted: typed parameters with defaults, one parsed body."""

    surface: str
    operation_id: str
    path: dict[str, Any]
    query: dict[str, Any]
    body: Any
    caller: Caller | None
    request_id: str
    headers: dict[str, str]
    address: str = ""
    # The media type of the response: a type that the operation offers and the client accepts.
    media_type: str = JSON


@dataclass(frozen=True, slots=True)
class RequestContext:
    """The data that a `before_transaction` hook may use.

    `body` is the command of the request. `read` calls a function with a connection for queries, and returns its result.
    """

    body: Any
    headers: Mapping[str, str]
    read: Callable[[Callable[[Any], Any]], Any]


@dataclass(frozen=True, slots=True)
class Response:
    """The response to a request: a value for JSON, a text that is sent unchanged, or None, and additional headers."""

    status: int
    body: Any
    headers: tuple[tuple[str, str], ...] = ()


def new_uuid() -> str:
    """Return a new unique key: a UUID of version 7 (RFC 9562, 5.7), which begins with the time in milliseconds.

    Keys of one moment are neighbours in an index, so that PostgreSQL writes few pages of the index.
    """
    milliseconds = time.time_ns() // 1_000_000
    bits = milliseconds << 80 | int.from_bytes(os.urandom(10), "big")
    # The places of version and variant, and their fixed values, are those of RFC 9562.
    version, variant = 0x7 << 76, 0x2 << 62
    digits = f"{bits & ~(0xF << 76 | 0x3 << 62) | version | variant:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


class NotBatchable(Exception):
    """The calls of a batch depend on each other: roll back and run each in its own transaction.

    As the outcome of a single call: nothing of the call was carried out; run it in its own transaction.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """The context of a use case: an open database transaction, the organization and the moment.

    `request_id` is the id of the HTTP request, or the name of the job. If `is_quiet`, campaigns and triggers receive no
    events of the changes; tiers still follow the points. With `limits_messages`, a job can queue only as many messages
    for triggers as a call; one more raises TooManyMessages. A job posts at most `max_expired_lots` expired lots, and
    leaves others to its next step; None for all.
    """

    db: Connection
    organization: Organization
    now: datetime
    request_id: str
    new_key: Callable[[], str] = new_uuid
    is_quiet: bool = False
    limits_messages: bool = False
    max_expired_lots: int | None = None
    # Until when the events of each origin may evaluate rules: of a call of a batch, a queued event, or a step of a job.
    deadlines: dict[EventOrigin, Deadline] = field(default_factory=dict)

    @property
    def origin(self) -> EventOrigin:
        """The origin of the events of this execution, which has no caller."""
        return EventOrigin(self.request_id)

    @property
    def is_awaited(self) -> bool:
        """True if a caller waits for the result; a job has no caller."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Execution):
    """The context of a handler.

    `organization` is None only for operations without one, such as `createAccessToken`.
    """

    caller: Caller | None
    surface: str
    settings: Settings
    audit: AuditTrail = field(default_factory=AuditTrail)

    @property
    def real_now(self) -> datetime:
        """The real time, for tokens, users and ages; `now` is the time of the test clock if there is one."""
        has_clock = self.organization is not None and self.organization.clock_now is not None
        return datetime.now(UTC) if has_clock else self.now

    @property
    def origin(self) -> EventOrigin:
        """The origin of the events of this request, with its caller."""
        caller = self.caller
        if caller is None:
            return EventOrigin(self.request_id)
        return EventOrigin(self.request_id, caller.subject, caller.user_id)

    @property
    def is_awaited(self) -> bool:
        """True if a caller waits for the result; the call of an import, for example, has no caller."""
        return self.caller is not None


@dataclass(slots=True)
class BatchedCall:
    """A request with its call, in a batch of calls that share a transaction.

    The call is open, which means not yet completed, while `outcome` is None. If `outcome` is NotBatchable, nothing of
    the call was carried out, and it is run again in its own transaction. `records` are the records that its path
    addresses, by argument of the handler. `result` is the result of the handler; if the operation has a batch handler,
    `batch_argument` is the result of the handler, and `result` what the batch handler returned for it.
    """

    request: Request
    call: Call
    outcome: Response | Exception | None
    records: dict[str, Any] = field(default_factory=dict)
    batch_argument: Any = None
    result: Any = None
