"""Invitations of new users to set a password, sent by triggers that subscribe to invitations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from domain.calendar import instant_text
from domain.users import User
from handlers.call import Call
from handlers.messages.webhooks import USER_INVITED
from handlers.services.configuration import configuration_of
from handlers.services.webhooks.outbox import queue_to


@dataclass(frozen=True, slots=True)
class Invitation:
    """A user to invite; `temporary_password` is None for an external user, and for one with a permanent password."""

    user_id: int
    name: str
    email: str
    auth_client_id: str
    temporary_password: str | None
    expires_at: datetime | None

    @classmethod
    def to(cls, user: User, temporary_password: str | None, expires_at: datetime | None) -> Invitation:
        """The invitation of a user with an address."""
        assert user.email is not None
        return cls(user.user_id, user.name, user.email, user.auth_client_id, temporary_password, expires_at)


def has_invitation_trigger(call: Call) -> bool:
    """True if an active trigger of the organization receives invitations."""
    subscriptions = configuration_of(call.db, call.organization).subscriptions
    return any(subscription.includes_invitations for subscription in subscriptions)


def queue_invitations(call: Call, invitations: Sequence[Invitation]) -> None:
    """Queue invitations for the triggers that subscribe to them; at most one statement."""
    configuration = configuration_of(call.db, call.organization)
    subscriptions = [subscription for subscription in configuration.subscriptions if subscription.includes_invitations]
    data = [
        {
            "organizationId": call.organization.organization_id,
            "organizationName": call.organization.name,
            "userId": invitation.user_id,
            "name": invitation.name,
            "email": invitation.email,
            "authClientId": invitation.auth_client_id,
            "temporaryPassword": invitation.temporary_password,
            "expiresAt": None if invitation.expires_at is None else instant_text(invitation.expires_at),
            "tokenUrl": f"{call.settings.public_url}/oauth/token",
        }
        for invitation in invitations
    ]
    queue_to(call, subscriptions, USER_INVITED, data)
