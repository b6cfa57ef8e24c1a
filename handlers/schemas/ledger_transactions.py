"""The movements of requests, and the transactions of responses, on the wire."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from decimal import Decimal
from typing import Any

from domain.fields import Key
from domain.ledger.availability import Availability, TermsOfAvailability
from domain.ledger.views import TransactionRow
from domain.problems import FieldFault, InvalidRequest, Refusal
from handlers.messages.base import OF_REQUEST, Body, values_of
from handlers.schemas.ledgers import TRANSACTION_ROW
from handlers.services.ledger.movements import Movement
from persistence.ledger import AccountKeys

_MANUAL = "manual"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionDetails:
    """The fields that every request for a transaction has."""

    external_event_date: datetime | None = None
    system_unique_key: str | None = None
    external_id: str | None = None
    description: str | None = None
    tags: Sequence[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BurnRequest(TransactionDetails):
    """A burn from the wallet of the path."""

    amount: Decimal
    capture_method: str | None = None
    allow_overdraft: bool = False
    counts_as_activity: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class MintRequest(TransactionDetails, TermsOfAvailability):
    """A mint into the wallet of the path."""

    amount: Decimal
    expiration_date: datetime | None = None
    counts_as_activity: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Movement(BurnRequest):
    from_wallet_id: int | None
    to_wallet_id: int | None
    fiat_value: Decimal | None = None
    fiat_gross_amount: Decimal | None = None
    fiat_currency: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MovementRequest(_Movement, TermsOfAvailability):
    """A movement between wallets of the account of the path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _SetItem(_Movement):
    ledger_account_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _BatchItem(_SetItem, TermsOfAvailability):
    # A revert has none of the fields that a movement needs.
    amount: Decimal | None = None  # type: ignore[assignment]
    from_wallet_id: int | None = None
    to_wallet_id: int | None = None
    ledger_account_id: int | None = None  # type: ignore[assignment]
    organization_id: int | None = field(default=None, metadata=OF_REQUEST)
    ledger_id: int | None = None
    atomic_set_id: Key | None = None
    expiration_date: datetime | None = None
    qualifying_amount: Decimal | None = None
    reverts: int | None = field(default=None, metadata={"wire": "revertedLedgerTransactionId"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RevertRequest(TransactionDetails):
    """A revert of the transaction of the path."""

    partial_fiat_value: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureRequest:
    """The capture of one transaction; without `capture_amount`, of the whole pending amount."""

    ledger_transaction_id: int
    capture_amount: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Captures:
    """Pending transactions to capture, all or none."""

    transactions: Sequence[CaptureRequest]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseRequest:
    """The early release of a mint whose points wait."""

    ledger_transaction_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Releases:
    """Mints to release, all or none."""

    transactions: Sequence[ReleaseRequest]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialFiatValue:
    """The part of the fiat value of a transaction that is reverted."""

    ledger_transaction_id: str
    partial_fiat_value: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class RevertBatch:
    """Transactions to revert individually."""

    transaction_ids: Sequence[str]
    burn_available_balance: bool = False
    allow_overdraft: bool = False
    partial_fiat_values: Sequence[PartialFiatValue] = ()


_SET_ITEM = Body(_SetItem)
_BATCH_ITEM = Body(_BatchItem)


def movement(body: TransactionDetails, **fields_of_movement: Any) -> Movement:
    """The movement of a body, with further fields, such as the ids of the records that its path addresses."""
    values = {**values_of(body), **fields_of_movement}
    values["manual"] = values.pop("capture_method", None) == _MANUAL
    values["tags"] = tuple(values["tags"] or ()) or None
    if isinstance(body, TermsOfAvailability):
        for term in fields(TermsOfAvailability):
            del values[term.name]
        values["availability"] = Availability.from_fields_of(body)
    return Movement(**values)


def movements_of_set(body: Mapping[str, Any]) -> list[Movement]:
    """The movements of a transaction set, in their order."""
    return [movement(_SET_ITEM.load(item), pointer=f"/create/{index}") for index, item in enumerate(body["create"])]


@dataclass(frozen=True, slots=True)
class BatchedMovement:
    """One item of a batch: its movement, and the organization and the key that the item names, if any."""

    movement: Movement
    organization_id: int | None
    system_unique_key: str | None


def batched_movements(body: Mapping[str, Any]) -> list[BatchedMovement]:
    """The items of a batch, in their order; an item whose fields contradict each other has a refusal."""
    return [_batch_item(item, f"/items/{index}") for index, item in enumerate(body["items"])]


# Fields of movements that a revert must not have.
_FORBIDDEN_IN_REVERTS = (
    "amount",
    "fromWalletId",
    "toWalletId",
    "captureMethod",
    "expirationDate",
    "qualifyingAmount",
    "countsAsActivity",
    "availableAt",
    "availableAfter",
    "availableRounding",
    "availableOn",
)
# Fields that every other movement must have; a wallet is null if there is none.
_REQUIRED_FIELDS = ("amount", "fromWalletId", "toWalletId", "ledgerAccountId")


def _batch_item(item: Mapping[str, Any], pointer: str) -> BatchedMovement:
    """An item of a batch, whose movement has a refusal if fields are missing or must not be sent."""
    fields = _BATCH_ITEM.load(item)
    if fields.reverts is not None:
        faults = [
            FieldFault(
                f"{name} cannot be sent with revertedLedgerTransactionId: leave it out", pointer=f"{pointer}/{name}"
            )
            for name in _FORBIDDEN_IN_REVERTS
            if item.get(name) is not None
        ]
    else:
        faults = [
            FieldFault(f"{name} is missing", pointer=f"{pointer}/{name}")
            for name in _REQUIRED_FIELDS
            if name not in item or (item[name] is None and not name.endswith("WalletId"))
        ]
    refusal: Refusal | None = InvalidRequest(faults) if faults else None
    requested_movement = movement(fields, pointer=pointer, refusal=refusal)
    return BatchedMovement(requested_movement, fields.organization_id, fields.system_unique_key)


def transactions(rows: Sequence[TransactionRow]) -> dict[str, Any]:
    """The rows of the posted transactions, in order."""
    return {"transactions": [TRANSACTION_ROW.dump(row) for row in rows]}


@dataclass(frozen=True, slots=True)
class ItemOutcome:
    """The outcome of one item of a batch: rows, or a refusal.

    `identity` has the fields that name the item in the response. `account_keys` are the keys of the ledger and of the
    account, None if the item has no existing account.
    """

    identity: Mapping[str, Any]
    account_keys: AccountKeys | None
    rows: Sequence[TransactionRow]
    refusal: Refusal | None


def batch_response(items: Sequence[ItemOutcome]) -> dict[str, Any]:
    """The response to a batch: the processed and the refused items, both in the order of the request."""
    response: dict[str, list[Any]] = {"processed": [], "failed": []}
    for item in items:
        ledger_key, ledger_account_key = item.account_keys or (None, None)
        result = {
            **item.identity,
            "ledgerKey": ledger_key,
            "ledgerAccountKey": ledger_account_key,
            "processedStatus": "ok" if item.refusal is None else "failed",
            "transactions": [TRANSACTION_ROW.dump(row) for row in item.rows],
        }
        if item.refusal is not None:
            result["error"] = item.refusal.as_problem()
        response["processed" if item.refusal is None else "failed"].append(result)
    return response


def partial_fiat_values(body: RevertBatch) -> dict[str, Decimal]:
    """The fiat values of a batch revert, by the id of the transaction.

    Raises InvalidRequest for a transaction that the batch does not revert, or that has two fiat values.
    """
    values: dict[str, Decimal] = {}
    faults = []
    for index, fiat_value in enumerate(body.partial_fiat_values):
        transaction_id, pointer = fiat_value.ledger_transaction_id, f"/partialFiatValues/{index}/ledgerTransactionId"
        if transaction_id in values:
            faults.append(FieldFault(f"ledgerTransactionId {transaction_id} already has a fiat value", pointer=pointer))
        elif transaction_id not in body.transaction_ids:
            faults.append(FieldFault(f"ledgerTransactionId {transaction_id} is not in transactionIds", pointer=pointer))
        values[transaction_id] = fiat_value.partial_fiat_value
    if faults:
        raise InvalidRequest(faults)
    return values
