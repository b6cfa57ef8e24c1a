"""The present permissions of a caller, which may be less than its token was issued for."""

from dataclasses import replace

from sqlalchemy import Connection

from domain.access import ROLES
from domain.problems import Unauthorized
from handlers.call import Caller
from persistence import users
from persistence.organizations import CurrentRights

_FORMER_USER = "The user of this access token is no longer active in the organization."


def known_caller(db: Connection, caller: Caller) -> Caller:
    """The caller with its user, if a token of the external issuer names one.

    The record of such a user decides about the permissions, so the claims of the token are not used.
    """
    if not caller.is_external or caller.user_id is not None or caller.loyalty_member_id is not None:
        return caller
    user_id = users.find_external(db, caller.subject)
    return caller if user_id is None else of_record(caller, user_id)


def of_record(caller: Caller, user_id: int) -> Caller:
    """The caller as a user whose record alone decides; `caller_by_now` limits it to that."""
    return replace(caller, user_id=user_id, roles=ROLES, is_admin=True, is_system_admin=True)


def caller_by_now(caller: Caller, rights: CurrentRights) -> Caller:
    """The caller limited to the present permissions of its user.

    Deactivation, removal and every lost permission count from this request on. Raises Unauthorized for a user who no
    longer belongs to the organization, and for a revoked token.
    """
    is_ended = not caller.is_external and caller.token_generation != rights.token_generation
    if not rights.is_active or is_ended:
        raise Unauthorized(_FORMER_USER)
    current = caller.limited_to(rights.grant)
    if not rights.is_member and not current.is_system_admin:
        raise Unauthorized(_FORMER_USER)
    return current
