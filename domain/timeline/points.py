"""Rows about points: how many moved, and what gave or took them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from domain.campaigns.effects import BURN_POINTS, EXTEND_EXPIRY, MINT_POINTS
from domain.campaigns.outcomes import AUTHORIZED, EXECUTED, PARTIAL
from domain.ledger.records import PENDING, REVERT, REVERTED, SETTLED, TRANSACTION_TYPES, TRANSFER
from domain.timeline.rows import POINTS, POINTS_RELEASE, TimelineRow, amount_text, without_full_stop


@dataclass(frozen=True, slots=True)
class Source:
    """The origin of points: `kind` is `BY_CAMPAIGN` or another constant of that form.

    `name` is the name of the campaign, mission or coupon book, None if it is not known.
    """

    kind: str
    name: str | None = None
    campaign_id: int | None = None


BY_CAMPAIGN, BY_MISSION, BY_REFERRAL, BY_COUPON = "campaign", "mission", "referral", "coupon"
BY_REVERSAL, BY_EXPIRY, BY_REQUEST = "reversal", "expiry", "request"

# The end of a sentence about an amount and its movement.
_REASONS: Mapping[str, str] = {
    BY_CAMPAIGN: " by the campaign",
    BY_MISSION: " as the reward of the mission",
    BY_REFERRAL: " for a referral",
    BY_COUPON: " for a coupon",
    BY_REVERSAL: " by the reversal of an event",
    BY_REQUEST: " by request",
}


@dataclass(frozen=True, slots=True)
class PointsFact:
    """A ledger transaction from the side of one wallet: `moved` is the sum of the wallet's entries.

    `has_wait` is true for a mint that waits or has waited: its release moves the points, not the mint.
    `reverts_pending` is true for a revert of points that were still pending, which no balance had.
    """

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
    is_extension: bool
    is_requested: bool
    system_unique_key: str
    description: str | None
    is_outgoing: bool | None
    reverted_ledger_transaction_id: int | None
    reversal_ledger_transaction_id: int | None
    loyalty_event_id: int | None
    has_wait: bool
    reverts_pending: bool

    def row(self, source: Source, changed_by: str | None = None) -> TimelineRow:
        """The row of the transaction, whose points came from `source`."""
        details = {
            "ledgerTransactionId": self.ledger_transaction_id,
            "ledgerAccountId": self.ledger_account_id,
            "ledgerAccountKey": str(self.ledger_account_key),
            "transactionType": TRANSACTION_TYPES[self.transaction_type],
            "isPending": self.status == PENDING,
            "amount": self.moved,
            "pending": self.reserved_amount if self.has_wait else None,
            "balance": self.balance,
            "source": source.kind,
            "campaignId": source.campaign_id,
            "description": self.description,
            "systemUniqueKey": self.system_unique_key,
            "revertedLedgerTransactionId": self.reverted_ledger_transaction_id,
            "reversalLedgerTransactionId": self.reversal_ledger_transaction_id,
        }
        return TimelineRow(
            kind=POINTS,
            recorded_at=self.created_at,
            happened_at=self.external_event_date or self.created_at,
            text=self._sentence(source),
            by=changed_by,
            loyalty_event_id=self.loyalty_event_id,
            is_reversed=self.status == REVERTED,
            details=details,
        )

    def _sentence(self, source: Source) -> str:
        """The sentence of the row, such as "30 points were received by the campaign SPRING; the balance was 130."."""
        if self.is_extension:
            return f"The expiry of {self.account_name} was extended{self._reason(source)}."
        amount = abs(self.moved) or self.reserved_amount or self.amount
        text = f"{amount_text(amount)} {self.account_name} {self._outcome(source)}{self._reason(source)}"
        if self.captured_at is not None and self.reserved_amount is not None and not self.has_wait:
            text += f", of {amount_text(self.reserved_amount)} that were pending"
        if self.balance is not None:
            text += f"; the balance was {amount_text(self.balance)}"
        return f"{text}."

    def _outcome(self, source: Source) -> str:
        """The fate of the points, as the end of a sentence."""
        if not self.moved:
            if self.status == PENDING:
                return "are held" if self.is_outgoing else "are pending"
            if self.has_wait and self.status == SETTLED:
                return "were pending"
            if self.reverts_pending:
                return "were cancelled while they were pending"
            if self.reserved_amount is not None:
                return "were released"
            if self.amount:
                return "could not be taken"
        if source.kind == BY_EXPIRY:
            return "expired"
        is_gain = self.moved > 0 or (self.moved == 0 and not self.is_outgoing)
        if self.transaction_type == TRANSFER:
            return "came from another wallet" if is_gain else "went to another wallet"
        return "were received" if is_gain else "were taken"

    def _reason(self, source: Source) -> str:
        """The reason for a movement, with the name of its source and its description."""
        if source.kind == BY_EXPIRY:
            return ""
        if source.kind == BY_REQUEST and self.transaction_type == REVERT:
            return f", since the transaction {self.reverted_ledger_transaction_id} was reverted"
        text = _REASONS[source.kind]
        if source.name:
            text += f" {source.name}"
        if self.description and self.description != source.name:
            text += f": {without_full_stop(self.description)}"
        return text


@dataclass(frozen=True, slots=True)
class PointsReleaseFact:
    """Points of waiting mints that became available at one moment, as their event reports it."""

    loyalty_event_id: int
    created_at: datetime
    external_event_date: datetime | None
    loyalty_event_key: str
    ledger_account_id: int
    ledger_account_key: str
    account_name: str
    amount: Decimal
    ledger_transaction_ids: Sequence[int]
    cause_loyalty_event_id: int | None
    actor: str | None

    def row(self) -> TimelineRow:
        """The row of the release."""
        details = {
            "loyaltyEventKey": str(self.loyalty_event_key),
            "ledgerAccountId": self.ledger_account_id,
            "ledgerAccountKey": str(self.ledger_account_key),
            "amount": self.amount,
            "ledgerTransactionIds": list(self.ledger_transaction_ids),
        }
        by_request = "" if self.actor is None else _REASONS[BY_REQUEST]
        return TimelineRow(
            kind=POINTS,
            recorded_at=self.created_at,
            happened_at=self.external_event_date or self.created_at,
            text=f"{amount_text(self.amount)} {self.account_name} became available{by_request}.",
            by=self.actor,
            loyalty_event_id=self.cause_loyalty_event_id,
            is_reversed=False,
            details=details,
            details_name=POINTS_RELEASE,
        )


# The statuses of effects that did post a transaction, by effect. An authorized extension posts none.
_POSTED: Mapping[str, Collection[str]] = {
    MINT_POINTS: (EXECUTED, PARTIAL, AUTHORIZED),
    BURN_POINTS: (EXECUTED, PARTIAL, AUTHORIZED),
    EXTEND_EXPIRY: (EXECUTED,),
}

_MISSION_PREFIX, _REFERRAL_PREFIX, _COUPON_USAGE_PREFIX = "mission-", "referral-", "coupon-usage-"


def sources_of_event(
    transactions: Sequence[tuple[int, str]],
    effects: Sequence[Mapping[str, Any]] | None,
    missions: Sequence[Mapping[str, Any]] | None,
) -> dict[int, Source]:
    """The sources of the transactions of one event, given as (id, systemUniqueKey), by id.

    A transaction's key shows what posted it: `<prefix>:3` is the effect at position 3 of the event,
    `<prefix>:mission-0` the first reward of a mission, and so on. Their names are in the stored outcomes of the event,
    `effects` and `missions`, which are None once they are removed: the sources then have no names. A mission is named
    by its key.
    """
    sources: dict[int, Source] = {}
    ids_by_effect: dict[int, int] = {}
    ids_by_reward: dict[int, int] = {}
    for transaction_id, key in transactions:
        _, colon, suffix = key.rpartition(":")
        if colon and suffix.isdecimal():
            ids_by_effect[int(suffix)] = transaction_id
        elif colon and suffix.startswith(_MISSION_PREFIX):
            ids_by_reward[int(suffix.removeprefix(_MISSION_PREFIX))] = transaction_id
        elif colon and suffix.startswith(_REFERRAL_PREFIX):
            sources[transaction_id] = Source(BY_REFERRAL)
        elif key.startswith(_COUPON_USAGE_PREFIX):
            sources[transaction_id] = Source(BY_COUPON)
        else:
            sources[transaction_id] = Source(BY_REVERSAL)
    return {
        **sources,
        **_in_order(ids_by_effect, _campaigns(effects or ()), Source(BY_CAMPAIGN)),
        **_in_order(ids_by_reward, _rewarding_missions(missions or ()), Source(BY_MISSION)),
    }


def _in_order(ids: Mapping[int, int], sources: Sequence[Source], nameless: Source) -> dict[int, Source]:
    """The sources by transaction id: the transaction with the lowest position has the first source, and so on.

    If the numbers of transactions and sources differ, each transaction has the source `nameless`.
    """
    if len(sources) != len(ids):
        return dict.fromkeys(ids.values(), nameless)
    return {ids[position]: source for position, source in zip(sorted(ids), sources, strict=True)}


def _campaigns(effects: Sequence[Mapping[str, Any]]) -> list[Source]:
    """The campaigns of the effects that posted a transaction, in order."""
    return [
        Source(BY_CAMPAIGN, effect["campaignCode"], effect["campaignId"])
        for effect in effects
        if effect["status"] in _POSTED.get(effect["effectId"], ())
    ]


def _rewarding_missions(missions: Sequence[Mapping[str, Any]]) -> list[Source]:
    """The missions of the rewards that posted a transaction, in order."""
    sources = []
    for mission in missions:
        point_rewards = [reward for reward in mission["rewards"] if reward["kind"] == "points"]
        paid_rewards = [reward for reward in point_rewards if reward["status"] in (EXECUTED, PARTIAL)]
        sources += [Source(BY_MISSION, mission["missionKey"])] * len(paid_rewards)
    return sources


def source_of_request(fact: PointsFact) -> Source:
    """The source of a transaction that no event caused."""
    if fact.is_expiry:
        return Source(BY_EXPIRY)
    # The keys of clients mean nothing: they may choose any key.
    if fact.is_requested:
        return Source(BY_REQUEST)
    if fact.system_unique_key.startswith(_COUPON_USAGE_PREFIX):
        return Source(BY_COUPON)
    return Source(BY_MISSION if fact.system_unique_key.startswith("mission-progress-") else BY_REQUEST)
