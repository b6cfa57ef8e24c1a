"""Rows about points: how many moved, and what gave or took them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from domain.ledger.records import PENDING, REVERT, REVERTED, TRANSACTION_TYPES, TRANSFER
from domain.timeline.rows import POINTS, TimelineRow, amount_text, clause


@dataclass(frozen=True, slots=True)
class Source:
    """The origin of points: `kind` is one of the words below.

    `name` is that of the campaign, the mission or the book, as far as it is known.
    """

    kind: str
    name: str | None = None
    campaign_id: int | None = None


BY_CAMPAIGN, BY_MISSION, BY_REFERRAL, BY_COUPON = "campaign", "mission", "referral", "coupon"
BY_REVERSAL, BY_EXPIRY, BY_REQUEST = "reversal", "expiry", "request"


@dataclass(frozen=True, slots=True)
class PointsFact:
    """A ledger transaction from the side of one wallet: `moved` is the sum of the wallet's entries."""

    ledger_transaction_id: int
    created_at: datetime
    external_event_date: datetime | None
    ledger_account_id: int
    ledger_account_key: str
    account_name: str
    transaction_type: int
    status: int
    amount: Decimal
    reserved_amount: Decimal | None
    captured_at: datetime | None
    moved: Decimal
    balance: Decimal | None
    is_expiry: bool
    is_requested: bool
    system_unique_key: str
    description: str | None
    is_outgoing: bool | None
    reverted_ledger_transaction_id: int | None
    reversal_ledger_transaction_id: int | None
    loyalty_event_id: int | None

    def row(self, source: Source, by: str | None = None) -> TimelineRow:
        """The row of the transaction, whose points came of `source`."""
        details = {
            "ledgerTransactionId": self.ledger_transaction_id,
            "ledgerAccountId": self.ledger_account_id,
            "ledgerAccountKey": str(self.ledger_account_key),
            "transactionType": TRANSACTION_TYPES[self.transaction_type],
            "isPending": self.status == PENDING,
            "amount": self.moved,
            "balance": self.balance,
            "source": source.kind,
            "campaignId": source.campaign_id,
            "description": self.description,
            "systemUniqueKey": self.system_unique_key,
            "revertedLedgerTransactionId": self.reverted_ledger_transaction_id,
            "reversalLedgerTransactionId": self.reversal_ledger_transaction_id,
        }
        return TimelineRow(
            POINTS,
            self.created_at,
            self.external_event_date or self.created_at,
            self._text(source),
            by,
            self.loyalty_event_id,
            self.status == REVERTED,
            details,
        )

    def _text(self, source: Source) -> str:
        if not self.moved:
            moved, amount = self._still(), self.reserved_amount or self.amount
        else:
            moved, amount = "were received" if self.moved > 0 else "were taken", abs(self.moved)
            if source.kind == BY_EXPIRY:
                moved = "expired"
            elif self.transaction_type == TRANSFER:
                moved = "came from another wallet" if self.moved > 0 else "went to another wallet"
        text = f"{amount_text(amount)} {self.account_name} {moved}{self._why(source)}"
        if self.captured_at is not None and self.reserved_amount is not None:
            text += f", of {amount_text(self.reserved_amount)} that were pending"
        return text + ("" if self.balance is None else f"; the balance was {amount_text(self.balance)}") + "."

    def _still(self) -> str:
        if self.status == PENDING:
            return "are set aside" if self.is_outgoing else "are pending"
        return "were released" if self.reserved_amount is not None else "could not be taken"

    def _why(self, source: Source) -> str:
        if source.kind == BY_EXPIRY:
            return ""
        if source.kind == BY_REQUEST and self.transaction_type == REVERT:
            return f", since the transaction {self.reverted_ledger_transaction_id} was reverted"
        why = _WHY[source.kind]
        named = f" {source.name}" if source.name else ""
        described = f": {clause(self.description)}" if self.description and self.description != source.name else ""
        return f"{why}{named}{described}"


_WHY: Mapping[str, str] = {
    BY_CAMPAIGN: " by the campaign",
    BY_MISSION: " as the reward of the mission",
    BY_REFERRAL: " for a referral",
    BY_COUPON: " for a coupon",
    BY_REVERSAL: " by the reversal of an event",
    BY_REQUEST: " by request",
}

# The effects whose transactions are named after the event, in their order.
_MOVING = frozenset({"mint-points", "burn-points"})
_POSTED = frozenset({"executed", "partial", "authorized"})


def sources_of_event(
    loyalty_event_key: str,
    transactions: Sequence[tuple[int, str]],
    effects: Sequence[Mapping[str, Any]] | None,
    missions: Sequence[Mapping[str, Any]] | None,
) -> dict[int, Source]:
    """The sources of the transactions of one event, given as (id, systemUniqueKey) in their order.

    `effects` and `missions` are the event's stored outcomes, None once they are released: the sources then have no
    names. A mission is named by its key.
    """
    by_effects, by_missions, sources_by_id = [], [], {}
    for transaction_id, key in transactions:
        suffix = key.removeprefix(f"{loyalty_event_key}:") if key.startswith(f"{loyalty_event_key}:") else ""
        if suffix.isdecimal():
            by_effects.append((int(suffix), transaction_id))
        elif suffix.startswith("mission-"):
            by_missions.append((int(suffix.removeprefix("mission-")), transaction_id))
        elif suffix.startswith("referral-"):
            sources_by_id[transaction_id] = Source(BY_REFERRAL)
        elif key.startswith("coupon-usage-"):
            sources_by_id[transaction_id] = Source(BY_COUPON)
        else:
            sources_by_id[transaction_id] = Source(BY_REVERSAL)
    posted = [effect for effect in effects or () if effect["effectId"] in _MOVING and effect["status"] in _POSTED]
    campaigns = [Source(BY_CAMPAIGN, effect["campaignCode"], effect["campaignId"]) for effect in posted]
    rewards = [
        Source(BY_MISSION, mission["missionKey"])
        for mission in missions or ()
        for reward in mission["rewards"]
        if reward["kind"] == "points" and reward["status"] == "executed"
    ]
    # An outcome that does not fit the transactions is not told by their number.
    for ids, known, unknown in (
        (by_effects, campaigns, Source(BY_CAMPAIGN)),
        (by_missions, rewards, Source(BY_MISSION)),
    ):
        ordered = [transaction_id for _, transaction_id in sorted(ids)]
        sources = known if len(known) == len(ordered) else [unknown] * len(ordered)
        sources_by_id |= dict(zip(ordered, sources, strict=True))
    return sources_by_id


def source_of_request(fact: PointsFact) -> Source:
    """The source of a transaction that no event caused."""
    if fact.is_expiry:
        return Source(BY_EXPIRY)
    # A client may choose any key.
    if fact.is_requested:
        return Source(BY_REQUEST)
    if fact.system_unique_key.startswith("coupon-usage-"):
        return Source(BY_COUPON)
    return Source(BY_MISSION if fact.system_unique_key.startswith("mission-progress-") else BY_REQUEST)


def named(source: Source, name: str | None) -> Source:
    """The source with another name."""
    return replace(source, name=name)
