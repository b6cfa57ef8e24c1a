"""The project's rules for the documents: each function takes a bundled document and returns its faults as texts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import jsonschema_rs

from handlers.messages.faults import PATTERN_FAULT
from handlers.messages.validation import SERVER_PATTERN
from handlers.server.gunicorn_server import MAX_REQUEST_LINE
from tests.builders.markdown import DOCS, anchors
from tests.contract import schemas
from tests.contract.documents import (
    Document,
    DocumentedOperation,
    body_contents,
    callback_contents,
    callbacks,
    operations,
    path_parameters,
    problem_types,
    reachable_schemas,
    request_schemas,
    resolve,
    response_schemas,
    responses,
    texts,
)
from tests.contract.request_lines import longest_request_line

Lint = Callable[[Document], list[str]]

# Error responses that have no body, because the partner requires it.
BODILESS = {("createPartnerAPaymentIntent", "400")}
# The token operation, whose errors have the form of RFC 6749.
OAUTH = {"createAccessToken"}
# Fields of requests that accept any scalar type; the server checks their bounds.
UNTYPED = {("ActionEffectParam", "value"), ("ItemMatcherCondition", "value")}
# The query has a parameter with the name of one of the path.
IN_PATH_AND_QUERY = {("listUsers", "organizationid")}
# Fields that responses may omit, although they are no unset objects.
LEFT_OUT = {
    # Repetitions return the stored results, some of which were stored before these fields existed.
    ("AppliedEffect", "allocation"),
    ("AppliedEffect", "availableAt"),
    ("AppliedEffect", "coupons"),
    ("AppliedEffect", "discountAmount"),
    ("AppliedEffect", "worth"),
    ("MissionReward", "availableAt"),
    ("MissionReward", "code"),
    ("MissionReward", "requestedAmount"),
    ("ReferralReward", "availableAt"),
    ("ReferralReward", "code"),
    ("ReferralReward", "requestedPoints"),
    # Only if the request includes them.
    ("Campaign", "limits"),
    ("ActionEffectParam", "expression"),
    ("ActionEffectParam", "value"),
    ("ActionRules", "expression"),
    ("ActionRules", "node"),
    ("ContentFacetField", "type"),
    ("CouponBookCondition", "expression"),
    ("ItemProblem", "errors"),
    ("ExpirationPolicy", "activities"),
    ("ExpirationPolicy", "rounding"),
    ("Member", "ledgerBalances"),
    ("Member", "tierStatus"),
    ("OAuthError", "error_description"),
    ("OAuthError", "error_uri"),
    ("OAuthError", "type"),
    ("Problem", "errors"),
    ("ProblemFault", "code"),
    ("ProblemFault", "end"),
    ("ProblemFault", "parameter"),
    ("ProblemFault", "pointer"),
    ("ProblemFault", "start"),
    ("PurchaseOrder", "payments"),
    ("TrackResult", "refunds"),
    ("TrackResult", "reverted"),
}
# Parts of requests that null clears; responses omit them, or they are empty there.
CLEARED = {
    "RuleNode",
    "AddressOrNull",
    "CodePatternOrNull",
    "ContentDaysOfWeekOrNull",
    "ContentScheduleOrNull",
    "DayOfWeekScheduleOrNull",
    "FilterWordsOrNull",
    "GovIdOrNull",
    "ItemMatcherOrNull",
    "AvailableOnOrNull",
    "DefaultAvailabilityOrNull",
    "OfflineAllowancePolicyOrNull",
    "PointsExpiringOrNull",
    "RedemptionPolicyOrNull",
    "MissionBadgeMatcherOrNull",
    "MissionExpirationOrNull",
    "PartnerMemberInfoOrNull",
    "RequiredPointsConfigOrNull",
}
# The media types besides JSON of operations that respond with 406 to a header Accept.
FURTHER_TYPES = (("text/csv", "image/svg+xml"), ("text/csv",), ("application/x-ndjson", "text/csv"))
BOUNDS_OF_TEXTS = {"maxLength", "x-max-bytes", "enum"}
BOUNDED_FORMATS = {"uuid", "date", "date-time"}


def described_operations(document: Document) -> list[str]:
    """Every operation has one declared tag, a unique camelCase id, a summary, a description and security."""
    tags = {tag["name"] for tag in document["tags"] if tag.get("description")}
    faults = []
    for operation in operations(document):
        name = operation.operation_id
        if len(operation.operation.get("tags", ())) != 1 or operation.operation["tags"][0] not in tags:
            faults.append(f"{name}: not exactly one declared tag")
        if not re.fullmatch(r"[a-z]+([A-Z][a-z]*)*", name):
            faults.append(f"{name}: not camelCase")
        if not operation.operation.get("summary") or len(operation.operation["summary"]) > 80:
            faults.append(f"{name}: no summary of at most 80 characters")
        if len(operation.operation.get("description", "")) < 40:
            faults.append(f"{name}: no description")
        if "security" not in operation.operation:
            faults.append(f"{name}: no security of its own")
        faults += [
            f"{name}: parameter {parameter['name']} is not described"
            for parameter in operation.parameters
            if not parameter.get("description")
        ]
    counts = Counter(operation.operation_id for operation in operations(document))
    return faults + [f"{name}: {count} times" for name, count in counts.items() if count > 1]


def brief_descriptions(document: Document) -> list[str]:
    """A description has at most 60 words and short lists, and no table or heading; the rest is on a page."""
    faults = []
    for operation in operations(document):
        text = operation.operation.get("description", "")
        parts = re.split(r"\n\n|\n(?=- )", text)
        items = [part for part in parts if part.startswith("- ")]
        prose = sum(len(part.split()) for part in parts if not part.startswith("- "))
        if prose > 60:
            faults.append(f"{operation.operation_id}: {prose} words without lists, at most 60")
        if len(text.split()) > 160:
            faults.append(f"{operation.operation_id}: {len(text.split())} words, at most 160")
        faults += [f"{operation.operation_id}: {item[:40]}... is too long for a list" for item in items if _long(item)]
        if re.search(r"^(\||#)", text, re.M):
            faults.append(f"{operation.operation_id}: a table or a heading, which belongs on a page")
    return faults


def _long(item: str) -> bool:
    return len(item.split()) > 40


def pages(document: Document) -> list[str]:
    """Links in texts lead to pages and headings that exist; every tag links to a page."""
    faults = [f"{tag['name']}: no externalDocs" for tag in document["tags"] if "externalDocs" not in tag]
    linked = [((tag["name"],), f"]({tag['externalDocs']['url']})") for tag in document["tags"] if "externalDocs" in tag]
    for place, text in [*texts(document), *linked]:
        for name, _, fragment in re.findall(r"\]\(/docs/([\w/-]+)(#([\w-]+))?\)", text):
            page = DOCS / f"{name}.md"
            if not page.exists() or (fragment and fragment not in anchors(page)):
                faults.append(f"{'.'.join(place)}: no page {name}, or no heading {fragment} on it")
    return faults


def documented_responses(document: Document) -> list[str]:
    """Every operation documents one success and its possible problems, with their headers and bodies."""
    faults = []
    for operation in operations(document):
        responses_by_status = responses(document, operation)
        missing_statuses = _expected_statuses(document, operation) - responses_by_status.keys()
        faults += [f"{operation.operation_id}: no {status}" for status in sorted(missing_statuses)]
        if "414" in responses_by_status and "414" not in _expected_statuses(document, operation):
            faults.append(f"{operation.operation_id}: 414, although no request line gets so long")
        if len([status for status in responses_by_status if status.startswith("2")]) != 1:
            faults.append(f"{operation.operation_id}: not exactly one success")
        for status, response in responses_by_status.items():
            faults += [
                f"{operation.operation_id} {status}: {fault}" for fault in _response_faults(operation, status, response)
            ]
    return faults


def _expected_statuses(document: Document, operation: DocumentedOperation) -> set[str]:
    """The statuses of the errors that an operation must document."""
    statuses = {"400", "401", "503"}
    if operation.operation_id not in OAUTH:
        statuses.add("403")
    if path_parameters(operation.path):
        statuses.add("404")
    if body_contents(document, operation):
        statuses |= {"413", "415"}
    if longest_request_line(document, operation) > MAX_REQUEST_LINE:
        statuses.add("414")
    return statuses


def _response_faults(operation: DocumentedOperation, status: str, response: dict[str, Any]) -> list[str]:
    faults = []
    headers = {"X-Request-Id"} | {"401": {"WWW-Authenticate"}, "503": {"Retry-After"}}.get(status, set())
    faults += [f"no header {name}" for name in sorted(headers - response.get("headers", {}).keys())]
    content = response.get("content", {})
    if (operation.operation_id, status) in BODILESS:
        return [*faults, *(["has a body"] if content else [])]
    if status == "304":
        return faults + (["a body"] if content else [])
    if status.startswith("2") or (operation.operation_id in OAUTH and status in ("400", "401", "403")):
        media_type = "application/json"
    else:
        media_type = "application/problem+json"
        if content.get(media_type, {}).get("schema") != {"$ref": "#/components/schemas/Problem"}:
            faults.append("the body is no Problem")
    further = FURTHER_TYPES if status.startswith("2") and "406" in operation.operation["responses"] else ((),)
    possible_types = [[]] if status == "204" else [[media_type, *types] for types in further]
    if list(content) not in possible_types:
        faults.append(f"content is not exactly {', '.join(possible_types[0])}")
    return faults


def parameters(document: Document) -> list[str]:
    """Parameters have a scalar or array type; those of the path are declared; names differ in more than case."""
    faults = []
    for operation in operations(document):
        declared_names = {parameter["name"] for parameter in operation.parameters if parameter["in"] == "path"}
        if declared_names != path_parameters(operation.path):
            faults.append(
                f"{operation.operation_id}: path parameters {sorted(declared_names ^ path_parameters(operation.path))}"
            )
        names = Counter(parameter["name"].lower() for parameter in operation.parameters)
        faults += [
            f"{operation.operation_id}: {name} twice"
            for name, count in names.items()
            if count > 1 and (operation.operation_id, name) not in IN_PATH_AND_QUERY
        ]
        for parameter in operation.parameters:
            schema = resolve(document, parameter["schema"])
            at = f"{operation.operation_id} {parameter['name']}"
            if schema.get("type") not in ("string", "integer", "number", "boolean", "array"):
                faults.append(f"{at}: no scalar or array type")
            if schema.get("type") == "array" and (parameter.get("style"), parameter.get("explode")) != ("form", False):
                faults.append(f"{at}: an array that is not comma-separated")
            if schema.get("nullable"):
                faults.append(f"{at}: nullable")
    return faults


def bounded_inputs(document: Document) -> list[str]:
    """Strings, arrays, numbers and free objects of requests are bounded."""
    faults = []
    for place, schema in reachable_schemas(document, request_schemas(document)):
        kind = schema.get("type")
        if kind is None:
            # The forms of a choice are reached themselves.
            bound = place in UNTYPED or bool({"oneOf", "allOf"} & schema.keys())
        elif kind == "string":
            bound = bool(BOUNDS_OF_TEXTS & schema.keys()) or schema.get("format") in BOUNDED_FORMATS
        elif kind == "array":
            bound = "maxItems" in schema
        elif kind == "integer":
            bound = "enum" in schema or schema.get("format") in ("int32", "int64")
        elif kind == "number":
            bound = {"minimum", "maximum"} <= schema.keys()
        elif kind == "object":
            bound = schema.get("additionalProperties") is False or "maxProperties" in schema
        else:
            bound = True
        if not bound:
            faults.append(f"{'.'.join(place)}: {kind or 'untyped'} without a bound")
    return faults


def numbers(document: Document) -> list[str]:
    """Every `number` is a named component, which Go reads as text."""
    faults = []
    for place, schema in reachable_schemas(document, request_schemas(document) + response_schemas(document)):
        at = ".".join(place)
        if schema.get("format") in ("float", "double"):
            faults.append(f"{at}: a binary float")
        if schema.get("type") != "number":
            continue
        if len(place) > 1 or place[0] not in document["components"]["schemas"]:
            faults.append(f"{at}: a number without a name")
        # The generated code imports encoding/json, so x-go-type-import would import it a second time.
        if schema.get("x-go-type") != "json.Number" or "x-go-type-import" in schema:
            faults.append(f"{at}: not just x-go-type: json.Number")
    return faults


def closed_objects(document: Document) -> list[str]:
    """Every object declares whether it allows other fields; an object that allows them requires none."""
    faults = []
    for place, schema in reachable_schemas(document, request_schemas(document) + response_schemas(document)):
        if schema.get("type") != "object":
            continue
        if "additionalProperties" not in schema:
            faults.append(f"{'.'.join(place)}: does not declare whether it allows other fields")
        elif schema["additionalProperties"] is True and "required" in schema and not place[0].startswith(_OPEN):
            faults.append(f"{'.'.join(place)}: allows other fields")
        unknown = set(schema.get("required", ())) - schema.get("properties", {}).keys()
        faults += [f"{'.'.join(place)}: requires {name}, which it does not describe" for name in sorted(unknown)]
    return faults


_OPEN = ("Problem", "ItemProblem")


def complete_records(document: Document) -> list[str]:
    """Responses contain every field: null, [] or {} if it is unset; only an unset object with a name is omitted.

    `totalIsExact` may be omitted, too: it marks the few lists whose total is not exact.
    """
    faults = []
    for place, schema in reachable_schemas(document, response_schemas(document)):
        for name in sorted(schema.get("properties", {}).keys() - set(schema.get("required", ()))):
            child = schema["properties"][name]
            is_object = "$ref" in child and resolve(document, child).get("type") == "object"
            if not is_object and (*place, name) not in LEFT_OUT and name != "totalIsExact":
                faults.append(f"{'.'.join((*place, name))}: not required")
    return faults


def named_objects(document: Document) -> list[str]:
    """Every object with declared fields is a named component, and its names cause no conflict in generated clients."""
    components = document["components"]["schemas"]
    faults = [f"{name}: not a usable name" for name in components if not re.fullmatch(r"(?!Nullable)[A-Z]\w+", name)]
    folded = Counter(name.lower() for name in components)
    faults += [f"{name}: names differ only in case" for name, count in folded.items() if count > 1]
    # In Go, the constructor of a User is called NewUser.
    faults += [
        f"New{name}: named like the constructor of {name}"
        for name, schema in components.items()
        if schema.get("type") == "object" and f"New{name}" in components
    ]
    for place, schema in reachable_schemas(document, request_schemas(document) + response_schemas(document)):
        if "properties" in schema and (len(place) > 1 or place[0] not in components):
            faults.append(f"{'.'.join(place)}: an object without a name")
        members = Counter(name.lower() for name in schema.get("properties", {}))
        faults += [
            f"{'.'.join(place)}.{name}: names differ only in case" for name, count in members.items() if count > 1
        ]
        # In Python, code that reads such a field would have one variable for it and for the whole object.
        faults += [
            f"{'.'.join(place)}.{name}: named like the object that holds it"
            for name, child in schema.get("properties", {}).items()
            if place[-1].lower() == name.lower() and resolve(document, child).get("type") in ("object", "array")
        ]
        values = Counter(re.sub(r"[^a-z0-9]", "", str(value).lower()) for value in schema.get("enum", ()))
        faults += [f"{'.'.join(place)}: {value} is ambiguous" for value, count in values.items() if count > 1]
    return faults


def plain_nulls(document: Document) -> list[str]:
    """`nullable` is only on scalar types, or on a named enum that lists null, and not on objects and arrays."""
    return [
        f"{'.'.join(place)}: nullable"
        for place, schema in reachable_schemas(document, request_schemas(document) + response_schemas(document))
        if schema.get("nullable")
        and not (len(place) == 1 and place[0] in CLEARED)
        and (
            schema.get("type") not in ("string", "integer", "number", "boolean")
            or ("enum" in schema and (len(place) > 1 or None not in schema["enum"]))
        )
    ]


def own_types(document: Document) -> list[str]:
    """A named schema declares its own type and is no `allOf`, from which the generator for Rust makes no type."""
    return [name for name, schema in document["components"]["schemas"].items() if "allOf" in schema]


def enumerations(document: Document) -> list[str]:
    """Enums of words are no patterns; the values of integer enums have names for code; a `oneOf` is a named schema."""
    faults = []
    for place, schema in reachable_schemas(document, request_schemas(document) + response_schemas(document)):
        at = ".".join(place)
        if schema.get("type") == "integer" and "enum" in schema:
            names = schema.get("x-enum-varnames", ())
            if len(set(names)) != len(schema["enum"]) or not all(re.fullmatch(r"([A-Z][a-z]*)+", n) for n in names):
                faults.append(f"{at}: not a name for each value")
        if re.fullmatch(r"\^\(\w+(\|\w+)*\)\$", schema.get("pattern", "")):
            faults.append(f"{at}: an enum in a pattern")
        if "oneOf" in schema and len(place) > 1:
            faults.append(f"{at}: a choice without a name")
    return faults


def shared_enumerations(document: Document) -> list[str]:
    """Two enums with the same values and names are one schema; a second schema may add null."""
    places: dict[tuple[Any, ...], list[str]] = {}

    def look(node: Any, place: str) -> None:
        if isinstance(node, list):
            node = dict(enumerate(node))
        if not isinstance(node, dict):
            return
        values = node.get("enum")
        if isinstance(values, list):
            distinct_values = frozenset(value for value in values if value is not None)
            names = tuple(node.get("x-enum-varnames", ()))
            places.setdefault((distinct_values, names, None in values), []).append(place)
        for name, child in node.items():
            if name not in ("example", "examples"):
                look(child, f"{place}/{name}")

    look(document, "")
    return [" = ".join(equal) for equal in places.values() if len(equal) > 1]


def defaults(document: Document) -> list[str]:
    """Defaults of fields are described in prose: generators make fields with a `default` required, or send it."""
    return [
        ".".join(place) for place, schema in reachable_schemas(document, _components(document)) if "default" in schema
    ]


def _components(document: Document) -> list[tuple[tuple[str, ...], dict[str, Any]]]:
    return [((name,), schema) for name, schema in document["components"]["schemas"].items()]


def counts(document: Document) -> list[str]:
    """Fields named as counts and totals in responses are int64."""
    return [
        f"{'.'.join(place)}: not int64"
        for place, schema in reachable_schemas(document, response_schemas(document))
        if schema.get("type") == "integer"
        and re.search(r"(Count|^total\w*)$", place[-1])
        and schema.get("format") != "int64"
    ]


def known_problems(document: Document) -> list[str]:
    """ProblemType lists exactly the types of the table, and is open for further ones."""
    schema = document["components"]["schemas"]["ProblemType"]
    listed_types = schema.get("x-extensible-enum", [])
    faults = ["ProblemType: a closed enum"] if "enum" in schema else []
    return faults + [f"ProblemType: {name}" for name in set(listed_types) ^ problem_types(document).keys()]


def patterns(document: Document) -> list[str]:
    """Patterns are anchored and compile as linear-time expressions, as the server compiles them."""
    faults = []
    for place, schema in reachable_schemas(document, request_schemas(document) + response_schemas(document)):
        if "pattern" not in schema:
            continue
        if not (schema["pattern"].startswith("^") and schema["pattern"].endswith("$")):
            faults.append(f"{'.'.join(place)}: not anchored")
        try:
            jsonschema_rs.Draft202012Validator(
                {"type": "string", "pattern": schema["pattern"]}, pattern_options=jsonschema_rs.RegexOptions()
            )
        except (ValueError, jsonschema_rs.ValidationError) as error:
            faults.append(f"{'.'.join(place)}: {error}")
    return faults


def twins(document: Document) -> list[str]:
    """An operation with the name of the `...Async` twin that generators add to another one has another name there."""
    by_id = {operation.operation_id: operation.operation for operation in operations(document)}
    faults = []
    for name in sorted(name for name in by_id if name.removesuffix("Async") in by_id.keys() - {name}):
        pair = [by_id[twin].get("x-operation-name") for twin in (name.removesuffix("Async"), name)]
        is_apart = None not in pair and pair[1] != f"{pair[0]}Async" and pair[1] not in by_id
        faults += [] if is_apart else [f"{name}: is the name of a twin, and has no x-operation-name of its own"]
    return faults


# Escapes, groups and classes that ECMA-262, PCRE, RE2 and Ruby do not all read, or read differently.
UNPORTABLE = {
    r"[^\x00-\x7f]": "a character beyond ASCII",
    r"\\u": r"\u",
    r"\\x[^0-7]|\\x.(?![0-9a-f])": r"\x beyond 7f",
    r"\\[^xdwsDWS./\\\]\[(){}+*?|^$-]": "an unusual escape",
    r"\(\?(?!:)": "a group other than (?:",
    r"[*+?}][+]|\{,": "a possessive quantifier or one without a least number",
    r"\[[^\]]*(\[|&&)": "a class with [ or && in it",
    r"\{\d{4,}|,\d{4,}\}": "more than 999 repetitions",
}


def portable_patterns(document: Document) -> list[str]:
    """Patterns mean the same in ECMA-262, PCRE, RE2 and Ruby; stricter ones of the server are described in words."""
    faults = []
    parameters = [
        ((operation.operation_id, parameter["name"]), parameter["schema"])
        for operation in operations(document)
        for parameter in operation.parameters
    ]
    for place, schema in reachable_schemas(
        document, request_schemas(document) + response_schemas(document) + parameters
    ):
        pattern = schema.get("pattern", "")
        # Escaped brackets neither begin nor end a class.
        plain = re.sub(r"\\[\[\]]", "_", pattern)
        faults += [f"{'.'.join(place)}: {what}" for form, what in UNPORTABLE.items() if re.search(form, plain)]
        if SERVER_PATTERN in schema and not (pattern and PATTERN_FAULT in schema):
            faults.append(f"{'.'.join(place)}: {SERVER_PATTERN} without a pattern and {PATTERN_FAULT}")
    return faults


def deprecations(document: Document) -> list[str]:
    """A deprecated part has the date of its deprecation, and its operation responds with the header `Deprecation`."""
    faults = []

    def check(node: Any, place: tuple[str, ...]) -> None:
        if isinstance(node, dict):
            since = node.get("x-deprecated-at")
            if node.get("deprecated") is True and not (
                isinstance(since, str) and re.fullmatch(r"\d{4}-\d\d-\d\d", since)
            ):
                faults.append(f"{'.'.join(place)}: deprecated since when?")
            for key, child in node.items():
                check(child, (*place, key))
        elif isinstance(node, list):
            for index, child in enumerate(node):
                check(child, (*place, str(index)))

    check(document, ())
    for operation in operations(document):
        body = [
            ((operation.operation_id,), content["schema"]) for content in body_contents(document, operation).values()
        ]
        deprecated_parts = [parameter for parameter in operation.parameters if parameter.get("deprecated")]
        deprecated_parts += [schema for _, schema in reachable_schemas(document, body) if schema.get("deprecated")]
        if deprecated_parts and "Deprecation" not in responses(document, operation)[operation.success]["headers"]:
            faults.append(f"{operation.operation_id}: no header Deprecation")
    return faults


def callback_operations(document: Document) -> list[str]:
    """Callbacks have unique ids and require no token: receivers check the signature."""
    ids = Counter(operation.operation_id for operation in operations(document))
    ids.update(operation.get("operationId", "") for _, operation in callbacks(document))
    faults = []
    for place, operation in callbacks(document):
        name = operation.get("operationId", "")
        if not name.startswith("receive") or ids[name] > 1:
            faults.append(f"{'.'.join(place)}: no unique operationId that begins with receive")
        if operation.get("security") != []:
            faults.append(f"{'.'.join(place)}: security is not empty")
    return faults


def secured_operations(document: Document) -> list[str]:
    """Operations with a token declare oauth2 with roles, and bearerAuth for clients that cannot use the former."""
    schemes = document["components"]["securitySchemes"]
    faults = [] if schemes["bearerAuth"].get("scheme") == "bearer" else ["bearerAuth: not the scheme bearer"]
    for operation in operations(document):
        names = [name for requirement in operation.operation.get("security", ()) for name in requirement]
        if {"oauth2", "bearerAuth"} & set(names) and [*dict.fromkeys(names)] != ["oauth2", "bearerAuth"]:
            faults.append(f"{operation.operation_id}: not exactly oauth2 or bearerAuth")
    return faults


def links(document: Document) -> list[str]:
    """Links lead to operations of the document, and give every path parameter from an existing field or parameter."""
    by_id = {operation.operation_id: operation for operation in operations(document)}
    faults = []
    for source in by_id.values():
        for name, link in responses(document, source)[source.success].get("links", {}).items():
            at = f"{source.operation_id} -> {name}"
            target = by_id.get(link.get("operationId", ""))
            if target is None or name != target.operation_id:
                faults.append(f"{at}: leads nowhere")
                continue
            if set(link.get("parameters", {})) != path_parameters(target.path):
                faults.append(f"{at}: does not give exactly the path parameters")
            faults += [
                f"{at}: {expression} is not there"
                for expression in link.get("parameters", {}).values()
                if not _is_there(document, source, expression)
            ]
    return faults


def _is_there(document: Document, source: DocumentedOperation, expression: str) -> bool:
    kind, _, rest = expression.partition("#")
    if kind.startswith("$request.path."):
        return kind.removeprefix("$request.path.") in path_parameters(source.path)
    if kind != "$response.body":
        return False
    schema = responses(document, source)[source.success]["content"]["application/json"]["schema"]
    for part in rest.strip("/").split("/"):
        schema = resolve(document, schema)
        if part == "0" and schema.get("minItems", 0) > 0:
            schema = schema["items"]
        elif part in schema.get("required", ()):
            schema = schema["properties"][part]
        else:
            return False
    return True


def followable_creations(document: Document) -> list[str]:
    """Every 201 of a create operation links to operations on the new record."""
    create_operations = [
        operation
        for operation in operations(document)
        if operation.success == "201" and operation.operation_id.startswith("create")
    ]
    return [
        f"{operation.operation_id}: no links"
        for operation in create_operations
        if not responses(document, operation)["201"].get("links") and operation.operation_id not in WITHOUT_RECORD
    ]


# Operations that create something that no operation addresses.
WITHOUT_RECORD = {"createMemberAccessToken"}


def examples(document: Document) -> list[str]:
    """Bodies and responses have an example, and every example is valid by its schema."""
    faults = []
    for operation in operations(document):
        contents = [
            (f"{operation.operation_id} body", content) for content in body_contents(document, operation).values()
        ]
        for status, response in responses(document, operation).items():
            contents += [
                (f"{operation.operation_id} {status}", content) for content in response.get("content", {}).values()
            ]
        for at, content in contents:
            faults += _example_faults(document, at, content)
        for parameter in operation.parameters:
            if "example" in parameter:
                wrong = schemas.faults(document, parameter["schema"], parameter["example"])
                faults += [f"{operation.operation_id} {parameter['name']}{fault}" for fault in wrong]
    for place, content in callback_contents(document):
        faults += _example_faults(document, " ".join(place), content)
    for place, schema in reachable_schemas(document, request_schemas(document) + response_schemas(document)):
        for key in ("example", "default"):
            if key in schema:
                faults += [f"{'.'.join(place)} {key}{fault}" for fault in schemas.faults(document, schema, schema[key])]
    return faults


def _example_faults(document: Document, at: str, content: dict[str, Any]) -> list[str]:
    if "example" not in content:
        return [f"{at}: no example"]
    return [f"{at}{fault}" for fault in schemas.faults(document, content["schema"], content["example"])]


def templates(document: Document) -> list[str]:
    """No text contains template syntax, which some software would render."""
    return [".".join(place) for place, text in texts(document) if re.search(r"{[{%#]", text)]


def prose_of_problems(document: Document) -> list[str]:
    """Every problem type in a text is in the list of problem types."""
    existing_types = problem_types(document)
    return [
        f"{'.'.join(place)}: {slug}"
        for place, text in texts(document)
        for slug in re.findall(r"/problems/[a-z-]+", text)
        if slug not in existing_types
    ]


ALL: tuple[Lint, ...] = (
    described_operations,
    brief_descriptions,
    pages,
    documented_responses,
    parameters,
    bounded_inputs,
    numbers,
    closed_objects,
    complete_records,
    named_objects,
    plain_nulls,
    own_types,
    enumerations,
    shared_enumerations,
    defaults,
    counts,
    known_problems,
    patterns,
    portable_patterns,
    twins,
    deprecations,
    callback_operations,
    secured_operations,
    links,
    followable_creations,
    examples,
    templates,
    prose_of_problems,
)
