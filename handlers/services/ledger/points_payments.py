"""Payments with points: quotes of what a member may pay with them."""

from dataclasses import dataclass
from decimal import Decimal

from domain.currencies import CurrencyMismatch
from domain.members import Member, refuse_erased, refuse_inactive
from domain.redemptions import Quote, RedemptionPolicy, quote_of
from handlers.call import Call
from handlers.services.references import account_of_members_with_key
from persistence import posting


@dataclass(frozen=True, slots=True, kw_only=True)
class QuoteRequest:
    """The request for a quote; without `currency` the order is in that of the organization, if it has one."""

    order_total: Decimal
    currency: str | None = None
    ledger_account_key: str | None = None


def quote_payment(call: Call, member: Member, asked: QuoteRequest) -> Quote:
    """Quote the part of an order that the member may pay with points now.

    Raises MemberErased, MemberInactive, UnknownLedgerAccount, RedemptionDisabled or CurrencyMismatch.
    """
    refuse_erased(member)
    refuse_inactive(member)
    account = account_of_members_with_key(call, asked.ledger_account_key)
    redemption = RedemptionPolicy.of(account)
    refuse_other_currency(call, redemption, asked.currency)
    account_ids = [account.ledger_account_id]
    session = posting.open_session(call.db, call.organization, [member.wallet_id], account_ids, call.now, lock=False)
    available = session.holding(member.wallet_id, account.ledger_account_id).available
    return quote_of(redemption, asked.order_total, available)


def refuse_other_currency(call: Call, redemption: RedemptionPolicy, currency: str | None) -> None:
    """Raise CurrencyMismatch for an order in another currency than that in which the points are worth something."""
    of_order = currency or call.organization.currency
    if of_order not in (None, redemption.currency):
        raise CurrencyMismatch(f"The points pay amounts in {redemption.currency}, the order is in {of_order}.")
