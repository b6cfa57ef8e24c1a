"""Audiences (administration "Audiences")."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime

from domain.audiences import ATTRIBUTE_MATCHER, LIST_MATCHER, Audience, check_matcher
from domain.problems import FieldFault, InvalidRequest
from handlers.audit_trail import Audited
from handlers.call import Call
from handlers.messages.base import Changes, values_of, wrapped
from handlers.messages.lists import listed
from handlers.operation import declare_get, declare_list, operation
from handlers.schemas.audiences import AUDIENCE, AudienceProperties, ListChange
from handlers.services.audiences import MembershipChange, change_lists, protect_from_erasing, refuse_without_list
from handlers.services.organizations.reset import refuse_other_organization
from persistence import audiences
from persistence.audiences import AUDIENCES

_AUDITED = Audited("audience", "audience_id", AUDIENCE)


declare_list("listAudiences", AUDIENCES.find_page, listed(AUDIENCE))


@operation("createAudience", response=wrapped("audience", AUDIENCE), audit=_AUDITED, changes_configuration=True)
def create_audience(call: Call, body: AudienceProperties) -> Audience:
    """Create an audience; a list audience is empty at first."""
    refuse_other_organization(call, body.organization_id)
    check_matcher(body.matcher_type, body.matcher)
    if body.matcher_type == LIST_MATCHER:
        body = replace(body, member_count=0, refreshed_at=call.now)
    elif body.matcher_type == ATTRIBUTE_MATCHER and body.refreshed_at is None:
        body = replace(body, refreshed_at=call.now)
    values = {"audience_key": call.new_key(), **values_of(body)}
    return AUDIENCES.add(call.db, call.organization.organization_id, values, call.now)


declare_get("getAudience", "audience", wrapped("audience", AUDIENCE))


@operation(
    "updateAudience",
    response=wrapped("audience", AUDIENCE),
    audit=_AUDITED.changing(is_found_by_handler=True),
    changes_configuration=True,
)
def update_audience(call: Call, audience: Audience, body: Changes[AudienceProperties]) -> Audience:
    """Change an audience, except its list; all processes use the change from their next event on.

    `refreshed_at` of an audience by attributes becomes now if the request sends null, or sends another matcher without
    `refreshedAt`.
    """
    # Locked, because calls that change the list change the count of its members.
    audience = AUDIENCES.lock(call.db, audience)
    call.audit.keep_before(audience)
    properties = body.of(audience)
    refuse_other_organization(call, properties.organization_id)
    check_matcher(properties.matcher_type, properties.matcher, audience)
    properties = _with_fields_of_server(properties, audience, body, call.now)
    return audiences.store_audience(call.db, audience, values_of(properties), call.now)


def _with_fields_of_server(
    properties: AudienceProperties, audience: Audience, body: Changes[AudienceProperties], now: datetime
) -> AudienceProperties:
    """The new properties of an audience with the fields that the server maintains."""
    if audience.matcher_type == LIST_MATCHER:
        return replace(properties, member_count=audience.member_count, refreshed_at=audience.refreshed_at)
    if audience.matcher_type == ATTRIBUTE_MATCHER:
        has_new_matcher = "refreshed_at" not in body.fields and properties.matcher != audience.matcher
        if has_new_matcher or ("refreshed_at" in body.fields and properties.refreshed_at is None):
            return replace(properties, refreshed_at=now)
    return properties


@operation("updateAudienceMembers", response=wrapped("audience", AUDIENCE), audit="audience")
def update_audience_members(call: Call, audience: Audience, body: ListChange) -> Audience:
    """Put members on the list and take other members off it.

    Adding a member who is on the list, or removing a member who is not on it, changes nothing. Raises UnknownMember,
    MemberErased or NotAListAudience.
    """
    refuse_without_list(audience)
    new_ids, removed_ids = set(body.add), set(body.remove)
    if new_ids & removed_ids:
        raise InvalidRequest(_contradictions(body.remove, new_ids))
    protect_from_erasing(call, new_ids)
    [audience_after] = change_lists(call, [MembershipChange(audience, new_ids, removed_ids)])
    return audience_after


def _contradictions(removed_ids: Sequence[int], new_ids: Collection[int]) -> list[FieldFault]:
    """A fault for each of the `removed_ids` that is also in `new_ids`."""
    return [
        FieldFault(f"remove and add both contain the member {member_id}", pointer=f"/remove/{index}")
        for index, member_id in enumerate(removed_ids)
        if member_id in new_ids
    ]
