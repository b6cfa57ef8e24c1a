"""The JSON Schemas of collections: checked before they are saved, and documents checked against them."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any

import jsonschema_rs
import msgspec

from domain.content.schema_checks import DIALECT, patterns_of, schema_faults
from domain.problems import FieldFault, InvalidRequest
from handlers.messages.faults import MASK, Explainer
from handlers.messages.json_text import encode, pointer_to
from handlers.messages.validation import Validator, schema_holding

_AT = "/jsonschema"
# A pattern compiled is a program of this size at most, and matches in linear time.
_PATTERNS = jsonschema_rs.RegexOptions(size_limit=100_000, dfa_size_limit=200_000)
_KEPT_SCHEMAS = 256
_META = jsonschema_rs.Draft202012Validator({"$ref": DIALECT}, offline=True, mask=MASK)
_decode = msgspec.json.Decoder(float_hook=Decimal).decode


def check_schema(schema: Mapping[str, Any]) -> None:
    """Raise InvalidRequest, with pointers into the request, for a schema that cannot be served."""
    text = encode(schema)
    faults = schema_faults(schema, len(text)) or _meta_faults(schema) or _pattern_faults(schema)
    if not faults:
        try:
            _compiled(text)
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
            faults = [FieldFault(f"jsonschema cannot be used: {str(error)[:300]}", pointer="")]
    if faults:
        raise InvalidRequest(
            [FieldFault(fault.detail, pointer=(_AT + (fault.pointer or ""))[:300]) for fault in faults]
        )


def attrs_faults(schema: Mapping[str, Any], attrs: Mapping[str, Any], at: str = "/attrs") -> list[FieldFault]:
    """Every fault of a document's attributes by its collection's schema, each with its pointer."""
    if not schema:
        return []
    validator = _compiled(encode(schema))
    if validator.accepts(attrs):
        return []
    return [FieldFault(detail, pointer=at + pointer_to(place)) for place, detail in validator.faults(attrs)]


def _meta_faults(schema: Mapping[str, Any]) -> list[FieldFault]:
    explainer = Explainer(schema_holding(), root=("jsonschema",))
    faults = [
        FieldFault(detail, pointer=pointer_to(place))
        for error in _META.iter_errors(schema)
        for place, detail in explainer.explain(error)
    ]
    return list(dict.fromkeys(faults))[:50]


def _pattern_faults(schema: Mapping[str, Any]) -> list[FieldFault]:
    faults = []
    for pointer, pattern in patterns_of(schema):
        try:
            jsonschema_rs.Draft202012Validator({"pattern": pattern}, pattern_options=_PATTERNS)
        except (jsonschema_rs.ValidationError, ValueError):
            detail = "pattern is no regular expression without look-around and back references, or is too large"
            faults.append(FieldFault(detail, pointer=pointer))
    return faults


@lru_cache(_KEPT_SCHEMAS)
def _compiled(text: bytes) -> Validator:
    schema = _decode(text)
    compiled = jsonschema_rs.Draft202012Validator(
        schema,
        validate_formats=True,
        pattern_options=_PATTERNS,
        offline=True,
        mask=MASK,
    )
    return Validator(compiled, schema_holding(schema), root=("attrs",))
