"""Movements that requests ask for, and the transactions in responses, on the wire."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from decimal import Decimal
from typing import Any

from domain.ledger.availability import Availability, TermsOfAvailability
from domain.ledger.views import TransactionRow
from domain.problems import FieldFault, InvalidRequest, Refusal
from handlers.messages.base import OF_REQUEST, Body, values_of
from handlers.schemas.ledgers import TRANSACTION_ROW
from handlers.services.ledger.movements import Movement

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
    atomic_set_id: str | None = None
    expiration_date: datetime | None = None
    qualifying_amount: Decimal | None = None
    reverts: int | None = field(default=None, metadata={"wire": "revertedLedgerTransactionId"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RevertRequest(TransactionDetails):
    """A revert of the transaction of the path."""

    partial_fiat_value: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureRequest:
    """The capture of one transaction; without an amount, of all that is pending."""

    ledger_transaction_id: int
    capture_amount: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Captures:
    """Pending transactions to capture, all or none."""

    transactions: Sequence[CaptureRequest]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseRequest:
    """The early release of a mint that waits."""

    ledger_transaction_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Releases:
    """Mints to release, all or none."""

    transactions: Sequence[ReleaseRequest]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialFiatValue:
    """How much of the fiat value of a transaction is reverted."""

    ledger_transaction_id: str
    partial_fiat_value: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class RevertBatch:
    """Transactions to revert, each on its own."""

    transaction_ids: Sequence[str]
    burn_available_balance: bool = False
    allow_overdraft: bool = False
    partial_fiat_values: Sequence[PartialFiatValue] = ()


_SET_ITEM = Body(_SetItem)
_BATCH_ITEM = Body(_BatchItem)


def movement(body: TransactionDetails, **addressed: Any) -> Movement:
    """The movement of a body and of the records that its path addresses."""
    values = {**values_of(body), **addressed}
    values["manual"] = values.pop("capture_method", None) == _MANUAL
    values["tags"] = tuple(values["tags"] or ()) or None
    if isinstance(body, TermsOfAvailability):
        for term in fields(TermsOfAvailability):
            del values[term.name]
        values["availability"] = Availability.named_by(body)
    return Movement(**values)


def movements_of_set(body: Mapping[str, Any]) -> list[Movement]:
    """The movements of a transaction set, in their order."""
    return [movement(_SET_ITEM.load(item), pointer=f"/create/{index}") for index, item in enumerate(body["create"])]


@dataclass(frozen=True, slots=True)
class BatchedMovement:
    """One item of a batch: its movement, and the organization that it names."""

    movement: Movement
    organization_id: int | None
    system_unique_key: str | None


def batched_movements(body: Mapping[str, Any]) -> list[BatchedMovement]:
    """The items of a batch, in their order; one whose fields contradict each other is refused on its own."""
    return [_batch_item(item, f"/items/{index}") for index, item in enumerate(body["items"])]


# Fields that are for movements, not for reverts.
_NOT_OF_A_REVERT = (
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
_NEEDED = ("amount", "fromWalletId", "toWalletId", "ledgerAccountId")


def _batch_item(item: Mapping[str, Any], pointer: str) -> BatchedMovement:
    fields = _BATCH_ITEM.load(item)
    if fields.reverts is not None:
        faults = [
            FieldFault(f"{name} cannot be sent with reverts: leave it out", pointer=f"{pointer}/{name}")
            for name in _NOT_OF_A_REVERT
            if item.get(name) is not None
        ]
    else:
        faults = [
            FieldFault(f"{name} is missing", pointer=f"{pointer}/{name}")
            for name in _NEEDED
            if name not in item or (item[name] is None and not name.endswith("WalletId"))
        ]
    refusal: Refusal | None = InvalidRequest(faults) if faults else None
    requested_movement = movement(fields, pointer=pointer, refusal=refusal)
    return BatchedMovement(requested_movement, fields.organization_id, fields.system_unique_key)


def transactions(rows: Sequence[TransactionRow]) -> dict[str, Any]:
    """The rows of the posted transactions, in order."""
    return {"transactions": [TRANSACTION_ROW.dump(row) for row in rows]}


@dataclass(frozen=True, slots=True)
class Processed:
    """The outcome of one item: rows or a refusal; `identity` names the item, `account_keys` its ledger and account."""

    identity: Mapping[str, Any]
    account_keys: tuple[str, str] | None
    rows: Sequence[TransactionRow]
    refusal: Refusal | None


def processed(items: Sequence[Processed]) -> dict[str, Any]:
    """The response of a batch: processed and refused items, each in the order of the request."""
    answer: dict[str, list[Any]] = {"processed": [], "failed": []}
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
        answer["processed" if item.refusal is None else "failed"].append(result)
    return answer


def partial_fiat_values(body: RevertBatch) -> dict[str, Decimal]:
    """The fiat values of a batch revert, by transaction.

    Raises InvalidRequest for a transaction that is not reverted, or is named twice.
    """
    values: dict[str, Decimal] = {}
    faults = []
    for index, value in enumerate(body.partial_fiat_values):
        transaction_id, place = value.ledger_transaction_id, f"/partialFiatValues/{index}/ledgerTransactionId"
        if transaction_id in values:
            faults.append(FieldFault(f"ledgerTransactionId {transaction_id} already has a fiat value", pointer=place))
        elif transaction_id not in body.transaction_ids:
            faults.append(FieldFault(f"ledgerTransactionId {transaction_id} is not in transactionIds", pointer=place))
        values[transaction_id] = value.partial_fiat_value
    if faults:
        raise InvalidRequest(faults)
    return values
