"""Operations that are called in this process, any number of them in one database transaction.

Bodies are validated by the OpenAPI documents, and operations do the same as for clients. No other transaction sees the
changes before the caller commits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from sqlalchemy import Connection, Engine

import openapi
from domain.problems import FieldFault, InvalidRequest
from handlers.call import ADMINISTRATION, INTEGRATION, JSON, Caller, Request
from handlers.http.dispatch import Dispatcher
from handlers.http.operations import OperationPlan
from handlers.messages.json_text import encode, to_json_value
from handlers.messages.uploads import Upload
from handlers.messages.validation import Schemas
from handlers.settings import Settings

# The interface and the operationId.
OperationName = tuple[str, str]


class LocalApi:
    """The operations of both OpenAPI documents; `subject` is the name of the caller in the audit log."""

    def __init__(self, settings: Settings, engine: Engine, subject: str) -> None:
        self._dispatcher = Dispatcher(settings, engine)
        self._subject = subject
        self._schemas: dict[str, Schemas] = {}
        # The path, the path item and the operation of the OpenAPI document.
        self._documented: dict[OperationName, tuple[str, Mapping[str, Any], Mapping[str, Any]]] = {}
        self._plans: dict[OperationName, OperationPlan] = {}
        self._nullable: dict[OperationName, frozenset[str]] = {}
        for surface in openapi.SURFACES:
            document = openapi.bundle(surface)
            self._schemas[surface] = Schemas(surface, document)
            for path, _, item, documented in openapi.operations_of(document):
                self._documented[surface, documented["operationId"]] = path, item, documented

    def _plan(self, operation: OperationName) -> OperationPlan:
        """The plan of an operation, compiled when it is called first."""
        if operation not in self._plans:
            surface, _ = operation
            path, item, documented = self._documented[operation]
            self._plans[operation] = OperationPlan(surface, path, item, documented, self._schemas[surface])
        return self._plans[operation]

    def fields_of(self, operation: OperationName) -> frozenset[str]:
        """The names of the fields of an operation's body."""
        surface, _ = operation
        _, _, documented = self._documented[operation]
        return _fields_of(documented, self._schemas[surface])

    def nullable_fields_of(self, operation: OperationName) -> frozenset[str]:
        """The names of the fields of an operation's body that may be null."""
        if operation not in self._nullable:
            names = self.fields_of(operation)
            # A body in which all fields are null has a fault for each field that may not be null.
            faulty_pointers = {fault.pointer for fault in self.faults_of_body(operation, dict.fromkeys(names))}
            self._nullable[operation] = frozenset(name for name in names if f"/{name}" not in faulty_pointers)
        return self._nullable[operation]

    def required_fields_of(self, operation: OperationName) -> frozenset[str]:
        """The names of the fields that an operation's body must have."""
        faulty_pointers = {fault.pointer for fault in self.faults_of_body(operation, body={})}
        return frozenset(name for name in self.fields_of(operation) if f"/{name}" in faulty_pointers)

    def faults_of_body(self, operation: OperationName, body: Any) -> list[FieldFault]:
        """The faults of a request body, by the OpenAPI document of the operation."""
        faults: list[FieldFault] = []
        self._read_body(operation, body, faults)
        return faults

    def _read_body(self, operation: OperationName, body: Any, faults: list[FieldFault]) -> Any:
        """Read the body in the form that handlers get; adds faults to `faults`."""
        if isinstance(body, Upload):
            return body
        plan = self._plan(operation).body
        return None if plan is None or body is None else plan.read(encode(to_json_value(body)), JSON, faults)

    def calls_within(self, db: Connection, organization_id: int) -> LocalCalls:
        """Calls on one organization in an open database transaction."""
        return LocalCalls(self, db, organization_id)

    def call(
        self,
        db: Connection,
        organization_id: int,
        operation: OperationName,
        path: Mapping[str, Any],
        query: Mapping[str, Any],
        body: Any,
    ) -> Any:
        """Execute a call and return the body of its response; raises the refusal that a client would get."""
        surface, operation_id = operation
        faults: list[FieldFault] = []
        arguments = self._plan(operation).arguments(urlencode(query).encode(), faults)
        content = self._read_body(operation, body, faults)
        if faults:
            raise InvalidRequest(faults)
        request = Request(
            surface=surface,
            operation_id=operation_id,
            path={**({"organizationId": organization_id} if surface == ADMINISTRATION else {}), **path},
            query=arguments,
            body=content,
            caller=Caller(self._subject, organization_id, frozenset(), is_admin=True),
            request_id=self._subject,
            headers={},
        )
        return self._dispatcher.run_within(db, request).body


class LocalCalls:
    """Calls on one organization in one database transaction."""

    def __init__(self, api: LocalApi, db: Connection, organization_id: int) -> None:
        self._api, self._db, self._organization_id = api, db, organization_id

    def administration(
        self, operation_id: str, body: Any = None, *, query: Mapping[str, Any] | None = None, **path: Any
    ) -> Any:
        """Call an operation of the administration interface; keywords are the parameters of its path."""
        return self._call((ADMINISTRATION, operation_id), path, query, body)

    def integration(
        self, operation_id: str, body: Any = None, *, query: Mapping[str, Any] | None = None, **path: Any
    ) -> Any:
        """Call an operation of the integration interface; keywords are the parameters of its path."""
        return self._call((INTEGRATION, operation_id), path, query, body)

    def _call(self, operation: OperationName, path: Any, query: Any, body: Any) -> Any:
        return self._api.call(self._db, self._organization_id, operation, path, query or {}, body)


def _fields_of(operation: Mapping[str, Any], schemas: Schemas) -> frozenset[str]:
    """The names of the fields of a JSON body; none for other bodies."""
    if "requestBody" not in operation:
        return frozenset()
    content = schemas.resolve(operation["requestBody"])["content"]
    return frozenset(_properties(content[JSON]["schema"], schemas)) if JSON in content else frozenset()


def _properties(schema: Mapping[str, Any], schemas: Schemas) -> set[str]:
    """The names of the fields of an object by its schema, with those of the schemas that it combines."""
    resolved_schema = schemas.resolve(schema)
    names = set(resolved_schema.get("properties", ()))
    for word in ("allOf", "oneOf", "anyOf"):
        for part in resolved_schema.get(word, ()):
            names |= _properties(part, schemas)
    return names
