"""Checks triggers before they are saved, and makes their secrets."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from domain.access import ADMIN
from domain.event_types import BUILT_IN_EVENT_TYPES
from domain.problems import FieldFault, InvalidRequest
from domain.triggers import ENTITY_CHANGE, USER_INVITATION, Trigger, TriggerLimit
from domain.users import PermissionNotHeld
from domain.webhooks import SECRET_BYTES, faults_of_trigger, secret_of, url_fault
from handlers.call import Call
from handlers.services import references
from handlers.services.configuration import configuration_of
from handlers.setting_values import ports_of

# The time for which the previous secret signs messages in addition to the new one.
OVERLAP = timedelta(hours=24)
MAX_ACTIVE_TRIGGERS = 100
"""The maximum number of active triggers of an organization."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerProperties:
    """The writable fields of a trigger."""

    trigger_key: str
    type: str
    name: str
    active: bool = True
    settings: Mapping[str, Any]
    external_key: str | None = None


def refuse_invitation_trigger(call: Call, *settings: Mapping[str, Any]) -> None:
    """Raise PermissionNotHeld if any of the settings subscribe to invitations and the caller is no administrator.

    `settings` are those before and after a change. An invitation is enough to sign in as the invited user.
    """
    has_invitations = any(USER_INVITATION in setting.get("entities", ()) for setting in settings)
    if has_invitations and not (call.caller is not None and call.caller.holds(ADMIN)):
        raise PermissionNotHeld(f"Only an administrator can create or change a trigger for {USER_INVITATION}.")


def refuse_excess_trigger(call: Call) -> None:
    """Raise TriggerLimit if the organization cannot have another active trigger."""
    if len(configuration_of(call.db, call.organization).subscriptions) >= MAX_ACTIVE_TRIGGERS:
        raise TriggerLimit(f"The organization has {MAX_ACTIVE_TRIGGERS} active triggers, the maximum.")


def validated_trigger(
    call: Call, body: TriggerProperties, stored_settings: Mapping[str, Any]
) -> tuple[TriggerProperties, str | None]:
    """The trigger with complete settings without the secret, and the secret, None if none is sent.

    Settings that are left out keep their values of `stored_settings`, unless the new type does not allow them. A header
    with the value null, as responses show it, keeps its stored value, too. Raises the refusal of invalid settings; an
    event type in `stored_settings` is valid even if it was deactivated.
    """
    setting_of_other_types = "eventTypes" if body.type == ENTITY_CHANGE else "entities"
    settings = {
        "headers": {},
        "eventTypes": [],
        "entities": [],
        **stored_settings,
        setting_of_other_types: [],
        **body.settings,
    }
    stored_headers = stored_settings.get("headers", {})
    secret: str | None = settings.pop("secret", None)
    settings["headers"] = {
        name: stored_headers.get(name) if value is None else value for name, value in settings["headers"].items()
    }
    faults = [*_faults_of_url(call, settings["url"]), *faults_of_trigger(body.type, settings, secret, stored_headers)]
    if faults:
        raise InvalidRequest(faults)
    configuration = configuration_of(call.db, call.organization)
    stored_types = stored_settings.get("eventTypes", ())
    valid_types = {*BUILT_IN_EVENT_TYPES, *configuration.custom_event_types, *stored_types}
    for event_type in settings["eventTypes"]:
        if event_type not in valid_types:
            raise references.unknown_event_type(configuration, event_type)
    return replace(body, settings=settings), secret


def _faults_of_url(call: Call, url: str) -> list[FieldFault]:
    server = call.settings
    ports = ports_of(server.webhook_ports)
    fault = url_fault(url, server.webhook_allow_http, server.webhook_allow_private, ports)
    return [] if fault is None else [FieldFault(f"url {fault}.", pointer="/settings/url")]


def new_secret() -> str:
    """A random secret in the form that receivers use."""
    return secret_of(secrets.token_bytes(SECRET_BYTES))


def columns_of_new_secret(before: Trigger, secret: str | None, now: datetime) -> dict[str, Any]:
    """The columns to change for a new secret, none if it is None; the secret of `before` also signs for a while."""
    if secret is None:
        return {}
    return {"secret": secret, "previous_secret": before.secret, "previous_secret_until": now + OVERLAP}
