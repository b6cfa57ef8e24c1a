"""Members on the wire (integration 2.6, administration "Member")."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from domain.calendar import instant_text
from domain.members import Member
from domain.tiers import MemberTier
from handlers.messages.base import OF_REQUEST, Shape
from handlers.messages.lists import exactness_of
from handlers.messages.members import MEMBER, MEMBER_PROPERTIES, MemberBody
from handlers.services.members.enrol import Enrolment
from persistence.paging import Paged


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberUpdate(MemberBody):
    """A changed member, the reason, and whether campaigns evaluate the change as an event."""

    update_reason: str | None = field(default=None, metadata=OF_REQUEST)
    emit_event: bool = field(default=True, metadata=OF_REQUEST)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMembers:
    """Members to enrol in one request."""

    members: Sequence[MemberBody]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoyaltyMemberIds:
    """Members to look up by the organization's own ids."""

    loyalty_member_ids: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberIds:
    """Members to look up by id."""

    member_ids: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class AudienceIds:
    """The audiences to look for a member in."""

    audience_ids: Sequence[int]


EXISTING_MEMBER = Shape(Member, only=("member_id", "loyalty_member_id", "active"))
MEMBER_TIER = Shape(MemberTier, without=("is_manual",))


def enrolment_response(name: str) -> Callable[[Enrolment], dict[str, Any]]:
    """A function that renders an enrolment: the member as `name`, and the outcomes of its referral code."""
    return lambda enrolment: {name: MEMBER.dump(enrolment.record), "referrals": enrolment.referrals}


def enrolments(outcomes: Sequence[Enrolment]) -> dict[str, Any]:
    """The outcomes of a batch of new members, in the order of the request."""
    failure_count = sum(enrolment.refusal is not None for enrolment in outcomes)
    return {
        "created": len(outcomes) - failure_count,
        "failed": failure_count,
        "results": [_outcome(enrolment) for enrolment in outcomes],
    }


def _outcome(enrolment: Enrolment) -> dict[str, Any]:
    """The result of one enrolment of a batch."""
    response = {
        "loyaltyMemberId": enrolment.loyalty_member_id,
        "status": "created" if enrolment.refusal is None else "failed",
        "referrals": enrolment.referrals,
    }
    if enrolment.refusal is not None:
        return {**response, "error": enrolment.refusal.as_problem()}
    return {**response, "loyaltyMember": MEMBER.dump(enrolment.record)}


def member_page(page: Paged[Any]) -> dict[str, Any]:
    """A page of members in the form of the integration interface (integration 1, convention 4)."""
    return {
        "results": [MEMBER.dump(member) for member in page.results],
        "total": page.total_count,
        "page": page.page,
        "limit": page.limit,
        **exactness_of(page),
        "nextCursor": page.next_cursor,
    }


def member_batch(batch: Mapping[str, Any]) -> dict[str, Any]:
    """The response with the members of a batch, and the requested ids that no member has."""
    return {"members": [MEMBER.dump(member) for member in batch["members"]], "notFound": batch["not_found"]}


def search_row(row: tuple[Member, MemberTier | None]) -> dict[str, Any]:
    """A member found by a search, and the member's tier in a program, if any (administration, "Member search row")."""
    member, tier = row
    properties = MEMBER_PROPERTIES.dump(member)
    profile = properties["profile"]
    data = {
        name: profile[name] for name in ("phoneNumber", "govId", "birthdate", "locations", "tags") if name in profile
    }
    return {
        "organizationId": member.organization_id,
        "memberId": member.member_id,
        "loyaltyProgramId": None if tier is None else tier.loyalty_program_id,
        "loyaltyTierId": None if tier is None else tier.loyalty_tier_id,
        "loyaltyMemberId": member.loyalty_member_id,
        "data": {
            **data,
            "publicLoyaltyMemberId": member.public_loyalty_member_id,
            "ledgerWalletId": member.wallet_id,
        },
        "name": profile["name"],
        "lastName": profile["lastName"],
        "email": profile["email"],
        "active": member.active,
        "since": instant_text(member.created_at),
    }
