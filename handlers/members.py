"""Members (integration 4.5, administration "Members")."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from domain.audiences import CompiledAudience
from domain.ledger.records import BURN, MINT
from domain.members import MAX_ID_LENGTH, Member, MemberInactive
from domain.programs import LoyaltyProgram
from domain.tiers import MemberTier
from handlers.audit_trail import Audited
from handlers.call import ADMINISTRATION, INTEGRATION, MEMBER_SUBJECT, Call
from handlers.messages.base import Changes, wrapped
from handlers.messages.lists import listed, listed_by_cursor, results
from handlers.messages.members import MEMBER, MEMBER_PROPERTIES, MemberBody
from handlers.operation import BatchHandler, operation
from handlers.schemas.audiences import audience_ids, audience_keys
from handlers.schemas.member_points import MOVED_POINTS
from handlers.schemas.member_tiers import (
    TIER_BY_ID,
    TIER_BY_KEY,
    RequestedTier,
    TierById,
    TierByIdInProgram,
    TierByKey,
    tier_id,
    tier_key,
)
from handlers.schemas.members import (
    EXISTING_MEMBER,
    MEMBER_TIER,
    AudienceIds,
    LoyaltyMemberIds,
    MemberIds,
    MemberUpdate,
    NewMembers,
    enrolment_response,
    enrolments,
    member_batch,
    member_page,
    search_row,
)
from handlers.schemas.timeline import timeline_page, timeline_query
from handlers.services import references, tokens
from handlers.services.configuration import configuration_of
from handlers.services.ledger.move_points import PointsMove, PointsRequest, move_points
from handlers.services.members.change import change_member, erase
from handlers.services.members.enrol import Enrolment, enrol_by_calls, enrol_members
from handlers.services.members.match_audiences import match_audiences
from handlers.services.members.search import find_members_with_tiers
from handlers.services.members.timeline import TimelinePage, timeline_of
from handlers.services.members.view import (
    MemberRequest,
    current_tiers,
    refuse_large_attributes,
    view_holders,
    view_member,
    view_members,
)
from handlers.services.tiers import set_tier
from persistence import members
from persistence.member_lookups import MemberWithHoldings
from persistence.members import MEMBERS, MEMBERS_WITHOUT_ATTRIBUTES
from persistence.paging import Page, Paged
from persistence.programs import TIERS

# The value of `include` for the points that expire next.
_EXPIRING = "expiring"
# The members whose balances `batchGetMembers` has in memory at a time.
_VIEWED_AT_ONCE = 100
_AUDITED = Audited("member", "member_id", MEMBER_PROPERTIES)
_MEMBER_RESPONSE = {INTEGRATION: wrapped("loyaltyMember", MEMBER), ADMINISTRATION: wrapped("loyalMember", MEMBER)}


@operation("listMembers", response={INTEGRATION: member_page, ADMINISTRATION: listed_by_cursor(MEMBER)})
def list_members(call: Call, query: Mapping[str, Any]) -> Paged[dict[str, Any]]:
    """A page of the members that match all filters."""
    page = members.find_page(call.db, call.organization.organization_id, query)
    return page.with_results(view_members(call, page.results))


@operation(
    "createMember",
    response={INTEGRATION: enrolment_response("loyaltyMember"), ADMINISTRATION: enrolment_response("loyalMember")},
    audit=replace(_AUDITED, records=lambda result: [result.record]),
    batch=BatchHandler(enrol_by_calls),
)
def create_member(call: Call, body: MemberBody) -> MemberBody:
    """Enrol a member with a wallet and the default tier of the default program; returns the body for the batch."""
    return body


@operation(
    "createMembers",
    response=enrolments,
    audit=replace(
        _AUDITED, records=lambda result: [enrolment.record for enrolment in result if enrolment.record is not None]
    ),
)
def create_members(call: Call, body: NewMembers) -> list[Enrolment]:
    """Enrol members as `createMember` does; a refused member does not affect the others."""
    return enrol_members(call, body.members)


@operation("checkMembersExist", response=results(EXISTING_MEMBER, "loyaltyMembers"))
def check_members_exist(call: Call, body: LoyaltyMemberIds) -> list[Member]:
    """Find the members with these ids, in the order of the request; unknown ids are left out."""
    ids = [member_id for member_id in dict.fromkeys(body.loyalty_member_ids) if len(member_id) <= MAX_ID_LENGTH]
    organization_id = call.organization.organization_id
    existing_members = MEMBERS_WITHOUT_ATTRIBUTES.find_all(call.db, organization_id, loyalty_member_id=ids)
    by_id = {member.loyalty_member_id: member for member in existing_members}
    return [by_id[member_id] for member_id in ids if member_id in by_id]


@operation("batchGetMembers", response=member_batch)
def batch_get_members(call: Call, body: MemberIds) -> dict[str, Any]:
    """The members with these ids, and the unknown ids, both in the order of the request.

    Raises InvalidRequest if their customAttributes are too large together.
    """
    ids = list(dict.fromkeys(body.member_ids))
    organization_id = call.organization.organization_id
    refuse_large_attributes(call, ids)
    existing_members = MEMBERS.find_all(call.db, organization_id, member_id=ids)
    by_id = {member.member_id: member for member in existing_members}
    found_members = [by_id[member_id] for member_id in ids if member_id in by_id]
    # Tiers may depend on balances: a member can have hundreds of them.
    groups = (found_members[start : start + _VIEWED_AT_ONCE] for start in range(0, len(found_members), _VIEWED_AT_ONCE))
    return {
        "members": [record for group in groups for record in view_members(call, group)],
        "not_found": [member_id for member_id in ids if member_id not in by_id],
    }


@operation("getMember", response=_MEMBER_RESPONSE, batch=BatchHandler(view_holders))
@operation("getMemberByLoyaltyMemberId", response=_MEMBER_RESPONSE, batch=BatchHandler(view_holders))
def get_member(call: Call, holder: MemberWithHoldings, query: Mapping[str, Any]) -> MemberRequest:
    """One member, with balances unless `includeBalance` is false."""
    with_balances = query.get("includeBalance", True)
    return MemberRequest(holder, with_balances, with_balances and _EXPIRING in query.get("include", ()))


@operation("updateMember", response=_MEMBER_RESPONSE, audit=_AUDITED.changing(is_found_by_handler=True))
def update_member(call: Call, member: Member, body: Changes[MemberUpdate]) -> dict[str, Any]:
    """Change the fields that are sent. Campaigns evaluate the change as an event if `emitEvent` is true.

    An update that changes nothing reports no event.
    """
    return change_member(call, member, body)


@operation("eraseMember", response=_MEMBER_RESPONSE, audit="member")
def erase_member(call: Call, member: Member) -> dict[str, Any]:
    """Replace all personal data of the member by a pseudonym; a repetition gets the same response."""
    return view_member(call, erase(call, member))


@operation("searchMembers", response=listed(search_row))
def search_members(call: Call, query: Mapping[str, Any]) -> Paged[tuple[Member, MemberTier | None]]:
    """A page of the members who match all filters, each with the tier in the program of the query.

    By default, the program is the organization's default one.
    """
    return find_members_with_tiers(call, query)


@operation("listMemberTiers", response=listed(MEMBER_TIER))
def list_member_tiers(
    call: Call, member: Member, program: LoyaltyProgram, query: Mapping[str, Any]
) -> Paged[MemberTier]:
    """The tier of the member in the program as a page of one, or an empty page."""
    page = Page.of(query)
    tiers = [
        tier
        for tier in current_tiers(call, [member])[member.member_id]
        if tier.loyalty_program_id == program.loyalty_program_id
    ]
    # Any page after the first is empty.
    return Paged(total_count=len(tiers), page=page.page, limit=page.limit, results=[] if page.page else tiers)


@operation(
    "setMemberTier",
    body={INTEGRATION: TIER_BY_KEY, ADMINISTRATION: TIER_BY_ID},
    response={INTEGRATION: tier_key, ADMINISTRATION: tier_id},
    audit="member-tier",
)
def set_member_tier(call: Call, member: Member, program: LoyaltyProgram, body: TierByKey | TierById) -> RequestedTier:
    """Set the member's tier by hand; without a tier in the body, return the member to the tier of the points."""
    return _set_tier(call, member, program, body)


@operation("setMemberTierByLoyaltyMemberId", response=tier_id, audit="member-tier")
def set_member_tier_by_loyalty_member_id(call: Call, member: Member, body: TierByIdInProgram) -> RequestedTier:
    """Set the member's tier as `setMemberTier` does; the body names the program."""
    return _set_tier(call, member, references.loyalty_program(call, body.loyalty_program_id), body)


def _set_tier(call: Call, member: Member, program: LoyaltyProgram, body: TierByKey | TierById) -> RequestedTier:
    """Set the tier that the body names; return the record of the request and the resulting tier."""
    key_or_id = body.loyalty_tier_key if isinstance(body, TierByKey) else body.loyalty_tier_id
    tier = None if key_or_id is None else references.tier_of_program(call, program, key_or_id)
    tracking = set_tier(call, member, program, tier, body)
    # Mostly the tier that resulted is the one that was set, and need not be looked up.
    if tier is not None and tracking.answered_tier_id == tier.loyalty_tier_id:
        return RequestedTier(tracking, tier)
    tier_id = tracking.answered_tier_id
    return RequestedTier(tracking, None if tier_id is None else TIERS.find(call.db, member.organization_id, tier_id))


@operation("checkMemberAudiences", response=audience_ids)
def check_member_audiences(call: Call, member: Member, body: AudienceIds) -> list[CompiledAudience]:
    """Find the audiences of the request that the member is in, in the order of the request."""
    by_id = {audience.audience_id: audience for audience in _audiences_of(call, member)}
    return [by_id[audience_id] for audience_id in dict.fromkeys(body.audience_ids) if audience_id in by_id]


@operation("getMemberAudiences", response=audience_keys)
def get_member_audiences(call: Call, member: Member) -> list[CompiledAudience]:
    """The audiences that the member is in, the oldest first."""
    return _audiences_of(call, member)


def _audiences_of(call: Call, member: Member) -> list[CompiledAudience]:
    audiences = configuration_of(call.db, call.organization).audiences
    return match_audiences(call.db, member.organization_id, audiences, [member], call.now)[member.member_id]


@operation("listMemberTimeline", response=timeline_page)
def list_member_timeline(call: Call, member: Member, query: Mapping[str, Any]) -> TimelinePage:
    """A page of what happened to the member, newest first."""
    return timeline_of(call.db, member, timeline_query(query))


@operation("createMemberAccessToken")
def create_member_access_token(call: Call, member: Member) -> dict[str, Any]:
    """Create a token that gives access to this member's content and nothing else."""
    if not member.active:
        raise MemberInactive("The member is not active and cannot get an access token.")
    claims = {
        "sub": f"{MEMBER_SUBJECT}{member.member_id}",
        "organizationId": member.organization_id,
        "environment": call.organization.environment,
        "loyaltyMemberId": member.loyalty_member_id,
    }
    lifetime = tokens.MEMBER_TOKEN_SECONDS
    token = tokens.issue(call.db, call.settings, claims, lifetime, call.real_now)
    return {"accessToken": token, "tokenType": "Bearer", "expiresIn": lifetime}


@operation("mintMemberPoints", response=MOVED_POINTS, audit="ledger-transaction", batch=BatchHandler(move_points))
def mint_member_points(call: Call, member: Member, body: PointsMove) -> PointsRequest:
    """Mint points into the member's wallet."""
    return PointsRequest(member, MINT, body)


@operation("burnMemberPoints", response=MOVED_POINTS, audit="ledger-transaction", batch=BatchHandler(move_points))
def burn_member_points(call: Call, member: Member, body: PointsMove) -> PointsRequest:
    """Burn points from the member's wallet."""
    return PointsRequest(member, BURN, body)
