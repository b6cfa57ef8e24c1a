"""The check of permissions. Callers may now have fewer permissions than when their tokens were issued."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from sqlalchemy import Connection

from domain.access import ROLES
from domain.organizations import Organization
from domain.problems import FieldFault, Forbidden, InvalidRequest, NotFound, Refusal, Unauthorized
from handlers.call import ADMINISTRATION, MEMBER_SUBJECT, Caller, NotBatchable, Request
from persistence import organizations, users
from persistence.members import MEMBERS
from persistence.organizations import CurrentRights
from persistence.records import Addresses

_FORMER_USER = "The user of this access token is no longer active in the organization."
_FORMER_PASSWORD = "The password of the user was changed after this access token was issued. Request a new token."


class Admission(NamedTuple):
    """The organization of requests, None if the operation has none, and for each request its caller or its refusal.

    `records` are the records of the first path parameter by its values; None if they were not read with the
    organization.
    """

    organization: Organization | None
    callers: Sequence[Caller | Exception | None]
    records: Mapping[Any, Any] | None


def permitted_callers(
    db: Connection, requests: Sequence[Request], scopes: Sequence[str], addresses: Addresses[Any] | None = None
) -> Admission:
    """The organization of requests, the caller of each request with its present permissions there, and records.

    Instead of a caller, the list has the refusal of a request that is not permitted, and NotBatchable for a request to
    another organization than the first one. `addresses` name the records, which are returned by address, None if they
    were not read. Raises the refusal of the first request if no request may call its organization, and NotFound.
    """
    callers: list[Caller | Refusal | NotBatchable] = []
    organization_id: int | None = None
    for request in requests:
        try:
            caller, called_id = _identify(db, request)
            organization_id = called_id if organization_id is None else organization_id
            callers.append(caller if called_id == organization_id else NotBatchable())
        except Refusal as refusal:
            callers.append(refusal)
    if organization_id is None:
        raise next(refusal for refusal in callers if isinstance(refusal, Refusal))
    user_ids = {caller.user_id for caller in callers if isinstance(caller, Caller) and caller.user_id is not None}
    organization_and_rights = organizations.find_with_records(db, organization_id, user_ids, addresses)
    if organization_and_rights is None:
        if requests[0].surface != ADMINISTRATION:
            raise Forbidden(f"The access token is for the organization {organization_id}, which does not exist.")
        raise NotFound(f"There is no organization {organization_id}.")
    organization, rights, records = organization_and_rights
    for position, request in enumerate(requests):
        caller_or_refusal = callers[position]
        if isinstance(caller_or_refusal, Caller):
            try:
                callers[position] = _limit_caller(db, organization_id, request, caller_or_refusal, rights, scopes)
            except Refusal as refusal:
                callers[position] = refusal
    return Admission(organization, callers, records)


def _identify(db: Connection, request: Request) -> tuple[Caller, int]:
    """The caller of a request and the id of its organization; raises Unauthorized, Forbidden or InvalidRequest."""
    caller = request.caller
    if caller is None:
        raise Unauthorized("This operation needs an access token.")
    if caller.is_external:
        caller = caller_with_user(db, caller)
    # What a user of the external issuer may do, and in which organizations, depends on the record of the user.
    depends_on_record = caller.is_external and caller.user_id is not None
    organization_id = caller.organization_id
    if request.surface == ADMINISTRATION:
        path_id = request.path["organizationId"]
        if not isinstance(path_id, int):
            path_id = _organization_id_of(path_id)
        if not (caller.is_system_admin or depends_on_record or path_id == organization_id):
            raise Forbidden("The access token is for another organization.")
        return caller, path_id
    if organization_id is None and depends_on_record and caller.user_id is not None:
        organization_id = users.find_first_organization(db, caller.user_id)
    if organization_id is None:
        raise Forbidden("The access token names no organization.")
    return caller, organization_id


def _organization_id_of(text: str) -> int:
    """The organization id that a path contains as text, as for `getOrganization` (administration, Organization 1)."""
    # Every number of 18 digits fits the 64-bit ids of the database.
    if text.isascii() and text.isdigit() and len(text) <= 18:
        return int(text)
    raise InvalidRequest([FieldFault("organizationId is not a whole number", parameter="organizationId")])


def _limit_caller(
    db: Connection,
    organization_id: int,
    request: Request,
    caller: Caller,
    rights: Mapping[int, CurrentRights],
    scopes: Sequence[str],
) -> Caller:
    """The caller limited to the present permissions of its user; raises Unauthorized or Forbidden."""
    if caller.loyalty_member_id is not None:
        _refuse_other_members(db, organization_id, request, caller, caller.loyalty_member_id)
    if caller.user_id is None:
        return caller
    limited_caller = caller_with_current_rights(caller, rights[caller.user_id])
    # It is the same object if the caller has lost no permission since the token was issued.
    if limited_caller is not caller:
        missing_scopes = [scope for scope in scopes if not limited_caller.holds(scope)]
        if missing_scopes:
            permissions = f"permission{'' if len(missing_scopes) == 1 else 's'} {', '.join(missing_scopes)}"
            raise Forbidden(f"The user of this access token no longer has the {permissions}.")
    return limited_caller


def _refuse_other_members(
    db: Connection, organization_id: int, request: Request, caller: Caller, member_id_of_token: str
) -> None:
    """Refuse a token of a member who is not active, or who is not the member in the path, if the path has one.

    The token has the member's `loyaltyMemberId`. If the server issued it, its subject has the `memberId`, too: such a
    token is also refused if another member has the `loyaltyMemberId` now.
    """
    member = MEMBERS.find_by(db, organization_id, loyalty_member_id=member_id_of_token)
    has_member_as_subject = caller.subject.startswith(MEMBER_SUBJECT)
    if (
        member is None
        or not member.active
        or (has_member_as_subject and caller.subject != f"{MEMBER_SUBJECT}{member.member_id}")
    ):
        raise Unauthorized(
            "The member of this access token is no longer active in the organization, or has a new loyaltyMemberId."
        )
    if request.path.get("loyaltyMemberId", member_id_of_token) != member_id_of_token:
        raise Forbidden("The access token belongs to another member.")


def caller_with_user(db: Connection, caller: Caller) -> Caller:
    """The caller, with the id of its user if a token of the external issuer belongs to one.

    The record of such a user decides about the permissions, so the claims of the token are not used.
    """
    if not caller.is_external or caller.user_id is not None or caller.loyalty_member_id is not None:
        return caller
    user_id = users.find_external_user(db, caller.subject)
    return caller if user_id is None else user_with_all_rights(caller, user_id)


def user_with_all_rights(caller: Caller, user_id: int) -> Caller:
    """The caller as a user with all rights; `caller_with_current_rights` limits them to those of the stored record."""
    return replace(caller, user_id=user_id, roles=ROLES, is_admin=True, is_system_admin=True)


def caller_with_current_rights(caller: Caller, rights: CurrentRights) -> Caller:
    """The caller limited to the present permissions of its user.

    Deactivation, removal and every lost permission have effect from this request on. Raises Unauthorized for a user who
    no longer belongs to the organization, and for a token that is older than the user's password.
    """
    limited_caller = caller.limited_to(rights.grant)
    if not rights.is_active or not (rights.is_member or limited_caller.is_system_admin):
        raise Unauthorized(_FORMER_USER)
    if not caller.is_external and caller.token_generation != rights.token_generation:
        raise Unauthorized(_FORMER_PASSWORD)
    return limited_caller
