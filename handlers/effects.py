"""The catalogue of effects that campaigns can have (administration "Matchers and effects" 2)."""

from collections.abc import Mapping
from typing import Any

from domain.campaigns.effects import EFFECTS
from domain.problems import NotFound
from handlers.call import Call
from handlers.messages.base import wrapped
from handlers.messages.lists import listed
from handlers.operation import operation
from handlers.schemas.campaigns import effect_record
from persistence.paging import Page, Paged


@operation("listEffects", response=listed(lambda record: record))
def list_effects(call: Call, query: Mapping[str, Any]) -> Paged[dict[str, Any]]:
    """A page of the catalogue, ordered by `order`, by default `effectId`."""
    page = Page.of(query, default_limit=100)
    records = [effect_record(effect, call.organization.organization_id) for effect in EFFECTS.values()]
    column, _, direction = (page.order or "effectId").partition(",")
    records.sort(key=lambda record: (record[column], record["effectId"]), reverse=direction == "desc")
    start = page.page * page.limit
    return Paged(
        total_count=len(records), page=page.page, limit=page.limit, results=records[start : start + page.limit]
    )


@operation("getEffect", response=wrapped("effect", lambda record: record))
def get_effect(call: Call, effect_id: str) -> dict[str, Any]:
    """One effect of the catalogue."""
    effect = EFFECTS.get(effect_id)
    if effect is None:
        raise NotFound(f"There is no effect {effect_id}.")
    return effect_record(effect, call.organization.organization_id)
