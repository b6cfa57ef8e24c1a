"""Jobs that read or write files, imports and exports: the waiting jobs, and the stored content of the files."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Column, Connection, Table, delete, func, select, tuple_

from persistence import audit_log
from persistence.connections import fetch_rows
from persistence.counts import count_rows
from persistence.filters import is_same
from persistence.records import Records

Kind = TypeVar("Kind")

# The pieces that a statement removes: about a megabyte each, so the cost does not grow with the size of the content.
PIECES_AT_ONCE = 100

# How many waiting jobs of an organization a worker sees, and so how many workers can work for it at a time.
_MAX_WAITING = 20


class FileJobs(Records[Kind]):
    """The jobs of a table, whose content is stored piece by piece in other tables.

    `content` are these tables, the one with the column `content` first; a table that refers to another one comes before
    it. Jobs wait for a worker while the SQL condition `is_waiting` holds. A job has the `size` of its content in bytes,
    which is stored while the job has one of the `storing_statuses`. Afterwards it is removed piece by piece.
    """

    def __init__(
        self,
        table: Table,
        kind: type[Kind],
        content: Sequence[Table],
        is_waiting: str,
        *,
        size: Column[Any],
        storing_statuses: Sequence[str],
    ) -> None:
        super().__init__(table, kind, equal=("kind", "status"))
        self._size = size
        self._storing_statuses = storing_statuses
        self._content = content
        ids = f"(array_agg({self.id.name} ORDER BY updated_at, {self.id.name}))[:{_MAX_WAITING}]"
        self._waiting = (
            f"SELECT organization_id, {ids} FROM {table.name} WHERE {is_waiting}"
            " GROUP BY organization_id ORDER BY min(updated_at), organization_id"
        )

    def find_waiting(self, db: Connection, **parameters: Any) -> list[tuple[int, int]]:
        """Pairs of organization id and job id: for each organization, the jobs that have waited longest.

        At most `_MAX_WAITING` of each. First comes the organization whose first job has waited longest. `parameters`
        are those of the condition `is_waiting`.
        """
        return [
            (organization_id, id_) for organization_id, ids in fetch_rows(db, self._waiting, parameters) for id_ in ids
        ]

    def count(self, db: Connection, organization_id: int, statuses: Sequence[str]) -> int:
        """Count the jobs of an organization with these statuses, up to one more than `MAX_COUNTED`."""
        conditions = [self.table.c.organization_id == organization_id, self.table.c.status.in_(statuses)]
        return count_rows(db, self.table, conditions).rows

    def lock_creation(self, db: Connection, organization_id: int) -> None:
        """Lock the creation of jobs of an organization until the transaction ends."""
        audit_log.acquire_lock(db, organization_id, f"unfinished {self.table.name}")

    def stored_bytes(self, db: Connection, organization_id: int) -> int:
        """The bytes of the content of an organization's jobs, as long as any of the content of a job is stored."""
        parts = self._content[-1]
        ids_with_parts = select(parts.c[self.id.name]).where(parts.c.organization_id == organization_id)
        is_stored = self.table.c.status.in_(self._storing_statuses) | self.id.in_(ids_with_parts)
        of_organization = self.table.c.organization_id == organization_id
        statement = select(func.coalesce(func.sum(self._size), 0)).where(of_organization, is_stored)
        return int(db.execute(statement).scalar_one())

    def read_content(self, db: Connection, job: Kind, **piece: int) -> Any:
        """Read the content of one piece of a job; None if it is not stored.

        `piece` has the numbers of the piece, by the names of their columns.
        """
        address = self._address(job) | piece
        conditions = " AND ".join(f"{name} = %s" for name in address)
        statement = f"SELECT content FROM {self._content[0].name} WHERE {conditions}"
        rows = fetch_rows(db, statement, tuple(address.values()))
        return rows[0][0] if rows else None

    def remove_content(self, db: Connection, job: Kind) -> bool:
        """Remove the next pieces of the content of a job, as `remove_content_at` does."""
        return self.remove_content_at(db, self._address(job))

    def remove_content_at(self, db: Connection, address: Mapping[str, int]) -> bool:
        """Remove the next pieces, at most `PIECES_AT_ONCE`, with these values of columns; True if none is left."""
        for table in self._content:
            conditions = [table.c[name] == value for name, value in address.items()]
            keys = table.primary_key.columns
            # Removed by a range of the index: a list of keys would be compared with all pieces of the job.
            next_pieces = db.execute(select(*keys).where(*conditions).order_by(*keys).limit(PIECES_AT_ONCE)).all()
            if next_pieces:
                db.execute(delete(table).where(*conditions, tuple_(*keys) <= tuple_(*next_pieces[-1])))
            if len(next_pieces) == PIECES_AT_ONCE:
                return False
        return True

    def remove_content_of_ended(self, db: Connection, organization_id: int) -> bool:
        """Remove the next pieces of a job that has ended; True if the organization has none with content."""
        parts, job_id = self._content[-1], self.id.name
        jobs_with_parts = self.table.join(parts, is_same(self.table, parts, job_id))
        of_organization = self.table.c.organization_id == organization_id
        has_ended = self.table.c.status.not_in(self._storing_statuses)
        ended_id = select(self.id).select_from(jobs_with_parts).where(of_organization, has_ended).limit(1)
        for found_id in db.execute(ended_id).scalars():
            self.remove_content_at(db, {"organization_id": organization_id, job_id: found_id})
            return False
        return True

    def end(self, db: Connection, job: Kind, status: str, now: datetime, error: str | None = None) -> Kind:
        """End a locked job that was cancelled or has failed; `error` is why it failed.

        Removes the first pieces of its content; a periodic job removes the others.
        """
        ended_job = self.store(db, job, {"status": status, "error": error, "finished_at": now}, now)
        self.remove_content(db, job)
        return ended_job
