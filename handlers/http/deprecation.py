"""The `Deprecation` header (RFC 9745): a plan that finds the deprecated parameters and fields of a request."""

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from typing import Any

from handlers.messages.validation import DocumentError, Schemas

# Schemas may combine schemas that refer back to them, so the search for fields stops at this depth.
_MAX_NESTING = 8


class DeprecationPlan:
    """The times at which parts of the requests of an operation were deprecated, as Unix times."""

    def __init__(
        self,
        operation: Mapping[str, Any],
        parameters: Iterable[Mapping[str, Any]],
        bodies: Iterable[Mapping[str, Any]],
        schemas: Schemas,
        operation_name: str,
    ) -> None:
        self._schemas = schemas
        self._operation_name = operation_name
        self._operation_time = self._time(operation, "the operation")
        self._parameter_times = {
            parameter["name"]: moment
            for parameter in parameters
            if parameter["in"] == "query" and (moment := self._time(parameter, parameter["name"])) is not None
        }
        self._field_times: dict[str, int] = {}
        # Deprecated fields of items of arrays, by the field that has the array; None if the body is the array.
        self._item_field_times: dict[str | None, dict[str, int]] = {}
        for body in bodies:
            resolved_body = schemas.resolve(body)
            if resolved_body.get("type") == "array":
                self._add_items(array_field=None, array=resolved_body)
                continue
            for name, child in self._properties(body):
                moment = self._time(child, name)
                if moment is not None:
                    self._field_times[name] = moment
                self._add_items(name, schemas.resolve(child))
        self.is_empty = self._operation_time is None and not (
            self._parameter_times or self._field_times or self._item_field_times
        )

    def earliest(self, query_names: Iterable[str], body: Any) -> int | None:
        """The earliest time at which a part of the request was deprecated; None if no part is.

        `query_names` are the names of the query parameters that the client wrote, without defaults.
        """
        moments = [] if self._operation_time is None else [self._operation_time]
        moments.extend(self._parameter_times[name] for name in query_names if name in self._parameter_times)
        if isinstance(body, dict):
            moments.extend(moment for name, moment in self._field_times.items() if name in body)
        for array_field, fields in self._item_field_times.items():
            items = body
            if array_field is not None:
                items = body.get(array_field) if isinstance(body, dict) else None
            if isinstance(items, list):
                names_in_items = {name for item in items if isinstance(item, dict) for name in item}
                moments.extend(moment for name, moment in fields.items() if name in names_in_items)
        return min(moments, default=None)

    def _add_items(self, array_field: str | None, array: Mapping[str, Any]) -> None:
        """Add the deprecated fields of the items, if the schema is an array."""
        if array.get("type") != "array":
            return
        for name, child in self._properties(array.get("items", {})):
            moment = self._time(child, name)
            if moment is not None:
                self._item_field_times.setdefault(array_field, {})[name] = moment

    def _properties(self, schema: Mapping[str, Any], depth: int = 0) -> Iterable[tuple[str, Mapping[str, Any]]]:
        """The fields of a schema, with the fields of the schemas that it combines."""
        schema = self._schemas.resolve(schema)
        yield from schema.get("properties", {}).items()
        if depth < _MAX_NESTING:
            for key in ("allOf", "anyOf", "oneOf"):
                for part in schema.get(key, ()):
                    yield from self._properties(part, depth + 1)

    def _time(self, part: Mapping[str, Any], name: str) -> int | None:
        """The time at which a part was deprecated, None if it was not.

        Raises DocumentError, which calls the part `name`, if the part is deprecated without a date.
        """
        deprecated_part = part if part.get("deprecated") else self._schemas.resolve(part)
        if not deprecated_part.get("deprecated"):
            return None
        try:
            day = date.fromisoformat(deprecated_part["x-deprecated-at"])
        except (KeyError, TypeError, ValueError):
            raise DocumentError(
                f"{self._operation_name}: {name} is deprecated and needs a date in x-deprecated-at, such as 2026-03-01"
            ) from None
        return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())
