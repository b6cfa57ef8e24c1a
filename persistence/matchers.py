"""Item matchers."""

from domain.matchers import Matcher
from persistence.records import Records
from persistence.tables.campaigns import matchers as table

MATCHERS = Records(table, Matcher, equal=("type", "matcherKey"))
