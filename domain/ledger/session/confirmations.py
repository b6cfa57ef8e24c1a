"""Mints that wait for events: such an event confirms them, and the time until they are available begins at its date."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from domain.ledger.availability import ORDER, available_after_event
from domain.ledger.postings import Confirmation, StoredTransaction
from domain.ledger.records import PENDING, LedgerAccount
from domain.ledger.session.balances import AwaitedEvent
from domain.ledger.session.captures import CaptureSession


class ConfirmationSession(CaptureSession):
    """A session in which events confirm the mints that wait for them."""

    @property
    def confirmations(self) -> Mapping[int, Confirmation]:
        """The moments at which mints confirmed by this unit of work become available, by transaction id."""
        return self._confirmed

    def expect_events(self, mints: Iterable[StoredTransaction]) -> None:
        """Note stored mints that wait for events."""
        for mint in mints:
            for awaited in _awaited_events(mint):
                self._awaiting.setdefault(awaited, []).append(mint)

    def confirm(self, wallet_id: int, event_type: str, order_external_id: str | None, happened_at: datetime) -> None:
        """Confirm the mints that wait for this event: the mints for its order, and its member's mints without an order.

        The time until the points of a confirmed mint are available begins at `happened_at`. If it has passed, the
        points are available now.
        """
        events: set[AwaitedEvent] = {(event_type, None, wallet_id)}
        if order_external_id is not None:
            events.add((event_type, order_external_id, 0))
        mints = [mint for event in events for mint in self._awaiting.get(event, ())]
        for posting in self.new_waiting_mints:
            mint = self._as_stored(posting)
            if not events.isdisjoint(_awaited_events(mint)):
                mints.append(mint)
        for mint in sorted(mints, key=lambda mint: abs(mint.ledger_transaction_id)):
            account = self.accounts.get(mint.ledger_account_id)
            is_confirmed = mint.ledger_transaction_id in self._confirmed
            if account is not None and not is_confirmed and self.status_of(mint) == PENDING:
                self._confirm(mint, account, happened_at)

    def _confirm(self, mint: StoredTransaction, account: LedgerAccount, happened_at: datetime) -> None:
        """Make the mint available now, or record when it becomes available."""
        zone, expires_at = account.expiry_calendar(self.zone).zone, mint.pending_expires_at
        moment = max(self.at, available_after_event(mint.awaited or {}, happened_at, zone))
        # A new mint whose points would expire at once is left to the worker, which settles it when it is stored.
        is_new_and_expired = mint.ledger_transaction_id < 0 and expires_at is not None and expires_at <= self.at
        if moment == self.at and not is_new_and_expired:
            self.make_available(mint, account, moment)
            return
        policy_expiry = None
        if expires_at is None:
            policy_expiry = self._expiry_of_stored_mint(mint, account, moment)
        self.put(self._confirmed, mint.ledger_transaction_id, Confirmation(moment, policy_expiry))


def _awaited_events(mint: StoredTransaction) -> Iterable[AwaitedEvent]:
    """The events that can confirm the mint, any one of them; none if it waits for no event."""
    terms = mint.awaited or {}
    order = terms.get(ORDER)
    wallet_id = mint.credited_wallet_id if order is None else 0
    return [(event_type, order, wallet_id) for event_type in terms.get("eventTypes", ())]
