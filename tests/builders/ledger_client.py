"""The ledger of an organization, used through the services without HTTP, at any moment."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, insert, text

from domain.ledger.views import WalletView
from domain.organizations import Organization
from handlers.call import ADMINISTRATION, Call
from handlers.services.ledger import post_transactions, settle_pending
from handlers.services.ledger.movements import Movement
from handlers.services.ledger.post_transactions import MovementOutcome
from handlers.settings import Settings
from persistence import ledger, ledger_wallets, organizations, transactions
from persistence.ledger import ACCOUNTS, LEDGERS
from persistence.tables.ledger import ledger_accounts, ledgers, wallets
from tests.builders.verification import verify

START = datetime(2026, 1, 31, tzinfo=UTC)

# For `LedgerClient.capture`: the whole amount of the pending transaction.
WHOLE = None

Result = TypeVar("Result")


@dataclass
class LedgerClient:
    """The organization; each of its methods is one database transaction, committed, at the moment `now`."""

    engine: Engine
    organization: Organization
    ledger_id: int
    now: datetime = START

    @classmethod
    def new(cls, engine: Engine, now: datetime = START) -> LedgerClient:
        """A new organization with an empty ledger and nothing else."""
        stamps = {"created_at": now, "updated_at": now}

        def make(db: Connection) -> LedgerClient:
            organization = organizations.add_organization(
                db, organization_key=str(uuid.uuid4()), name="Corner shop", locales=["en"], **stamps
            )
            fields = {"organization_id": organization.organization_id, "ledger_key": str(uuid.uuid4()), **stamps}
            statement = insert(ledgers).values(**fields, name="Default").returning(ledgers.c.ledger_id)
            return cls(engine, organization, db.execute(statement).scalar_one(), now)

        return transactions.run(engine, make)

    @property
    def id(self) -> int:
        return self.organization.organization_id

    def account(self, **settings: Any) -> int:
        """Create another account, by default revolving and without fraction digits; return its id."""
        values = {
            "organization_id": self.id,
            "ledger_id": self.ledger_id,
            "ledger_account_key": str(uuid.uuid4()),
            "name": "Points",
            "active": True,
            "is_revolving": True,
            "created_at": self.now,
            "updated_at": self.now,
            **settings,
        }
        statement = insert(ledger_accounts).values(**values).returning(ledger_accounts.c.ledger_account_id)
        return self.run(lambda db: db.execute(statement).scalar_one())

    def change(self, ledger_account_id: int, **settings: Any) -> None:
        """Change the row of an account without any check, under the lock that changes of an account use."""

        def work(db: Connection) -> None:
            ledger_record = LEDGERS.find(db, self.id, self.ledger_id)
            account = ACCOUNTS.find(db, self.id, ledger_account_id)
            assert ledger_record is not None
            assert account is not None
            ledger.lock_account(db, ledger_record, account)
            of_account = ledger_accounts.c.ledger_account_id == ledger_account_id
            db.execute(ledger_accounts.update().where(of_account).values(**settings))

        self.run(work)

    def wallets(self, count: int) -> list[int]:
        """Create `count` wallets; return their ids."""
        fields = {"organization_id": self.id, "ledger_id": self.ledger_id, "created_at": self.now}
        rows = [{**fields, "wallet_key": str(uuid.uuid4())} for _ in range(count)]
        statement = insert(wallets).returning(wallets.c.wallet_id, sort_by_parameter_order=True)
        return self.run(lambda db: list(db.execute(statement, rows).scalars()))

    def run(self, work: Callable[[Connection], Result]) -> Result:
        """Run any work as the product does: commit it, and retry it after a conflict with other transactions."""
        return transactions.run(self.engine, work)

    def call(self, db: Connection, now: datetime | None = None) -> Call:
        """The call that a handler would get at `now`, by default the client's."""
        return Call(
            db=db,
            organization=self.organization,
            caller=None,
            now=now or self.now,
            request_id="test",
            surface=ADMINISTRATION,
            settings=Settings(database_url="", home=Path()),
        )

    def post(self, movement: Movement) -> int:
        """Post one movement; return its transaction's id."""
        return self.post_set([movement])[0]

    def post_set(self, movements: Sequence[Movement]) -> list[int]:
        """Post all movements or none; return the ids of their transactions."""
        return self._outcomes(movements, atomic=True)

    def post_batch(self, movements: Sequence[Movement]) -> list[MovementOutcome]:
        """Post each movement individually, and movements of one atomic set all or none; return an outcome for each."""
        return self._outcomes(movements, atomic=False)

    def _outcomes(self, movements: Sequence[Movement], atomic: bool) -> list[Any]:
        def work(db: Connection) -> list[Any]:
            return post_transactions.post([self.call(db)] * len(movements), movements, atomic=atomic)

        return self.run(work)

    def capture(self, ledger_account_id: int, amounts: Sequence[tuple[int, Decimal | None]]) -> None:
        """Capture pending transactions of an account: (id, amount or `WHOLE`)."""

        def work(db: Connection) -> None:
            account = ACCOUNTS.find(db, self.id, ledger_account_id)
            assert account is not None
            settle_pending.capture(self.call(db), account, amounts)

        self.run(work)

    def mint(self, account_id: int, wallet_id: int, amount: Any, **details: Any) -> int:
        """Mint; return the transaction's id."""
        return self.post(Movement(account_id, Decimal(amount), to_wallet_id=wallet_id, **details))

    def burn(self, account_id: int, wallet_id: int, amount: Any, **details: Any) -> int:
        """Burn; return the transaction's id."""
        return self.post(Movement(account_id, Decimal(amount), from_wallet_id=wallet_id, **details))

    def transfer(self, account_id: int, source: int, target: int, amount: Any, **details: Any) -> int:
        """Move from one wallet to another; return the transaction's id."""
        movement = Movement(account_id, Decimal(amount), from_wallet_id=source, to_wallet_id=target, **details)
        return self.post(movement)

    def revert(self, transaction_id: int, **details: Any) -> int:
        """Revert a transaction; return the id of the revert."""
        return self.post(Movement(reverts=transaction_id, **details))

    def balances(self, wallet_ids: Iterable[int]) -> dict[tuple[int, int], WalletView]:
        """The balances of wallets as responses show them, by (wallet id, account id)."""
        views_by_wallet = self.run(
            lambda db: ledger_wallets.find_balances_of_wallets(db, self.id, list(wallet_ids), self.now, "UTC")
        )
        return {(view.wallet_id, view.ledger_account_id): view for views in views_by_wallet.values() for view in views}

    def balance(self, account_id: int, wallet_id: int) -> WalletView:
        """The balance of one wallet in one account as responses show it."""
        return self.balances([wallet_id])[wallet_id, account_id]

    def issued_amounts(self, *account_ids: int) -> dict[int, Decimal]:
        """The issued amount of each account, by its id."""
        return self.run(lambda db: ledger.find_issued_amounts(db, self.id, account_ids))

    def verify(self) -> list[str]:
        """The inconsistencies of the ledger; none is expected."""
        return self.run(lambda db: verify(db, self.id))

    def ask(self, statement: str, **values: Any) -> list[Any]:
        """The rows of a query; `:org` is the organization."""
        return self.run(lambda db: list(map(tuple, db.execute(text(statement), {"org": self.id, **values}))))
