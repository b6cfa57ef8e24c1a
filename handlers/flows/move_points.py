"""Minting for a member and burning from one: the ledger and account are looked up, the key answers once."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import msgspec

from domain.ledger.postings import Details
from domain.ledger.records import MINT, LedgerAccount
from domain.ledger.refusals import UnknownLedger, UnknownLedgerAccount, WalletNotInLedger
from domain.members import Member
from domain.problems import KeyReused
from handlers.call import Call
from persistence import ledger, posting

_canonical = msgspec.json.Encoder(order="deterministic", decimal_format="number").encode


@dataclass(frozen=True, slots=True)
class MovedPoints:
    """A transaction as mint and burn by member answer it."""

    ledger_transaction_id: int
    amount: Decimal
    from_wallet_id: int | None
    to_wallet_id: int | None
    organization_id: int
    ledger_id: int
    ledger_account_id: int
    atomic_set_id: str | None
    system_unique_key: str


def move_points(call: Call, member: Member, transaction_type: int, body: Mapping[str, Any]) -> MovedPoints:
    """Mint or burn (administration, Members 6); the same key with the same request answers the same transaction."""
    organization_id = call.organization.organization_id
    account = _account(call, body["ledger_id"], body["ledger_account_id"])
    if account.ledger_id != call.organization.default_ledger_id:
        raise WalletNotInLedger("Members' wallets are in the organization's default ledger.")
    key = body["system_unique_key"] or call.new_key()
    digest = _digest(member, transaction_type, account, body)
    posting.lock_wallets(call.db, organization_id, [member.wallet_id])
    before = posting.find_by_key(call.db, organization_id, key)
    if before is not None:
        if before.request_digest != digest:
            raise KeyReused(f"The key {key} was used before.")
        return MovedPoints(
            before.ledger_transaction_id,
            before.amount,
            before.from_wallet_id,
            before.to_wallet_id,
            organization_id,
            account.ledger_id,
            account.ledger_account_id,
            before.atomic_set_id,
            key,
        )
    books = posting.open_books(
        call.db, organization_id, [member.wallet_id], {account.ledger_account_id: account}, call.now
    )
    details = Details(
        system_unique_key=key,
        request_digest=digest,
        external_id=body["external_id"],
        external_event_date=body["external_event_date"],
        description=body["description"],
        tags=tuple(body["tags"]),
    )
    post = books.mint if transaction_type == MINT else books.burn
    posted = post(account, member.wallet_id, body["amount"], details)
    ids = posting.write_books(call.db, organization_id, books)
    return MovedPoints(
        ids[books.steps.index(posted)],
        posted.amount,
        posted.from_wallet_id,
        posted.to_wallet_id,
        organization_id,
        account.ledger_id,
        account.ledger_account_id,
        None,
        key,
    )


def _account(call: Call, ledger_id: int | None, ledger_account_id: int | None) -> LedgerAccount:
    """The account that a request means; the default ledger, and a ledger's default account, where it names none."""
    organization_id = call.organization.organization_id
    wanted_ledger = ledger_id if ledger_id is not None else call.organization.default_ledger_id
    if wanted_ledger is None or ledger.find_ledger(call.db, organization_id, wanted_ledger) is None:
        raise UnknownLedger("There is no such ledger.")
    if ledger_account_id is None:
        account = ledger.find_default_account(call.db, organization_id, wanted_ledger)
    else:
        account = ledger.find_account(call.db, organization_id, ledger_account_id)
    if account is None or account.ledger_id != wanted_ledger:
        raise UnknownLedgerAccount("There is no such account in the ledger.")
    return account


def _digest(member: Member, transaction_type: int, account: LedgerAccount, body: Mapping[str, Any]) -> bytes:
    said = (transaction_type, member.member_id, account.ledger_account_id, sorted(body.items()))
    return hashlib.sha256(_canonical(said)).digest()
