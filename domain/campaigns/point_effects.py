"""The effects on points: mint-points within the limits of its campaign, burn-points and extend-expiry."""

from collections.abc import Callable, Mapping
from decimal import ROUND_DOWN, Context, Decimal
from typing import Any

from domain.campaigns.budgets import LimitBudget
from domain.campaigns.compiled import CompiledCampaign
from domain.campaigns.context import EventFacts
from domain.campaigns.effects import BURN_POINTS, EXTEND_EXPIRY, MINT_POINTS, SPONSOR
from domain.campaigns.limits import MONEY, POINTS, EventLimit, LimitUse
from domain.campaigns.outcomes import (
    AUTHORIZED,
    EXECUTED,
    FAILED,
    PARTIAL,
    SKIPPED,
    BadParameter,
    EffectResult,
    LimitReached,
    NoSponsor,
    NothingToDo,
)
from domain.currencies import round_money
from domain.ledger.availability import TERMS, Availability
from domain.ledger.extensions import Extension
from domain.ledger.postings import Details
from domain.ledger.records import LedgerAccount
from domain.ledger.session import LedgerSession, round_down, share_of
from domain.members import MemberInactive
from domain.problems import Conflict, Refusal

ZERO = Decimal(0)
_DOWN = Context(prec=50, rounding=ROUND_DOWN)


class PointEffects:
    """Posts the points of one event; if `is_pending`, as pending transactions that are to be captured later.

    `limit_discarded` is the sum of the points that limits cut off. `transaction_count` is the number of transactions so
    far; the key of each transaction ends with its number.
    """

    def __init__(
        self,
        event: EventFacts,
        session: LedgerSession,
        accounts: Mapping[str, LedgerAccount],
        limit_budget: LimitBudget,
        is_pending: bool,
    ) -> None:
        self._event = event
        self._session = session
        self._accounts = accounts
        self._limit_budget = limit_budget
        self._is_pending = is_pending
        self.transaction_count = 0
        self.limit_discarded = ZERO

    def savepoint(self) -> tuple[int, Decimal]:
        """A savepoint for `rollback_to`; the ledger session needs a savepoint of its own."""
        return self.transaction_count, self.limit_discarded

    def rollback_to(self, savepoint: tuple[int, Decimal]) -> None:
        """Forget the points since the savepoint."""
        self.transaction_count, self.limit_discarded = savepoint

    def execute(self, campaign: CompiledCampaign, effect_id: str, params: Mapping[str, Any]) -> EffectResult:
        """Execute one of the effects on points, or return why it was not executed."""
        try:
            wallet_id, account = self._wallet_id(params), self._account(campaign, params)
            return _EXECUTORS[effect_id](self, campaign, account, wallet_id, params)
        except (NoSponsor, MemberInactive) as reason:
            return EffectResult(SKIPPED, reason, ZERO)
        except Refusal as failure:
            return EffectResult(FAILED, failure, ZERO)

    def _mint(
        self, campaign: CompiledCampaign, account: LedgerAccount, wallet_id: int, params: Mapping[str, Any]
    ) -> EffectResult:
        """Mint as much of the amount as the limits and the account's maximum balance allow."""
        amount = round_down(account, params["amount"])
        granted_amount, limit = self._within_limits(campaign, account, amount) if campaign.limits else (amount, None)
        refusal: Conflict | None = None if limit is None else LimitReached.of(limit)
        self.limit_discarded += amount - granted_amount
        if account.max_balance is not None:
            granted_amount, balance_refusal = self._session.within_max_balance(account, wallet_id, granted_amount)
            refusal = balance_refusal or refusal
        qualifying = self._qualifying(account, params, granted_amount, amount)
        if not (granted_amount or qualifying):
            return EffectResult(SKIPPED, refusal or NothingToDo("There is nothing to mint."), ZERO)
        minted = self._session.mint(
            account,
            wallet_id,
            granted_amount,
            self._take_details(campaign, params),
            params["expirationDate"],
            manual=self._is_pending,
            qualifying=qualifying,
            availability=_availability(params),
        )
        worth = self._worth(account, granted_amount)
        if campaign.limits:
            self._limit_budget.count(campaign, *self._uses(account, granted_amount))
        return EffectResult(PARTIAL if refusal else EXECUTED, refusal, granted_amount, worth=worth, wait=minted.wait)

    def _within_limits(
        self, campaign: CompiledCampaign, account: LedgerAccount, amount: Decimal
    ) -> tuple[Decimal, EventLimit | None]:
        """The points that the limits allow, and the strictest limit; None if they allow all points."""
        granted_amount, strictest = amount, None
        for use in self._uses(account, amount):
            remaining, limit = self._limit_budget.remaining(campaign, use)
            if limit is not None:
                points = remaining
                if use.type == MONEY:
                    # The points whose worth is within the remaining money.
                    rate = account.fiat_per_point
                    points = _DOWN.divide(remaining, rate) if rate else ZERO
                if points < granted_amount:
                    granted_amount, strictest = round_down(account, points), limit
        return granted_amount, strictest

    def _uses(self, account: LedgerAccount, amount: Decimal) -> list[LimitUse]:
        """The uses of minted points: points of their account, and their worth in money, if they have one."""
        points, worth = LimitUse(POINTS, amount, account.ledger_account_id), self._worth(account, amount)
        return [points] if worth is None else [points, LimitUse(MONEY, worth, currency=self._currency_of(account))]

    def _worth(self, account: LedgerAccount, amount: Decimal) -> Decimal | None:
        """The worth of points in money, None for points without one."""
        rate = account.fiat_per_point
        return None if rate is None else round_money(amount * rate, self._currency_of(account))

    def _currency_of(self, account: LedgerAccount) -> str | None:
        """The currency of the points' worth: that of the account's redemption policy, or else the organization's."""
        return self._event.home_currency if account.redemption is None else account.redemption["currency"]

    def _qualifying(
        self, account: LedgerAccount, params: Mapping[str, Any], granted_amount: Decimal, amount: Decimal
    ) -> Decimal | None:
        """The qualifying points of a mint of `amount` that limits cut to `granted_amount`.

        None if all points of the mint qualify.
        """
        qualifying = params.get("qualifyingAmount")
        if qualifying is None:
            return None
        qualifying = round_down(account, qualifying)
        return share_of(account, qualifying, granted_amount, amount) if amount else qualifying

    def _burn(
        self, campaign: CompiledCampaign, account: LedgerAccount, wallet_id: int, params: Mapping[str, Any]
    ) -> EffectResult:
        """Burn the whole amount, or nothing."""
        amount = round_down(account, params["amount"])
        if not amount:
            return EffectResult(SKIPPED, NothingToDo("There is nothing to burn."), ZERO)
        details, savepoint = self._take_details(campaign, params), self._session.savepoint()
        try:
            self._session.burn(account, wallet_id, amount, details, manual=self._is_pending)
        except Refusal:
            # A refused burn is no activity, which would postpone the expiry of an idle balance.
            self._session.rollback_to(savepoint)
            raise
        return EffectResult(EXECUTED, error=None, amount=amount)

    def _extend(
        self, campaign: CompiledCampaign, account: LedgerAccount, wallet_id: int, params: Mapping[str, Any]
    ) -> EffectResult:
        """Extend the expiry of all lots of the balance by a transaction of 0; skip an empty balance."""
        extension = Extension(params["until"], params["months"])
        # The first fault, if any.
        for _, detail in extension.faults():
            raise BadParameter(f"{detail}.")
        if not self._session.holding(wallet_id, account.ledger_account_id).available:
            return EffectResult(SKIPPED, NothingToDo("There is nothing to extend."))
        if self._is_pending:
            return EffectResult(AUTHORIZED, error=None)
        self._session.extend(account, wallet_id, extension, self._take_details(campaign, params))
        return EffectResult(EXECUTED, error=None)

    def uses_before_limits(self, campaign: CompiledCampaign, params: Mapping[str, Any]) -> list[LimitUse]:
        """How much a mint would count against each kind of limit if no limit cut it, its points first.

        Empty if the recipient has no usable wallet, or the effect no account.
        """
        try:
            self._wallet_id(params)
            account = self._account(campaign, params)
        except Refusal:
            return []
        return self._uses(account, round_down(account, params["amount"]))

    def discard(self, campaign: CompiledCampaign, params: Mapping[str, Any]) -> None:
        """Add the points of a mint to `limit_discarded`, because a limit prevented all of it."""
        # Only the first use: the points, not their worth in money.
        for use in self.uses_before_limits(campaign, params)[:1]:
            self.limit_discarded += use.amount

    def _wallet_id(self, params: Mapping[str, Any]) -> int:
        """The wallet of the recipient; raises NoSponsor or MemberInactive."""
        event = self._event
        if params["recipient"] != SPONSOR:
            if not event.is_active:
                raise MemberInactive("The member of the event is not active.")
            return event.wallet_id
        if event.sponsor_wallet_id is None:
            raise NoSponsor("The effect is for the sponsor, and the event names none.")
        if not event.is_sponsor_active:
            raise MemberInactive("The sponsor of the event is not active.")
        return event.sponsor_wallet_id

    def _account(self, campaign: CompiledCampaign, params: Mapping[str, Any]) -> LedgerAccount:
        """The account that the effect names, or else the campaign's main account; raises BadParameter."""
        key = params["ledgerAccountKey"]
        account = campaign.main_account if key is None else self._accounts.get(key.lower())
        # The session may have a newer version of the account than the configuration.
        account = None if account is None else self._session.accounts.get(account.ledger_account_id)
        if account is None:
            raise BadParameter(
                "The campaign's program has no main account." if key is None else f"There is no ledger account {key}."
            )
        return account

    def _take_details(self, campaign: CompiledCampaign, params: Mapping[str, Any]) -> Details:
        """Number the next transaction of the event; return its details, whose key ends with that number."""
        self.transaction_count += 1
        # A sponsor must not see the member's event details; erasing the member would not remove them there.
        is_own = params["recipient"] != SPONSOR
        return Details(
            system_unique_key=f"{self._event.transaction_prefix}:{self.transaction_count}",
            external_event_date=self._event.external_event_date,
            external_id=self._event.external_id if is_own else None,
            description=params["description"] or (self._event.description if is_own else None),
            tags=campaign.record.tags or None,
            loyalty_event_id=self._event.loyalty_event_id,
            order_external_id=self._event.order_external_id,
        )


_EXECUTORS: Mapping[
    str, Callable[[PointEffects, CompiledCampaign, LedgerAccount, int, Mapping[str, Any]], EffectResult]
] = {
    MINT_POINTS: PointEffects._mint,
    BURN_POINTS: PointEffects._burn,
    EXTEND_EXPIRY: PointEffects._extend,
}
POINT_EFFECTS = _EXECUTORS.keys()


def transaction_number(system_unique_key: str) -> int | None:
    """The number at the end of the key of an event's transaction; None if no effect posted the transaction."""
    _, colon, number = system_unique_key.rpartition(":")
    return int(number) if colon and number.isdecimal() else None


def _availability(params: Mapping[str, Any]) -> Availability | None:
    """The terms on which the points of an effect become available; None if the effect sets no terms.

    Raises BadParameter.
    """
    if params.keys().isdisjoint(TERMS):
        return None
    terms = Availability.of(params)
    # All terms that the effect names can be null or `none`.
    if not terms.term_names:
        return None
    # The first fault, if any.
    for _, detail in terms.faults():
        raise BadParameter(f"{detail}.")
    return terms
