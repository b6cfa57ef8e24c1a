"""A ledger account as its clients move points on it, and the stored ledger behind it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import text

from handlers.services.verify import verify
from persistence.organizations import raise_configuration_version
from tests.builders.api import Organization
from tests.builders.ledger import RawLedger

SETTINGS = {"active": True, "isRevolving": True, "chainSyncEnabled": False}


@dataclass(frozen=True)
class Points:
    """One account of the organization's default ledger; posts return rows with amounts."""

    organization: Organization
    account: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def new(cls, organization: Organization, **settings: Any) -> Points:
        """A further account of the default ledger."""
        path = f"/ledgers/{organization.created.ledger_id}/accounts"
        body = {"name": "Stars", **SETTINGS, **settings}
        return cls(organization, organization.administration.post(path, body)["ledgerAccount"])

    @property
    def ledger_path(self) -> str:
        return f"/ledgers/{self.organization.created.ledger_id}"

    @property
    def account_id(self) -> int:
        return self.account["ledgerAccountId"]

    @property
    def path(self) -> str:
        return f"{self.ledger_path}/accounts/{self.account_id}"

    @property
    def admin(self) -> Any:
        return self.organization.administration

    def wallet(self) -> int:
        """The wallet of a new member."""
        return self.organization.member()["ledgerWalletId"]

    def move(self, source: int | None, target: int | None, amount: Any, expect: int = 201, **more: Any) -> Any:
        """Create a transaction; returns its rows, or the problem where one is expected."""
        body = {"amount": amount, "fromWalletId": source, "toWalletId": target, **more}
        answer = self.admin.post(f"{self.path}/transactions", body, expect=expect)
        return answer["transactions"] if expect == 201 else answer

    def mint(self, wallet: int, amount: Any, expires_at: datetime | None = None, **more: Any) -> int:
        """Mint and return the transaction's id; `expires_at` may be past, as if it had been minted long ago."""
        minted = self.move(None, wallet, amount, **more)[0]["ledgerTransactionId"]
        if expires_at is not None:
            self.change(
                "UPDATE ledger_lots SET expires_at = :at WHERE ledger_transaction_id = :id", at=expires_at, id=minted
            )
        return minted

    def revert(self, transaction_id: int, expect: int = 200, **body: Any) -> Any:
        """Revert; returns the rows, or the problem where one is expected."""
        path = f"{self.path}/transactions/{transaction_id}/revert"
        answer = self.admin.post(path, body, expect=expect)
        return answer["transactions"] if expect == 200 else answer

    def release(self, *transaction_ids: int, expect: int = 200) -> Any:
        """Make mints that wait available now."""
        body = {"transactions": [{"ledgerTransactionId": str(transaction_id)} for transaction_id in transaction_ids]}
        return self.admin.post(f"{self.path}/releases", body, expect=expect)

    def capture(self, *amounts: tuple[int, Any], expect: int = 200) -> Any:
        """Capture; an amount of None is all."""
        body = {
            "transactions": [
                {"ledgerTransactionId": str(i)} | ({} if amount is None else {"captureAmount": amount})
                for i, amount in amounts
            ]
        }
        return self.admin.post(f"{self.path}/captures", body, expect=expect)

    def wallet_of(self, wallet: int, **query: Any) -> Any:
        """What the wallet holds of the account."""
        return self.admin.get(f"{self.path}/wallets/{wallet}", **query)["wallet"]

    def balance(self, wallet: int) -> Any:
        return self.wallet_of(wallet)["currentBalance"]

    def rows(self, **query: Any) -> Any:
        """The listed rows of the account, newest first."""
        return self.admin.get(f"{self.path}/transactions", **query)["results"]

    def change(self, sql: str, **values: Any) -> None:
        """Change what is stored, as a new version of the configuration."""
        with self.organization.api.engine.begin() as db:
            db.execute(text(sql), values)
            raise_configuration_version(db, self.organization.id)

    def raw(self, do: Callable[[RawLedger], Any]) -> Any:
        """Do something to the stored ledger and commit."""
        with self.organization.api.engine.begin() as db:
            return do(RawLedger(db, self.organization.created))

    def verify(self) -> list[str]:
        """What is broken in the organization's ledger."""
        with self.organization.api.engine.begin() as db:
            return verify(db, self.organization.id)
