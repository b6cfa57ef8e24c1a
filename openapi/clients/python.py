"""Writes the types and methods of the Python client."""

from __future__ import annotations

import keyword
from collections.abc import Iterator
from typing import Any

from openapi.clients.operations import ORGANIZATION, REQUEST_KEY, Operation, Schema, snake_case

_HEADER = '''"""{title}. Generated from the OpenAPI documents."""

from __future__ import annotations

'''
_SCALARS = {"string": "str", "integer": "int", "number": "decimal.Decimal | int", "boolean": "bool"}
_CONSTRUCTOR = """
    def __init__(self, base_url: str, organization_id: int, **options: Unpack[Options]) -> None:
        super().__init__(base_url, **options)
        self._organization_id = organization_id
"""


def write_types(schemas: dict[str, Schema]) -> str:
    """Write the module of types: a TypedDict for each object, an alias for everything else."""
    imports = (
        "import decimal\nfrom collections.abc import Mapping\n"
        "from typing import Any, Literal, NotRequired, TypeAlias, TypedDict\n"
    )
    return _HEADER.format(title="Bodies and results") + imports + "".join(map(_write_schema, schemas, schemas.values()))


def write_client(name: str, operations: list[Operation], has_organization: bool) -> str:
    """Write the module of one client: a method for each operation, and an iterator for each list."""
    imports = "import decimal\nfrom collections.abc import Iterator, Mapping\n"
    if has_organization:
        imports += "from typing import Any, Literal, Unpack\n\nfrom loyalty_client import types\n"
        imports += "from loyalty_client.runtime import BaseClient, Options\n"
    else:
        imports += "from typing import Any, Literal\n\nfrom loyalty_client import types\n"
        imports += "from loyalty_client.runtime import BaseClient\n"
    lines = [_HEADER.format(title=f"The {name} interface") + imports]
    lines.append(
        f'\n\nclass {name.capitalize()}Client(BaseClient):\n    """The operations of the {name} interface."""\n'
    )
    if has_organization:
        lines.append(_CONSTRUCTOR)
    for operation in operations:
        lines += _write_operation(operation)
    return "".join(lines)


def _write_schema(name: str, schema: Schema) -> str:
    """Write the declaration of the type of a schema."""
    if not schema.get("properties"):
        return f"\n{name}: TypeAlias = {_type_of(schema, '')!r}\n"
    class_name = name
    fields = {field: _field_type(schema, field) for field in schema["properties"]}
    alias = ""
    # A TypedDict allows no further fields, so the type of a body that may have some is a union with Mapping. Problems,
    # which have a `status`, are only in responses and need no union.
    if schema.get("additionalProperties") is True and REQUEST_KEY not in fields and "status" not in fields:
        class_name = f"Declared{name}"
        alias = f'\n{name}: TypeAlias = "{class_name} | Mapping[str, Any]"\n'
    if any(keyword.iskeyword(field) for field in fields):
        entries = "".join(f"        {field!r}: {text!r},\n" for field, text in fields.items())
        return f'\n{class_name} = TypedDict(\n    "{class_name}",\n    {{\n{entries}    }},\n)\n{alias}'
    entries = "".join(f"    {field}: {text}\n" for field, text in fields.items())
    return f"\n\nclass {class_name}(TypedDict):\n{entries}\n{alias}"


def _field_type(schema: Schema, field: str) -> str:
    text = _type_of(schema["properties"][field], "")
    return text if field in schema.get("required", ()) else f"NotRequired[{text}]"


def _type_of(schema: Schema, module: str) -> str:
    """The type of a value; `module` comes before the names of types, such as `types.`."""
    if "$ref" in schema:
        return module + str(schema["$ref"].rpartition("/")[2])
    suffix = " | None" if schema.get("nullable") else ""
    if "enum" in schema:
        return f"Literal[{', '.join(map(repr, schema['enum']))}]{suffix if None not in schema['enum'] else ''}"
    for combination in ("allOf", "oneOf"):
        if combination in schema:
            return " | ".join(_type_of(variant, module) for variant in schema[combination]) + suffix
    if schema.get("type") == "array":
        return f"list[{_type_of(schema['items'], module)}]{suffix}"
    if schema.get("type") == "object":
        values = schema.get("additionalProperties", True)
        return f"dict[str, {_type_of(values, module) if isinstance(values, dict) else 'Any'}]{suffix}"
    if schema.get("format") == "binary":
        return "bytes"
    return _SCALARS[schema["type"]] + suffix if "type" in schema else "Any"


def _write_operation(operation: Operation) -> Iterator[str]:
    """Write the parts of a method; for an operation with pages, also those of its iterator."""
    result = "None"
    if operation.result is not None:
        is_text = operation.result_type != "application/json"
        result = "str" if is_text else _type_of(operation.result, "types.")
    arguments = ["self", *_path_arguments(operation)]
    if operation.body is not None:
        body = _type_of(operation.body, "types.")
        arguments.append(f"body: {body}" if operation.body_is_required else f"body: {body} | None = None")
    arguments += _query_arguments(operation.query)
    call = [f'"{operation.method}"', *_target(operation)]
    if operation.query:
        call.append(f"query={_query(operation.query)}")
    if operation.body is not None:
        call += ["body=body", f'body_type="{operation.body_type}"']
    if operation.key_path is not None:
        call.append(f'key_path="{operation.key_path}"')
    if operation.is_open:
        call.append("is_open=True")
    yield f"\n    def {snake_case(operation.name)}(\n        {', '.join(arguments)}\n    ) -> {result}:\n"
    yield f'        """{operation.summary}."""\n'
    yield f"        result: {result} = self._call(\n            {', '.join(call)}\n        )\n        return result\n"
    if operation.paging is not None:
        yield from _write_iterator(operation)


def _write_iterator(operation: Operation) -> Iterator[str]:
    """The method that iterates over the items of all pages of a list."""
    assert operation.paging is not None
    item = _type_of(operation.paging.item, "types.")
    arguments = ["self", *_path_arguments(operation), *_query_arguments(operation.query_of_iterator)]
    paging = f'"{operation.paging.field}", has_cursor={operation.paging.has_cursor}'
    target = ", ".join(_target(operation))
    name = snake_case(operation.iterator_name)
    yield f"\n    def {name}(\n        {', '.join(arguments)}\n    ) -> Iterator[{item}]:\n"
    yield f'        """{operation.summary}: the items of all pages."""\n'
    query = _query(operation.query_of_iterator)
    yield f"        return self._iterate(\n            {target}, {query}, {paging}\n        )\n"


def _path_arguments(operation: Operation) -> list[str]:
    return [
        f"{snake_case(parameter['name'])}: {_type_of(parameter['schema'], 'types.')}"
        for parameter in operation.own_parameters
    ]


def _query_arguments(query: tuple[dict[str, Any], ...]) -> list[str]:
    """The parameters of a method for a query: keywords, of which only required ones have no default."""
    if not query:
        return []
    texts = ["*"]
    for parameter in query:
        text = f"{snake_case(parameter['name'])}: {_type_of(parameter['schema'], 'types.')}"
        texts.append(text if parameter.get("required") else f"{text} | None = None")
    return texts


def _target(operation: Operation) -> tuple[str, str]:
    """The template of the path, and the values in it."""
    path = operation.path
    values = []
    for parameter in operation.path_parameters:
        path = path.replace(f"{{{parameter['name']}}}", "{}")
        values.append("self._organization_id" if parameter["name"] == ORGANIZATION else snake_case(parameter["name"]))
    return f'"{path}"', f"({', '.join(values)}{',' if values else ''})"


def _query(query: tuple[dict[str, Any], ...]) -> str:
    return "{" + ", ".join(f'"{parameter["name"]}": {snake_case(parameter["name"])}' for parameter in query) + "}"
