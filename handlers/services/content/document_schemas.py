"""Checks the JSON Schemas of collections before they are saved, and documents against them."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any

import jsonschema_rs
import msgspec

from domain.content.schema_checks import DIALECT, schema_faults
from domain.content.schema_costs import (
    MAX_BATCH_COST,
    MAX_COST,
    MAX_EXPLAINED,
    Cost,
    cost_faults,
    count_values,
    schema_costs,
)
from domain.content.schema_parts import patterns_of, subschemas
from domain.problems import FieldFault, InvalidRequest
from handlers.messages.faults import MASK, MAX_FAULTS, Explainer
from handlers.messages.json_text import encode, pointer_to
from handlers.messages.validation import Validator, schema_finder
from handlers.services.content.pattern_sizes import pattern_size

_SCHEMA_POINTER = "/jsonschema"
# A compiled pattern is limited to this size, and matches in linear time.
_PATTERN_OPTIONS = jsonschema_rs.RegexOptions(size_limit=100_000, dfa_size_limit=50_000)
_MAX_CACHED_SCHEMAS = 64
_META_VALIDATOR = jsonschema_rs.Draft202012Validator({"$ref": DIALECT}, offline=True, mask=MASK)
_decode = msgspec.json.Decoder(float_hook=Decimal).decode


@dataclass(frozen=True, slots=True)
class _CompiledSchema:
    validator: Validator
    cost: Cost


def check_schema(schema: Mapping[str, Any]) -> None:
    """Raise InvalidRequest, with pointers into the request, for a schema that cannot be used."""
    try:
        _compiled_schema(encode(schema))
    except _UnusableSchema as error:
        raise InvalidRequest(
            [
                FieldFault(fault.detail, pointer=(_SCHEMA_POINTER + (fault.pointer or ""))[:300])
                for fault in error.faults
            ]
        ) from None


class AttributesValidator:
    """Validates the attributes of documents by their collection's schema, within the cost limit of one call."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema_text = encode(schema) if schema else None
        self._remaining_cost = MAX_BATCH_COST

    def faults(self, attrs: Mapping[str, Any], size: int) -> list[FieldFault]:
        """Validate attributes that are `size` bytes of JSON; return all faults. Their cost counts towards the limit."""
        if self._schema_text is None:
            return []
        try:
            compiled = _compiled_schema(self._schema_text)
        except _UnusableSchema as error:
            first_fault = error.faults[0]
            prefix = f"its {first_fault.pointer}: " if first_fault.pointer else ""
            detail = (
                f"attrs cannot be validated; change the collection's jsonschema first: {prefix}{first_fault.detail}"
            )
            return [FieldFault(detail, pointer="/attrs")]
        values = count_values(attrs)
        cost = compiled.cost.of_document(values, size)
        if cost > MAX_COST:
            detail = (
                f"attrs, {size} bytes, takes too long to validate by the collection's jsonschema; shorten attrs, or "
                "make the patterns, lists of options and required names in jsonschema fewer or shorter"
            )
            return [FieldFault(detail, pointer="/attrs")]
        self._remaining_cost -= cost
        if self._remaining_cost < 0:
            detail = (
                "attrs was not validated: earlier documents of this call used up the time for validation; "
                "send fewer documents in one call"
            )
            return [FieldFault(detail, pointer="/attrs")]
        if compiled.validator.accepts(attrs):
            return []
        if compiled.cost.checks * values > MAX_EXPLAINED:
            detail = "attrs does not satisfy the collection's jsonschema; it has too many values to state where"
            return [FieldFault(detail, pointer="/attrs")]
        faults = compiled.validator.faults(attrs)
        return [FieldFault(detail, pointer="/attrs" + pointer_to(place)) for place, detail in faults]


class _UnusableSchema(Exception):
    """Raised for a schema with faults, whose pointers lead into the schema."""

    def __init__(self, faults: list[FieldFault]) -> None:
        super().__init__(faults)
        self.faults = faults


def _meta_faults(schema: Mapping[str, Any]) -> list[FieldFault]:
    """The faults of a schema that is not a JSON Schema."""
    if _META_VALIDATOR.is_valid(schema):
        return []
    if count_values(schema) > MAX_EXPLAINED:
        return [
            FieldFault(
                f"jsonschema is not a JSON Schema; its errors are listed only if it has at most {MAX_EXPLAINED} values",
                pointer="",
            )
        ]
    explainer = Explainer(schema_finder(), root=("jsonschema",))
    faults = [
        FieldFault(detail, pointer=pointer_to(place))
        for error in _META_VALIDATOR.iter_errors(schema)
        for place, detail in explainer.explain(error)
    ]
    return list(dict.fromkeys(faults))[:MAX_FAULTS]


def _pattern_faults(schema: Mapping[str, Any]) -> list[FieldFault]:
    """The fault of the first pattern that cannot be compiled, in a list; empty if there is none."""
    pointer_by_pattern = {pattern: pointer for pointer, pattern in patterns_of(schema)}
    for pattern, pointer in pointer_by_pattern.items():
        try:
            jsonschema_rs.Draft202012Validator({"pattern": pattern}, pattern_options=_PATTERN_OPTIONS)
        except (jsonschema_rs.ValidationError, ValueError):
            detail = "pattern is not a regular expression, is too large, or has look-around or a back reference"
            return [FieldFault(detail, pointer=pointer)]
    return []


@lru_cache(_MAX_CACHED_SCHEMAS)
def _compiled_schema(text: bytes) -> _CompiledSchema:
    """The compiled form of a schema, given as JSON text; raises _UnusableSchema."""
    schema = _decode(text)
    faults = schema_faults(schema, len(text)) or _meta_faults(schema) or _pattern_faults(schema)
    if faults:
        raise _UnusableSchema(faults)
    costs = schema_costs(subschemas(schema), pattern_size)
    if isinstance(costs, FieldFault):
        raise _UnusableSchema([costs])
    if faults := cost_faults(costs):
        raise _UnusableSchema(faults)
    try:
        compiled = jsonschema_rs.Draft202012Validator(
            schema,
            validate_formats=True,
            pattern_options=_PATTERN_OPTIONS,
            offline=True,
            mask=MASK,
        )
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        raise _UnusableSchema([FieldFault(f"jsonschema cannot be used: {str(error)[:300]}", pointer="")]) from None
    # The pointer of the whole schema is empty.
    return _CompiledSchema(Validator(compiled, schema_finder(schema), root=("attrs",)), costs[""])
