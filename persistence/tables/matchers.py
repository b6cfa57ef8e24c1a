"""Item matchers."""

from domain.matchers import Matcher
from persistence.tables.base import belongs_to_organization, record_table, unique

matchers = record_table(
    "matchers",
    Matcher,
    "matcher_id",
    unique("matcher_key"),
    belongs_to_organization(),
)
