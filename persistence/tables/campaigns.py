"""Campaigns with actions and counters of limits, and the matchers and audiences that they name."""

from sqlalchemy import ARRAY, Column, Date, Integer, SmallInteger, Text, text
from sqlalchemy.dialects.postgresql import JSON

from domain.audiences import Audience
from domain.campaigns.records import Action, Campaign, StackingGroup
from domain.matchers import Matcher
from persistence.tables.base import (
    belongs_to_organization,
    exact,
    foreign_key,
    instant,
    integers,
    record_table,
    tenant_table,
    unique,
)

campaigns = record_table(
    "campaigns",
    Campaign,
    "campaign_id",
    unique("campaign_key"),
    unique("code"),
    belongs_to_organization(),
    foreign_key("loyalty_programs", "loyalty_program_id"),
    types={"days_of_week": ARRAY(SmallInteger)},
    defaults={
        "campaign_version_id": "1",
        "days_of_week": "'{}'",
        "allow_partial_application_on_limit": "false",
        "exclusive": "false",
        "on_return": "'prorate'",
    },
)

stacking_groups = record_table(
    "stacking_groups",
    StackingGroup,
    "stacking_group_id",
    unique("stacking_group_key"),
    belongs_to_organization(),
)

campaign_actions = record_table(
    "campaign_actions",
    Action,
    "action_id",
    foreign_key("campaigns", "campaign_id"),
    types={"action_index": Integer, "rules": JSON, "effects": JSON, "priority": Integer},
    defaults={"abort_evaluation_if_false": "false", "abort_evaluation_on_error": "false"},
)

# A counter has a row with part 0, and further rows if it is split into parts. member_id is 0 if it counts for all
# members together, ledger_account_id is 0 if it counts for all accounts or something other than points, and campaign_id
# is 0 if it counts for all campaigns that have the shared key.
campaign_limit_counters = tenant_table(
    "campaign_limit_counters",
    (
        "member_id",
        "campaign_id",
        "type",
        "period",
        "period_start",
        "ledger_account_id",
        "shared_key",
        "location",
        "part",
    ),
    *integers("campaign_id", "member_id", "ledger_account_id"),
    Column("type", Text, nullable=False),
    Column("period", Text, nullable=False),
    Column("period_start", Date, nullable=False),
    exact("used", nullable=False),
    Column("shared_key", Text, nullable=False, server_default=text("''")),
    Column("location", Text, nullable=False, server_default=text("''")),
    Column("part", SmallInteger, nullable=False, server_default=text("0")),
    # Only in part 0: the number of other parts, the reported alerts, and how many transactions had to wait.
    Column("parts", SmallInteger, nullable=False, server_default=text("0")),
    Column("alerts", ARRAY(Text), nullable=False, server_default=text("'{}'")),
    Column("waits", Integer, nullable=False, server_default=text("0")),
    # Only in other parts: the amount that the part may count, and the amount of the whole counter (`until`) from which
    # on the counter has to be exact again.
    exact("quota"),
    exact("until"),
    instant("counted_at"),
    belongs_to_organization(),
    postgresql_with={"fillfactor": "70"},
)

matchers = record_table(
    "matchers",
    Matcher,
    "matcher_id",
    unique("matcher_key"),
    belongs_to_organization(),
)

audiences = record_table(
    "audiences",
    Audience,
    "audience_id",
    unique("audience_key"),
    belongs_to_organization(),
    defaults={"version": "1"},
)

# The key begins with the member, since every event needs the audiences of a few members.
audience_members = tenant_table(
    "audience_members",
    ("member_id", "audience_id"),
    *integers("member_id", "audience_id"),
    instant("created_at", nullable=False),
    foreign_key("members", "member_id"),
    foreign_key("audiences", "audience_id"),
)
