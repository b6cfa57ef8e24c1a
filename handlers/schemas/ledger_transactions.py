"""Movements that requests ask for, and the transactions in answers, on the wire."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from domain.ledger.views import TransactionRow
from domain.problems import FieldFault, InvalidRequest, Refusal
from handlers.messages.base import Exact, Instant, Part, Plain, Shape, WireSchema
from handlers.schemas.ledger import TRANSACTION_ROW
from handlers.services.ledger.post_transactions import Movement

_MANUAL = "manual"


class _Details(WireSchema):
    external_event_date = Instant()
    system_unique_key = Plain()
    external_id = Plain()
    description = Plain()
    tags = Plain()


class _Burn(_Details):
    amount = Exact()
    capture_method = Plain()
    allow_overdraft = Plain(load_default=False)


class _Mint(_Details):
    amount = Exact()
    expiration_date = Instant()


class _Movement(_Burn):
    from_wallet_id = Plain()
    to_wallet_id = Plain()
    fiat_value = Exact()
    fiat_gross_amount = Exact()
    fiat_currency = Plain()


class _SetItem(_Movement):
    ledger_account_id = Plain()


class _BatchItem(_SetItem):
    organization_id = Plain()
    ledger_id = Plain()
    atomic_set_id = Plain()
    expiration_date = Instant()
    reverted_ledger_transaction_id = Plain(attribute="reverts")


class _Revert(_Details):
    partial_fiat_value = Exact()


class _Supply(_Details):
    max_supply = Exact()


class _Capture(WireSchema):
    ledger_transaction_id = Plain()
    capture_amount = Exact()


class _Captures(WireSchema):
    transactions = Part(Shape(_Capture, complete=True), many=True)


class _PartialFiat(WireSchema):
    ledger_transaction_id = Plain()
    partial_fiat_value = Exact()


class _BatchRevert(WireSchema):
    transaction_ids = Plain()
    burn_available_balance = Plain(load_default=False)
    allow_overdraft = Plain(load_default=False)
    partial_fiat_values = Part(Shape(_PartialFiat), many=True, load_default=list)


MOVEMENT = Shape(_Movement, complete=True)
BURN = Shape(_Burn, complete=True)
MINT = Shape(_Mint, complete=True)
REVERT = Shape(_Revert, complete=True)
SUPPLY = Shape(_Supply, complete=True)
CAPTURES = Shape(_Captures, complete=True)
BATCH_REVERT = Shape(_BatchRevert, complete=True)
_SET_ITEM = Shape(_SetItem, complete=True)
_BATCH_ITEM = Shape(_BatchItem, complete=True)


def movement(body: Mapping[str, Any], **addressed: Any) -> Movement:
    """The movement of a loaded body and of the records that its path addresses."""
    values = {**body, **addressed}
    values["manual"] = values.pop("capture_method", None) == _MANUAL
    values["tags"] = tuple(values["tags"] or ()) or None
    return Movement(**values)


class SetBody:
    """The body of a transaction set: a movement for each item."""

    def load(self, body: Mapping[str, Any]) -> list[Movement]:
        """The movements, in their order."""
        return [movement(_SET_ITEM.load(item), pointer=f"/create/{index}") for index, item in enumerate(body["create"])]


@dataclass(frozen=True, slots=True)
class BatchItem:
    """One item of a batch: its movement, and the organization that it names."""

    movement: Movement
    organization_id: int | None
    system_unique_key: str | None


class BatchBody:
    """The body of a batch; an item whose fields contradict each other is refused on its own."""

    def load(self, body: Mapping[str, Any]) -> list[BatchItem]:
        """The items, in their order."""
        return [_batch_item(item, f"/items/{index}") for index, item in enumerate(body["items"])]


# Fields that are for movements, not for reverts.
_NOT_OF_A_REVERT = ("amount", "fromWalletId", "toWalletId", "captureMethod", "expirationDate")
_NEEDED = ("amount", "fromWalletId", "toWalletId", "ledgerAccountId")


def _batch_item(item: Mapping[str, Any], pointer: str) -> BatchItem:
    loaded = _BATCH_ITEM.load(item)
    organization_id = loaded.pop("organization_id")
    if loaded["reverts"] is not None:
        faults = [
            FieldFault(f"{name} is given beside reverts, and a revert has none", pointer=f"{pointer}/{name}")
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
    return BatchItem(movement(loaded, pointer=pointer, refusal=refusal), organization_id, loaded["system_unique_key"])


def transactions(found: Sequence[Sequence[TransactionRow]]) -> dict[str, Any]:
    """The rows of each posted transaction, in order."""
    return {"transactions": [TRANSACTION_ROW.dump(row) for rows in found for row in rows]}


@dataclass(frozen=True, slots=True)
class Processed:
    """The outcome of one item: rows or a refusal; `identity` names the item, `account_keys` its ledger and account."""

    identity: Mapping[str, Any]
    account_keys: tuple[str, str] | None
    rows: Sequence[TransactionRow]
    refusal: Refusal | None


def processed(items: Sequence[Processed]) -> dict[str, Any]:
    """The answer of a batch: processed and refused items, each in the order of the request."""
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


def partial_fiat_values(body: Mapping[str, Any]) -> dict[str, Decimal]:
    """The fiat values of a batch revert, by transaction.

    Raises InvalidRequest for a transaction that is not reverted, or is named twice.
    """
    values: dict[str, Decimal] = {}
    faults = []
    for index, each in enumerate(body["partial_fiat_values"]):
        transaction_id, place = each["ledger_transaction_id"], f"/partialFiatValues/{index}/ledgerTransactionId"
        if transaction_id in values:
            faults.append(FieldFault(f"ledgerTransactionId {transaction_id} has a fiat value already", pointer=place))
        elif transaction_id not in body["transaction_ids"]:
            faults.append(FieldFault(f"ledgerTransactionId {transaction_id} is not in transactionIds", pointer=place))
        values[transaction_id] = each["partial_fiat_value"]
    if faults:
        raise InvalidRequest(faults)
    return values
