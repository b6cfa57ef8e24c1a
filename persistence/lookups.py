"""Records by their addresses: by a statement of their own, or together with the organization."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection

from domain.organizations import Organization
from persistence.connections import CompiledStatement

Kind = TypeVar("Kind")


@dataclass(frozen=True, slots=True)
class Lookup(Generic[Kind]):
    """How the record with a certain address is found.

    The statement has the parameters `organization_id`, `value`, which is the address, and perhaps `now`. Its first
    column is never NULL. `record` makes the record of its rows, one at least, at a moment in the organization's zone.
    """

    statement: CompiledStatement
    record: Callable[[Sequence[Sequence[Any]], datetime, tzinfo], Kind]

    def find(self, db: Connection, organization: Organization, value: Any, now: datetime) -> Kind | None:
        """The record with this address as it is at `now`; None if there is none."""
        rows = self.statement.rows(db, organization_id=organization.organization_id, value=value, now=now)
        return self.record(rows, now, organization.zone) if rows else None


@dataclass(frozen=True, slots=True)
class Address(Generic[Kind]):
    """The address of a record that is to be read as it is at `now`."""

    lookup: Lookup[Kind]
    value: Any
    now: datetime
