"""Portals: the pages of an organization where its members help themselves."""

from domain.portals import Portal
from persistence.tables.base import belongs_to_organization, record_table, refers_to, unique

portals = record_table(
    "portals",
    Portal,
    "portal_id",
    unique("public_id"),
    belongs_to_organization(),
    refers_to("loyalty_programs", "loyalty_program_id"),
)
