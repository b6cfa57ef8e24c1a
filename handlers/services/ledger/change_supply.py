"""Changes the maximum supply of an account, and records the change as a transaction that moves nothing."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from decimal import Decimal

from domain.ledger.records import Ledger, LedgerAccount
from domain.ledger.refusals import SupplyBelowIssued
from domain.ledger.session.balances import refuse_fractions
from handlers.call import Call
from handlers.messages.json_text import digest_of
from persistence import ledger as ledgers
from persistence import ledger_transactions, posting


@dataclass(frozen=True, slots=True, kw_only=True)
class SupplyChange:
    """The request to set the maximum supply of an account."""

    external_event_date: datetime | None = None
    system_unique_key: str | None = None
    external_id: str | None = None
    description: str | None = None
    tags: Sequence[str] | None = None
    max_supply: Decimal | None = None


def change_supply(call: Call, ledger: Ledger, account: LedgerAccount, change: SupplyChange) -> int:
    """Set `max_supply` (None for no limit). Returns the id of the transaction that records the change.

    The account is locked, so that no other transaction posts to it. Raises InvalidRequest, SupplyBelowIssued or
    KeyReused.
    """
    account = ledgers.lock_account(call.db, ledger, account)
    key = change.system_unique_key or call.new_key()
    digest = _digest(account, change)
    transaction_id = posting.find_posted(call.db, account.organization_id, [key]).find(key, digest)
    if transaction_id is not None:
        return transaction_id
    _refuse_below_issued(call, account, change.max_supply)
    call.audit.add(
        "ledger-account",
        account.ledger_account_id,
        before={"maxSupply": account.max_supply},
        after={"maxSupply": change.max_supply, "description": change.description, "systemUniqueKey": key},
    )
    ledgers.store_account(call.db, ledger, account, {"max_supply": change.max_supply}, call.now)
    return ledger_transactions.add_mint_of_zero(
        call.db,
        account,
        system_unique_key=key,
        request_digest=digest,
        external_id=change.external_id,
        external_event_date=change.external_event_date,
        description=change.description,
        tags=change.tags or None,
        created_at=call.now,
        updated_at=call.now,
    )


def _digest(account: LedgerAccount, change: SupplyChange) -> bytes:
    content = {name: value for name, value in asdict(change).items() if name != "system_unique_key"}
    return digest_of(["max-supply", account.ledger_account_id, content])


def _refuse_below_issued(call: Call, account: LedgerAccount, max_supply: Decimal | None) -> None:
    """Refuse a maximum supply with too many digits, or below what the account has issued."""
    if max_supply is None:
        return
    refuse_fractions(account, max_supply, "maxSupply")
    issued_amounts = ledgers.find_issued_amounts(call.db, account.organization_id, [account.ledger_account_id])
    issued = issued_amounts.get(account.ledger_account_id, Decimal(0))
    if issued > max_supply:
        raise SupplyBelowIssued(f"maxSupply is {max_supply:f}; the account has issued {issued:f}.", issued=issued)
