"""Stacking groups on the wire."""

from domain.campaigns.records import StackingGroup
from handlers.messages.base import Shape

STACKING_GROUP = Shape(StackingGroup)
