"""The header Deprecation of responses to requests that use a deprecated operation, parameter or field."""

from __future__ import annotations

import pytest

from handlers.messages.validation import DocumentError
from tests.http.support import body, operation, parameter, serve

DEPRECATED_2024 = {"deprecated": True, "x-deprecated-at": "2024-01-01"}
DEPRECATED_2020 = {"deprecated": True, "x-deprecated-at": "2020-01-01"}
ITEM = {"type": "object", "properties": {"sku": {"type": "string"}, "code": {"type": "string", **DEPRECATED_2020}}}
SCHEMAS = {
    "Order": {
        "allOf": [
            {
                "type": "object",
                "properties": {"memberId": {"type": "string", **DEPRECATED_2024}, "note": {"type": "string"}},
            },
            {
                "type": "object",
                "properties": {"items": {"type": "array", "items": {"$ref": "#/components/schemas/Item"}}},
            },
        ]
    },
    "Item": ITEM,
}
PATHS = {
    "/orders": {
        "get": operation(
            "list",
            parameters=[
                parameter("page", {"type": "integer", "default": 0}, **DEPRECATED_2024),
                parameter("q", {"type": "string"}),
            ],
        ),
        "post": operation("create", requestBody=body({"$ref": "#/components/schemas/Order"})),
        "put": operation("put", requestBody=body({"type": "array", "items": {"$ref": "#/components/schemas/Item"}})),
        "delete": operation("remove", **DEPRECATED_2020),
    },
}
# The first moments of these years, as seconds since 1970: the parameter `page` and the field `memberId` are deprecated
# since 2024, the operation DELETE and the field `code` since 2020.
AT_2020, AT_2024 = "@1577836800", "@1704067200"


@pytest.fixture(scope="module")
def server():
    return serve(PATHS, SCHEMAS)


@pytest.mark.parametrize(
    ("method", "query", "json_body", "expected_date"),
    [
        pytest.param("GET", "", None, None, id="no parameter"),
        pytest.param("GET", "?q=page", None, None, id="value with the name of a deprecated parameter"),
        pytest.param("GET", "?page=0", None, AT_2024, id="deprecated parameter"),
        pytest.param("DELETE", "", None, AT_2020, id="deprecated operation"),
        pytest.param("POST", "", {"note": "memberId"}, None, id="value with the name of a deprecated field"),
        pytest.param("POST", "", {"memberId": "a"}, AT_2024, id="deprecated field"),
        pytest.param("POST", "", {"items": [{"sku": "a"}]}, None, id="no deprecated field in an item"),
        pytest.param("POST", "", {"items": [{"sku": "a"}, {"code": "b"}]}, AT_2020, id="deprecated field in an item"),
        pytest.param("POST", "", {"memberId": "a", "items": [{"code": "b"}]}, AT_2020, id="two deprecated fields"),
        pytest.param("PUT", "", [{"sku": "a"}], None, id="no deprecated field in a list"),
        pytest.param("PUT", "", [{"sku": "a"}, {"code": "b"}], AT_2020, id="deprecated field in a list"),
    ],
)
def test_the_header_has_the_earliest_date_of_the_deprecated_parts_that_a_request_uses(
    server, method, query, json_body, expected_date
):
    client, _ = server
    reply = client(method, f"/v2/orders{query}", json_body=json_body)
    assert reply.status == 200, reply.content
    assert reply.headers.get("deprecation") == expected_date


def test_a_deprecation_without_a_date_is_refused():
    deprecated_parameter = parameter("p", {"type": "string"}, deprecated=True)
    with pytest.raises(DocumentError, match="x-deprecated-at"):
        serve({"/x": {"get": operation("x", parameters=[deprecated_parameter])}})
