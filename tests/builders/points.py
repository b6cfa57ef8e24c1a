"""A ledger account: movements of points through the API, and direct access to the stored ledger."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import text

from persistence.organizations import increment_configuration_version
from tests.builders.api import Organization
from tests.builders.ledger import RawLedger
from tests.builders.verification import verify

SETTINGS = {"active": True, "isRevolving": True, "chainSyncEnabled": False}


@dataclass(frozen=True)
class Points:
    """One account of the organization's default ledger. A listed row is a ledger transaction as one entry shows it."""

    organization: Organization
    account: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def new(cls, organization: Organization, **settings: Any) -> Points:
        """A further account of the default ledger."""
        path = f"/ledgers/{organization.defaults.ledger_id}/accounts"
        body = {"name": "Stars", **SETTINGS, **settings}
        return cls(organization, organization.administration.post(path, body)["ledgerAccount"])

    @classmethod
    def default(cls, organization: Organization) -> Points:
        """The default account, if the default ledger has no other account."""
        path = f"/ledgers/{organization.defaults.ledger_id}/accounts"
        [account] = organization.administration.get(path)["results"]
        return cls(organization, account)

    @property
    def ledger_path(self) -> str:
        return f"/ledgers/{self.organization.defaults.ledger_id}"

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

    def move(
        self, amount: Any, *, source: int | None = None, target: int | None = None, expect: int = 201, **more: Any
    ) -> Any:
        """Create a mint (without source wallet), a burn (without target wallet) or a transfer.

        Returns the rows of the transaction, or the problem if `expect` is not 201.
        """
        body = {"amount": amount, "fromWalletId": source, "toWalletId": target, **more}
        response = self.admin.post(f"{self.path}/transactions", body, expect=expect)
        return response["transactions"] if expect == 201 else response

    def mint(self, wallet: int, amount: Any, *, expires_at: datetime | None = None, **more: Any) -> int:
        """Mint points into a wallet; return the transaction's id.

        `expires_at` is written to the stored lot, so it may be in the past.
        """
        transaction_id = self.move(amount, target=wallet, **more)[0]["ledgerTransactionId"]
        if expires_at is not None:
            self.change(
                "UPDATE ledger_lots SET expires_at = :at WHERE ledger_transaction_id = :id",
                at=expires_at,
                id=transaction_id,
            )
        return transaction_id

    def burn(self, wallet: int, amount: Any, *, expect: int = 201, **more: Any) -> Any:
        """Burn points of a wallet; return the rows of the transaction, or the problem if `expect` is not 201."""
        return self.move(amount, source=wallet, expect=expect, **more)

    def revert(self, transaction_id: int, *, expect: int = 200, **body: Any) -> Any:
        """Revert a transaction; return the rows of the revert, or the problem if `expect` is not 200."""
        path = f"{self.path}/transactions/{transaction_id}/revert"
        response = self.admin.post(path, body, expect=expect)
        return response["transactions"] if expect == 200 else response

    def release(self, *transaction_ids: int, expect: int = 200) -> Any:
        """Make waiting points of these mints available now."""
        body = {"transactions": [{"ledgerTransactionId": str(transaction_id)} for transaction_id in transaction_ids]}
        return self.admin.post(f"{self.path}/releases", body, expect=expect)

    def capture(self, *amounts: tuple[int, Any], expect: int = 200) -> Any:
        """Capture pending transactions: (transaction id, amount), where None captures the whole amount."""
        body = {
            "transactions": [
                {"ledgerTransactionId": str(transaction_id)} | ({} if amount is None else {"captureAmount": amount})
                for transaction_id, amount in amounts
            ]
        }
        return self.admin.post(f"{self.path}/captures", body, expect=expect)

    def wallet_of(self, wallet: int, **query: Any) -> Any:
        """The balance record of the wallet in the account."""
        return self.admin.get(f"{self.path}/wallets/{wallet}", **query)["wallet"]

    def balance(self, wallet: int) -> Any:
        """The current balance of the wallet in the account."""
        return self.wallet_of(wallet)["currentBalance"]

    def rows(self, **query: Any) -> Any:
        """The listed rows of the account, newest first."""
        return self.admin.get(f"{self.path}/transactions", **query)["results"]

    def change(self, sql: str, **values: Any) -> None:
        """Run SQL and increment the configuration version, so that processes reload what they have cached."""
        with self.organization.api.engine.begin() as db:
            db.execute(text(sql), values)
            increment_configuration_version(db, self.organization.id)

    def raw(self, do: Callable[[RawLedger], Any]) -> Any:
        """Do something to the stored ledger and commit."""
        with self.organization.api.engine.begin() as db:
            return do(RawLedger(db, self.organization.defaults))

    def verify(self) -> list[str]:
        """The inconsistencies of the organization's ledger; none is expected."""
        with self.organization.api.engine.begin() as db:
            return verify(db, self.organization.id)
