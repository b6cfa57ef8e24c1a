"""The `Deprecation` header (RFC 9745): the deprecated parameters and fields that a request used, by a plan."""

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from typing import Any

from handlers.messages.validation import DocumentError, Schemas

_MAX_NESTING = 8


class DeprecationPlan:
    """The times at which the parts of a request were deprecated, as Unix times."""

    def __init__(
        self,
        operation: Mapping[str, Any],
        declared: Iterable[Mapping[str, Any]],
        bodies: Iterable[Mapping[str, Any]],
        schemas: Schemas,
        where: str,
    ) -> None:
        self._schemas = schemas
        self._where = where
        self._always = self._time(operation, "the operation")
        self._query = {
            parameter["name"]: moment
            for parameter in declared
            if parameter["in"] == "query" and (moment := self._time(parameter, parameter["name"])) is not None
        }
        members: dict[str, int] = {}
        self._items: dict[str | None, dict[str, int]] = {}
        for body in bodies:
            resolved = schemas.resolved(body)
            if resolved.get("type") == "array":
                self._add_items(None, resolved)
                continue
            for name, child in self._properties(body):
                moment = self._time(child, name)
                if moment is not None:
                    members[name] = moment
                self._add_items(name, schemas.resolved(child))
        self._members = members
        self.empty = self._always is None and not (self._query or self._members or self._items)

    def earliest(self, query_names: Iterable[str], body: Any) -> int | None:
        """The earliest time at which a part of the request was deprecated; None if no part is.

        `query_names` are the names of the query parameters that the client wrote, without defaults.
        """
        moments = [] if self._always is None else [self._always]
        moments.extend(self._query[name] for name in query_names if name in self._query)
        if isinstance(body, dict):
            moments.extend(moment for name, moment in self._members.items() if name in body)
        for holder, members in self._items.items():
            items = body if holder is None else body.get(holder) if isinstance(body, dict) else None
            if isinstance(items, list):
                moments.extend(
                    moment
                    for name, moment in members.items()
                    if any(isinstance(item, dict) and name in item for item in items)
                )
        return min(moments, default=None)

    def _add_items(self, holder: str | None, array: Mapping[str, Any]) -> None:
        if array.get("type") != "array":
            return
        for name, child in self._properties(array.get("items", {})):
            moment = self._time(child, name)
            if moment is not None:
                self._items.setdefault(holder, {})[name] = moment

    def _properties(self, schema: Mapping[str, Any], depth: int = 0) -> Iterable[tuple[str, Mapping[str, Any]]]:
        schema = self._schemas.resolved(schema)
        yield from schema.get("properties", {}).items()
        if depth < _MAX_NESTING:
            for key in ("allOf", "anyOf", "oneOf"):
                for part in schema.get(key, ()):
                    yield from self._properties(part, depth + 1)

    def _time(self, part: Mapping[str, Any], name: str) -> int | None:
        deprecated_part = part if part.get("deprecated") else self._schemas.resolved(part) if "$ref" in part else part
        if not deprecated_part.get("deprecated"):
            return None
        try:
            day = date.fromisoformat(deprecated_part["x-deprecated-at"])
        except (KeyError, TypeError, ValueError):
            raise DocumentError(f"{self._where}: {name} is deprecated without an x-deprecated-at date") from None
        return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())
