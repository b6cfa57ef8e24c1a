"""Campaigns and their actions."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, cast, select, update

from domain.campaigns.records import RUNNING, Action, Campaign
from domain.problems import NameTaken
from persistence.paging import Page, Paged, paged
from persistence.rows import add, change, columns_of, record, records, with_external_key
from persistence.tables.campaigns import campaign_actions, campaigns

ORDER_COLUMNS = {
    name: campaigns.c[column]
    for name, column in {
        "campaignId": "campaign_id",
        "code": "code",
        "name": "name",
        "type": "type",
        "active": "active",
        "validFrom": "valid_from",
        "validTo": "valid_to",
        "createdAt": "created_at",
        "updatedAt": "updated_at",
    }.items()
}
ACTION_ORDER_COLUMNS = {
    name: campaign_actions.c[column]
    for name, column in {
        "actionId": "action_id",
        "actionIndex": "action_index",
        "name": "name",
        "status": "status",
        "priority": "priority",
        "createdAt": "created_at",
        "updatedAt": "updated_at",
    }.items()
}

_GREATEST_INDEX = 2**31 - 1

_COLUMNS = columns_of(campaigns, Campaign)
_ACTION_COLUMNS = columns_of(campaign_actions, Action)


def find(db: Connection, organization_id: int, campaign_id: int) -> Campaign | None:
    """The campaign with this id."""
    row = db.execute(
        select(*_COLUMNS).where(campaigns.c.organization_id == organization_id, campaigns.c.campaign_id == campaign_id)
    ).one_or_none()
    return record(Campaign, row)


def find_action(db: Connection, organization_id: int, action_id: int) -> Action | None:
    """The action with this id."""
    row = db.execute(
        select(*_ACTION_COLUMNS).where(
            campaign_actions.c.organization_id == organization_id, campaign_actions.c.action_id == action_id
        )
    ).one_or_none()
    return record(Action, row)


def find_page(
    db: Connection,
    organization_id: int,
    page: Page,
    *,
    loyalty_program_id: int | None = None,
    type_: str | None = None,
    tags: Collection[str] = (),
    codes: Collection[str] = (),
    external_key: str | None = None,
) -> Paged[Campaign]:
    """A page of campaigns; all of `tags` must be there, any of `codes` matches."""
    conditions = [campaigns.c.organization_id == organization_id, *with_external_key(campaigns, external_key)]
    if loyalty_program_id is not None:
        conditions.append(campaigns.c.loyalty_program_id == loyalty_program_id)
    if type_ is not None:
        conditions.append(campaigns.c.type == type_)
    if tags:
        conditions.append(campaigns.c.tags.op("@>")(cast(list(tags), campaigns.c.tags.type)))
    if codes:
        conditions.append(campaigns.c.code.in_(list(codes)))
    return paged(db, Campaign, campaigns, conditions, page, campaigns.c.campaign_id, ORDER_COLUMNS)


def known_keys(db: Connection, organization_id: int, keys: Collection[str]) -> set[str]:
    """The given keys that belong to a campaign."""
    rows = db.execute(
        select(campaigns.c.campaign_key).where(
            campaigns.c.organization_id == organization_id, campaigns.c.campaign_key.in_(list(keys))
        )
    )
    return {row[0] for row in rows}


def find_action_page(
    db: Connection, campaign: Campaign, page: Page, *, status: str | None = None, external_key: str | None = None
) -> Paged[Action]:
    """A page of a campaign's actions."""
    conditions = [
        campaign_actions.c.organization_id == campaign.organization_id,
        campaign_actions.c.campaign_id == campaign.campaign_id,
        *with_external_key(campaign_actions, external_key),
    ]
    if status is not None:
        conditions.append(campaign_actions.c.status == status)
    return paged(db, Action, campaign_actions, conditions, page, campaign_actions.c.action_id, ACTION_ORDER_COLUMNS)


def find_active(db: Connection, organization_id: int) -> list[tuple[Campaign, list[Action]]]:
    """The active campaigns with their running actions, both by id."""
    active = records(
        Campaign,
        db.execute(
            select(*_COLUMNS)
            .where(campaigns.c.organization_id == organization_id, campaigns.c.active)
            .order_by(campaigns.c.campaign_id)
        ),
    )
    actions: dict[int, list[Action]] = {campaign.campaign_id: [] for campaign in active}
    for action in records(
        Action,
        db.execute(
            select(*_ACTION_COLUMNS)
            .where(
                campaign_actions.c.organization_id == organization_id,
                campaign_actions.c.campaign_id.in_(list(actions)),
                campaign_actions.c.status == RUNNING,
            )
            .order_by(campaign_actions.c.action_id)
        ),
    ):
        actions[action.campaign_id].append(action)
    return [(campaign, actions[campaign.campaign_id]) for campaign in active]


def find_idle(
    db: Connection, organization_id: int, keys: Collection[str] | None = None
) -> tuple[list[Campaign], dict[int, list[Action]]]:
    """The campaigns that are not active, and by campaign the actions of active ones that do not run.

    `keys` limits them to the campaigns with these keys.
    """
    own = [campaigns.c.organization_id == organization_id]
    if keys is not None:
        own.append(campaigns.c.campaign_key.in_(list(keys)))
    inactive = select(*_COLUMNS).where(*own, ~campaigns.c.active).order_by(campaigns.c.campaign_id)
    resting = (
        select(*_ACTION_COLUMNS)
        .join(
            campaigns,
            (campaigns.c.organization_id == campaign_actions.c.organization_id)
            & (campaigns.c.campaign_id == campaign_actions.c.campaign_id),
        )
        .where(*own, campaigns.c.active, campaign_actions.c.status != RUNNING)
        .order_by(campaign_actions.c.action_id)
    )
    actions: dict[int, list[Action]] = {}
    for action in records(Action, db.execute(resting)):
        actions.setdefault(action.campaign_id, []).append(action)
    return records(Campaign, db.execute(inactive)), actions


def add_campaign(db: Connection, organization_id: int, **values: Any) -> Campaign:
    """Insert a campaign; a code that exists raises NameTaken."""
    return add(db, campaigns, Campaign, {"organization_id": organization_id, **values}, _code_taken(values["code"]))


def change_campaign(db: Connection, campaign: Campaign, **values: Any) -> Campaign:
    """Change a campaign; a code that another has raises NameTaken."""
    address = {"organization_id": campaign.organization_id, "campaign_id": campaign.campaign_id}
    values |= _next_version(db, campaign)
    return change(db, campaigns, Campaign, address, values, _code_taken(values.get("code", campaign.code)))


def _next_version(db: Connection, campaign: Campaign) -> dict[str, int]:
    """Raise the version of a campaign, which its actions share; returns it as a value to be saved."""
    own = {"organization_id": campaign.organization_id, "campaign_id": campaign.campaign_id}
    of_campaign = [campaigns.c[name] == value for name, value in own.items()]
    version = {"campaign_version_id": campaigns.c.campaign_version_id + 1}
    raised = db.execute(
        update(campaigns).where(*of_campaign).values(version).returning(campaigns.c.campaign_version_id)
    ).scalar_one()
    of_actions = [campaign_actions.c[name] == value for name, value in own.items()]
    db.execute(update(campaign_actions).where(*of_actions).values(campaign_version_id=raised))
    return {"campaign_version_id": raised}


def _code_taken(code: str) -> dict[str, NameTaken]:
    return {"uq_campaigns_organization_id_code": NameTaken(f"A campaign with the code {code} already exists.")}


def add_action(db: Connection, campaign: Campaign, **values: Any) -> Action:
    """Insert an action of the campaign."""
    address = {"organization_id": campaign.organization_id, "campaign_id": campaign.campaign_id}
    return add(db, campaign_actions, Action, {**address, **values, **_next_version(db, campaign)})


def change_action(db: Connection, campaign: Campaign, action: Action, **values: Any) -> Action:
    """Change an action of the campaign."""
    values |= _next_version(db, campaign)
    address = {"organization_id": action.organization_id, "action_id": action.action_id}
    return change(db, campaign_actions, Action, address, values)


def next_action_index(db: Connection, campaign: Campaign) -> int:
    """One above the greatest index of the campaign's actions; at the maximum several actions share it."""
    greatest = db.execute(
        select(campaign_actions.c.action_index)
        .where(
            campaign_actions.c.organization_id == campaign.organization_id,
            campaign_actions.c.campaign_id == campaign.campaign_id,
        )
        .order_by(campaign_actions.c.action_index.desc())
        .limit(1)
    ).scalar()
    # Of actions with the same index the older one runs first, so the new one is still the last.
    return 0 if greatest is None else min(greatest + 1, _GREATEST_INDEX)
