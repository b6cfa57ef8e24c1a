"""The effects that move points: mint-points within the limits of its campaign, and burn-points."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from domain.campaigns.budgets import LimitBudget
from domain.campaigns.compiled import CompiledCampaign
from domain.campaigns.context import EventFacts
from domain.campaigns.effects import SPONSOR
from domain.campaigns.outcomes import (
    EXECUTED,
    FAILED,
    PARTIAL,
    SKIPPED,
    BadParameter,
    Done,
    LimitReached,
    NoSponsor,
    NothingToDo,
)
from domain.currencies import round_money
from domain.ledger.postings import Details
from domain.ledger.records import LedgerAccount
from domain.ledger.session import LedgerSession, round_down, share_of
from domain.members import MemberInactive
from domain.problems import Conflict, Refusal

ZERO = Decimal(0)


class PointEffects:
    """Posts the points of one event, `pending` ones for a later capture; `discarded` sums up what limits cut off."""

    def __init__(
        self,
        event: EventFacts,
        session: LedgerSession,
        accounts: Mapping[str, LedgerAccount],
        budget: LimitBudget,
        pending: bool,
    ) -> None:
        self._event = event
        self._session = session
        self._accounts = accounts
        self._allowances = budget
        self._pending = pending
        self._posted = 0
        self.discarded = ZERO

    def mint(self, campaign: CompiledCampaign, params: Mapping[str, Any]) -> Done:
        """Mint as much of the amount as the limits and the account's maximum balance allow."""
        try:
            wallet_id = self._wallet_id(params)
            account = self._account(campaign, params)
            amount = round_down(account, params["amount"])
            room, rule = self._allowances.room(campaign, account.ledger_account_id)
            granted = amount if room is None or room >= amount else round_down(account, room)
            refusal: Conflict | None = LimitReached.of(rule) if granted < amount and rule is not None else None
            self.discarded += amount - granted
            if account.max_balance is not None:
                granted, over = self._session.within_max_balance(account, wallet_id, granted)
                refusal = over or refusal
            qualifying = self._qualifying(account, params, granted, amount)
            if not (granted or qualifying):
                return Done(SKIPPED, refusal or NothingToDo("There is nothing to mint."), ZERO)
            expires_at = params["expirationDate"]
            self._session.mint(
                account,
                wallet_id,
                granted,
                self._details(campaign, params),
                expires_at,
                manual=self._pending,
                qualifying=qualifying,
            )
        except (NoSponsor, MemberInactive) as first_violated:
            return Done(SKIPPED, first_violated, ZERO)
        except Refusal as failure:
            return Done(FAILED, failure, ZERO)
        self._allowances.count_mint(campaign, account.ledger_account_id, granted)
        worth = None
        if account.fiat_per_point is not None:
            worth = round_money(granted * account.fiat_per_point, self._event.home_currency)
        return Done(PARTIAL if refusal else EXECUTED, refusal, granted, worth=worth)

    def _qualifying(
        self, account: LedgerAccount, params: Mapping[str, Any], granted: Decimal, amount: Decimal
    ) -> Decimal | None:
        """The qualifying points of a mint, if they are not its amount: the share of them that the limits allow."""
        qualifying = params["qualifyingAmount"]
        if qualifying is None:
            return None
        qualifying = round_down(account, qualifying)
        return share_of(account, qualifying, granted, amount) if amount else qualifying

    def burn(self, campaign: CompiledCampaign, params: Mapping[str, Any]) -> Done:
        """Burn the whole amount, or nothing."""
        try:
            wallet_id = self._wallet_id(params)
            account = self._account(campaign, params)
            amount = round_down(account, params["amount"])
            if not amount:
                return Done(SKIPPED, NothingToDo("There is nothing to burn."), ZERO)
            self._burn(account, wallet_id, amount, self._details(campaign, params))
        except (NoSponsor, MemberInactive) as first_violated:
            return Done(SKIPPED, first_violated, ZERO)
        except Refusal as failure:
            return Done(FAILED, failure, ZERO)
        return Done(EXECUTED, None, amount)

    def _burn(self, account: LedgerAccount, wallet_id: int, amount: Decimal, details: Details) -> None:
        savepoint = self._session.savepoint()
        try:
            self._session.burn(account, wallet_id, amount, details, manual=self._pending)
        except Refusal:
            # It is no activity then that gives points of an idle balance back.
            self._session.rollback_to(savepoint)
            raise

    def mint_before_limits(self, campaign: CompiledCampaign, params: Mapping[str, Any]) -> tuple[int, Decimal] | None:
        """The amount of a mint before limits, as (ledger account id, amount); None if it cannot mint at all."""
        try:
            self._wallet_id(params)
            account = self._account(campaign, params)
        except Refusal:
            return None
        return account.ledger_account_id, round_down(account, params["amount"])

    def discard(self, campaign: CompiledCampaign, params: Mapping[str, Any]) -> None:
        """Record that a limit prevented a mint altogether."""
        mint = self.mint_before_limits(campaign, params)
        if mint is not None:
            self.discarded += mint[1]

    def _wallet_id(self, params: Mapping[str, Any]) -> int:
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
        key = params["ledgerAccountKey"]
        account = campaign.main_account if key is None else self._accounts.get(key)
        account = None if account is None else self._session.accounts.get(account.ledger_account_id)
        if account is None:
            raise BadParameter(
                "The campaign's program has no main account." if key is None else f"There is no ledger account {key}."
            )
        return account

    def _details(self, campaign: CompiledCampaign, params: Mapping[str, Any]) -> Details:
        self._posted += 1
        # What the event says of its member is none of the sponsor's business, nor erased with the member there.
        is_own = params["recipient"] != SPONSOR
        return Details(
            system_unique_key=f"{self._event.key}:{self._posted}",
            external_event_date=self._event.external_event_date,
            external_id=self._event.external_id if is_own else None,
            description=params["description"] or (self._event.description if is_own else None),
            tags=campaign.campaign.tags or None,
            loyalty_event_id=self._event.loyalty_event_id,
        )
