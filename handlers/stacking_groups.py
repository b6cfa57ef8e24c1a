"""Stacking groups: which of several actions apply to an event."""

from domain.campaigns.records import StackingGroup
from handlers.audit_trail import Audited
from handlers.call import Call
from handlers.messages.base import Merged, values_of, wrapped
from handlers.messages.lists import listed
from handlers.operation import declare_get, declare_list, operation
from handlers.schemas.stacking_groups import STACKING_GROUP
from handlers.services.stacking_groups import StackingGroupProperties, refuse_unfit_actions
from persistence.campaigns import STACKING_GROUPS

_AUDITED = Audited("stacking-group", "stacking_group_id", STACKING_GROUP)
_GROUP_RESPONSE = wrapped("stackingGroup", STACKING_GROUP)


declare_list("listStackingGroups", STACKING_GROUPS.find_page, listed(STACKING_GROUP))


@operation("createStackingGroup", response=_GROUP_RESPONSE, audit=_AUDITED, changes_configuration=True)
def create_stacking_group(call: Call, body: StackingGroupProperties) -> StackingGroup:
    """Create a stacking group; actions can name it by its key at once."""
    values = {"stacking_group_key": call.new_key(), **values_of(body)}
    return STACKING_GROUPS.add(call.db, call.organization.organization_id, values, call.now)


declare_get("getStackingGroup", "stacking_group", _GROUP_RESPONSE)


@operation(
    "updateStackingGroup",
    response=_GROUP_RESPONSE,
    audit=_AUDITED.changing("stacking_group"),
    changes_configuration=True,
)
def update_stacking_group(
    call: Call, stacking_group: StackingGroup, body: Merged[StackingGroupProperties]
) -> StackingGroup:
    """Change a stacking group; all processes use the change from their next event on."""
    refuse_unfit_actions(call, stacking_group, body)
    return STACKING_GROUPS.store(call.db, stacking_group, values_of(body), call.now)
