"""The documents follow the project's rules, and each rule reports a document that breaks it."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

import openapi
from tests.contract import lints
from tests.contract.documents import Document, DocumentedOperation, callbacks, operations


@pytest.mark.parametrize("surface", openapi.SURFACES)
@pytest.mark.parametrize("lint", lints.ALL, ids=lambda lint: lint.__name__)
def test_the_document_has_no_fault_of_the_lint(lint: lints.Lint, surface: str) -> None:
    assert lint(openapi.bundle(surface)) == []


def _operation(document: Document, operation_id: str) -> DocumentedOperation:
    return next(operation for operation in operations(document) if operation.operation_id == operation_id)


def _schema(document: Document, name: str) -> dict[str, Any]:
    return document["components"]["schemas"][name]


def _receiver(document: Document) -> dict[str, Any]:
    """The operation of a receiver of messages about events."""
    return dict(callbacks(document))["createTrigger", "event"]


def _success(document: Document, operation_id: str) -> dict[str, Any]:
    """The response with which the operation succeeds."""
    operation = _operation(document, operation_id)
    return operation.operation["responses"][operation.success]


def _add_parameter(document: Document, *, name: str, schema: dict[str, Any], place: str = "query") -> None:
    """Add a parameter to `listCampaigns`."""
    parameter = {"name": name, "in": place, "description": "x", "schema": schema}
    _operation(document, "listCampaigns").operation["parameters"].append(parameter)


# The rule that has to report a fault, and a change that makes the fault.
BREAKS = [
    ("described_operations", lambda d: _operation(d, "getTier").operation.update(summary="")),
    ("described_operations", lambda d: _operation(d, "getTier").operation.update(description="short")),
    ("described_operations", lambda d: _operation(d, "getTier").operation.update(tags=["nothing"])),
    ("described_operations", lambda d: _operation(d, "getTier").operation.update(operationId="getMember")),
    ("described_operations", lambda d: _operation(d, "getTier").operation.update(operationId="get_tier")),
    ("described_operations", lambda d: _operation(d, "getTier").operation.pop("security")),
    ("brief_descriptions", lambda d: _operation(d, "getTier").operation.update(description="word " * 61)),
    ("brief_descriptions", lambda d: _operation(d, "getTier").operation.update(description="- " + "word " * 40)),
    ("brief_descriptions", lambda d: _operation(d, "getTier").operation.update(description="- a word\n" * 54)),
    (
        "brief_descriptions",
        lambda d: _operation(d, "getTier").operation.update(description="A:\n\n| a |\n|---|\n| b |"),
    ),
    ("pages", lambda d: _operation(d, "getTier").operation.update(description="See [Tiers](/docs/steps).")),
    ("pages", lambda d: _operation(d, "getTier").operation.update(description="See [Tiers](/docs/events#steps).")),
    ("pages", lambda d: d["tags"][0].pop("externalDocs")),
    ("pages", lambda d: d["tags"][0].update(externalDocs={"url": "/docs/steps"})),
    ("documented_responses", lambda d: _operation(d, "getTier").operation["responses"].pop("404")),
    ("documented_responses", lambda d: _operation(d, "createTier").operation["responses"].pop("415")),
    (
        "documented_responses",
        lambda d: d["components"]["responses"]["Unauthenticated"]["headers"].pop("WWW-Authenticate"),
    ),
    ("documented_responses", lambda d: _success(d, "getTier").update(headers={})),
    ("documented_responses", lambda d: d["components"]["responses"]["Conflict"].update(content={})),
    ("parameters", lambda d: _add_parameter(d, name="filter", schema={"type": "object"})),
    ("parameters", lambda d: _add_parameter(d, name="filter", schema={"enum": ["a"]})),
    ("parameters", lambda d: _add_parameter(d, name="Page", schema={"type": "integer"})),
    ("parameters", lambda d: _add_parameter(d, name="ids", schema={"type": "array", "items": {"type": "string"}})),
    ("parameters", lambda d: _add_parameter(d, name="campaignId", schema={"type": "integer"}, place="path")),
    ("bounded_inputs", lambda d: _schema(d, "Name").pop("maxLength")),
    ("bounded_inputs", lambda d: _schema(d, "Tags").pop("maxItems")),
    ("bounded_inputs", lambda d: _schema(d, "Amount").pop("maximum")),
    ("bounded_inputs", lambda d: _schema(d, "CustomAttributes").pop("maxProperties")),
    ("numbers", lambda d: _schema(d, "LoyaltyTierBody")["properties"].update(points={"type": "number"})),
    ("numbers", lambda d: _schema(d, "Amount").pop("x-go-type")),
    ("numbers", lambda d: _schema(d, "Amount").update({"x-go-type-import": {"path": "encoding/json"}})),
    ("numbers", lambda d: _schema(d, "Amount").update(format="double")),
    ("closed_objects", lambda d: _schema(d, "LoyaltyTierBody").pop("additionalProperties")),
    ("closed_objects", lambda d: _schema(d, "LoyaltyTierBody").update(additionalProperties=True)),
    ("closed_objects", lambda d: _schema(d, "LoyaltyTier")["required"].append("colour")),
    ("complete_records", lambda d: _schema(d, "LoyaltyTier")["required"].remove("pictureUrl")),
    (
        "named_objects",
        lambda d: _schema(d, "LoyaltyTier")["properties"].update(extra={"type": "object", "properties": {}}),
    ),
    ("named_objects", lambda d: _schema(d, "LoyaltyTier")["properties"].update(Name={"type": "string"})),
    ("named_objects", lambda d: _schema(d, "LoyaltyTier")["properties"].update(loyaltyTier={"type": "object"})),
    ("named_objects", lambda d: _schema(d, "ActionStatus")["enum"].append("Dra-ft")),
    ("named_objects", lambda d: d["components"]["schemas"].update(NullableTier={"type": "string"})),
    ("named_objects", lambda d: d["components"]["schemas"].update(NewLoyaltyTier={"type": "object"})),
    ("plain_nulls", lambda d: _schema(d, "ActionStatus").update(nullable=True)),
    ("plain_nulls", lambda d: _schema(d, "Tags").update(nullable=True)),
    (
        "own_types",
        lambda d: d["components"]["schemas"].update(Label={"allOf": [{"$ref": "#/components/schemas/Name"}]}),
    ),
    ("enumerations", lambda d: _schema(d, "LedgerTransaction")["properties"]["status"].pop("x-enum-varnames")),
    ("enumerations", lambda d: _schema(d, "Tags").update(items={"oneOf": [{"type": "string"}]})),
    ("enumerations", lambda d: _schema(d, "Tag").update(pattern="^(old|new)$")),
    ("shared_enumerations", lambda d: _schema(d, "Name").update(enum=_schema(d, "ActionStatus")["enum"])),
    ("defaults", lambda d: _schema(d, "Name").update(default="x")),
    ("counts", lambda d: _schema(d, "TotalCount").update(format="int32")),
    ("known_problems", lambda d: _schema(d, "ProblemType")["x-extensible-enum"].pop()),
    ("known_problems", lambda d: _schema(d, "ProblemType").update(enum=["/problems/not-found"])),
    ("patterns", lambda d: _schema(d, "Tag").update(pattern="^(?!x)[^,]+$")),
    ("patterns", lambda d: _schema(d, "Tag").update(pattern="[^,]+")),
    ("deprecations", lambda d: d["components"]["parameters"]["DeprecatedPage"].pop("x-deprecated-at")),
    ("deprecations", lambda d: _success(d, "listTiers")["headers"].pop("Deprecation")),
    ("callback_operations", lambda d: _receiver(d).pop("operationId")),
    ("callback_operations", lambda d: _receiver(d).update(operationId="receiveNotification")),
    ("callback_operations", lambda d: _receiver(d).pop("security")),
    ("secured_operations", lambda d: _operation(d, "getTier").operation.update(security=[{"bearerAuth": []}])),
    ("secured_operations", lambda d: _operation(d, "getTier").operation["security"].pop()),
    ("secured_operations", lambda d: d["components"]["securitySchemes"]["bearerAuth"].update(scheme="basic")),
    ("links", lambda d: _success(d, "createTier")["links"]["getTier"].update(operationId="getTears")),
    ("links", lambda d: _success(d, "createTier")["links"]["getTier"]["parameters"].pop("loyaltyTierId")),
    (
        "links",
        lambda d: _success(d, "createTier")["links"]["getTier"]["parameters"].update(
            loyaltyTierId="$response.body#/tier/id"
        ),
    ),
    ("followable_creations", lambda d: _success(d, "createTier").pop("links")),
    ("examples", lambda d: _success(d, "getTier")["content"]["application/json"].pop("example")),
    ("examples", lambda d: _success(d, "getTier")["content"]["application/json"]["example"]["tier"].pop("name")),
    ("examples", lambda d: d["components"]["parameters"]["LoyaltyTierOrder"].update(example="colour,asc")),
    ("templates", lambda d: _operation(d, "getTier").operation.update(description="{{ 7 * 7 }}")),
    ("portable_patterns", lambda d: _schema(d, "NewLoyaltyMemberId").update(pattern=r"^\u0041$")),
    ("portable_patterns", lambda d: _schema(d, "NewLoyaltyMemberId").update(pattern=r"^\x80$")),
    ("portable_patterns", lambda d: _schema(d, "NewLoyaltyMemberId").update(pattern="^(?=a)a$")),
    ("portable_patterns", lambda d: _schema(d, "NewLoyaltyMemberId").pop("x-pattern-fault")),
    ("portable_patterns", lambda d: _add_parameter(d, name="x", schema={"type": "string", "pattern": r"^\u0041$"})),
    ("twins", lambda d: _operation(d, "getTier").operation.update(operationId="getMemberAsync")),
    ("prose_of_problems", lambda d: _operation(d, "getTier").operation.update(description="`/problems/no-luck`")),
]


@pytest.mark.parametrize(("rule", "break_it"), BREAKS, ids=[f"{n}-{rule}" for n, (rule, _) in enumerate(BREAKS)])
def test_a_rule_reports_a_document_that_breaks_it(rule: str, break_it: Any) -> None:
    document = deepcopy(openapi.bundle("administration"))
    break_it(document)
    assert getattr(lints, rule)(document) != []


def test_every_rule_has_a_change_that_breaks_it() -> None:
    assert {rule for rule, _ in BREAKS} == {lint.__name__ for lint in lints.ALL}
