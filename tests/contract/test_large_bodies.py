"""Large refused bodies: the error of `jsonschema-rs` has few of their values, and is the one of the whole body."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

import openapi
from handlers.messages.faults import Explainer
from handlers.messages.shortening import Shortener
from handlers.messages.validation import Schemas, is_too_large_for_all_errors

JSON = "application/json"
LARGE_VALUES: Mapping[str, Any] = {
    "different objects": [{"": {"n": n}} for n in range(700)],
    "equal lists": [[1]] * 1_100,
    "fields": {f"f{n}": {"n": n} for n in range(1_100)},
}


def operations() -> Iterator[Any]:
    """A case for each JSON body of a request: its surface, schema and example."""
    for surface in openapi.SURFACES:
        document = openapi.bundle(surface)
        for item in document["paths"].values():
            for operation in item.values():
                content = operation.get("requestBody", {}).get("content", {}) if isinstance(operation, dict) else {}
                if JSON in content:
                    case_id = f"{surface}-{operation['operationId']}"
                    yield pytest.param(surface, content[JSON]["schema"], content[JSON]["example"], id=case_id)


def with_value_anywhere(body: Any, large: Any) -> Iterator[Any]:
    """The body with the large value in the place of each of its values, and as one more field or item."""
    yield large
    if isinstance(body, dict):
        yield {"unknown": large, **body}
        yield {**body, "unknown": large}
        for name, value in body.items():
            # The unknown field is the first fault if the schema accepts the large value.
            yield from ({**body, name: new_value, "unknown": 1} for new_value in with_value_anywhere(value, large))
    elif isinstance(body, list):
        yield [*body, large]
        if body:
            yield from ([new_value, *body[1:]] for new_value in with_value_anywhere(body[0], large))


@pytest.fixture(scope="module")
def schemas() -> Mapping[str, Schemas]:
    return {surface: Schemas(surface, openapi.bundle(surface)) for surface in openapi.SURFACES}


@pytest.mark.parametrize(("surface", "schema", "example"), list(operations()))
def test_the_error_of_a_large_body_has_few_values_and_the_first_fault(
    schemas: Mapping[str, Schemas], monkeypatch: pytest.MonkeyPatch, surface: str, schema: Any, example: Any
) -> None:
    validator = schemas[surface].validator(schema)
    errors: list[Any] = []
    explain = Explainer.explain

    def record_and_explain(explainer: Explainer, error: Any) -> Any:
        errors.append(error)
        return explain(explainer, error)

    monkeypatch.setattr(Explainer, "explain", record_and_explain)
    for large_value in LARGE_VALUES.values():
        for body in with_value_anywhere(example, large_value):
            if not validator.accepts(body):
                errors.clear()
                faults = validator.faults(body)
                assert not is_too_large_for_all_errors(errors[0].instance), faults
                # The same faults are found without shortening the body.
                with monkeypatch.context() as patch:
                    patch.setattr(Shortener, "shorten", lambda self, value, schema: value)
                    assert validator.faults(body) == faults
