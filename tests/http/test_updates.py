"""Every operation that changes a record: a missing field keeps its value, null clears it, on both surfaces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest

import openapi
from tests.builders.api import Organization
from tests.builders.updates import MAKERS, Changeable, changeable
from tests.contract.documents import DocumentedOperation, body_contents, operations, resolve

# Operations that are not tested here, by surface:operationId, with the reason.
OTHERS = {
    "administration:updateMaxSupply": "without maxSupply the supply is unlimited",
    "integration:setMemberTier": "without a tier it is unassigned",
    "administration:setMemberTier": "without a tier it is unassigned",
    "administration:setMemberTierByLoyaltyMemberId": "without a tier it is unassigned",
    "integration:updateCouponBookStatus": "has one required field",
    "administration:updateCouponCode": "has one required field",
    "administration:updateAudienceMembers": "adds and removes members",
    "administration:setUserPermissions": "tested with the users",
    "administration:resetUserPassword": "sets only a password",
    "administration:uploadImportPart": "its body is a file",
}
# Parts that are changed field by field, by their dotted names.
FIELD_BY_FIELD = frozenset({"profile", "profile.govId", "profile.address", "notifications", "settings"})
# Fields that every update changes.
NOT_COMPARED = frozenset({"updatedAt", "version", "campaignVersionId"})
# Fields of bodies that are about the request and not stored from it.
OF_REQUEST = frozenset({"campaignVersionId"})


@cache
def updates() -> Mapping[str, tuple[dict[str, Any], DocumentedOperation]]:
    """The operations by PUT and PATCH, by surface and operationId, each with its document."""
    by_name = {}
    for surface in openapi.SURFACES:
        document = openapi.bundle(surface)
        for operation in operations(document):
            if operation.method in ("put", "patch"):
                by_name[f"{surface}:{operation.operation_id}"] = (document, operation)
    return by_name


def schema_of(operation: str) -> Mapping[str, Any]:
    """The schema of the operation's JSON body."""
    document, operation_in_document = updates()[operation]
    return resolve(document, body_contents(document, operation_in_document)["application/json"]["schema"])


def fields_of(operation: str, schema: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(dotted name, schema) of the fields of a body, also inside parts that are changed field by field."""
    document, _ = updates()[operation]
    for name, reference in schema["properties"].items():
        field_schema = resolve(document, reference)
        for part in field_schema.get("allOf", ()):
            field_schema = {**resolve(document, part), **field_schema}
        yield f"{prefix}{name}", field_schema
        if f"{prefix}{name}" in FIELD_BY_FIELD:
            yield from fields_of(operation, field_schema, f"{prefix}{name}.")


def in_object(name: str, value: Any) -> dict[str, Any]:
    """A body that has the value at a dotted name and nothing else."""
    for part in reversed(name.split(".")):
        value = {part: value}
    return value


def value_at(record: Any, name: str) -> Any:
    """The value at a dotted name, or None."""
    for part in name.split("."):
        record = record.get(part) if isinstance(record, Mapping) else None
    return record


def merge(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of both bodies, also inside objects; those of the second replace the others."""
    merged_body = dict(first)
    for name, value in second.items():
        value_of_first = merged_body.get(name)
        are_objects = isinstance(value_of_first, Mapping) and isinstance(value, Mapping)
        merged_body[name] = merge(value_of_first, value) if are_objects else value
    return merged_body


def without(record: Any, names: frozenset[str], prefix: str = "") -> Any:
    """A record without empty fields and without the fields of these dotted names, to be compared."""
    if not isinstance(record, Mapping):
        return record
    fields = {name: without(value, names, f"{prefix}{name}.") for name, value in record.items()}
    return {name: value for name, value in fields.items() if value not in (None, [], {}) and prefix + name not in names}


class Client:
    """Sends updates of one record and reads it."""

    def __init__(self, organization: Organization, operation: str, record: Changeable) -> None:
        self._surface = getattr(organization, operation.partition(":")[0])
        self._method = updates()[operation][1].method.upper()
        self._record = record
        self._required = schema_of(operation).get("required", [])

    def required_fields(self) -> dict[str, Any]:
        """The body that changes nothing: the required fields, and of `settings` only the URL."""
        body = {name: self._record.body[name] for name in self._required}
        return body | ({"settings": {"url": body["settings"]["url"]}} if "settings" in body else {})

    def send(self, body: Mapping[str, Any]) -> None:
        """Send an update with these fields and the required ones."""
        query = self._record.query if self._record.get is None else {}
        self._surface.request(self._method, self._record.path, merge(self.required_fields(), body), expect=200, **query)

    def read(self) -> Mapping[str, Any]:
        """The current record."""
        if self._record.read is not None:
            return self._record.read()
        response = self._surface.get(
            self._record.path if self._record.get is None else self._record.get, **self._record.query
        )
        return next(iter(response.values())) if len(response) == 1 else response


def test_every_update_has_a_maker_or_is_listed_in_others() -> None:
    assert MAKERS.keys() | OTHERS.keys() == updates().keys()
    assert not MAKERS.keys() & OTHERS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("operation", sorted(MAKERS))
def test_an_update_changes_the_sent_fields_and_null_clears_them(organization: Organization, operation: str) -> None:
    schema_by_field = dict(fields_of(operation, schema_of(operation)))
    tested_fields: set[str] = set()
    for record in changeable(organization, operation):
        client = Client(organization, operation, record)
        client.send(record.body)
        complete_record = client.read()
        fields = {name for name in schema_by_field if value_at(record.body, name) not in (None, [], {})}
        tested_fields |= fields
        for name in fields - FIELD_BY_FIELD - set(record.not_answered):
            stored_value, sent_value = value_at(complete_record, name), value_at(record.body, name)
            assert without(stored_value, frozenset()) == without(sent_value, frozenset()), f"{name} was not set"
        # Without any field, and with empty parts, nothing changes.
        client.send({})
        assert without(client.read(), NOT_COMPARED) == without(complete_record, NOT_COMPARED)
        for name in sorted(fields & FIELD_BY_FIELD):
            client.send(in_object(name, {}))
            assert without(client.read(), NOT_COMPARED) == without(complete_record, NOT_COMPARED), name
        for name in sorted(fields - set(record.not_answered)):
            if schema_by_field[name].get("nullable"):
                _clear(client, record, name, None, complete_record)
            elif _may_be_empty(operation, name, schema_by_field[name]):
                empty_value: Any = [] if schema_by_field[name]["type"] == "array" else {}
                _clear(client, record, name, empty_value, complete_record)
    assert schema_by_field.keys() - tested_fields - OF_REQUEST == _never_set(operation)


def _clear(client: Client, record: Changeable, name: str, empty_value: Any, before: Mapping[str, Any]) -> None:
    """Clear a field by an empty value, check that it and no other field is empty, and set it again."""
    further_fields = record.together.get(name, {})
    client.send(merge(in_object(name, empty_value), further_fields))
    after = client.read()
    after_null = record.unset.get(name)
    value = value_at(after, name)
    if callable(after_null):
        assert after_null(value), f"{name} is {value} after null"
    elif after_null is not None:
        assert value == after_null, f"{name} is {value} after null"
    else:
        assert value in (None, [], {}), f"{name} is {value} after {empty_value}"
    excluded = NOT_COMPARED | {name, *further_fields, *record.follows}
    assert without(after, excluded) == without(before, excluded), f"more than {name} was cleared"
    client.send(record.body)
    assert without(client.read(), NOT_COMPARED) == without(before, NOT_COMPARED)


def _may_be_empty(operation: str, name: str, field_schema: Mapping[str, Any]) -> bool:
    """True for optional lists and free objects, which an empty list or object clears."""
    is_list = field_schema.get("type") == "array" and not field_schema.get("minItems")
    is_free = field_schema.get("type") == "object" and not field_schema.get("required") and name not in FIELD_BY_FIELD
    return (is_list or is_free) and name not in (*schema_of(operation).get("required", ()), "matcher", "attrs")


def _never_set(operation: str) -> set[str]:
    """The fields that no body sets: the items of `organizations` are added and changed individually."""
    return {"organizations"} if operation.endswith(":updateUser") else set()
