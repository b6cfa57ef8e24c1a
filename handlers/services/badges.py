"""Assigns and unassigns badges by request; the calls of a batch share one unit of work."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from domain.badges import Badge, BadgeGrant, BadgeTracking
from domain.members import Member
from domain.problems import Refusal
from handlers.call import Call
from handlers.messages.json_text import digest_of
from handlers.services.unit_of_work.participants.badges import BadgeWork
from handlers.services.unit_of_work.requests import RequestedChange, apply_batch
from handlers.services.unit_of_work.unit import UnitOfWork

ASSIGN, UNASSIGN = "assign", "unassign"


def grant(
    action: str,
    member: Member,
    badge: Badge,
    *,
    amount: int,
    system_unique_key: str | None,
    custom_attributes: Mapping[str, Any],
    external_id: str | None,
) -> BadgeGrant:
    """The grant of a request; its digest decides whether two requests with the same key are the same."""
    request_fields = (action, member.member_id, badge.badge_id, amount, custom_attributes, external_id)
    return BadgeGrant(
        member.member_id,
        badge,
        amount,
        system_unique_key=system_unique_key,
        request_digest=digest_of(request_fields),
        custom_attributes=custom_attributes,
        external_id=external_id,
    )


def _apply_grants(
    reason: str,
    apply: Callable[[BadgeWork, BadgeGrant], BadgeTracking],
    calls: Sequence[Call],
    grants: Sequence[BadgeGrant],
) -> list[BadgeTracking | Refusal]:
    """Apply the grants of calls in one unit of work; return the tracking or the refusal of each grant."""
    keys = {badge_grant.system_unique_key for badge_grant in grants if badge_grant.system_unique_key is not None}

    def change_of(call: Call, badge_grant: BadgeGrant) -> RequestedChange[BadgeTracking]:
        return RequestedChange(call, badge_grant.member_id, reason, lambda unit: apply(unit.badges, badge_grant))

    def prepare(unit: UnitOfWork) -> None:
        # One statement reserves all ids, another one finds the results of earlier requests with the same keys.
        unit.badges.expect_changes(len(grants))
        unit.badges.load_trackings(keys)

    changes = [change_of(call, badge_grant) for call, badge_grant in zip(calls, grants, strict=True)]
    return apply_batch(changes, prepare)


assign_badges = partial(_apply_grants, "The badge was assigned by request.", BadgeWork.assign)
unassign_badges = partial(_apply_grants, "The badge was unassigned by request.", BadgeWork.unassign)
