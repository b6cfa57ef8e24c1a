"""The maximum length of an operation's request line in bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.contract.documents import Document, DocumentedOperation, resolve

# The longest method, the version and the characters between the parts.
_FRAME = len("DELETE ?&= HTTP/1.1")
_BYTES_OF = {"integer": 20, "number": 40, "boolean": 5}
# A character outside the Basic Multilingual Plane, percent-encoded.
_BYTES_OF_CHARACTER = 12
_BYTES_OF_FORMAT = {"date": 10, "date-time": 60, "uuid": 36}


def longest_request_line(document: Document, operation: DocumentedOperation) -> int:
    """The bytes of the longest request line that the schemas of the parameters allow."""
    parameters = [parameter for parameter in operation.parameters if parameter["in"] in ("path", "query")]
    lengths = (len(parameter["name"]) + 2 + _longest(document, parameter["schema"]) for parameter in parameters)
    return _FRAME + len(operation.path) + sum(lengths)


def _longest(document: Document, schema: Mapping[str, Any]) -> int:
    schema = resolve(document, schema)
    if "enum" in schema:
        return max(len(str(value)) for value in schema["enum"])
    if schema["type"] == "array":
        return int(schema["maxItems"]) * (_longest(document, schema["items"]) + len("%2C"))
    if schema["type"] == "string":
        return _BYTES_OF_FORMAT.get(schema.get("format", "")) or int(schema["maxLength"]) * _BYTES_OF_CHARACTER
    return _BYTES_OF[schema["type"]]
