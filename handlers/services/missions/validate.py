"""Checks of a mission before it is saved: its fields are consistent, and its references exist."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from domain.calendar import with_offsets, zone_faults
from domain.campaigns.references import unknown_keys, unknown_matchers
from domain.ledger.availability import NONE
from domain.ledger.session.balances import refuse_fractions
from domain.matchers import compile_matcher
from domain.missions.progress import count_sources
from domain.missions.records import Mission
from domain.missions.rules import INLINE_MATCHER, faults_of
from domain.problems import FieldFault, InvalidRequest
from handlers.call import Call
from handlers.messages.base import LocalMoment, values_of
from handlers.services import references
from handlers.services.configuration import configuration_of
from handlers.services.known_keys import known_keys


@dataclass(frozen=True, slots=True, kw_only=True)
class MissionProperties:
    """The writable fields of a mission."""

    campaign_id: int | None = None
    loyalty_program_id: int | None = None
    name: str
    short_description: str | None = None
    description: str | None = None
    picture_url: str | None = None
    custom_attributes: Mapping[str, Any] = field(default_factory=dict)
    type: str | None = None
    audience_id: int | None = None
    tags: Sequence[str] = ()
    code: str | None = None
    matcher_id: int | None = None
    event_type: str
    active: bool = True
    valid_from: LocalMoment | None = None
    valid_to: LocalMoment | None = None
    timezone: str | None = None
    max_repetitions: int
    repetition_period: str | None = None
    period_limit: int | None = None
    goal_count: int
    points_accrual: Decimal | None = None
    ledger_id: int | None = None
    ledger_account_id: int | None = None
    available_at: datetime | None = None
    available_after: str | None = None
    available_rounding: str = NONE
    available_on: Mapping[str, Any] | None = field(default=None, metadata={"omit_none": True})
    coupon_book_key: str | None = None
    badge_key: str | None = None
    ledger_transaction_description: str | None = None
    inline_matcher: Mapping[str, Any] | None = field(default=None, metadata={"omit_none": True})
    badge_matcher: Mapping[str, Any] | None = field(default=None, metadata={"omit_none": True})
    min_spend_value: Decimal | None = None
    currency: str | None = None
    manual_expiration: Mapping[str, Any] | None = field(default=None, metadata={"omit_none": True})
    count_expression: str | None = None
    external_key: str | None = None


def validated_mission(call: Call, body: MissionProperties, before: Mission | None) -> MissionProperties:
    """The mission to store; refuses contradictory fields and unknown references. `before` is None for a new mission.

    An event type and an expression that are the same as `before` are not checked again: the event type may have been
    deactivated since, and records that the expression names may be gone.

    Raises InvalidRequest with all faults. If there are none: NotFound for an unknown reference, or WalletNotInLedger if
    the points of the reward cannot be paid.
    """
    body = with_offsets(body, ("valid_from", "valid_to"), call.organization.timezone)
    faults = [*zone_faults(body.timezone), *faults_of(values_of(body))]
    if body.inline_matcher is not None:
        try:
            compile_matcher(body.inline_matcher, INLINE_MATCHER)
        except InvalidRequest as refusal:
            faults += refusal.faults
    if body.count_expression is not None and (before is None or body.count_expression != before.count_expression):
        faults += _faults_of_count(call, body.count_expression)
    if faults:
        raise InvalidRequest(faults)
    if before is None or body.event_type != before.event_type:
        references.refuse_unknown_event_type(configuration_of(call.db, call.organization), body.event_type)
    references.refuse_unknown(
        call,
        loyalty_program=body.loyalty_program_id,
        campaign=body.campaign_id,
        audience=body.audience_id,
        matcher=body.matcher_id,
    )
    body = _with_known_badges(call, body)
    if body.coupon_book_key is not None:
        body = replace(body, coupon_book_key=references.coupon_book(call, body.coupon_book_key).coupon_book_key)
    _refuse_unpayable_points(call, body)
    return references.with_checked_awaited_event(call, body, before)


def _faults_of_count(call: Call, expression: str) -> list[FieldFault]:
    """The faults of a count expression, including unknown keys."""
    try:
        sources = count_sources(expression)
    except InvalidRequest as refusal:
        return list(refusal.faults)
    configuration = configuration_of(call.db, call.organization)
    keys = known_keys(call.db, configuration, sources)
    return [*unknown_matchers(sources, configuration.matcher_keys), *unknown_keys(sources, keys)]


def _with_known_badges(call: Call, body: MissionProperties) -> MissionProperties:
    """The mission with keys of badges in lower case; refuses unknown badges."""
    configuration = configuration_of(call.db, call.organization)
    badge_keys = []
    if body.badge_matcher is not None:
        conditions = [
            {**condition, "badgeKey": condition["badgeKey"].lower()} for condition in body.badge_matcher["conditions"]
        ]
        body = replace(body, badge_matcher={**body.badge_matcher, "conditions": conditions})
        badge_keys += [condition["badgeKey"] for condition in conditions]
    if body.badge_key is not None:
        body = replace(body, badge_key=body.badge_key.lower())
        badge_keys.append(body.badge_key)
    for key in badge_keys:
        references.refuse_unknown_badge(configuration, key)
    return body


def _refuse_unpayable_points(call: Call, body: MissionProperties) -> None:
    """Refuse points of an account without wallets of members, with too many digits, or with an impossible expiry."""
    amount = body.points_accrual
    if amount is None:
        return
    account = references.account_of_members(call, body.ledger_id, body.ledger_account_id)
    refuse_fractions(account, amount, "pointsAccrual")
    if body.manual_expiration is not None and not account.point_tracking_enabled:
        detail = "manualExpiration needs a ledger account with pointTrackingEnabled, whose points can expire"
        raise InvalidRequest([FieldFault(detail, pointer="/manualExpiration")])
