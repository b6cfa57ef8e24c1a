"""Portals of organizations."""

from domain.portals import Portal
from persistence.records import Records
from persistence.tables.organizations import portals as table

PORTALS = Records(table, Portal, equal=("publicId",))
