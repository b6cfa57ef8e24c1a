"""Stacking groups on the wire."""

from domain.campaigns.records import StackingGroup
from handlers.messages.base import Body, Shape, Update
from handlers.services.stacking_groups import StackingGroupProperties

STACKING_GROUP_BODY = Body(StackingGroupProperties)
STACKING_GROUP_CHANGES = Update(StackingGroupProperties)
STACKING_GROUP = Shape(StackingGroup)
