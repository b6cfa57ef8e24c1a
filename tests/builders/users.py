"""Users of an organization as tests make them, and the tokens that they get."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from handlers.services import tokens
from persistence import transactions
from tests.builders.api import Organization, Reply, Surface

PASSWORD = "espresso-and-rain-41"
GRANT = {"grant_type": "client_credentials"}


def user_body(**fields: Any) -> dict[str, Any]:
    """An API user without permissions, unless `fields` has others."""
    return {
        "active": True,
        "name": "Till",
        "nickname": None,
        "profilePictureUrl": None,
        "isSystemAdmin": False,
        "pendingProvisioning": False,
        "isAdmin": False,
        "roles": [],
        "authClientId": f"client-{uuid.uuid4()}",
        **fields,
    }


def new_email() -> str:
    """An unused email address."""
    return f"{uuid.uuid4().hex}@corner-coffee.example"


@dataclass(frozen=True)
class Users:
    """The users of an organization, as the caller of `surface` creates and reads them."""

    organization: Organization
    surface: Surface

    @classmethod
    def of(cls, organization: Organization) -> Users:
        return cls(organization, organization.administration)

    def by(self, token: str) -> Users:
        """The same users, with the bearer of a token as the caller."""
        return Users(self.organization, self.surface.with_token(token))

    def create(self, **fields: Any) -> dict[str, Any]:
        """A new user with its `password`, which the record does not have."""
        response = self.surface.post("/users", user_body(**fields))
        return {**response["user"], "password": response["password"]}

    def person(self, **fields: Any) -> dict[str, Any]:
        """A new user with an email address and a password, who can sign in."""
        return self.create(
            **{"name": "Ana", "email": new_email(), "password": PASSWORD, "passwordIsTemporary": False, **fields}
        )

    def group(self, **fields: Any) -> dict[str, Any]:
        """A new permission group, without roles unless `fields` has some."""
        body = {"permissionGroupKey": f"group-{uuid.uuid4()}", "name": "Group", "roles": [], **fields}
        return self.surface.post("/permission-groups", body)["permissionGroup"]

    def read(self, user: dict[str, Any]) -> dict[str, Any]:
        """The current record of a user."""
        return self.surface.get(f"/users/{user['userId']}")["user"]

    def sign_in(self, user: dict[str, Any], *, expect: int = 200, **form: str) -> Reply:
        """The reply to a token request with the credentials of a user; `form` has further fields."""
        credentials = {"client_id": user["authClientId"], "client_secret": user["password"]}
        anybody = self.organization.api.surface()
        return anybody.request("POST", "/oauth/token", form={**GRANT, **credentials, **form}, expect=expect)

    def token(self, user: dict[str, Any], **form: str) -> str:
        """A new access token of a user."""
        return self.sign_in(user, **form).json["access_token"]

    def system_token(self) -> str:
        """A token of a system administrator, as the operator issues it."""
        api = self.organization.api
        return transactions.run(
            api.engine,
            lambda db: tokens.issue_operator_token(
                db,
                api.settings,
                organization_id=self.organization.id,
                roles=frozenset(),
                is_admin=False,
                is_system_admin=True,
                lifetime=3600,
                now=datetime.now(UTC),
            ),
        )
