"""Records of every kind that can have an external key, created, changed and listed by the operations of the kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import openapi
from handlers.call import INTEGRATION
from handlers.server.configuration_files.kinds import KIND_OF, Kind
from tests.builders.api import Organization, Reply, Surface
from tests.builders.changeable import LATTE, ORDER_CREATED
from tests.contract.documents import DocumentedOperation, body_contents, operations, resolve

_SETTINGS = {"url": "https://hooks.invalid/loyalty", "eventTypes": [ORDER_CREATED]}
_EFFECTS = {"items": [{"effectId": "mint-points", "params": [{"id": "amount", "value": 5}]}]}

# By kind, a function that returns the body that creates a record; `word` is unique among the records of the kind.
_BODIES: Mapping[str, Callable[[Organization, str], dict[str, Any]]] = {
    "ledger": lambda organization, word: {"name": word},
    "ledgerAccount": lambda organization, word: {
        "name": word,
        "active": True,
        "isRevolving": True,
        "chainSyncEnabled": False,
    },
    "loyaltyProgram": lambda organization, word: {
        "name": word,
        "description": "A club",
        "ledgerId": organization.defaults.ledger_id,
        "setAsDefault": False,
    },
    "loyaltyTier": lambda organization, word: {
        "name": word,
        "active": True,
        "minRequiredPoints": 10,
        "tierOrder": 2,
    },
    "eventType": lambda organization, word: {"name": word, "apiCode": word, "schemaType": "custom"},
    "matcher": lambda organization, word: {"name": word, "type": "item-matcher", "matcher": LATTE},
    "stackingGroup": lambda organization, word: {"name": word, "mode": "best"},
    "audience": lambda organization, word: {"name": word, "matcherType": "list-matcher"},
    "badge": lambda organization, word: {"name": word, "maxAmount": 3, "active": True},
    "couponBook": lambda organization, word: {
        "name": word,
        "type": "codeless",
        "publishingStatus": "published",
        "requiredPointsConfig": None,
    },
    "contentCollection": lambda organization, word: {"name": word, "description": "All of them"},
    "campaign": lambda organization, word: {"name": word, "code": word},
    "mission": lambda organization, word: {
        "name": word,
        "eventType": ORDER_CREATED,
        "maxRepetitions": 1,
        "goalCount": 3,
    },
    "referralProgram": lambda organization, word: {
        "name": word,
        "code": word,
        "active": True,
        "maxPerCode": 9,
        "eventType": "member-created",
    },
    "action": lambda organization, word: {
        "name": word,
        "effects": _EFFECTS,
        "status": "running",
        "priority": 1,
    },
    "trigger": lambda organization, word: {
        "name": word,
        "triggerKey": word,
        "type": "WebHook",
        "settings": _SETTINGS,
    },
}


@cache
def _document_and_operations(surface: str) -> tuple[Mapping[str, Any], Mapping[str, DocumentedOperation]]:
    document = openapi.bundle(surface)
    return document, {operation.operation_id: operation for operation in operations(document)}


@dataclass(frozen=True)
class KeyedRecords:
    """The records of one kind in an organization; `parents` are the parameters of paths that lead to them."""

    organization: Organization
    kind: Kind
    parents: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, organization: Organization, name: str) -> KeyedRecords:
        """The records of a kind, below the default ledger or program, or for actions below a new campaign."""
        defaults, parents = organization.defaults, {}
        if name == "ledgerAccount":
            parents = {"ledgerId": defaults.ledger_id}
        elif name == "loyaltyTier":
            parents = {"loyaltyProgramId": defaults.loyalty_program_id}
        elif name == "action":
            body = {"name": "Spring", "code": "spring"}
            parents = {"campaignId": organization.administration.post("/campaigns", body)["campaign"]["campaignId"]}
        return cls(organization, KIND_OF[name], parents)

    @property
    def surface(self) -> Surface:
        """The interface that has the operations of the kind."""
        return self.organization.integration if self.kind.surface == INTEGRATION else self.organization.administration

    def add(self, word: str, **more: Any) -> Reply:
        """Send the creation of a record; return the reply, which may be a refusal."""
        return self._call(self.kind.create, {}, {**_BODIES[self.kind.name](self.organization, word), **more})

    def create(self, word: str, **more: Any) -> Mapping[str, Any]:
        """Create a record; return it."""
        reply = self.add(word, **more)
        assert reply.status == 201, reply.text
        return self._record_of(reply)

    def change(self, record: Mapping[str, Any], **changes: Any) -> Reply:
        """Send an update of some fields and the required ones; return the reply, which may be a refusal."""
        assert self.kind.update is not None
        document, operations = _document_and_operations(self.kind.surface)
        contents = body_contents(document, operations[self.kind.update])
        schema = resolve(document, contents["application/json"]["schema"])
        required_fields = {name: record[name] for name in schema.get("required", ()) if name in record}
        if self.kind.name == "couponBook":
            required_fields["requiredPointsConfig"] = None
        elif self.kind.name == "trigger":
            # The response does not have all settings.
            required_fields["settings"] = _SETTINGS
        path = {self.kind.path_parameter: record[self.kind.path_parameter_field]}
        return self._call(self.kind.update, path, {**required_fields, **changes})

    def update(self, record: Mapping[str, Any], **changes: Any) -> Mapping[str, Any]:
        """Change fields of a record; return it."""
        reply = self.change(record, **changes)
        assert reply.status == 200, reply.text
        return self._record_of(reply)

    def find_all(self, **query: Any) -> list[Mapping[str, Any]]:
        """The records of the list that match a query."""
        reply = self._call(self.kind.list, {}, None, **query)
        assert reply.status == 200, reply.text
        records: list[Mapping[str, Any]] = reply.json[self.kind.results]
        return records

    def refusal(self, **query: Any) -> Reply:
        """The reply of the list operation to a query, which may be a refusal."""
        return self._call(self.kind.list, {}, None, **query)

    def identity(self, record: Mapping[str, Any]) -> Any:
        """The field that distinguishes a record from all others of its kind."""
        return record[self.kind.identity]

    def _record_of(self, reply: Reply) -> Mapping[str, Any]:
        record: Mapping[str, Any] = reply.json[self.kind.envelope]
        return record

    def _call(self, operation_id: str, path: Mapping[str, Any], body: Any, **query: Any) -> Reply:
        _, operations = _document_and_operations(self.kind.surface)
        operation = operations[operation_id]
        address = operation.path.removeprefix("/organizations/{organizationId}")
        address = address.format(**{**self.parents, **path})
        return self.surface.request(operation.method.upper(), address, body, **query)
