"""Campaigns and their actions."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select, update

from domain.campaigns.records import RUNNING, Action, Campaign, StackingGroup
from domain.problems import NameTaken
from persistence.filters import has_all, is_any_of, is_same
from persistence.records import Records
from persistence.tables.campaigns import campaign_actions, campaigns, stacking_groups

CAMPAIGNS = Records(
    campaigns,
    Campaign,
    equal=("loyaltyProgramId", "type"),
    filters={"tags": has_all(campaigns.c.tags), "codes": is_any_of(campaigns.c.code)},
    conflicts={"uq_campaigns_organization_id_code": (NameTaken, "A campaign with the code {code} already exists.")},
)
ACTIONS = Records(campaign_actions, Action, equal=("status",))
STACKING_GROUPS = Records(stacking_groups, StackingGroup)

_MAX_INDEX = 2**31 - 1


def find_active(db: Connection, organization_id: int) -> list[tuple[Campaign, list[Action]]]:
    """The active campaigns with their running actions, both ordered by id."""
    active_campaigns = CAMPAIGNS.find_all(db, organization_id, active=True)
    actions: dict[int, list[Action]] = {campaign.campaign_id: [] for campaign in active_campaigns}
    of_campaigns = campaign_actions.c.campaign_id.in_(list(actions))
    for action in ACTIONS.find_where(
        db, organization_id, of_campaigns, campaign_actions.c.status == RUNNING, order=[ACTIONS.id]
    ):
        actions[action.campaign_id].append(action)
    return [(campaign, actions[campaign.campaign_id]) for campaign in active_campaigns]


def find_inactive(
    db: Connection, organization_id: int, keys: Collection[str] | None = None
) -> tuple[list[Campaign], dict[int, list[Action]]]:
    """The campaigns that are not active, and the actions of active campaigns that do not run, by campaign id.

    With `keys`, only those of the campaigns with these keys.
    """
    of_campaigns = [campaigns.c.organization_id == organization_id]
    if keys is not None:
        of_campaigns.append(campaigns.c.campaign_key.in_(list(keys)))
    inactive_actions = (
        select(*ACTIONS.columns)
        .join(campaigns, is_same(campaigns, campaign_actions, "campaign_id"))
        .where(*of_campaigns, campaigns.c.active, campaign_actions.c.status != RUNNING)
        .order_by(campaign_actions.c.action_id)
    )
    actions: dict[int, list[Action]] = {}
    for action in [Action(*row) for row in db.execute(inactive_actions)]:
        actions.setdefault(action.campaign_id, []).append(action)
    return CAMPAIGNS.find_where(db, organization_id, *of_campaigns, ~campaigns.c.active, order=[CAMPAIGNS.id]), actions


def store_campaign(db: Connection, campaign: Campaign, values: Mapping[str, Any], now: datetime) -> Campaign:
    """Store new values of a campaign, and increment its version; raises NameTaken for the code of another campaign."""
    return CAMPAIGNS.store(db, campaign, {**values, **_increment_version(db, campaign)}, now)


def _increment_version(db: Connection, campaign: Campaign) -> dict[str, int]:
    """Increment the version of a campaign, which its actions share; return the new version as a value to store."""
    address = {"organization_id": campaign.organization_id, "campaign_id": campaign.campaign_id}
    of_campaign = [campaigns.c[name] == value for name, value in address.items()]
    version = {"campaign_version_id": campaigns.c.campaign_version_id + 1}
    new_version = db.execute(
        update(campaigns).where(*of_campaign).values(version).returning(campaigns.c.campaign_version_id)
    ).scalar_one()
    of_actions = [campaign_actions.c[name] == value for name, value in address.items()]
    db.execute(update(campaign_actions).where(*of_actions).values(campaign_version_id=new_version))
    return {"campaign_version_id": new_version}


def add_action(db: Connection, campaign: Campaign, values: Mapping[str, Any], now: datetime) -> Action:
    """Insert an action of the campaign, and increment the campaign's version."""
    of_campaign = {"campaign_id": campaign.campaign_id, **_increment_version(db, campaign)}
    return ACTIONS.add(db, campaign.organization_id, {**values, **of_campaign}, now)


def store_action(
    db: Connection, campaign: Campaign, action: Action, values: Mapping[str, Any], now: datetime
) -> Action:
    """Store new values of an action of the campaign, and increment the campaign's version."""
    return ACTIONS.store(db, action, {**values, **_increment_version(db, campaign)}, now)


def next_action_index(db: Connection, campaign: Campaign) -> int:
    """The index after the campaign's last action; at most `_MAX_INDEX`, which several actions can have."""
    max_index = db.execute(
        select(campaign_actions.c.action_index)
        .where(is_same(campaign_actions, campaign, "campaign_id"))
        .order_by(campaign_actions.c.action_index.desc())
        .limit(1)
    ).scalar()
    # Among actions with the same index the older one runs first, so the new one is still the last.
    return 0 if max_index is None else min(max_index + 1, _MAX_INDEX)
