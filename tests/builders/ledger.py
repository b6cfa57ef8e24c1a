"""A ledger whose rows are inserted without any check, for tests of queries and of inconsistent ledgers."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, func, insert, select, text, update
from sqlalchemy.dialects.postgresql import insert as upsert

from domain.ledger.records import BURN, MINT, SETTLED, TRANSFER
from handlers.services.organizations.create import CreatedOrganization, create_organization
from persistence.tables.ledger import (
    ledger_account_supplies,
    ledger_accounts,
    ledger_balances,
    ledger_entries,
    ledger_lots,
    ledger_transactions,
    wallets,
)

START = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)


# A mint of 5, with its lot, for each of many new wallets.
_MANY_MINTS = """
WITH new_wallets AS (
    INSERT INTO wallets (organization_id, wallet_key, ledger_id, created_at)
    SELECT :org, gen_random_uuid(), :ledger, now() FROM generate_series(1, :wallets) RETURNING *
), minted AS (
    INSERT INTO ledger_transactions (organization_id, ledger_account_id, transaction_type, status, amount,
        system_unique_key, to_wallet_id, created_at, updated_at)
    SELECT :org, :account, 1, 1, 5, gen_random_uuid(), wallet_id, now(), now() FROM new_wallets RETURNING *
), entries AS (
    INSERT INTO ledger_entries (organization_id, ledger_transaction_id, entry_index, ledger_account_id, wallet_id,
        amount, updated_balance)
    SELECT :org, ledger_transaction_id, 0, :account, to_wallet_id, 5, 5 FROM minted
    UNION ALL SELECT :org, ledger_transaction_id, 1, :account, NULL, -5, NULL FROM minted
), lots AS (
    INSERT INTO ledger_lots (organization_id, wallet_id, ledger_account_id, ledger_transaction_id, amount, remaining,
        created_at)
    SELECT :org, to_wallet_id, :account, ledger_transaction_id, 5, 5, now() FROM minted
)
INSERT INTO ledger_balances
    (organization_id, wallet_id, ledger_account_id, current_balance, earned, created_at, updated_at)
SELECT :org, to_wallet_id, :account, 5, 5, now(), now() FROM minted
"""


@dataclass
class RawLedger:
    """An organization's default ledger; rows are inserted unchecked, one transaction at a time."""

    db: Connection
    organization: CreatedOrganization

    @classmethod
    def new(cls, db: Connection) -> RawLedger:
        """The ledger of a new organization; its default account tracks no points, because `post` inserts no lots."""
        ledger = cls(db, create_organization(db, name="Corner shop", now=START))
        is_default = ledger_accounts.c.ledger_account_id == ledger.account_id
        db.execute(update(ledger_accounts).where(is_default).values(point_tracking_enabled=False))
        return ledger

    @property
    def organization_id(self) -> int:
        return self.organization.organization_id

    @property
    def account_id(self) -> int:
        """The default account."""
        return self.organization.ledger_account_id

    def account(self, **values: Any) -> int:
        """Insert a further account; return its id."""
        settings = {
            "organization_id": self.organization_id,
            "ledger_id": self.organization.ledger_id,
            "ledger_account_key": str(uuid.uuid4()),
            "name": "Stars",
            "active": True,
            "is_revolving": True,
            "created_at": START,
            "updated_at": START,
            **values,
        }
        returning = ledger_accounts.c.ledger_account_id
        return self.db.execute(insert(ledger_accounts).values(**settings).returning(returning)).scalar_one()

    def wallet(self, ledger_id: int | None = None) -> int:
        """Insert a wallet of the default ledger, or of another; return its id."""
        values = {
            "organization_id": self.organization_id,
            "ledger_id": ledger_id or self.organization.ledger_id,
            "wallet_key": str(uuid.uuid4()),
            "created_at": START,
        }
        return self.db.execute(insert(wallets).values(**values).returning(wallets.c.wallet_id)).scalar_one()

    def mint(self, wallet_id: int, amount: Any, *, account_id: int | None = None, **values: Any) -> int:
        """Mint into a wallet; return the transaction's id."""
        return self.post(MINT, amount, target=wallet_id, account_id=account_id, **values)

    def mint_for_many(self, wallets: int, account_id: int | None = None) -> None:
        """Mint 5, with a lot, into each of this many new wallets by one statement."""
        values = {"org": self.organization_id, "ledger": self.organization.ledger_id}
        account_id = account_id or self.account_id
        self.db.execute(text(_MANY_MINTS), {**values, "account": account_id, "wallets": wallets})
        self.supply(account_id, minted=5 * wallets, burned=0)

    def burn(self, wallet_id: int, amount: Any, *, account_id: int | None = None, **values: Any) -> int:
        """Burn from a wallet; return the transaction's id."""
        return self.post(BURN, amount, source=wallet_id, account_id=account_id, **values)

    def transfer(self, source: int, target: int, amount: Any, *, account_id: int | None = None, **values: Any) -> int:
        """Move from one wallet to another; return the transaction's id."""
        return self.post(TRANSFER, amount, source=source, target=target, account_id=account_id, **values)

    def post(
        self,
        transaction_type: int,
        amount: Any,
        *,
        source: int | None = None,
        target: int | None = None,
        account_id: int | None = None,
        **values: Any,
    ) -> int:
        """Insert a transaction and its entries, change balances and supply accordingly; return its id."""
        amount, account_id = Decimal(amount), account_id or self.account_id
        at = values.pop("at", START)
        transaction_id = self.transaction(
            transaction_type, amount, source=source, target=target, account_id=account_id, at=at, **values
        )
        legs = [(source, -amount), (target, amount)]
        entries = []
        for wallet_id, change in sorted(legs, key=lambda leg: leg[0] is None):
            new_balance = None if wallet_id is None else self.move(wallet_id, change, account_id=account_id, at=at)
            entries.append({"wallet_id": wallet_id, "amount": change, "updated_balance": new_balance})
        self.entries(transaction_id, entries, account_id=account_id)
        self.supply(account_id, minted=amount if source is None else 0, burned=amount if target is None else 0)
        if transaction_type == MINT and target is not None:
            self.earn(target, amount, account_id=account_id)
        return transaction_id

    def transaction(
        self,
        transaction_type: int,
        amount: Any,
        *,
        source: int | None = None,
        target: int | None = None,
        account_id: int | None = None,
        at: datetime = START,
        **values: Any,
    ) -> int:
        """Insert only the row of a transaction; return its id."""
        row = {
            "organization_id": self.organization_id,
            "ledger_account_id": account_id or self.account_id,
            "transaction_type": transaction_type,
            "status": SETTLED,
            "amount": Decimal(amount),
            "system_unique_key": str(uuid.uuid4()),
            "from_wallet_id": source,
            "to_wallet_id": target,
            "created_at": at,
            "updated_at": at,
            **values,
        }
        returning = ledger_transactions.c.ledger_transaction_id
        return self.db.execute(insert(ledger_transactions).values(**row).returning(returning)).scalar_one()

    def entries(
        self, transaction_id: int, entries: Sequence[dict[str, Any]], *, account_id: int | None = None, first: int = 0
    ) -> None:
        """Insert only the entries of a transaction, numbered from `first`."""
        fields_of_all = {
            "organization_id": self.organization_id,
            "ledger_transaction_id": transaction_id,
            "ledger_account_id": account_id or self.account_id,
        }
        rows = [
            {**fields_of_all, "entry_index": index, "is_overdraft": False, "updated_balance": None, **entry}
            for index, entry in enumerate(entries, first)
        ]
        self.db.execute(insert(ledger_entries), rows)

    def move(self, wallet_id: int, change: Any, *, account_id: int | None = None, at: datetime = START) -> Decimal:
        """Change only a balance; return the new balance."""
        values = {
            "organization_id": self.organization_id,
            "wallet_id": wallet_id,
            "ledger_account_id": account_id or self.account_id,
            "current_balance": Decimal(change),
            "last_transaction_date": at,
            "created_at": at,
            "updated_at": at,
        }
        statement = upsert(ledger_balances).values(**values)
        changes = {
            "current_balance": ledger_balances.c.current_balance + statement.excluded.current_balance,
            "last_transaction_date": at,
            "updated_at": at,
        }
        keys = ["organization_id", "wallet_id", "ledger_account_id"]
        if Decimal(change) >= 0:
            statement = statement.on_conflict_do_update(index_elements=keys, set_=changes)
            return self.db.execute(statement.returning(ledger_balances.c.current_balance)).scalar_one()
        # A row with a negative balance cannot be inserted, even if the statement would update another row instead.
        where = [ledger_balances.c[key] == values[key] for key in keys]
        changes["current_balance"] = ledger_balances.c.current_balance + Decimal(change)
        decrease = ledger_balances.update().where(*where).values(**changes)
        return self.db.execute(decrease.returning(ledger_balances.c.current_balance)).scalar_one()

    def earn(self, wallet_id: int, amount: Any, *, account_id: int) -> None:
        """Add only to the earned points of a balance."""
        of_wallet = ledger_balances.c.wallet_id == wallet_id, ledger_balances.c.ledger_account_id == account_id
        total = ledger_balances.c.earned + Decimal(amount)
        self.db.execute(ledger_balances.update().where(*of_wallet).values(earned=total))

    def supply(self, account_id: int, *, minted: Any, burned: Any) -> None:
        """Add to the minted and burned totals of an account, in a random one of its shards."""
        values = {"organization_id": self.organization_id, "ledger_account_id": account_id}
        statement = upsert(ledger_account_supplies).values(
            **values, shard=func.floor(func.random() * 4), minted=minted, burned=burned
        )
        shard = ledger_account_supplies.c
        self.db.execute(
            statement.on_conflict_do_update(
                index_elements=["organization_id", "ledger_account_id", "shard"],
                set_={"minted": shard.minted + Decimal(minted), "burned": shard.burned + Decimal(burned)},
            )
        )

    def lot(
        self,
        wallet_id: int,
        transaction_id: int,
        *,
        remaining: Any,
        expires_at: datetime | None = None,
        account_id: int | None = None,
        amount: Any = None,
    ) -> int:
        """Insert a lot of a mint; return its id. `amount` is by default what remains."""
        values = {
            "organization_id": self.organization_id,
            "wallet_id": wallet_id,
            "ledger_account_id": account_id or self.account_id,
            "ledger_transaction_id": transaction_id,
            "amount": Decimal(remaining if amount is None else amount),
            "remaining": Decimal(remaining),
            "expires_at": expires_at,
            "created_at": START,
        }
        return self.db.execute(insert(ledger_lots).values(**values).returning(ledger_lots.c.ledger_lot_id)).scalar_one()

    def count(self, table: Any) -> int:
        """How many rows of a table the organization has."""
        rows = select(func.count()).select_from(table).where(table.c.organization_id == self.organization_id)
        return self.db.execute(rows).scalar_one()
