"""Movements of points that requests contain."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from domain.ledger.availability import Availability
from domain.problems import Refusal


@dataclass(frozen=True, slots=True)
class Movement:
    """A movement that a request contains.

    It is a mint (no `from_wallet_id`), a burn (no `to_wallet_id`), a transfer, or the revert of the transaction with
    the id `reverts`. With `manual`, the transaction is pending until a request captures it. `pointer` is its JSON
    pointer in the request, for faults. `refusal` is set if it is already refused, and `refusal_if_new` if it is refused
    unless its key was used before.
    """

    ledger_account_id: int | None = None
    amount: Decimal | None = None
    from_wallet_id: int | None = None
    to_wallet_id: int | None = None
    system_unique_key: str | None = None
    external_event_date: datetime | None = None
    external_id: str | None = None
    description: str | None = None
    tags: tuple[str, ...] | None = None
    fiat_value: Decimal | None = None
    fiat_gross_amount: Decimal | None = None
    fiat_currency: str | None = None
    manual: bool = False
    allow_overdraft: bool = False
    expiration_date: datetime | None = None
    atomic_set_id: str | None = None
    reverts: int | None = None
    burn_available: bool = False
    partial_fiat_value: Decimal | None = None
    ledger_id: int | None = None
    pointer: str = ""
    refusal: Refusal | None = None
    refusal_if_new: Refusal | None = None
    qualifying_amount: Decimal | None = None
    counts_as_activity: bool = True
    availability: Availability | None = None
