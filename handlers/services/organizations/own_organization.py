"""Bodies that repeat the organization of the path."""

from __future__ import annotations

from typing import Any

from domain.problems import FieldFault, InvalidRequest
from handlers.call import Call


def refuse_other_organization(call: Call, body: dict[str, Any]) -> None:
    """Take `organization_id` out of a body; refuses another organization than the call's."""
    named = body.pop("organization_id")
    if named is not None and named != call.organization.organization_id:
        raise InvalidRequest([FieldFault("organizationId is not that of the path", pointer="/organizationId")])
