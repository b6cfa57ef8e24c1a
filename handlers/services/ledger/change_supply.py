"""Changing the maximum supply of an account, recorded as a transaction that moves nothing."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from domain.idempotency import refuse_other_request
from domain.ledger.accounts import fraction_fault
from domain.ledger.records import Ledger, LedgerAccount
from domain.ledger.refusals import SupplyBelowIssued
from domain.problems import InvalidRequest
from handlers.call import Call
from handlers.services.idempotency import digest_of
from persistence import ledger as ledgers
from persistence import ledger_transactions, posting


def change_supply(call: Call, ledger: Ledger, account: LedgerAccount, body: Mapping[str, Any]) -> int:
    """Set `max_supply` (None is without limit). Returns the id of the transaction that records it.

    Nobody posts to the account meanwhile. Raises InvalidRequest, SupplyBelowIssued or KeyReused.
    """
    account = ledgers.lock_account(call.db, ledger, account)
    key = body["system_unique_key"] or call.new_key()
    digest = _digest(account, body)
    before = posting.find_posted(call.db, account.organization_id, [key]).get(key)
    if before is not None:
        refuse_other_request(key, digest, before.request_digest)
        return before.ledger_transaction_id
    _refuse(call, account, body["max_supply"])
    call.audit.add(
        "ledger-account",
        account.ledger_account_id,
        before={"maxSupply": account.max_supply},
        after={"maxSupply": body["max_supply"], "description": body["description"], "systemUniqueKey": key},
    )
    ledgers.change_account(call.db, ledger, account, max_supply=body["max_supply"], updated_at=call.now)
    return ledger_transactions.add_zero(
        call.db,
        account,
        system_unique_key=key,
        request_digest=digest,
        external_id=body["external_id"],
        external_event_date=body["external_event_date"],
        description=body["description"],
        tags=body["tags"] or None,
        created_at=call.now,
        updated_at=call.now,
    )


def _digest(account: LedgerAccount, body: Mapping[str, Any]) -> bytes:
    asked = {name: value for name, value in body.items() if name != "system_unique_key"}
    return digest_of(["max-supply", account.ledger_account_id, asked])


def _refuse(call: Call, account: LedgerAccount, max_supply: Decimal | None) -> None:
    if max_supply is None:
        return
    fault = fraction_fault("maxSupply", max_supply, account.decimals)
    if fault is not None:
        raise InvalidRequest([fault])
    issued = ledgers.issued(call.db, account.organization_id, [account.ledger_account_id])
    amount = issued.get(account.ledger_account_id, Decimal(0))
    if amount > max_supply:
        raise SupplyBelowIssued(f"The account has issued {amount:f}.", issued=amount)
