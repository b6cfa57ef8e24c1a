"""Points of coupons: an assignment or a use charges its price, and its revert returns the points."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from domain.coupons.books import BookTerms
from domain.ledger.postings import Details, Posting, StoredTransaction
from domain.ledger.records import BURN, REVERTED, LedgerAccount
from domain.ledger.refusals import UnknownLedgerAccount, UnknownLedgerTransaction
from domain.ledger.session import LedgerSession, check_amount


@dataclass(frozen=True, slots=True)
class UsageDetails:
    """Caller-supplied details of a coupon usage.

    `points_override` replaces the book's points: a positive value burns, a negative one mints, zero moves none.
    `pending_burn_id` is the id of a pending burn that is captured instead.
    """

    system_unique_key: str | None = None
    request_digest: bytes | None = None
    external_id: str | None = None
    description: str | None = None
    tags: Collection[str] = ()
    custom_attributes: Mapping[str, Any] = field(default_factory=dict)
    loyalty_event_id: int | None = None
    external_event_date: datetime | None = None
    points_override: Decimal | None = None
    pending_burn_id: int | None = None


class PointsCharge:
    """Moves the points of usages in the ledger session of a unit of work.

    `transaction_id` returns the id of the posting at a position in the session, counted from 0. `stored_transactions`
    may be captured or reverted; they are by id.
    """

    def __init__(
        self,
        session: LedgerSession,
        accounts_by_key: Mapping[str, LedgerAccount],
        transaction_id: Callable[[int], int | None],
    ) -> None:
        self._session = session
        self._accounts_by_key = accounts_by_key
        self._transaction_id = transaction_id
        self.stored_transactions: dict[int, StoredTransaction] = {}

    def account_of(self, book: BookTerms) -> LedgerAccount | None:
        """The current account of the book's points, by default the default account of the organization.

        None if this account does not exist.
        """
        config = book.required_points_config
        if config:
            account = self._accounts_by_key.get(config["ledgerAccountKey"])
        else:
            account = next((account for account in self._accounts_by_key.values() if account.is_default_account), None)
        return None if account is None else self._session.accounts.get(account.ledger_account_id)

    def pay(self, wallet_id: int, book: BookTerms, price: Decimal, details: UsageDetails, usage_key: str) -> int | None:
        """Charge a usage; return the id of the transaction, None if no points move.

        Captures the pending burn of `details`, if any, or else charges the `points_override` of `details`, if any, or
        else `price`. A negative override gives points. Raises the refusals of the ledger, such as InsufficientBalance,
        and has then changed nothing.
        """
        if details.pending_burn_id is not None:
            return self._capture(wallet_id, details.pending_burn_id)
        amount = price if details.points_override is None else details.points_override
        if not amount:
            return None
        account = self.account_of(book)
        if account is None:
            raise UnknownLedgerAccount(f"The ledger account of the coupon book {book.name} does not exist.")
        if details.points_override is not None:
            # The session would refuse the number as the field `amount`.
            check_amount(account, abs(amount), "pointsOverride")
        position, posting_details = self._next_position(), self._posting_details(details, usage_key)
        if amount > 0:
            self._session.burn(account, wallet_id, amount, posting_details)
        else:
            self._session.mint(account, wallet_id, -amount, posting_details)
        return self._transaction_id(position)

    def reverse(self, ledger_transaction_id: int, details: UsageDetails, usage_key: str) -> int | None:
        """Revert the transaction that charged a usage; return the id of the revert, None if it was reverted before.

        Raises the refusals of the ledger.
        """
        charge = self.stored_transactions[ledger_transaction_id]
        if charge.status == REVERTED:
            return None
        position = self._next_position()
        self._session.revert(
            charge, self._session.accounts[charge.ledger_account_id], self._posting_details(details, usage_key)
        )
        return self._transaction_id(position)

    def _capture(self, wallet_id: int, pending_burn_id: int) -> int:
        """Capture the pending burn that pays for a usage; return its id."""
        charge = self.stored_transactions.get(pending_burn_id)
        account = None if charge is None else self._session.accounts.get(charge.ledger_account_id)
        if charge is None or account is None or charge.transaction_type != BURN or charge.from_wallet_id != wallet_id:
            raise UnknownLedgerTransaction(f"The member has no burn {pending_burn_id} that could be captured.")
        self._session.capture(charge, account)
        return pending_burn_id

    def _next_position(self) -> int:
        """The position of the next posting; captures, which are other steps, are not counted."""
        return sum(isinstance(step, Posting) for step in self._session.steps)

    def _posting_details(self, details: UsageDetails, usage_key: str) -> Details:
        """The details of the transaction that pays for a usage."""
        return Details(
            system_unique_key=f"coupon-usage-{usage_key}",
            external_id=details.external_id,
            external_event_date=details.external_event_date,
            description=details.description,
            tags=tuple(details.tags),
            loyalty_event_id=details.loyalty_event_id,
        )
