"""Every operation of an OpenAPI document as a request to send: a Postman collection, and a file for editors.

Both are made from the examples. Values in two braces are variables, which both kinds of tools replace.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from openapi import operations_of, resolve

POSTMAN_SCHEMA = "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"
# The variable that holds the credential of each kind of security scheme.
_TOKEN = "token"
_API_KEY = "apiKey"


@dataclass(frozen=True)
class _Request:
    """One operation: its parameters with values, and its body as in the example."""

    operation: dict[str, Any]
    method: str
    path: str
    path_values: dict[str, str]
    query: list[tuple[dict[str, Any], str]]
    media_type: str | None
    example: Any
    # The header of an API key; None where the operation takes a token, or nothing.
    key_header: str | None

    @property
    def is_open(self) -> bool:
        return not self.operation["security"]

    @property
    def body(self) -> str | None:
        """The example as it is sent; None where there is no body."""
        if self.media_type is None or self.is_form:
            return None
        if self.is_file:
            return str(self.example)
        return json.dumps(self.example, indent=2, ensure_ascii=False)

    @property
    def is_form(self) -> bool:
        return self.media_type == "application/x-www-form-urlencoded"

    @property
    def is_file(self) -> bool:
        return self.media_type == "application/octet-stream"


def postman(document: dict[str, Any], url: str) -> dict[str, Any]:
    """A Postman collection, version 2.1, with a folder for each tag; `url` is what the paths begin with."""
    requests = list(_requests(document))
    folders = [
        {
            "name": tag["name"],
            "description": tag["description"],
            "item": [_postman_item(request) for request in requests if tag["name"] in request.operation["tags"]],
        }
        for tag in document["tags"]
    ]
    return {
        "info": {
            "name": document["info"]["title"],
            "description": document["info"]["description"],
            "schema": POSTMAN_SCHEMA,
        },
        "auth": {"type": "bearer", "bearer": [_pair("token", _variable(_TOKEN), type="string")]},
        "variable": [_pair(name, value) for name, value in _variables(requests, url).items()],
        "item": folders,
    }


def http_file(document: dict[str, Any], url: str) -> str:
    """A file of requests for the REST clients of editors; `url` is what the paths begin with."""
    requests = list(_requests(document))
    lines = [f"# {document['info']['title']}", ""]
    lines += [f"@{name} = {value}" for name, value in _variables(requests, url).items()]
    for request in requests:
        lines += ["", f"### {request.operation['summary']}", f"# @name {request.operation['operationId']}"]
        optional_texts = [
            f"{parameter['name']}={value}" for parameter, value in request.query if not parameter.get("required")
        ]
        if optional_texts:
            lines.append(f"# It also takes: {'&'.join(optional_texts)}")
        lines.append(f"{request.method} {_variable('baseUrl')}{_path(request, '{{{{{}}}}}')}{_required_query(request)}")
        if request.key_header:
            lines.append(f"{request.key_header}: {_variable(_API_KEY)}")
        elif not request.is_open:
            lines.append(f"Authorization: Bearer {_variable(_TOKEN)}")
        if request.media_type:
            lines.append(f"Content-Type: {request.media_type}")
        if request.is_form:
            lines += ["", "&".join(f"{name}={value}" for name, value in request.example.items())]
        elif request.body is not None:
            lines += ["", request.body]
    return "\n".join(lines) + "\n"


def _requests(document: dict[str, Any]) -> Iterator[_Request]:
    """A request for each operation, with the first media type and example of its body."""
    schemes = document["components"]["securitySchemes"]
    for path, method, item, operation in operations_of(document):
        declared_parameters = [*item.get("parameters", ()), *operation.get("parameters", ())]
        parameters = [resolve(document, parameter) for parameter in declared_parameters]
        contents = resolve(document, operation.get("requestBody", {})).get("content", {})
        media_type, content = next(iter(contents.items()), (None, {}))
        scheme_name = next(iter(operation["security"][0]), None) if operation["security"] else None
        is_key = scheme_name is not None and schemes[scheme_name]["type"] == "apiKey"
        yield _Request(
            operation=operation,
            method=method.upper(),
            path=path,
            path_values={
                parameter["name"]: _value(document, parameter) for parameter in parameters if parameter["in"] == "path"
            },
            query=[(parameter, _value(document, parameter)) for parameter in parameters if parameter["in"] == "query"],
            media_type=media_type,
            example=_example(document, content),
            key_header=schemes[scheme_name]["name"] if is_key and scheme_name else None,
        )


def _postman_item(request: _Request) -> dict[str, Any]:
    """The request as an item of a Postman collection; parameters that may be left out are disabled."""
    path = _path(request, ":{}")
    query = [
        {
            **_pair(parameter["name"], value),
            "description": parameter["description"],
            "disabled": not parameter.get("required", False),
        }
        for parameter, value in request.query
    ]
    postman_request: dict[str, Any] = {
        "method": request.method,
        "description": request.operation["description"],
        "header": [_pair("Content-Type", request.media_type)] if request.media_type else [],
        "url": {
            "raw": f"{_variable('baseUrl')}{path}{_required_query(request)}",
            "host": [_variable("baseUrl")],
            "path": path.strip("/").split("/"),
            "query": query,
            "variable": [_pair(name, _variable(name)) for name in request.path_values],
        },
    }
    if request.key_header:
        key = [_pair("key", request.key_header), _pair("value", _variable(_API_KEY)), _pair("in", "header")]
        postman_request["auth"] = {"type": "apikey", "apikey": key}
    elif request.is_open:
        postman_request["auth"] = {"type": "noauth"}
    if request.is_form:
        postman_request["body"] = {
            "mode": "urlencoded",
            "urlencoded": [_pair(*field) for field in request.example.items()],
        }
    elif request.body is not None:
        language = "text" if request.is_file else "json"
        postman_request["body"] = {"mode": "raw", "raw": request.body, "options": {"raw": {"language": language}}}
    return {"name": request.operation["summary"], "request": postman_request, "response": []}


def _variables(requests: list[_Request], url: str) -> dict[str, str]:
    """The variables and their first values: the address, credentials, and the parameters of paths."""
    variables = {"baseUrl": url, _TOKEN: ""}
    if any(request.key_header for request in requests):
        variables[_API_KEY] = ""
    for request in requests:
        for name, value in request.path_values.items():
            variables.setdefault(name, value)
    return variables


def _path(request: _Request, form: str) -> str:
    """The path with each parameter in the form of a tool: the form `:{}` makes `{memberId}` to `:memberId`."""
    path = request.path
    for name in request.path_values:
        path = path.replace(f"{{{name}}}", form.format(name))
    return path


def _required_query(request: _Request) -> str:
    """The required parameters as a query string with its question mark; empty if there are none."""
    required_texts = [
        f"{parameter['name']}={quote(value, safe=',:')}"
        for parameter, value in request.query
        if parameter.get("required")
    ]
    return f"?{'&'.join(required_texts)}" if required_texts else ""


def _value(document: dict[str, Any], parameter: dict[str, Any]) -> str:
    """The value of a parameter in a request: its example, else its default, else any value of its type."""
    value = _sample_value(parameter, resolve(document, parameter["schema"]))
    if isinstance(value, list):
        return ",".join(str(element) for element in value)
    return json.dumps(value) if isinstance(value, bool) else str(value)


def _sample_value(parameter: dict[str, Any], schema: dict[str, Any]) -> Any:
    """The example of a parameter, else its default, else any value of its type."""
    for place, keyword in ((parameter, "example"), (schema, "example"), (schema, "default")):
        if keyword in place:
            return place[keyword]
    if "enum" in schema:
        return schema["enum"][0]
    return {"integer": 1, "boolean": True}.get(schema["type"], "")


def _example(document: dict[str, Any], content: dict[str, Any]) -> Any:
    if "examples" in content:
        return resolve(document, next(iter(content["examples"].values())))["value"]
    return content.get("example")


def _variable(name: str) -> str:
    return f"{{{{{name}}}}}"


def _pair(key: str, value: Any, **further: str) -> dict[str, Any]:
    return {"key": key, "value": value, **further}
