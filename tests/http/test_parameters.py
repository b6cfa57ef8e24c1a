"""Parameters of paths, queries and headers: types, defaults, faults, and families of parameters."""

from __future__ import annotations

from decimal import Decimal

import pytest

from handlers.messages.validation import DocumentError
from tests.http.support import operation, parameter, serve

INTEGER = {"type": "integer"}
QUERY = [
    parameter("page", {"type": "integer", "minimum": 0, "default": 0}),
    parameter("limit", {"type": "integer", "minimum": 1, "maximum": 100}),
    parameter("small", {"type": "integer", "format": "int32"}),
    parameter("big", INTEGER),
    parameter("amount", {"type": "number", "minimum": 0, "exclusiveMinimum": True}),
    parameter("active", {"type": "boolean"}),
    parameter("name", {"type": "string", "maxLength": 10}),
    parameter("code", {"type": "string", "pattern": "^[a-z]+$"}),
    parameter("since", {"type": "string", "format": "date-time"}),
    parameter("day", {"type": "string", "format": "date"}),
    parameter("key", {"type": "string", "format": "uuid"}),
    parameter("mail", {"type": "string", "format": "email"}),
    parameter("kind", {"$ref": "#/components/schemas/Kind"}),
    parameter("ids", {"type": "array", "items": INTEGER, "maxItems": 3}, explode=False),
    parameter("words", {"type": "array", "items": {"type": "string", "minLength": 1}}, explode=False),
    parameter("tags", {"type": "array", "items": {"type": "string"}}),
    parameter("X-Shop", {"type": "string", "enum": ["a", "b"]}, "header"),
]
PATHS = {
    "/things": {"get": operation("list", parameters=QUERY)},
    "/things/{id}": {"get": operation("get", parameters=[parameter("id", {"type": "integer", "minimum": 1}, "path")])},
    "/needs": {"get": operation("needs", parameters=[parameter("must", {"type": "string"}, required=True)])},
    "/defaults": {
        "get": operation(
            "defaults",
            parameters=[
                parameter("limit", {"type": "integer", "default": 20}),
                parameter("order", {"type": "string", "default": "id,desc"}),
                parameter("none", {"type": "string"}),
            ],
        )
    },
}
SCHEMAS = {"Kind": {"type": "string", "enum": ["small", "large"]}}


@pytest.fixture(scope="module")
def server():
    return serve(PATHS, SCHEMAS)


@pytest.mark.parametrize(
    ("query", "name", "value"),
    [
        ("page=3", "page", 3),
        ("big=-9223372036854775808", "big", -(2**63)),
        ("amount=18446744073709.123456", "amount", Decimal("18446744073709.123456")),
        ("amount=2.0", "amount", 2),
        ("active=true", "active", True),
        ("active=false", "active", False),
        ("name=a+b%2Bc", "name", "a b+c"),
        ("name=", "name", ""),
        ("name=caf%C3%A9", "name", "café"),
        ("since=2024-02-29T10:00:00Z", "since", "2024-02-29T10:00:00Z"),
        ("since=2024-02-29T10:00:00%2B00:00", "since", "2024-02-29T10:00:00+00:00"),
        ("since=2024-02-29T10:00:00.5%2B0000", "since", "2024-02-29T10:00:00.5+0000"),
        ("since=2024-02-29T10:00:00", "since", "2024-02-29T10:00:00"),
        ("day=2024-02-29", "day", "2024-02-29"),
        ("key=a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "key", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
        ("mail=a@example.org", "mail", "a@example.org"),
        ("kind=large", "kind", "large"),
        ("ids=1,2,3", "ids", [1, 2, 3]),
        ("ids=1%2C2", "ids", [1, 2]),
        ("ids=1&ids=2,3", "ids", [1, 2, 3]),
        ("ids=", "ids", []),
        ("words=a,b", "words", ["a", "b"]),
        ("words=a%5C,b", "words", ["a\\", "b"]),
        ("tags=a,b&tags=c", "tags", ["a,b", "c"]),
        ("&&page=1&", "page", 1),
    ],
)
def test_a_query_parameter_reaches_the_handler_in_its_declared_type(server, query, name, value):
    client, recorder = server
    reply = client("GET", f"/v2/things?{query}")
    assert reply.status == 200, reply.content
    handler_value = recorder.last.query[name]
    assert handler_value == value
    assert type(handler_value) is type(value)


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("page=1_0", "page"),
        ("page=%205", "page"),
        ("page=5%20", "page"),
        ("page=5%0A", "page"),
        ("page=+5", "page"),
        ("page=%2B5", "page"),
        ("page=05", "page"),
        ("page=", "page"),
        ("page", "page"),
        ("page=1.0", "page"),
        ("page=1e3", "page"),
        ("page=%D9%A1%D9%A2", "page"),
        ("page=-1", "page"),
        ("page=1&page=2", "page"),
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("small=2147483648", "small"),
        ("big=9223372036854775808", "big"),
        ("big=-9223372036854775809", "big"),
        ("big=" + "9" * 5000, "big"),
        ("amount=0", "amount"),
        ("amount=nan", "amount"),
        ("amount=Infinity", "amount"),
        ("amount=1e999999999999", "amount"),
        ("amount=1_0", "amount"),
        ("amount=.5", "amount"),
        ("amount=" + "9" * 90, "amount"),
        ("active=1", "active"),
        ("active=True", "active"),
        ("active=", "active"),
        ("name=01234567890", "name"),
        ("name=%00", "name"),
        ("name=a%00b", "name"),
        ("name=%FF", "name"),
        ("name=%C0%80", "name"),
        ("name=%ED%A0%80", "name"),
        ("name=50%", "name"),
        ("name=%zz", "name"),
        ("code=abc%0A", "code"),
        ("code=ABC", "code"),
        ("since=yesterday", "since"),
        ("since=2024-02-30T10:00:00Z", "since"),
        ("since=2024-02-29", "since"),
        ("since=2024-02-29T10:00:00+02:00", "since"),  # a plus sign that was not encoded is a space
        ("day=2023-02-29", "day"),
        ("day=0000-01-01", "day"),
        ("key=a0eebc999c0b4ef8bb6d6bb9bd380a11", "key"),
        ("mail=nobody", "mail"),
        ("kind=Large", "kind"),
        ("ids=1,,2", "ids"),
        ("ids=a", "ids"),
        ("ids=1,2,3,4", "ids"),
        ("words=a,,b", "words"),
        ("colour=red", "colour"),
        ("Page=1", "Page"),
        # The fault does not repeat a name that is no valid text.
        ("%00=1", "?"),
        ("%FF=1", "?"),
    ],
)
def test_the_fault_of_a_query_names_the_wrong_parameter(server, query, name):
    client, recorder = server
    requests_before = len(recorder.requests)
    assert list(client("GET", f"/v2/things?{query}").faults()) == [name]
    # The request does not reach the handler.
    assert len(recorder.requests) == requests_before


def test_all_faults_of_a_query_are_reported_at_once(server):
    client, _ = server
    faults = client("GET", "/v2/things?page=x&limit=1000&colour=red&active=yes&ids=1&name=%FF").faults()
    assert set(faults) == {"page", "limit", "colour", "active", "name"}


def test_faults_are_bounded_in_number_and_size(server):
    client, _ = server
    unknown_parameters = "&".join(f"unknown{number}=1" for number in range(300))
    reply = client("GET", f"/v2/things?{unknown_parameters}&{'x' * 3000}=1&name={'y' * 3000}")
    assert len(reply.json["errors"]) == 50
    assert len(reply.content) < 10_000


@pytest.mark.parametrize(
    "segment", ["abc", "1.0", "+1", "0", "01", "%D9%A1", "9" * 30, "9" * 5000, "1%00", "%FF", "1%0A", "%"]
)
def test_a_wrong_path_parameter_is_a_400_that_names_it(server, segment):
    client, _ = server
    assert list(client("GET", f"/v2/things/{segment}").faults()) == ["id"]


def test_absent_parameters_have_their_default_or_are_left_out(server):
    client, recorder = server
    client("GET", "/v2/defaults?limit=5")
    assert recorder.last.query == {"limit": 5, "order": "id,desc"}


def test_a_missing_required_parameter_is_refused_and_an_empty_one_accepted(server):
    client, _ = server
    assert client("GET", "/v2/needs").faults() == {"must": "must is missing."}
    assert client("GET", "/v2/needs?must=").status == 200


def test_a_documented_header_is_checked_and_reaches_the_handler(server):
    client, recorder = server
    assert client("GET", "/v2/things", headers={"X-Shop": "b"}).status == 200
    assert recorder.last.headers["x-shop"] == "b"
    assert set(client("GET", "/v2/things", headers={"X-Shop": "c"}).faults()) == {"x-shop"}


@pytest.mark.parametrize(
    "unsupported_parameter",
    [
        parameter("p", {"enum": ["a"]}),
        parameter("p", {"type": "object"}),
        parameter("p", {"type": "array", "items": {}}),
        parameter("p", {"type": "string"}, "cookie"),
        parameter("p", {"type": "array", "items": {"type": "string"}}, style="pipeDelimited"),
        parameter("p", {"type": "string", "pattern": "(?=a)b"}),
    ],
)
def test_a_parameter_that_cannot_be_served_is_refused_at_start(unsupported_parameter):
    with pytest.raises(DocumentError):
        serve({"/x": {"get": operation("x", parameters=[unsupported_parameter])}})


FAMILY = operation(
    "getFamily",
    parameters=[
        parameter(
            "range",
            {"type": "array", "items": {"type": "string"}},
            style="form",
            explode=False,
            **{"x-parameter-family": "range."},
        )
    ],
)


def test_parameters_of_a_family_reach_the_handler_in_the_order_of_the_query():
    client, recorder = serve({"/books": {"get": FAMILY}})
    assert client("GET", "/v2/books?range.a.min=1&range.b=%C3%A9&range.a.min=2&range=x,y").status == 200
    pairs = [("range.a.min", "1"), ("range.b", "é"), ("range.a.min", "2")]
    assert recorder.last.query == {"range": ["x", "y"], "range.": pairs}
    assert client("GET", "/v2/books").status == 200
    assert recorder.last.query == {}


def test_parameters_of_a_family_are_bounded_in_number_and_size():
    client, _ = serve({"/books": {"get": FAMILY}})
    # At most 50 parameters, each of at most 2000 characters.
    too_many_parameters = "&".join(f"range.{number}=1" for number in range(51))
    faults = client("GET", f"/v2/books?{too_many_parameters}").faults()
    assert faults == {"range.50": "There are more than 50 parameters whose names begin with range."}
    faults = client("GET", f"/v2/books?range.a={'x' * 2001}").faults()
    assert faults == {"range.a": "The value of range.a has more than 2000 characters."}
    # Another name is no parameter of the family.
    assert client("GET", "/v2/books?ranges.a=1").faults().keys() == {"ranges.a"}


def test_the_prefix_of_a_family_must_end_in_a_dot():
    prefix_without_dot = {**FAMILY["parameters"][0], "x-parameter-family": "range"}
    with pytest.raises(DocumentError, match="ends in a dot"):
        serve({"/books": {"get": {**FAMILY, "parameters": [prefix_without_dot]}}})
