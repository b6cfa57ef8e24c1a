"""The keys that expressions may contain, so that unknown keys are refused when an expression is saved."""

from sqlalchemy import Connection

from domain.campaigns.references import Sources, named_keys
from handlers.services.configuration import Configuration
from persistence import audiences


def known_keys(db: Connection, configuration: Configuration, sources: Sources) -> dict[str, dict[str, str]]:
    """The names of the organization's records by key, for each variable of expressions that has such keys.

    Audiences are only looked up if an expression of `sources` names one.
    """
    accounts = {account.ledger_account_key: account.name for account in configuration.accounts.values()}
    accounts |= {
        account.alias: account.name for account in configuration.accounts.values() if account.alias is not None
    }
    audience_keys = {key.key for _, node in sources for key in named_keys(node) if key.variable == "audiences"}
    return {
        "balances": accounts,
        "balancesAfter": accounts,
        "badges": {key: badge.name for key, badge in configuration.badges.items()},
        "missions": {mission.mission.mission_key: mission.mission.name for mission in configuration.missions.values()},
        "audiences": audiences.find_names_by_key(db, configuration.organization_id) if audience_keys else {},
        "tiers": {key: tier.name for key, tier in configuration.tiers.items()},
    }
