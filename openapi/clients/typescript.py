"""Writes the declarations and the code of the TypeScript client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from openapi.clients.operations import ORGANIZATION, Operation, Schema

_HEADER = "// Generated from the OpenAPI documents.\n"
_SCALARS = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean"}
_CONSTRUCTOR = """\
  constructor(baseUrl, organizationId, options = {}) {
    super(baseUrl, options);
    this.organizationId = organizationId;
  }
"""


def write_types(schemas: dict[str, Schema]) -> str:
    """Write the declarations of types: an interface for each object, an alias for everything else."""
    return _HEADER + "".join(_write_schema(name, schema) for name, schema in schemas.items())


def write_index(*, has_types: bool) -> str:
    """Write the index of the package: its exports."""
    lines = [
        'export { AdministrationClient } from "./administration.js";',
        'export { IntegrationClient } from "./integration.js";',
        'export { Problem } from "./runtime.js";',
        'export { InvalidWebhook, verifyWebhook } from "./webhooks.js";',
    ]
    if has_types:
        lines += ['export type { ClientOptions } from "./runtime.js";', 'export type * as types from "./types.js";']
    return _HEADER + "\n".join(lines) + "\n"


def write_declarations(name: str, operations: list[Operation], has_organization: bool) -> str:
    """Write the declaration of one client."""
    lines = [_HEADER, 'import { BaseClient, type ClientOptions } from "./runtime.js";\n']
    lines.append('import type * as types from "./types.js";\n')
    organization = ", organizationId: number" if has_organization else ""
    lines.append(f"\nexport declare class {name.capitalize()}Client extends BaseClient {{\n")
    lines.append(f"  constructor(baseUrl: string{organization}, options?: ClientOptions);\n")
    for operation in operations:
        lines += _declare_operation(operation)
    return "".join([*lines, "}\n"])


def write_code(name: str, operations: list[Operation], has_organization: bool) -> str:
    """Write the code of one client: a method for each operation, and an iterator for each list."""
    lines = [_HEADER, 'import { BaseClient } from "./runtime.js";\n']
    lines.append(f"\nexport class {name.capitalize()}Client extends BaseClient {{\n")
    if has_organization:
        lines.append(_CONSTRUCTOR)
    for operation in operations:
        lines += _write_operation(operation)
    return "".join([*lines, "}\n"])


def _write_schema(name: str, schema: Schema) -> str:
    """Write the declaration of the type of a schema, with its description as a comment."""
    if not schema.get("properties"):
        return f"{_comment(schema, '')}export type {name} = {_type_of(schema, '')};\n"
    fields = [
        _write_field(field, child, field in schema.get("required", ())) for field, child in schema["properties"].items()
    ]
    if schema.get("additionalProperties") is True:
        fields.append("  [name: string]: unknown;\n")
    return f"{_comment(schema, '')}export interface {name} {{\n{''.join(fields)}}}\n"


def _write_field(name: str, schema: Schema, is_required: bool) -> str:
    mark, undefined_type = ("", "") if is_required else ("?", " | undefined")
    return f"{_comment(schema, '  ')}  {json.dumps(name)}{mark}: {_type_of(schema, '')}{undefined_type};\n"


def _comment(schema: Schema, indent: str) -> str:
    text = schema.get("description", "").partition("\n\n|")[0].strip().replace("*/", "* /")
    return f"{indent}/** {text} */\n" if text else ""


def _type_of(schema: Schema, module: str) -> str:
    """The type of a value; `module` comes before the names of types, such as `types.`."""
    if "$ref" in schema:
        return module + str(schema["$ref"].rpartition("/")[2])
    suffix = " | null" if schema.get("nullable") else ""
    if "enum" in schema:
        return " | ".join(map(json.dumps, schema["enum"])) + (suffix if None not in schema["enum"] else "")
    for keyword in ("allOf", "oneOf"):
        if keyword in schema:
            return " | ".join(_type_of(variant, module) for variant in schema[keyword]) + suffix
    if schema.get("type") == "array":
        return f"Array<{_type_of(schema['items'], module)}>{suffix}"
    if schema.get("type") == "object":
        values = schema.get("additionalProperties", True)
        return f"Record<string, {_type_of(values, module) if isinstance(values, dict) else 'unknown'}>{suffix}"
    if schema.get("format") == "binary":
        return "ArrayBuffer | Blob | string"
    return _SCALARS[schema["type"]] + suffix if "type" in schema else "unknown"


def _declare_operation(operation: Operation) -> Iterator[str]:
    """The declaration of a method; for an operation with pages, also that of its iterator."""
    result = "void"
    if operation.result is not None:
        is_text = operation.result_type != "application/json"
        result = "string" if is_text else _type_of(operation.result, "types.")
    path = [f"{parameter['name']}: {_type_of(parameter['schema'], 'types.')}" for parameter in operation.own_parameters]
    arguments = list(path)
    if operation.body is not None:
        # A query that has to be given cannot follow a body that may be left out.
        mark = "" if operation.body_is_required or _is_query_required(operation.query) else "?"
        arguments.append(f"body{mark}: {_type_of(operation.body, 'types.')}")
    arguments += _declare_query(operation.query)
    yield f"  /** {operation.summary}. */\n"
    yield f"  {operation.name}({', '.join(arguments)}): Promise<{result}>;\n"
    if operation.paging is not None:
        item = _type_of(operation.paging.item, "types.")
        arguments = [*path, *_declare_query(operation.query_of_iterator)]
        yield f"  /** {operation.summary}: the items of all pages. */\n"
        yield f"  {operation.iterator_name}({', '.join(arguments)}): AsyncGenerator<{item}, void, undefined>;\n"


def _declare_query(query: tuple[dict[str, Any], ...]) -> list[str]:
    """The argument `query` in a list of one; empty for an operation without a query."""
    if not query:
        return []
    fields = [
        f"{json.dumps(parameter['name'])}{'' if parameter.get('required') else '?'}"
        f": {_type_of(parameter['schema'], 'types.')}{'' if parameter.get('required') else ' | undefined'}"
        for parameter in query
    ]
    mark = "" if _is_query_required(query) else "?"
    return [f"query{mark}: {{ {'; '.join(fields)} }}"]


def _is_query_required(query: tuple[dict[str, Any], ...]) -> bool:
    return any(parameter.get("required") for parameter in query)


def _write_operation(operation: Operation) -> Iterator[str]:
    """Write the code of a method; for an operation with pages, also that of its iterator."""
    names = [parameter["name"] for parameter in operation.own_parameters]
    arguments = [*names, *(["body"] if operation.body is not None else []), *(["query"] if operation.query else [])]
    options = ["query"] if operation.query else []
    if operation.body is not None:
        options += ["body", f"bodyType: {json.dumps(operation.body_type)}"]
    if operation.key_path is not None:
        options.append(f"keyPath: {json.dumps(operation.key_path)}")
    if operation.is_open:
        options.append("isOpen: true")
    target = _target(operation)
    yield f"  {operation.name}({', '.join(arguments)}) {{\n"
    yield f"    return this.call({json.dumps(operation.method)}, {target}, {{ {', '.join(options)} }});\n  }}\n"
    if operation.paging is not None:
        has_query = bool(operation.query_of_iterator)
        yield f"  {operation.iterator_name}({', '.join([*names, *(['query'] if has_query else [])])}) {{\n"
        has_cursor = json.dumps(operation.paging.has_cursor)
        field = json.dumps(operation.paging.field)
        yield f"    return this.iterate({target}, {'query' if has_query else '{}'}, {field}, {has_cursor});\n  }}\n"


def _target(operation: Operation) -> str:
    """The path with its values as a template of JavaScript."""
    path = operation.path
    for parameter in operation.path_parameters:
        value = "this.organizationId" if parameter["name"] == ORGANIZATION else parameter["name"]
        path = path.replace(f"{{{parameter['name']}}}", f"${{encodeURIComponent({value})}}")
    return f"`{path}`"
