"""The cost of validating documents by a JSON Schema, bounded before a document is validated.

A validation cannot be interrupted and stops every other call of its process, so its cost has to be known before. It is
at most proportional to the values of the document (by the keywords that may meet one value) and to its bytes (by the
patterns that may meet one text). Costs are nanoseconds of CPU, measured for the worst inputs and rounded up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from domain.content.documents import MAX_ATTRS_DEPTH
from domain.content.schema_parts import Schemas, schema_groups_of_parts, schemas_of_parts, schemas_of_same_value
from domain.problems import FieldFault

MAX_EVALUATIONS = 500
"""The maximum number of checks of one value of a document."""
MAX_COST = 20_000_000
"""The maximum cost of validating one document; finding the faults of a document costs up to twice as much."""
MAX_BATCH_COST = 10 * MAX_COST
"""The maximum cost of validating all documents of one call."""
MAX_EXPLAINED = 2_000
"""The maximum checks of a document whose faults are found one by one; each failed check costs some 7 microseconds."""
MAX_DIGITS = 20
"""Digits before and after the point of a number that is compared fast."""
SMALL_VALUES, SMALL_BYTES = 100, 4_096
"""The size of a document that every schema can validate."""

PatternSize = Callable[[str], int]
"""Returns the number of instructions of a regular expression; each of them may be active at each byte of a text."""

_LONG_NUMBER_VALUES = 3_000
"""A longer number counts as this many values."""
# The cost for each value: of a keyword, of a name in `required`, of a type, and so on.
_KEYWORD, _NAME, _TYPE, _BOUND, _FORMAT, _MULTIPLE, _OPTION = 20, 20, 200, 700, 1_500, 2_500, 1_200
# The cost for each byte of a value: of an instruction of a regular expression, of a format, and so on.
_INSTRUCTION_PER_BYTE, _FORMAT_PER_BYTE, _MULTIPLE_PER_BYTE, _UNIQUE_PER_BYTE, _OPTION_PER_BYTE = 10, 4, 25, 10, 3
# Each missing name is a fault, with a copy of the object.
_NAME_PER_BYTE = 1
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_OPTIONS_PER_EXPLANATION = 100


class Cost(NamedTuple):
    """The cost of validating by a schema: sums over a value and the values inside it, and maxima for single values.

    The first two fields are the sums. `here_...` is for the value that the schema checks, `inner_...` the maximum for a
    value inside it.
    """

    evaluations: int = 0
    per_subtree_byte: int = 0
    here_checks: int = 0
    here_per_value: int = 0
    here_per_byte: int = 0
    inner_checks: int = 0
    inner_per_value: int = 0
    inner_per_byte: int = 0

    @property
    def checks(self) -> int:
        """The maximum number of checks of one value of a document."""
        return max(self.here_checks, self.inner_checks)

    @property
    def per_value(self) -> int:
        """Cost of each value of a document."""
        return max(self.here_per_value, self.inner_per_value)

    @property
    def per_byte(self) -> int:
        """Cost of each byte of a document."""
        return max(self.here_per_byte, self.inner_per_byte) + self.per_subtree_byte

    def of_document(self, values: int, size: int) -> int:
        """Cost of validating a document with this many values and bytes."""
        return self.per_value * values + self.per_byte * size

    def as_inner_cost(self) -> Cost:
        """The same cost for the surrounding schema, to which all values that this schema checks are inner values.

        Sums stay; of the maxima for the value itself (`here_`) and for inner values (`inner_`), the larger one counts.
        """
        return Cost(
            self.evaluations,
            self.per_subtree_byte,
            inner_checks=self.checks,
            inner_per_value=self.per_value,
            inner_per_byte=max(self.here_per_byte, self.inner_per_byte),
        )


def count_values(document: Any) -> int:
    """The number of values in a document, including itself; a number that is compared slowly counts as many values."""
    count = 0
    todo = [document]
    while todo:
        value = todo.pop()
        count += 1
        if isinstance(value, dict):
            todo.extend(value.values())
        elif isinstance(value, list):
            todo.extend(value)
        elif is_long_number(value):
            count += _LONG_NUMBER_VALUES
    return count


def is_long_number(value: Any) -> bool:
    """True for a number with more digits before or after the point than are compared fast."""
    if isinstance(value, Decimal):
        return abs(value.adjusted()) > MAX_DIGITS or -int(value.as_tuple().exponent) > MAX_DIGITS
    return isinstance(value, int) and abs(value) >= 10**MAX_DIGITS


def schema_costs(schemas: Schemas, pattern_size: PatternSize) -> dict[str, Cost] | FieldFault:
    """The cost of each schema in a schema, by pointer; a fault if a value of a document could be checked endlessly."""
    # Costs at one depth follow from those one level below, so a recursive schema costs as much as a document can have.
    parts = {place: _Parts.of(place, schemas, pattern_size) for place in schemas}
    below: dict[str, Cost] = dict.fromkeys(schemas, Cost(1))
    for _ in range(MAX_ATTRS_DEPTH):
        costs: dict[str, Cost] = {}
        for place in schemas:
            cycle = _add_cost(place, parts, below, costs)
            if cycle is not None:
                return FieldFault("$ref leads back to this schema without going into the document", pointer=cycle)
        # Deeper levels would not change the costs, or the schema is too expensive already.
        if costs == below or max(cost.evaluations for cost in costs.values()) > MAX_EVALUATIONS:
            return costs
        below = costs
    return below


def cost_faults(costs: Mapping[str, Cost]) -> list[FieldFault]:
    """Faults of a schema that costs too much for any document, or for small ones."""
    worst = max(costs, key=lambda place: costs[place].evaluations)
    if costs[worst].evaluations > MAX_EVALUATIONS:
        detail = (
            f"jsonschema could check one value of a document more than {MAX_EVALUATIONS} times; "
            "make the subschemas and references that meet one value (such as allOf, anyOf and $ref) fewer"
        )
        return [FieldFault(detail, pointer=worst)]
    worst = max(costs, key=lambda place: costs[place].of_document(SMALL_VALUES, SMALL_BYTES))
    if costs[worst].of_document(SMALL_VALUES, SMALL_BYTES) > MAX_COST:
        detail = (
            f"jsonschema takes too long to validate a document of {SMALL_BYTES} bytes; "
            "make the patterns, lists of options and required names that meet one value fewer or shorter"
        )
        return [FieldFault(detail, pointer=worst)]
    return []


def _own_cost(schema: Any, pattern_size: PatternSize) -> Cost:
    """The cost of the keywords of a schema, without the schemas inside it."""
    if not isinstance(schema, dict):
        return Cost(1, here_checks=1, here_per_value=_KEYWORD)
    options = list(schema["enum"]) if isinstance(schema.get("enum"), list) else []
    if "const" in schema:
        options.append(schema["const"])
    slow_options = sum(not isinstance(option, str | bool | None) for option in options)
    types = schema.get("type")
    patterns = list(schema.get("patternProperties", ()))
    if "pattern" in schema:
        patterns.append(schema["pattern"])
    dependent = schema.get("dependentRequired", {})
    names = len(schema.get("required", ())) + len(dependent) + sum(len(required) for required in dependent.values())
    return Cost(
        evaluations=1,
        here_checks=1 + len(options) // _OPTIONS_PER_EXPLANATION,
        here_per_value=_KEYWORD * (1 + len(schema) + len(patterns))
        + _NAME * names
        + _TYPE * (len(types) if isinstance(types, list) else int("type" in schema))
        + _BOUND * sum(key in schema for key in _BOUNDS)
        + _FORMAT * ("format" in schema)
        + _MULTIPLE * ("multipleOf" in schema)
        + _OPTION * slow_options,
        here_per_byte=_INSTRUCTION_PER_BYTE * sum(map(pattern_size, patterns))
        + _FORMAT_PER_BYTE * ("format" in schema)
        + _MULTIPLE_PER_BYTE * ("multipleOf" in schema),
        per_subtree_byte=_UNIQUE_PER_BYTE * ("uniqueItems" in schema)
        + _OPTION_PER_BYTE * slow_options
        + _NAME_PER_BYTE * names,
    )


class _Parts(NamedTuple):
    """The own cost of a schema, and the pointers of the schemas whose costs are added to it."""

    own_cost: Cost
    same_value: list[str]
    parts: list[str]
    groups_of_parts: list[list[str]]

    @classmethod
    def of(cls, place: str, schemas: Schemas, pattern_size: PatternSize) -> _Parts:
        """The parts of the cost of the schema at a place."""
        own_cost = _own_cost(schemas[place], pattern_size)
        return cls(
            own_cost,
            schemas_of_same_value(place, schemas),
            schemas_of_parts(place, schemas),
            list(schema_groups_of_parts(place, schemas)),
        )

    def total_cost(self, below: Mapping[str, Cost], costs: Mapping[str, Cost]) -> Cost:
        """The cost of the schema; `below` has the costs one level further down, `costs` those of this level."""
        summands = [self.own_cost, *(costs[part] for part in self.same_value)]
        summands += [below[part].as_inner_cost() for part in self.parts]
        for group in self.groups_of_parts:
            costs_of_group = [below[part].as_inner_cost() for part in group]
            # The maximum of each field: at most one schema of the group checks the same part.
            summands.append(Cost(*map(max, zip(*costs_of_group, strict=True))))
        # The sum of each field.
        return Cost(*map(sum, zip(*summands, strict=True)))


def _add_cost(start: str, parts: Mapping[str, _Parts], below: Mapping[str, Cost], costs: dict[str, Cost]) -> str | None:
    """Add to `costs` the cost of the schema at `start`, and of the schemas that check the same value.

    Returns the pointer of a schema in a cycle of such schemas; None if there is no cycle.
    """
    open_places: set[str] = set()
    # The places to be visited: at first, and again once the costs of its parts are known.
    todo = [(start, False)]
    while todo:
        place, has_costs_of_parts = todo.pop()
        if has_costs_of_parts:
            open_places.discard(place)
            costs[place] = parts[place].total_cost(below, costs)
            continue
        if place in costs:
            continue
        if place in open_places:
            return place
        open_places.add(place)
        todo.append((place, True))
        for other_place in parts[place].same_value:
            if other_place in open_places:
                return other_place
            todo.append((other_place, False))
    return None
