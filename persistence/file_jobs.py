"""Jobs that read or write files, imports and exports: the waiting jobs, and the stored content of the files."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Column, Connection, Table, delete, func, select

from persistence.connections import query
from persistence.counts import count_rows
from persistence.records import Records

Kind = TypeVar("Kind")

# How many waiting jobs of an organization a worker sees, and so how many workers can work for it at a time.
_MAX_WAITING = 20


class FileJobs(Records[Kind]):
    """The jobs of a table, whose content is stored piece by piece in other tables.

    `content` are these tables, the one with the column `content` first; a table that refers to another one comes before
    it. Jobs wait for a worker while the SQL condition `is_waiting` holds. A job has the `size` of its content in bytes,
    which is stored while the job has one of the `storing_statuses`.
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
        self._stored_bytes = select(func.coalesce(func.sum(size), 0)).where(table.c.status.in_(storing_statuses))
        self._content = content
        ids = f"(array_agg({self.id.name} ORDER BY updated_at, {self.id.name}))[:{_MAX_WAITING}]"
        self._waiting = (
            f"SELECT organization_id, {ids} FROM {table.name} WHERE {is_waiting}"
            " GROUP BY organization_id ORDER BY min(updated_at), organization_id"
        )

    def find_waiting(self, db: Connection, **parameters: Any) -> list[tuple[int, int]]:
        """The organization and id of the first waiting jobs of each organization; `parameters` of `is_waiting`.

        The longest waiting job of an organization is first, as is the organization with the longest waiting job.
        """
        return [(organization_id, id_) for organization_id, ids in query(db, self._waiting, parameters) for id_ in ids]

    def count(self, db: Connection, organization_id: int, statuses: Sequence[str]) -> int:
        """Count the jobs of an organization with these statuses, up to one more than `MAX_COUNTED`."""
        conditions = [self.table.c.organization_id == organization_id, self.table.c.status.in_(statuses)]
        return count_rows(db, self.table, conditions).rows

    def stored_bytes(self, db: Connection, organization_id: int) -> int:
        """The bytes of the stored content of all jobs of an organization."""
        of_organization = self.table.c.organization_id == organization_id
        return int(db.execute(self._stored_bytes.where(of_organization)).scalar_one())

    def read_content(self, db: Connection, job: Kind, **piece: int) -> Any:
        """Read the content of one piece of a job; None if it is not stored.

        `piece` has the numbers of the piece, by the names of their columns.
        """
        address = self._address(job) | piece
        conditions = " AND ".join(f"{name} = %s" for name in address)
        statement = f"SELECT content FROM {self._content[0].name} WHERE {conditions}"
        rows = query(db, statement, tuple(address.values()))
        return rows[0][0] if rows else None

    def remove_content(self, db: Connection, job: Kind, **piece: int) -> None:
        """Remove the content of a job, or only the pieces with the numbers in `piece`, as in `read_content`."""
        self.remove_content_at(db, self._address(job) | piece)

    def remove_content_at(self, db: Connection, address: Mapping[str, int]) -> None:
        """Remove the content of all rows with these values of columns."""
        for table in self._content:
            db.execute(delete(table).where(*(table.c[name] == value for name, value in address.items())))

    def end(self, db: Connection, job: Kind, status: str, now: datetime, error: str | None = None) -> Kind:
        """End a locked job that was cancelled or has failed, and remove its content; `error` is why it failed."""
        self.remove_content(db, job)
        return self.store(db, job, {"status": status, "error": error, "finished_at": now}, now)
