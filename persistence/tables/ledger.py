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
    SmallInteger,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from domain.ledger.extensions import ExpiryExtension
from domain.ledger.records import MINT, PENDING, REVERT, Balance, Ledger, LedgerAccount, Wallet
from persistence.tables.base import (
    belongs_to_organization,
    created_and_updated,
    exact,
    foreign_key,
    index,
    instant,
    integers,
    personal,
    record_table,
    tenant_table,
    unique,
)

ledgers = record_table(
    "ledgers",
    Ledger,
    "ledger_id",
    unique("ledger_key"),
    belongs_to_organization(),
)

ledger_accounts = record_table(
    "ledger_accounts",
    LedgerAccount,
    "ledger_account_id",
    unique("ledger_account_key"),
    index("uq_ledger_accounts_alias", "ledger_id", "alias", unique=True),
    index("uq_ledger_accounts_default", "ledger_id", unique=True, where="is_default_account"),
    CheckConstraint("decimals BETWEEN 0 AND 6", "decimals"),
    foreign_key("ledgers", "ledger_id"),
    types={
        "decimals": SmallInteger,
        "expires_in_months": Integer,
        "expiry_year_start_month": SmallInteger,
        "late_activity_days": SmallInteger,
        "restored_expiry_days": SmallInteger,
    },
    defaults={
        "is_currency": "false",
        "decimals": "0",
        "chain_sync_enabled": "false",
        "point_tracking_enabled": "false",
        "expiry_rounding": "'none'",
        "expiry_year_start_month": "1",
        "late_activity_days": "3",
        "restored_expiry_days": "0",
        "is_default_account": "false",
    },
)

# The sums of all mints and burns of an account, spread over several rows, so that mints seldom wait for each other.
ledger_account_supplies = tenant_table(
    "ledger_account_supplies",
    ("ledger_account_id", "shard"),
    Column("ledger_account_id", BigInteger, nullable=False),
    Column("shard", SmallInteger, nullable=False),
    exact("minted", nullable=False),
    exact("burned", nullable=False),
    foreign_key("ledger_accounts", "ledger_account_id"),
)

wallets = record_table(
    "wallets",
    Wallet,
    "wallet_id",
    foreign_key("ledgers", "ledger_id"),
)

ledger_balances = record_table(
    "ledger_balances",
    Balance,
    ("wallet_id", "ledger_account_id"),
    # When something last happened that keeps the points alive, for accounts whose policy counts activities.
    instant("last_activity_date"),
    # The qualifying points of all mints less reversals, whether or not the points were spent or have expired.
    exact("earned", nullable=False, default="0"),
    CheckConstraint("current_balance >= 0", "current_balance"),
    CheckConstraint("pending_debit_balance BETWEEN 0 AND current_balance", "pending_debit_balance"),
    CheckConstraint("pending_credit_balance >= 0", "pending_credit_balance"),
    CheckConstraint("current_overdraft_balance >= 0", "current_overdraft_balance"),
    foreign_key("wallets", "wallet_id"),
    foreign_key("ledger_accounts", "ledger_account_id"),
    defaults={
        "current_balance": "0",
        "pending_credit_balance": "0",
        "pending_debit_balance": "0",
        "current_overdraft_balance": "0",
        "total_overdraft_credit_balance": "0",
        "total_fiat_value": "0",
    },
    postgresql_with={"fillfactor": "70"},
)

_IS_PENDING = f"status = {PENDING}"
_IS_MINT = f"transaction_type = {MINT}"
_AWAITS_EVENT = f"{_IS_PENDING} AND {_IS_MINT} AND available_at IS NULL AND available_on IS NOT NULL"

ledger_transactions = tenant_table(
    "ledger_transactions",
    "ledger_transaction_id",
    Column("ledger_account_id", BigInteger, nullable=False),
    Column("transaction_type", SmallInteger, nullable=False),
    Column("status", SmallInteger, nullable=False),
    exact("amount", nullable=False),
    Column("system_unique_key", Text, nullable=False),
    # The digest of the keyed request; null for transactions that the server itself caused.
    personal(Column("request_digest", LargeBinary)),
    personal(Column("external_id", Text)),
    instant("external_event_date"),
    personal(Column("description", Text)),
    Column("tags", ARRAY(Text)),
    Column("from_wallet_id", BigInteger),
    Column("to_wallet_id", BigInteger),
    Column("loyalty_event_id", BigInteger),
    Column("atomic_set_id", Uuid(as_uuid=False)),
    # The amount that a pending transaction first reserved; its capture changes `amount` to the captured amount.
    exact("reserved_amount"),
    # The expiry of the value of a pending mint; null for the account's policy.
    instant("pending_expires_at"),
    # When the hold of a pending transaction ends, if it ends by time.
    instant("held_until"),
    # For a mint that is not available at once: the moment from which it is available, and the terms if it first waits
    # for an event. Such a mint always has an `external_event_date`, and is captured as of the moment `available_at`.
    instant("available_at"),
    Column("available_on", JSONB),
    # The expiry of a mint that waits, by the account's policy, counted from `available_at`.
    instant("policy_expires_at"),
    # The moment of a capture and of its entries; entries that were written before it are of `created_at`.
    instant("captured_at"),
    Column("is_expiry", Boolean, nullable=False, server_default=text("false")),
    Column("is_extension", Boolean, nullable=False, server_default=text("false")),
    exact("fiat_value"),
    exact("fiat_gross_amount"),
    Column("fiat_currency", Text),
    Column("reverted_ledger_transaction_id", BigInteger),
    Column("reversal_ledger_transaction_id", BigInteger),
    # A partial revert, which leaves the reverted transaction unchanged.
    Column("is_partial", Boolean, nullable=False, server_default=text("false")),
    # The missing amount of a reverted mint, and the last revert that found points of the mint spent.
    exact("missing"),
    Column("clamped_by_ledger_transaction_id", BigInteger),
    # The amount of an unreverted mint that does not count as earned any more, since it was reverted in part.
    exact("unearned"),
    # The qualifying points of a mint, from which `unearned` is subtracted; null if they are the whole amount.
    exact("qualifying_amount"),
    # The transaction as a part of which this one was posted: an expiry is a part of the mint of points that had expired
    # before; some expiries and reverts of parts of mints are parts of another revert.
    Column("part_of_ledger_transaction_id", BigInteger),
    *created_and_updated(),
    unique("system_unique_key"),
    index("ix_ledger_transactions_event", "loyalty_event_id", where="loyalty_event_id IS NOT NULL"),
    index("ix_ledger_transactions_partial", "reverted_ledger_transaction_id", where="is_partial"),
    index("ix_ledger_transactions_missing", "to_wallet_id", where="missing > 0"),
    index(
        "ix_ledger_transactions_part_of",
        "part_of_ledger_transaction_id",
        where="part_of_ledger_transaction_id IS NOT NULL",
    ),
    index("ix_ledger_transactions_account", "ledger_account_id", "ledger_transaction_id"),
    index(
        "ix_ledger_transactions_external_event_date",
        "ledger_account_id",
        "external_event_date",
        where="external_event_date IS NOT NULL",
    ),
    index("ix_ledger_transactions_pending", "from_wallet_id", "ledger_account_id", where=_IS_PENDING),
    # Mints and reverts, for reports.
    index(
        "ix_ledger_transactions_date",
        text("coalesce(external_event_date, created_at)"),
        where=f"transaction_type IN ({MINT}, {REVERT})",
    ),
    # Mints that waited, for reports: they were captured as of the moment when they became available.
    index("ix_ledger_transactions_released", "captured_at", where="available_at IS NOT NULL"),
    # A wallet's earnings by time, for tiers by points of a period. Only mints of earlier versions have been captured
    # without an `external_event_date`; they count at their capture.
    index(
        "ix_ledger_transactions_earned",
        "to_wallet_id",
        "ledger_account_id",
        text("coalesce(external_event_date, captured_at, created_at)"),
        where=_IS_MINT,
    ),
    # Expiries that late activities may revert.
    index("ix_ledger_transactions_expiry", "from_wallet_id", "external_event_date", where="is_expiry"),
    # Wallets with holds that have ended.
    index("ix_ledger_transactions_held", "from_wallet_id", where=f"{_IS_PENDING} AND held_until IS NOT NULL"),
    index("ix_ledger_transactions_pending_to", "to_wallet_id", where=_IS_PENDING),
    # A wallet's mints that were not available at once.
    index("ix_ledger_transactions_timed", "to_wallet_id", "ledger_account_id", where="available_at IS NOT NULL"),
    # Mints that wait for an event that has not happened yet: of a wallet, and of an order.
    index("ix_ledger_transactions_awaiting", "to_wallet_id", where=_AWAITS_EVENT),
    index("ix_ledger_transactions_awaiting_order", text("(available_on ->> 'orderExternalId')"), where=_AWAITS_EVENT),
    # Mints that wait for a moment, or that are cancelled at a moment unless an event confirms them before.
    index(
        "ix_ledger_transactions_waiting",
        text("coalesce(available_at, held_until)"),
        "to_wallet_id",
        where=f"{_IS_PENDING} AND {_IS_MINT} AND (available_at IS NOT NULL OR available_on IS NOT NULL)",
    ),
    Index("ix_ledger_transactions_tags", "tags", postgresql_using="gin", postgresql_where=text("tags IS NOT NULL")),
    CheckConstraint("transaction_type BETWEEN 0 AND 3", "transaction_type"),
    CheckConstraint("status BETWEEN 0 AND 2", "status"),
    CheckConstraint("amount >= 0", "amount"),
    foreign_key("ledger_accounts", "ledger_account_id"),
)

# An entry without a wallet is of the account's issuance. Entries are never changed; those of a transaction sum to zero.
ledger_entries = tenant_table(
    "ledger_entries",
    ("ledger_transaction_id", "entry_index"),
    Column("ledger_transaction_id", BigInteger, nullable=False),
    Column("entry_index", SmallInteger, nullable=False),
    Column("ledger_account_id", BigInteger, nullable=False),
    Column("wallet_id", BigInteger),
    exact("amount", nullable=False),
    exact("updated_balance"),
    Column("is_overdraft", Boolean, nullable=False, server_default=text("false")),
    index(
        "ix_ledger_entries_wallet",
        "wallet_id",
        "ledger_transaction_id",
        "ledger_account_id",
        where="wallet_id IS NOT NULL",
    ),
    foreign_key("ledger_transactions", "ledger_transaction_id"),
)

ledger_lots = tenant_table(
    "ledger_lots",
    "ledger_lot_id",
    *integers("wallet_id", "ledger_account_id", "ledger_transaction_id"),
    exact("amount", nullable=False),
    exact("remaining", nullable=False),
    # The amount left when the lot expired.
    exact("expired", nullable=False, default="0"),
    instant("expires_at"),
    # If the lot was extended, the moment before which it does not expire with an idle balance.
    instant("kept_until"),
    instant("created_at", nullable=False),
    index(
        "ix_ledger_lots_kept",
        "wallet_id",
        "ledger_account_id",
        where="remaining > 0 AND kept_until IS NOT NULL",
    ),
    index(
        "ix_ledger_lots_spendable",
        "wallet_id",
        "ledger_account_id",
        text("expires_at NULLS LAST"),
        "ledger_lot_id",
        where="remaining > 0",
    ),
    index("ix_ledger_lots_transaction", "ledger_transaction_id"),
    CheckConstraint("remaining BETWEEN 0 AND amount", "remaining"),
    foreign_key("ledger_transactions", "ledger_transaction_id"),
    foreign_key("wallets", "wallet_id"),
)

expiry_extensions = record_table(
    "expiry_extensions",
    ExpiryExtension,
    "expiry_extension_id",
    unique("system_unique_key"),
    index("ix_expiry_extensions_running", "expiry_extension_id", where="status = 'running'"),
    foreign_key("ledger_accounts", "ledger_account_id"),
)

# The progress of the notices of expiring points, see `persistence.expiry_notices`.
expiry_notices = tenant_table(
    "expiry_notices",
    ("ledger_account_id",),
    Column("ledger_account_id", BigInteger, nullable=False),
    instant("done_until", nullable=False),
    instant("moment"),
    Column("after_wallet_id", BigInteger, nullable=False),
    foreign_key("ledger_accounts", "ledger_account_id"),
)

ledger_lot_uses = tenant_table(
    "ledger_lot_uses",
    ("ledger_transaction_id", "ledger_lot_id"),
    *integers("ledger_transaction_id", "ledger_lot_id"),
    exact("amount", nullable=False),
    CheckConstraint("amount > 0", "amount"),
    foreign_key("ledger_transactions", "ledger_transaction_id"),
    foreign_key("ledger_lots", "ledger_lot_id"),
)
