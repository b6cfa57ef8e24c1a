"""The books of one unit of work: balances that it holds locked, and the transactions it posts to them.

Whatever posts points goes through here, so each rule of the ledger stands once. Nothing is stored: the caller writes
`postings` and `changed` when the work has succeeded, and forgets the books when it has not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

from domain.ledger.expiry import add_months
from domain.ledger.records import BURN, MAX_AMOUNT, MINT, SETTLED, LedgerAccount
from domain.problems import Conflict, FieldFault, InvalidRequest

ZERO = Decimal(0)

# Stands for the id of the lot of the mint posted just before, which is not known until it is written.
LOT_JUST_MINTED = 0


class InsufficientBalance(Conflict):
    """A burn or transfer asks for more than the wallet can spend."""

    slug = "insufficient-balance"
    title = "The wallet does not hold enough"


class SupplyExceeded(Conflict):
    """A mint would issue more than the account's `maxSupply`."""

    slug = "supply-exceeded"
    title = "The account's supply is exhausted"


class AccountInactive(Conflict):
    """Nothing is minted into or burned from an inactive account."""

    slug = "account-inactive"
    title = "The ledger account is inactive"


@dataclass(frozen=True, slots=True)
class Holding:
    """What a wallet holds of an account while the books are open; as `Balance`, without the stamps."""

    current: Decimal = ZERO
    pending_credit: Decimal = ZERO
    pending_debit: Decimal = ZERO
    overdraft: Decimal = ZERO
    overdraft_credit: Decimal = ZERO
    fiat: Decimal = ZERO
    last_transaction_date: datetime | None = None

    @property
    def available(self) -> Decimal:
        """What can be spent: the current balance less what manual captures have set aside."""
        return self.current - self.pending_debit


@dataclass(frozen=True, slots=True)
class Details:
    """What a transaction says about itself; `request_digest` is None for what the server itself caused."""

    system_unique_key: str
    request_digest: bytes | None = None
    external_id: str | None = None
    external_event_date: datetime | None = None
    description: str | None = None
    tags: tuple[str, ...] | None = None
    loyalty_event_id: int | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One leg of a transaction: `wallet_id` None is the account's issuance side; amounts sum to zero."""

    wallet_id: int | None
    amount: Decimal
    updated_balance: Decimal | None = None
    is_overdraft: bool = False


@dataclass(frozen=True, slots=True)
class Posting:
    """A transaction that the work posts; `lot_expires_at` and `expired_lots` matter on point-tracking accounts.

    `expired_lots` names the lots that an expiry burn takes, where any other burn takes those that expire soonest.
    """

    account: LedgerAccount
    transaction_type: int
    status: int
    amount: Decimal
    from_wallet_id: int | None
    to_wallet_id: int | None
    entries: tuple[Entry, ...]
    details: Details
    lot_amount: Decimal = ZERO
    lot_expires_at: datetime | None = None
    expired_lots: tuple[tuple[int, Decimal], ...] = ()


Pair = tuple[int, int]  # wallet id, ledger account id


class Books:
    """Balances of locked wallets by (wallet, account), open for posting at the moment `at`."""

    def __init__(self, holdings: Mapping[Pair, Holding], issued: Mapping[int, Decimal], at: datetime) -> None:
        self.at = at
        self.postings: list[Posting] = []
        self.changed: set[Pair] = set()
        self._holdings = dict(holdings)
        self._issued = dict(issued)

    def holding(self, wallet_id: int, ledger_account_id: int) -> Holding:
        """What the wallet holds now, with everything posted so far; zero where there is no balance yet."""
        return self._holdings.get((wallet_id, ledger_account_id), _NOTHING)

    def mint(
        self,
        account: LedgerAccount,
        wallet_id: int,
        amount: Decimal,
        details: Details,
        expires_at: datetime | None = None,
    ) -> Posting:
        """Issue `amount` to the wallet; debt is repaid first. `expires_at` overrides the account's expiry.

        Raises AccountInactive, SupplyExceeded, or InvalidRequest for more fraction digits than the account has.
        """
        check_amount(account, amount)
        issued = self._issued.get(account.ledger_account_id, ZERO)
        if account.max_supply is not None and issued + amount > account.max_supply:
            raise SupplyExceeded(
                f"The account may issue {account.max_supply} in all and has issued {issued}.",
                available=str(account.max_supply - issued),
            )
        held = self.holding(wallet_id, account.ledger_account_id)
        repaid = min(held.overdraft, amount)
        held = replace(
            held,
            current=held.current + amount - repaid,
            overdraft=held.overdraft - repaid,
            overdraft_credit=held.overdraft_credit + repaid,
            last_transaction_date=self.at,
        )
        expiry = expires_at or expiry_of_mint(account, details.external_event_date or self.at)
        posting = self._post(
            Posting(
                account=account,
                transaction_type=MINT,
                status=SETTLED,
                amount=amount,
                from_wallet_id=None,
                to_wallet_id=wallet_id,
                entries=(Entry(wallet_id, amount, held.current), Entry(None, -amount)),
                details=details,
                lot_amount=amount - repaid if account.point_tracking_enabled else ZERO,
                lot_expires_at=expiry,
            ),
            {(wallet_id, account.ledger_account_id): held},
            issued + amount,
        )
        if posting.lot_amount and expiry is not None and expiry <= self.at:
            # Minted for something so long ago that it has expired already: it must not be spendable even now.
            gone = Details(f"{details.system_unique_key}-expiry", description="Expired")
            self._burn(account, wallet_id, posting.lot_amount, gone, ((LOT_JUST_MINTED, posting.lot_amount),))
        return posting

    def burn(self, account: LedgerAccount, wallet_id: int, amount: Decimal, details: Details) -> Posting:
        """Take `amount` from the wallet; raises AccountInactive, InsufficientBalance or InvalidRequest."""
        check_amount(account, amount)
        held = self.holding(wallet_id, account.ledger_account_id)
        if amount > held.available:
            raise InsufficientBalance(f"{amount} is more than the available {held.available}.")
        return self._burn(account, wallet_id, amount, details, ())

    def expire(
        self, account: LedgerAccount, wallet_id: int, lots: tuple[tuple[int, Decimal], ...], details: Details
    ) -> Posting:
        """Burn what lots that have expired still hold; (lot id, amount) each."""
        return self._burn(account, wallet_id, sum((amount for _, amount in lots), ZERO), details, lots)

    def _burn(
        self,
        account: LedgerAccount,
        wallet_id: int,
        amount: Decimal,
        details: Details,
        expired_lots: tuple[tuple[int, Decimal], ...],
    ) -> Posting:
        held = self.holding(wallet_id, account.ledger_account_id)
        # An expiry is not something the member did: it does not put off the next one.
        moment = held.last_transaction_date if expired_lots else self.at
        held = replace(held, current=held.current - amount, last_transaction_date=moment)
        issued = self._issued.get(account.ledger_account_id, ZERO)
        return self._post(
            Posting(
                account=account,
                transaction_type=BURN,
                status=SETTLED,
                amount=amount,
                from_wallet_id=wallet_id,
                to_wallet_id=None,
                entries=(Entry(wallet_id, -amount, held.current), Entry(None, amount)),
                details=details,
                expired_lots=expired_lots,
            ),
            {(wallet_id, account.ledger_account_id): held},
            issued - amount if account.is_revolving else issued,
        )

    def _post(self, posting: Posting, holdings: Mapping[Pair, Holding], issued: Decimal) -> Posting:
        self.postings.append(posting)
        self._holdings.update(holdings)
        self.changed.update(holdings)
        self._issued[posting.account.ledger_account_id] = issued
        return posting


_NOTHING = Holding()


def check_amount(account: LedgerAccount, amount: Decimal) -> None:
    """Refuse what no movement of the account may be: on an inactive account, too large, or too finely divided."""
    if not account.active:
        raise AccountInactive(f"The ledger account {account.name} is inactive.")
    if amount > MAX_AMOUNT:
        raise InvalidRequest([FieldFault(f"amount is at most {MAX_AMOUNT}", pointer="/amount")])
    if amount != round_down(account, amount):
        raise InvalidRequest(
            [FieldFault(f"amount has at most {account.decimals} fraction digits in this account", pointer="/amount")]
        )


def round_down(account: LedgerAccount, amount: Decimal) -> Decimal:
    """The greatest amount of the account that is not above `amount`: what a computed amount is worth."""
    scaled = amount.scaleb(account.decimals)
    return scaled.to_integral_value(rounding="ROUND_FLOOR").scaleb(-account.decimals)


def expiry_of_mint(account: LedgerAccount, at: datetime) -> datetime | None:
    """When what is minted at `at` expires by the account's own policy; None is never."""
    return None if account.expires_in_months is None else add_months(at, account.expires_in_months)
