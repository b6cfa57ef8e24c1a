"""The supplies of accounts: the amounts that they have issued in all, against their maximum."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

from domain.ledger.postings import ZERO
from domain.ledger.records import LedgerAccount
from domain.ledger.refusals import SupplyExceeded
from domain.undo_log import UndoableState


class Supplies(UndoableState):
    """The accounts of a unit of work, by id, and what those with a maximum supply have `issued`.

    `lists` are the other state to which items are only appended.
    """

    def __init__(self, accounts: Mapping[int, LedgerAccount], issued: Mapping[int, Decimal], *lists: list[Any]) -> None:
        super().__init__(*lists)
        self.accounts = accounts
        self._issued = dict(issued)
        # What each account had issued before the reverts whose supply is checked together; None outside of them.
        self._issued_before_reverts: dict[int, Decimal] | None = None

    def _issue(self, account: LedgerAccount, amount: Decimal) -> None:
        """Count the amount that a step issues or, if negative, takes away."""
        if amount:
            before = self._issued.get(account.ledger_account_id, ZERO)
            self.put(self._issued, account.ledger_account_id, before + amount)

    def _refuse_over_supply(self, account: LedgerAccount, amount: Decimal) -> None:
        """Raise SupplyExceeded if the account cannot issue `amount` more."""
        issued = self._issued.get(account.ledger_account_id, ZERO)
        if account.max_supply is not None and issued + amount > account.max_supply:
            raise _supply_exceeded(account.max_supply, issued)

    @contextmanager
    def net_supply_of_reverts(self) -> Iterator[None]:
        """Check the supply once, for all reverts of this context together; raises SupplyExceeded at its end.

        So a burn can be reverted although the supply is exhausted, if mints are reverted as well. A context within
        another one also checks the reverts that the outer one has made before.
        """
        outer = self._issued_before_reverts
        before_reverts = self._issued_before_reverts = dict(self._issued) if outer is None else outer
        try:
            yield
            for account_id, before in before_reverts.items():
                max_supply = self.accounts[account_id].max_supply
                if max_supply is not None and self._issued[account_id] > max(max_supply, before):
                    raise _supply_exceeded(max_supply, before)
        finally:
            self._issued_before_reverts = outer

    def _refuse_return_over_supply(self, account: LedgerAccount, amount: Decimal) -> None:
        """Raise SupplyExceeded if the account cannot issue the points of a burn again.

        The reverts of `net_supply_of_reverts` are checked at its end.
        """
        if account.is_revolving and self._issued_before_reverts is None:
            self._refuse_over_supply(account, amount)


def _supply_exceeded(max_supply: Decimal, issued: Decimal) -> SupplyExceeded:
    return SupplyExceeded(
        f"The account may issue {max_supply} in all and has issued {issued}.", available=max_supply - issued
    )
