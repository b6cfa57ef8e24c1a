"""The operations of both interfaces that read, and simulation, as tools for assistants."""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import openapi

SIMULATE = "simulateEvents"
_TRACK_ROLE = "orders:write"
# POST operations that change nothing.
_READS_BY_POST = frozenset(
    {
        "batchGetMembers",
        "checkMembersExist",
        "checkMemberAudiences",
        "parseExpressions",
        "formatExpressions",
        "simulate",
    }
)
_SCHEMA_KEYWORDS = ("type", "enum", "format", "minimum", "maximum", "minLength", "maxLength", "pattern", "default")
_SIMULATION = """Return what events would do, without changing anything: `trackEvents` with the execution mode `dryRun`.
`explain` returns for each campaign whether it applies, and if not, why. A purchase has the event type
`member-purchase-order-created` and a payload such as {"order": {"externalId": "1", "total": 64.55}}."""


@dataclass(frozen=True, slots=True)
class AssistantTool:
    """One operation as a tool; `input_schema` is the JSON Schema of its arguments, `role` the one that a call needs."""

    name: str
    tag: str
    description: str
    input_schema: Mapping[str, Any]
    role: str
    method: str
    path: str
    query: frozenset[str]

    def request(self, arguments: Mapping[str, Any], organization_id: int) -> tuple[str, dict[str, Any], Any]:
        """The path, the query and the body of a call. Raises ValueError for arguments that are missing or unknown."""
        properties = self.input_schema["properties"]
        unknown_names = [name for name in arguments if name not in properties]
        missing_names = [name for name in self.input_schema["required"] if name not in arguments]
        if unknown_names or missing_names:
            raise ValueError(_faults_of_arguments(unknown_names, missing_names))
        path = self.path.replace("{organizationId}", str(organization_id))
        for name, value in arguments.items():
            path = path.replace(f"{{{name}}}", quote(str(value), safe=""))
        query = {name: _query_text(value) for name, value in arguments.items() if name in self.query}
        if self.name == SIMULATE:
            events = [_with_key(event) for event in arguments["events"]]
            return path, query, {**arguments, "events": events, "executionMode": "dryRun"}
        return path, query, arguments.get("body")


def _with_key(event: Mapping[str, Any]) -> dict[str, Any]:
    """An event to simulate, with a new key, as every event needs one; a dry run does not store the key."""
    return {"systemUniqueKey": f"simulation-{uuid.uuid4()}", **event}


def tools(tags: Sequence[str] = ()) -> list[AssistantTool]:
    """All tools, or those of `tags`; tools of the administration get a prefix if the integration has the same name."""
    all_tools = [_simulation()]
    for surface in openapi.SURFACES:
        names = {tool.name for tool in all_tools}
        all_tools.extend(_tools_of(openapi.bundle(surface), names))
    return [tool for tool in all_tools if not tags or tool.tag in tags]


def _tools_of(document: Mapping[str, Any], existing_names: set[str]) -> Iterator[AssistantTool]:
    """The tools of an OpenAPI document; names among `existing_names` get a prefix."""
    for path, method, item, operation in openapi.operations_of(document):
        if _is_read(method, operation):
            name = operation["operationId"]
            parameters = [
                openapi.resolve(document, parameter)
                for parameter in (*item.get("parameters", ()), *operation.get("parameters", ()))
            ]
            # The command fills in the organization.
            arguments = [
                parameter
                for parameter in parameters
                if parameter["name"] != "organizationId" and parameter["in"] in ("path", "query")
            ]
            properties = {parameter["name"]: _argument_schema(document, parameter) for parameter in arguments}
            required_names = [parameter["name"] for parameter in arguments if parameter.get("required")]
            if method == "post":
                properties["body"] = {"type": "object", "description": _body_description(operation)}
                required_names.append("body")
            yield AssistantTool(
                name=f"administration_{name}" if name in existing_names else name,
                tag=operation["tags"][0],
                description=f"{operation['summary']}. {operation['description'].strip()}",
                input_schema={
                    "type": "object",
                    "properties": properties,
                    "required": required_names,
                    "additionalProperties": False,
                },
                role=operation["security"][0]["oauth2"][0],
                method=method.upper(),
                path=path,
                query=frozenset(parameter["name"] for parameter in arguments if parameter["in"] == "query"),
            )


def _simulation() -> AssistantTool:
    """The tool that simulates events: `trackEvents` as a dry run."""
    events = {
        "type": "array",
        "minItems": 1,
        "maxItems": 100,
        "items": {"type": "object", "required": ["loyaltyMemberId", "eventType"]},
        "description": "Each has `loyaltyMemberId`, `eventType` and `payload`, and may have `externalEventDate`.",
    }
    moment = {"type": "string", "format": "date-time", "description": "Another moment to ask about; now unless given."}
    return AssistantTool(
        name=SIMULATE,
        tag="events",
        description=_SIMULATION,
        input_schema={
            "type": "object",
            "properties": {"events": events, "now": moment},
            "required": ["events"],
            "additionalProperties": False,
        },
        role=_TRACK_ROLE,
        method="POST",
        path="/events/track",
        query=frozenset(),
    )


def _is_read(method: str, operation: Mapping[str, Any]) -> bool:
    """True for an operation that changes nothing and that the token of a user may call."""
    roles: Sequence[str] = operation["security"][0].get("oauth2", ()) if operation["security"] else ()
    is_for_users = len(roles) == 1 and ":" in roles[0]
    return is_for_users and (method == "get" or operation["operationId"] in _READS_BY_POST)


def _argument_schema(document: Mapping[str, Any], parameter: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON Schema of an argument, from a parameter of the operation."""
    schema = openapi.resolve(document, parameter["schema"])
    schema_of_argument = {name: schema[name] for name in _SCHEMA_KEYWORDS if name in schema}
    if "items" in schema:
        items = openapi.resolve(document, schema["items"])
        schema_of_argument["items"] = {name: items[name] for name in _SCHEMA_KEYWORDS if name in items}
    return {**schema_of_argument, "description": parameter.get("description", "")}


def _body_description(operation: Mapping[str, Any]) -> str:
    content = operation["requestBody"]["content"]["application/json"]
    return f"The body, such as {content['example']}"


def _query_text(value: Any) -> str:
    """The text of a value in a query."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value)


def _faults_of_arguments(unknown_names: Sequence[str], missing_names: Sequence[str]) -> str:
    """The text about the arguments of a call that are unknown or missing."""
    faults = [f"The tool has no arguments {', '.join(unknown_names)}."] if unknown_names else []
    faults += [f"The call lacks the arguments {', '.join(missing_names)}."] if missing_names else []
    return " ".join(faults)
