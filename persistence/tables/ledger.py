"""The double-entry ledger: accounts (units of value), wallets (holders), balances, transactions, entries and lots."""

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from persistence.tables.base import (
    belongs_to_organization,
    created_and_updated,
    exact,
    external_key,
    instant,
    key,
    metadata,
    refers_to,
    tenant_table,
)

ledgers = tenant_table(
    "ledgers",
    "ledger_id",
    key("ledger_key"),
    Column("name", Text, nullable=False),
    Column("description", Text),
    *external_key(),
    *created_and_updated(),
    UniqueConstraint("organization_id", "ledger_key"),
    belongs_to_organization(),
)

ledger_accounts = tenant_table(
    "ledger_accounts",
    "ledger_account_id",
    key("ledger_account_key"),
    Column("ledger_id", BigInteger, nullable=False),
    Column("alias", Text),
    Column("name", Text, nullable=False),
    Column("active", Boolean, nullable=False),
    Column("is_currency", Boolean, nullable=False, server_default=text("false")),
    Column("decimals", SmallInteger, nullable=False, server_default=text("0")),
    Column("format_string", Text),
    Column("chain_asset_id", Text),
    Column("chain_sync_enabled", Boolean, nullable=False, server_default=text("false")),
    exact("max_supply"),
    Column("is_revolving", Boolean, nullable=False),
    Column("point_tracking_enabled", Boolean, nullable=False, server_default=text("false")),
    Column("expires_in_months", Integer),
    Column("expiration_policies", JSONB, nullable=False, server_default=text("'[]'")),
    Column("is_default_account", Boolean, nullable=False, server_default=text("false")),
    exact("overdraft_limit"),
    *external_key(),
    *created_and_updated(),
    UniqueConstraint("organization_id", "ledger_account_key"),
    Index("uq_ledger_accounts_alias", "organization_id", "ledger_id", "alias", unique=True),
    Index(
        "uq_ledger_accounts_default",
        "organization_id",
        "ledger_id",
        unique=True,
        postgresql_where=text("is_default_account"),
    ),
    CheckConstraint("decimals BETWEEN 0 AND 6", "decimals"),
    refers_to("ledgers", "ledger_id"),
)

# The total ever minted and burned, spread over rows so that two mints of one account need not wait for each other.
ledger_account_supplies = Table(
    "ledger_account_supplies",
    metadata,
    Column("organization_id", BigInteger, nullable=False),
    Column("ledger_account_id", BigInteger, nullable=False),
    Column("shard", SmallInteger, nullable=False),
    exact("minted", nullable=False),
    exact("burned", nullable=False),
    PrimaryKeyConstraint("organization_id", "ledger_account_id", "shard"),
    refers_to("ledger_accounts", "ledger_account_id"),
)

wallets = tenant_table(
    "wallets",
    "wallet_id",
    key("wallet_key"),
    Column("ledger_id", BigInteger, nullable=False),
    instant("created_at", nullable=False),
    refers_to("ledgers", "ledger_id"),
)

ledger_balances = Table(
    "ledger_balances",
    metadata,
    Column("organization_id", BigInteger, nullable=False),
    Column("wallet_id", BigInteger, nullable=False),
    Column("ledger_account_id", BigInteger, nullable=False),
    exact("current_balance", nullable=False, default="0"),
    exact("pending_credit_balance", nullable=False, default="0"),
    exact("pending_debit_balance", nullable=False, default="0"),
    exact("current_overdraft_balance", nullable=False, default="0"),
    exact("total_overdraft_credit_balance", nullable=False, default="0"),
    exact("total_fiat_value", nullable=False, default="0"),
    # The minted amount less reversals, whether or not the points were spent or have expired.
    exact("earned", nullable=False, default="0"),
    instant("last_transaction_date"),
    *created_and_updated(),
    PrimaryKeyConstraint("organization_id", "wallet_id", "ledger_account_id"),
    CheckConstraint("current_balance >= 0", "current_balance"),
    CheckConstraint("pending_debit_balance BETWEEN 0 AND current_balance", "pending_debit_balance"),
    CheckConstraint("pending_credit_balance >= 0", "pending_credit_balance"),
    CheckConstraint("current_overdraft_balance >= 0", "current_overdraft_balance"),
    refers_to("wallets", "wallet_id"),
    refers_to("ledger_accounts", "ledger_account_id"),
    # Every movement rewrites the row: room in the page keeps the rewrites off the index (heap-only tuples).
    postgresql_with={"fillfactor": "70"},
)

ledger_transactions = tenant_table(
    "ledger_transactions",
    "ledger_transaction_id",
    Column("ledger_account_id", BigInteger, nullable=False),
    Column("transaction_type", SmallInteger, nullable=False),
    Column("status", SmallInteger, nullable=False),
    exact("amount", nullable=False),
    Column("system_unique_key", Text, nullable=False),
    # The digest of the keyed request; null for transactions that the server itself caused.
    Column("request_digest", LargeBinary),
    Column("external_id", Text),
    instant("external_event_date"),
    Column("description", Text),
    Column("tags", ARRAY(Text)),
    Column("from_wallet_id", BigInteger),
    Column("to_wallet_id", BigInteger),
    Column("loyalty_event_id", BigInteger),
    Column("atomic_set_id", Uuid(as_uuid=False)),
    # The amount that a manual capture set aside at first; `amount` becomes the captured amount.
    exact("reserved_amount"),
    # The expiry of the value of a pending mint; null for the account's policy.
    instant("pending_expires_at"),
    # When a manual capture settled: its entries are of this moment, the others of `created_at`.
    instant("captured_at"),
    Column("is_expiry", Boolean, nullable=False, server_default=text("false")),
    exact("fiat_value"),
    exact("fiat_gross_amount"),
    Column("fiat_currency", Text),
    Column("reverted_ledger_transaction_id", BigInteger),
    Column("reversal_ledger_transaction_id", BigInteger),
    # A revert that takes back a part and leaves what it reverts as it is.
    Column("is_partial", Boolean, nullable=False, server_default=text("false")),
    # The amount of a reverted mint that could not be taken back, since it was spent, and the last revert to find it so.
    exact("missing"),
    Column("clamped_by_ledger_transaction_id", BigInteger),
    # The amount of an unreverted mint that does not count as earned any more, since it was reverted in part.
    exact("unearned"),
    # The transaction as part of which this one was posted: the expiry, or the part of a mint, that a revert entails.
    Column("part_of_ledger_transaction_id", BigInteger),
    *created_and_updated(),
    UniqueConstraint("organization_id", "system_unique_key"),
    Index(
        "ix_ledger_transactions_event",
        "organization_id",
        "loyalty_event_id",
        postgresql_where=text("loyalty_event_id IS NOT NULL"),
    ),
    Index(
        "ix_ledger_transactions_partial",
        "organization_id",
        "reverted_ledger_transaction_id",
        postgresql_where=text("is_partial"),
    ),
    Index(
        "ix_ledger_transactions_missing",
        "organization_id",
        "to_wallet_id",
        postgresql_where=text("missing > 0"),
    ),
    Index(
        "ix_ledger_transactions_part_of",
        "organization_id",
        "part_of_ledger_transaction_id",
        postgresql_where=text("part_of_ledger_transaction_id IS NOT NULL"),
    ),
    Index("ix_ledger_transactions_account", "organization_id", "ledger_account_id", "ledger_transaction_id"),
    Index(
        "ix_ledger_transactions_external_event_date",
        "organization_id",
        "ledger_account_id",
        "external_event_date",
        postgresql_where=text("external_event_date IS NOT NULL"),
    ),
    Index(
        "ix_ledger_transactions_pending",
        "organization_id",
        "from_wallet_id",
        "ledger_account_id",
        postgresql_where=text("status = 0"),
    ),
    # Mints, and reverts, for reports.
    Index(
        "ix_ledger_transactions_date",
        "organization_id",
        text("coalesce(external_event_date, created_at)"),
        postgresql_where=text("transaction_type IN (1, 3)"),
    ),
    # A wallet's earnings by time, for tiers by points of a period.
    Index(
        "ix_ledger_transactions_earned",
        "organization_id",
        "to_wallet_id",
        "ledger_account_id",
        text("coalesce(external_event_date, captured_at, created_at)"),
        postgresql_where=text("transaction_type = 1"),
    ),
    Index(
        "ix_ledger_transactions_pending_to",
        "organization_id",
        "to_wallet_id",
        postgresql_where=text("status = 0"),
    ),
    Index("ix_ledger_transactions_tags", "tags", postgresql_using="gin", postgresql_where=text("tags IS NOT NULL")),
    CheckConstraint("transaction_type BETWEEN 0 AND 3", "transaction_type"),
    CheckConstraint("status BETWEEN 0 AND 2", "status"),
    CheckConstraint("amount >= 0", "amount"),
    refers_to("ledger_accounts", "ledger_account_id"),
)

# wallet_id null is the account's issuance side. Entries are only added, never changed, and sum to zero per transaction.
ledger_entries = Table(
    "ledger_entries",
    metadata,
    Column("organization_id", BigInteger, nullable=False),
    Column("ledger_transaction_id", BigInteger, nullable=False),
    Column("entry_index", SmallInteger, nullable=False),
    Column("ledger_account_id", BigInteger, nullable=False),
    Column("wallet_id", BigInteger),
    exact("amount", nullable=False),
    exact("updated_balance"),
    Column("is_overdraft", Boolean, nullable=False, server_default=text("false")),
    PrimaryKeyConstraint("organization_id", "ledger_transaction_id", "entry_index"),
    Index(
        "ix_ledger_entries_wallet",
        "organization_id",
        "wallet_id",
        "ledger_transaction_id",
        "ledger_account_id",
        postgresql_where=text("wallet_id IS NOT NULL"),
    ),
    refers_to("ledger_transactions", "ledger_transaction_id"),
)

ledger_lots = tenant_table(
    "ledger_lots",
    "ledger_lot_id",
    Column("wallet_id", BigInteger, nullable=False),
    Column("ledger_account_id", BigInteger, nullable=False),
    Column("ledger_transaction_id", BigInteger, nullable=False),
    exact("amount", nullable=False),
    exact("remaining", nullable=False),
    # The amount left when the lot expired.
    exact("expired", nullable=False, default="0"),
    instant("expires_at"),
    instant("created_at", nullable=False),
    Index(
        "ix_ledger_lots_spendable",
        "organization_id",
        "wallet_id",
        "ledger_account_id",
        text("expires_at NULLS LAST"),
        "ledger_lot_id",
        postgresql_where=text("remaining > 0"),
    ),
    Index("ix_ledger_lots_transaction", "organization_id", "ledger_transaction_id"),
    CheckConstraint("remaining BETWEEN 0 AND amount", "remaining"),
    refers_to("ledger_transactions", "ledger_transaction_id"),
    refers_to("wallets", "wallet_id"),
)

ledger_lot_uses = Table(
    "ledger_lot_uses",
    metadata,
    Column("organization_id", BigInteger, nullable=False),
    Column("ledger_transaction_id", BigInteger, nullable=False),
    Column("ledger_lot_id", BigInteger, nullable=False),
    exact("amount", nullable=False),
    PrimaryKeyConstraint("organization_id", "ledger_transaction_id", "ledger_lot_id"),
    CheckConstraint("amount > 0", "amount"),
    refers_to("ledger_transactions", "ledger_transaction_id"),
    refers_to("ledger_lots", "ledger_lot_id"),
)
