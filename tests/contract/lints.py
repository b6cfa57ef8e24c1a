"""House rules for the documents. Each takes a bundled document and answers its faults in words; none means fine."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import jsonschema_rs

from handlers.messages.faults import PATTERN_FAULT
from handlers.messages.validation import SERVER_PATTERN
from handlers.server.gunicorn_server import LONGEST_REQUEST_LINE
from tests.builders.markdown import DOCS, anchors
from tests.contract import schemas
from tests.contract.documents import (
    Document,
    Documented,
    answered_schemas,
    body_contents,
    callback_contents,
    callbacks,
    operations,
    path_parameters,
    problem_types,
    reached,
    resolve,
    responses,
    texts,
    written_schemas,
)
from tests.contract.request_lines import longest_request_line

Lint = Callable[[Document], list[str]]

# Errors that are answered without a body, as the partner wants it.
BODILESS = {("createPartnerAPaymentIntent", "400")}
# Answered by the token operation of RFC 6749, whose errors have a form of their own.
OAUTH = {"createAccessToken"}
# Written values of any scalar type, bounded by the server.
UNTYPED = {("ActionEffectParam", "value"), ("ItemMatcherCondition", "value")}
# The interface has the name of a path parameter in a query as well.
IN_PATH_AND_QUERY = {("listUsers", "organizationid")}
# Left out of answers for another reason than being an unset object.
LEFT_OUT = {
    # Results are answered again as they were stored, some before these were told.
    ("AppliedEffect", "allocation"),
    ("AppliedEffect", "availableAt"),
    ("AppliedEffect", "coupons"),
    ("AppliedEffect", "discountAmount"),
    ("AppliedEffect", "worth"),
    ("MissionReward", "code"),
    ("MissionReward", "requestedAmount"),
    ("ReferralReward", "code"),
    ("ReferralReward", "requestedPoints"),
    # On request only.
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
# Written parts that null clears, as the interface has it; answers leave them out or have them empty.
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
    "DefaultAvailabilityOrNull",
    "OfflineAllowancePolicyOrNull",
    "PointsExpiringOrNull",
    "RedemptionPolicyOrNull",
    "MissionBadgeMatcherOrNull",
    "MissionExpirationOrNull",
    "PartnerMemberInfoOrNull",
    "RequiredPointsConfigOrNull",
}
# What an operation that can refuse a header Accept answers beside JSON.
FURTHER_TYPES = (("text/csv", "image/svg+xml"), ("text/csv",), ("application/x-ndjson", "text/csv"))
BOUNDS_OF_TEXTS = {"maxLength", "x-max-bytes", "enum"}
BOUNDED_FORMATS = {"uuid", "date", "date-time"}


def described(document: Document) -> list[str]:
    """Every operation has one declared tag, a unique camelCase id, a summary, a description and security."""
    tags = {tag["name"] for tag in document["tags"] if tag.get("description")}
    found = []
    for operation in operations(document):
        name = operation.operation_id
        if len(operation.operation.get("tags", ())) != 1 or operation.operation["tags"][0] not in tags:
            found.append(f"{name}: not exactly one declared tag")
        if not re.fullmatch(r"[a-z]+([A-Z][a-z]*)*", name):
            found.append(f"{name}: not camelCase")
        if not operation.operation.get("summary") or len(operation.operation["summary"]) > 80:
            found.append(f"{name}: no summary of at most 80 characters")
        if len(operation.operation.get("description", "")) < 40:
            found.append(f"{name}: no description")
        if "security" not in operation.operation:
            found.append(f"{name}: no security of its own")
        found += [
            f"{name}: parameter {p['name']} is not described" for p in operation.parameters if not p.get("description")
        ]
    counted = Counter(operation.operation_id for operation in operations(document))
    return found + [f"{name}: {count} times" for name, count in counted.items() if count > 1]


def brief(document: Document) -> list[str]:
    """A description says what the operation does in 60 words, the rules in short lists, and the rest on a page."""
    found = []
    for operation in operations(document):
        text = operation.operation.get("description", "")
        parts = re.split(r"\n\n|\n(?=- )", text)
        items = [part for part in parts if part.startswith("- ")]
        prose = sum(len(part.split()) for part in parts if not part.startswith("- "))
        if prose > 60:
            found.append(f"{operation.operation_id}: {prose} words beside lists, at most 60")
        if len(text.split()) > 160:
            found.append(f"{operation.operation_id}: {len(text.split())} words, at most 160")
        found += [f"{operation.operation_id}: {item[:40]}... is too long for a list" for item in items if _long(item)]
        if re.search(r"^(\||#)", text, re.M):
            found.append(f"{operation.operation_id}: a table or a heading, which belongs on a page")
    return found


def _long(item: str) -> bool:
    return len(item.split()) > 40


def pages(document: Document) -> list[str]:
    """Texts and tags link to pages and headings that the server has; every tag has a page."""
    found = [f"{tag['name']}: no externalDocs" for tag in document["tags"] if "externalDocs" not in tag]
    linked = [((tag["name"],), f"]({tag['externalDocs']['url']})") for tag in document["tags"] if "externalDocs" in tag]
    for place, text in [*texts(document), *linked]:
        for name, _, fragment in re.findall(r"\]\(/docs/([\w/-]+)(#([\w-]+))?\)", text):
            page = DOCS / f"{name}.md"
            if not page.exists() or (fragment and fragment not in anchors(page)):
                found.append(f"{'.'.join(place)}: no page {name}, or no heading {fragment} on it")
    return found


def answers(document: Document) -> list[str]:
    """Every operation documents one success and the problems that can happen, each in its form and with its headers."""
    found = []
    for operation in operations(document):
        answered = responses(document, operation)
        missing = _expected_statuses(document, operation) - answered.keys()
        found += [f"{operation.operation_id}: no {status}" for status in sorted(missing)]
        if "414" in answered and "414" not in _expected_statuses(document, operation):
            found.append(f"{operation.operation_id}: 414, although no request line gets so long")
        if len([status for status in answered if status.startswith("2")]) != 1:
            found.append(f"{operation.operation_id}: not exactly one success")
        for status, response in answered.items():
            found += [
                f"{operation.operation_id} {status}: {fault}" for fault in _response_faults(operation, status, response)
            ]
    return found


def _expected_statuses(document: Document, each: Documented) -> set[str]:
    expected = {"400", "401", "503"}
    if each.operation_id not in OAUTH:
        expected.add("403")
    if path_parameters(each.path):
        expected.add("404")
    if body_contents(document, each):
        expected |= {"413", "415"}
    if longest_request_line(document, each) > LONGEST_REQUEST_LINE:
        expected.add("414")
    return expected


def _response_faults(each: Documented, status: str, response: dict[str, Any]) -> list[str]:
    found = []
    headers = {"X-Request-Id"} | {"401": {"WWW-Authenticate"}, "503": {"Retry-After"}}.get(status, set())
    found += [f"no header {name}" for name in sorted(headers - response.get("headers", {}).keys())]
    content = response.get("content", {})
    if (each.operation_id, status) in BODILESS:
        return [*found, *(["has a body"] if content else [])]
    if status == "304":
        return found + (["a body"] if content else [])
    if status.startswith("2") or (each.operation_id in OAUTH and status in ("400", "401", "403")):
        expected = "application/json"
    else:
        expected = "application/problem+json"
        if content.get(expected, {}).get("schema") != {"$ref": "#/components/schemas/Problem"}:
            found.append("the body is no Problem")
    further = FURTHER_TYPES if status.startswith("2") and "406" in each.operation["responses"] else ((),)
    allowed = [[]] if status == "204" else [[expected, *types] for types in further]
    if list(content) not in allowed:
        found.append(f"content is not exactly {', '.join(allowed[0])}")
    return found


def parameters(document: Document) -> list[str]:
    """Parameters have a type at the top, never object; the path's are declared; names differ in more than case."""
    found = []
    for operation in operations(document):
        declared = {p["name"] for p in operation.parameters if p["in"] == "path"}
        if declared != path_parameters(operation.path):
            found.append(
                f"{operation.operation_id}: path parameters {sorted(declared ^ path_parameters(operation.path))}"
            )
        names = Counter(p["name"].lower() for p in operation.parameters)
        found += [
            f"{operation.operation_id}: {name} twice"
            for name, count in names.items()
            if count > 1 and (operation.operation_id, name) not in IN_PATH_AND_QUERY
        ]
        for parameter in operation.parameters:
            schema = resolve(document, parameter["schema"])
            at = f"{operation.operation_id} {parameter['name']}"
            if schema.get("type") not in ("string", "integer", "number", "boolean", "array"):
                found.append(f"{at}: no scalar or array type")
            if schema.get("type") == "array" and (parameter.get("style"), parameter.get("explode")) != ("form", False):
                found.append(f"{at}: an array that is not comma-separated")
            if schema.get("nullable"):
                found.append(f"{at}: nullable")
    return found


def bounded(document: Document) -> list[str]:
    """What clients write has a bound: strings, arrays, numbers, free objects."""
    found = []
    for place, schema in reached(document, written_schemas(document)):
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
            found.append(f"{'.'.join(place)}: {kind or 'untyped'} without a bound")
    return found


def numbers(document: Document) -> list[str]:
    """Every `number` is a component by itself, which Go reads as text; its name tells people what it is."""
    found = []
    for place, schema in reached(document, written_schemas(document) + answered_schemas(document)):
        at = ".".join(place)
        if schema.get("format") in ("float", "double"):
            found.append(f"{at}: a binary float")
        if schema.get("type") != "number":
            continue
        if len(place) > 1 or place[0] not in document["components"]["schemas"]:
            found.append(f"{at}: a number without a name")
        # The generated code imports encoding/json already; an import of our own would be a second one of that name.
        if schema.get("x-go-type") != "json.Number" or "x-go-type-import" in schema:
            found.append(f"{at}: not just x-go-type: json.Number")
    return found


def closed(document: Document) -> list[str]:
    """Every object says whether it takes other members; only free objects do, which name no required ones."""
    found = []
    for place, schema in reached(document, written_schemas(document) + answered_schemas(document)):
        if schema.get("type") != "object":
            continue
        if "additionalProperties" not in schema:
            found.append(f"{'.'.join(place)}: does not say whether it takes other members")
        elif schema["additionalProperties"] is True and "required" in schema and not place[0].startswith(_OPEN):
            found.append(f"{'.'.join(place)}: takes other members")
        unknown = set(schema.get("required", ())) - schema.get("properties", {}).keys()
        found += [f"{'.'.join(place)}: requires {name}, which it does not describe" for name in sorted(unknown)]
    return found


_OPEN = ("Problem", "ItemProblem")


def complete_records(document: Document) -> list[str]:
    """Answers always carry every member: null, [] or {} when unset; only an unset object with a name is left out.

    And `totalIsExact`, which marks the few lists whose total is not exact.
    """
    found = []
    for place, schema in reached(document, answered_schemas(document)):
        for name in sorted(schema.get("properties", {}).keys() - set(schema.get("required", ()))):
            child = schema["properties"][name]
            is_object = "$ref" in child and resolve(document, child).get("type") == "object"
            if not is_object and (*place, name) not in LEFT_OUT and name != "totalIsExact":
                found.append(f"{'.'.join((*place, name))}: not required")
    return found


def named(document: Document) -> list[str]:
    """Every object with members of its own is a named component, and names suit client generators."""
    components = document["components"]["schemas"]
    found = [f"{name}: not a usable name" for name in components if not re.fullmatch(r"(?!Nullable)[A-Z]\w+", name)]
    folded = Counter(name.lower() for name in components)
    found += [f"{name}: names differ only in case" for name, count in folded.items() if count > 1]
    # In Go, the function that makes a User is called NewUser.
    found += [
        f"New{name}: named like the constructor of {name}"
        for name, schema in components.items()
        if schema.get("type") == "object" and f"New{name}" in components
    ]
    for place, schema in reached(document, written_schemas(document) + answered_schemas(document)):
        if "properties" in schema and (len(place) > 1 or place[0] not in components):
            found.append(f"{'.'.join(place)}: an object without a name")
        members = Counter(name.lower() for name in schema.get("properties", {}))
        found += [
            f"{'.'.join(place)}.{name}: names differ only in case" for name, count in members.items() if count > 1
        ]
        # In Python, code that reads such a field would have one variable for it and for the whole object.
        found += [
            f"{'.'.join(place)}.{name}: named like the object that holds it"
            for name, child in schema.get("properties", {}).items()
            if place[-1].lower() == name.lower() and resolve(document, child).get("type") in ("object", "array")
        ]
        values = Counter(re.sub(r"[^a-z0-9]", "", str(value).lower()) for value in schema.get("enum", ()))
        found += [f"{'.'.join(place)}: {value} is ambiguous" for value, count in values.items() if count > 1]
    return found


def plain_nulls(document: Document) -> list[str]:
    """`nullable` stands beside a scalar type only, or in a named enum that lists null: not on objects, arrays."""
    return [
        f"{'.'.join(place)}: nullable"
        for place, schema in reached(document, written_schemas(document) + answered_schemas(document))
        if schema.get("nullable")
        and not (len(place) == 1 and place[0] in CLEARED)
        and (
            schema.get("type") not in ("string", "integer", "number", "boolean")
            or ("enum" in schema and (len(place) > 1 or None not in schema["enum"]))
        )
    ]


def enumerations(document: Document) -> list[str]:
    """Enums of words are no patterns, those of integers tell names for code, choices between forms have a name."""
    found = []
    for place, schema in reached(document, written_schemas(document) + answered_schemas(document)):
        at = ".".join(place)
        if schema.get("type") == "integer" and "enum" in schema:
            names = schema.get("x-enum-varnames", ())
            if len(set(names)) != len(schema["enum"]) or not all(re.fullmatch(r"([A-Z][a-z]*)+", n) for n in names):
                found.append(f"{at}: not a name for each value")
        if re.fullmatch(r"\^\(\w+(\|\w+)*\)\$", schema.get("pattern", "")):
            found.append(f"{at}: an enum in a pattern")
        if "oneOf" in schema and len(place) > 1:
            found.append(f"{at}: a choice without a name")
    return found


def shared_enumerations(document: Document) -> list[str]:
    """Enums of the same values, and names for them, are one schema; another one may be the same with null."""
    places: dict[tuple[Any, ...], list[str]] = {}

    def look(node: Any, place: str) -> None:
        if isinstance(node, list):
            node = dict(enumerate(node))
        if not isinstance(node, dict):
            return
        values = node.get("enum")
        if isinstance(values, list):
            known = frozenset(value for value in values if value is not None)
            names = tuple(node.get("x-enum-varnames", ()))
            places.setdefault((known, names, None in values), []).append(place)
        for name, child in node.items():
            if name not in ("example", "examples"):
                look(child, f"{place}/{name}")

    look(document, "")
    return [" = ".join(equal) for equal in places.values() if len(equal) > 1]


def defaults(document: Document) -> list[str]:
    """Defaults of fields are told in prose: generators make fields with a `default` required, or send it."""
    return [".".join(place) for place, schema in reached(document, _components(document)) if "default" in schema]


def _components(document: Document) -> list[tuple[tuple[str, ...], dict[str, Any]]]:
    return [((name,), schema) for name, schema in document["components"]["schemas"].items()]


def counts(document: Document) -> list[str]:
    """What is counted in answers is int64."""
    return [
        f"{'.'.join(place)}: not int64"
        for place, schema in reached(document, answered_schemas(document))
        if schema.get("type") == "integer"
        and re.search(r"(Count|^total\w*)$", place[-1])
        and schema.get("format") != "int64"
    ]


def known_problems(document: Document) -> list[str]:
    """The type of a problem lists those of the table, and leaves room for more."""
    schema = document["components"]["schemas"]["ProblemType"]
    listed = schema.get("x-extensible-enum", [])
    found = ["ProblemType: a closed enum"] if "enum" in schema else []
    return found + [f"ProblemType: {name}" for name in set(listed) ^ problem_types(document).keys()]


def patterns(document: Document) -> list[str]:
    """Patterns are anchored and compile as linear-time expressions, as the server compiles them."""
    found = []
    for place, schema in reached(document, written_schemas(document) + answered_schemas(document)):
        if "pattern" not in schema:
            continue
        if not (schema["pattern"].startswith("^") and schema["pattern"].endswith("$")):
            found.append(f"{'.'.join(place)}: not anchored")
        try:
            jsonschema_rs.Draft202012Validator(
                {"type": "string", "pattern": schema["pattern"]}, pattern_options=jsonschema_rs.RegexOptions()
            )
        except (ValueError, jsonschema_rs.ValidationError) as error:
            found.append(f"{'.'.join(place)}: {error}")
    return found


def twins(document: Document) -> list[str]:
    """Operations whose names collide with the twins that generators make of others have names of their own."""
    by_id = {operation.operation_id: operation.operation for operation in operations(document)}
    found = []
    for name in sorted(name for name in by_id if name.removesuffix("Async") in by_id.keys() - {name}):
        pair = [by_id[each].get("x-operation-name") for each in (name.removesuffix("Async"), name)]
        is_apart = None not in pair and pair[1] != f"{pair[0]}Async" and pair[1] not in by_id
        found += [] if is_apart else [f"{name}: is the name of a twin, and has no x-operation-name of its own"]
    return found


# Escapes, groups and classes that only some of ECMA-262, PCRE, RE2 and Ruby read, or read alike.
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
    """Patterns have a meaning in ECMA-262, PCRE, RE2 and Ruby; what the server refuses beyond is told in words."""
    found = []
    parameters = [
        ((operation.operation_id, parameter["name"]), parameter["schema"])
        for operation in operations(document)
        for parameter in operation.parameters
    ]
    for place, schema in reached(document, written_schemas(document) + answered_schemas(document) + parameters):
        pattern = schema.get("pattern", "")
        # Escaped brackets begin and end no class.
        plain = re.sub(r"\\[\[\]]", "_", pattern)
        found += [f"{'.'.join(place)}: {what}" for form, what in UNPORTABLE.items() if re.search(form, plain)]
        if SERVER_PATTERN in schema and not (pattern and PATTERN_FAULT in schema):
            found.append(f"{'.'.join(place)}: {SERVER_PATTERN} without a pattern and {PATTERN_FAULT}")
    return found


def deprecations(document: Document) -> list[str]:
    """What is deprecated says since when, as a quoted date; an operation that has it answers `Deprecation`."""
    found = []

    def walk(node: Any, place: tuple[str, ...]) -> None:
        if isinstance(node, dict):
            since = node.get("x-deprecated-at")
            if node.get("deprecated") is True and not (
                isinstance(since, str) and re.fullmatch(r"\d{4}-\d\d-\d\d", since)
            ):
                found.append(f"{'.'.join(place)}: deprecated since when?")
            for key, child in node.items():
                walk(child, (*place, key))
        elif isinstance(node, list):
            for index, child in enumerate(node):
                walk(child, (*place, str(index)))

    walk(document, ())
    for operation in operations(document):
        body = [
            ((operation.operation_id,), content["schema"]) for content in body_contents(document, operation).values()
        ]
        marked = [p for p in operation.parameters if p.get("deprecated")]
        marked += [schema for _, schema in reached(document, body) if schema.get("deprecated")]
        if marked and "Deprecation" not in responses(document, operation)[operation.success]["headers"]:
            found.append(f"{operation.operation_id}: no header Deprecation")
    return found


def received(document: Document) -> list[str]:
    """Callbacks have a unique id of their own and ask for no token of ours: receivers check the signature."""
    ids = Counter(each.operation_id for each in operations(document))
    ids.update(operation.get("operationId", "") for _, operation in callbacks(document))
    found = []
    for place, operation in callbacks(document):
        name = operation.get("operationId", "")
        if not name.startswith("receive") or ids[name] > 1:
            found.append(f"{'.'.join(place)}: no unique operationId that begins with receive")
        if operation.get("security") != []:
            found.append(f"{'.'.join(place)}: security is not empty")
    return found


def secured(document: Document) -> list[str]:
    """A token is described in both ways, by roles and plainly, so that any client can send one."""
    schemes = document["components"]["securitySchemes"]
    found = [] if schemes["bearerAuth"].get("scheme") == "bearer" else ["bearerAuth: not the scheme bearer"]
    for operation in operations(document):
        names = [name for requirement in operation.operation.get("security", ()) for name in requirement]
        if {"oauth2", "bearerAuth"} & set(names) and [*dict.fromkeys(names)] != ["oauth2", "bearerAuth"]:
            found.append(f"{operation.operation_id}: not exactly oauth2 or bearerAuth")
    return found


def links(document: Document) -> list[str]:
    """Links lead to operations of this document and give every path parameter, from where it can be found."""
    by_id = {operation.operation_id: operation for operation in operations(document)}
    found = []
    for each in by_id.values():
        for name, link in responses(document, each)[each.success].get("links", {}).items():
            at = f"{each.operation_id} -> {name}"
            target = by_id.get(link.get("operationId", ""))
            if target is None or name != target.operation_id:
                found.append(f"{at}: leads nowhere")
                continue
            if set(link.get("parameters", {})) != path_parameters(target.path):
                found.append(f"{at}: does not give exactly the path parameters")
            found += [
                f"{at}: {expression} is not there"
                for expression in link.get("parameters", {}).values()
                if not _is_there(document, each, expression)
            ]
    return found


def _is_there(document: Document, each: Documented, expression: str) -> bool:
    kind, _, rest = expression.partition("#")
    if kind.startswith("$request.path."):
        return kind.removeprefix("$request.path.") in path_parameters(each.path)
    if kind != "$response.body":
        return False
    schema = responses(document, each)[each.success]["content"]["application/json"]["schema"]
    for part in rest.strip("/").split("/"):
        schema = resolve(document, schema)
        if part == "0" and schema.get("minItems", 0) > 0:
            schema = schema["items"]
        elif part in schema.get("required", ()):
            schema = schema["properties"][part]
        else:
            return False
    return True


def followable(document: Document) -> list[str]:
    """What a create answers can be followed: every 201 links to the operations on the new record."""
    created = [
        operation
        for operation in operations(document)
        if operation.success == "201" and operation.operation_id.startswith("create")
    ]
    return [
        f"{each.operation_id}: no links"
        for each in created
        if not responses(document, each)["201"].get("links") and each.operation_id not in WITHOUT_RECORD
    ]


# They create something that no operation addresses.
WITHOUT_RECORD = {"createMemberAccessToken"}


def examples(document: Document) -> list[str]:
    """Bodies and answers have an example, and every example has the form of its schema."""
    found = []
    for operation in operations(document):
        contents = [
            (f"{operation.operation_id} body", content) for content in body_contents(document, operation).values()
        ]
        for status, response in responses(document, operation).items():
            contents += [
                (f"{operation.operation_id} {status}", content) for content in response.get("content", {}).values()
            ]
        for at, content in contents:
            found += _example_faults(document, at, content)
        for parameter in operation.parameters:
            if "example" in parameter:
                wrong = schemas.faults(document, parameter["schema"], parameter["example"])
                found += [f"{operation.operation_id} {parameter['name']}{fault}" for fault in wrong]
    for place, content in callback_contents(document):
        found += _example_faults(document, " ".join(place), content)
    for place, schema in reached(document, written_schemas(document) + answered_schemas(document)):
        for key in ("example", "default"):
            if key in schema:
                found += [f"{'.'.join(place)} {key}{fault}" for fault in schemas.faults(document, schema, schema[key])]
    return found


def _example_faults(document: Document, at: str, content: dict[str, Any]) -> list[str]:
    if "example" not in content:
        return [f"{at}: no example"]
    return [f"{at}{fault}" for fault in schemas.faults(document, content["schema"], content["example"])]


def templates(document: Document) -> list[str]:
    """No text is mistaken for a template by software that renders documents as such."""
    return [".".join(place) for place, text in texts(document) if re.search(r"{[{%#]", text)]


def prose_of_problems(document: Document) -> list[str]:
    """Every problem type that a description names is in the list of problem types."""
    known = problem_types(document)
    return [
        f"{'.'.join(place)}: {slug}"
        for place, text in texts(document)
        for slug in re.findall(r"/problems/[a-z-]+", text)
        if slug not in known
    ]


ALL: tuple[Lint, ...] = (
    described,
    brief,
    pages,
    answers,
    parameters,
    bounded,
    numbers,
    closed,
    complete_records,
    named,
    plain_nulls,
    enumerations,
    shared_enumerations,
    defaults,
    counts,
    known_problems,
    patterns,
    portable_patterns,
    twins,
    deprecations,
    received,
    secured,
    links,
    followable,
    examples,
    templates,
    prose_of_problems,
)
