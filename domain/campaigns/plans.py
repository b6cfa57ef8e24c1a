"""The campaigns that consider events of a type, with their actions in the order of evaluation.

The plan of a type is computed once for all its events, however many campaigns there are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from domain.campaigns.compiled import CompiledAction, CompiledCampaign


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """Campaigns, and all their actions by priority, campaign and index."""

    campaigns: tuple[CompiledCampaign, ...]
    actions: tuple[tuple[CompiledCampaign, CompiledAction], ...]

    @classmethod
    def of(cls, campaigns: Iterable[CompiledCampaign]) -> EvaluationPlan:
        """The plan of these campaigns."""
        listed = tuple(campaigns)
        actions = [(campaign, action) for campaign in listed for action in campaign.actions]
        return cls(listed, tuple(sorted(actions, key=_order_of_evaluation)))


class EvaluationPlans:
    """The plan for each type of event, computed on first use; safe for any number of threads."""

    def __init__(self, campaigns: Iterable[CompiledCampaign]) -> None:
        self.campaigns = tuple(campaigns)
        self._by_type: dict[str, EvaluationPlan] = {}

    def of(self, event_type: str) -> EvaluationPlan:
        """The plan of the campaigns that consider events of this type."""
        plan = self._by_type.get(event_type)
        if plan is None:
            plan = EvaluationPlan.of(campaign for campaign in self.campaigns if campaign.considers(event_type))
            self._by_type[event_type] = plan
        return plan


def _order_of_evaluation(pair: tuple[CompiledCampaign, CompiledAction]) -> tuple[int, int, int, int]:
    campaign, action = pair
    record = action.action
    return record.priority, campaign.campaign.campaign_id, record.action_index, record.action_id
