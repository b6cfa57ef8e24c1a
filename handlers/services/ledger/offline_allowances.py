"""Creates, cancels and redeems offline allowances, which are holds of the ledger that end by time."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from domain.idempotency import refuse_reuse
from domain.ledger.postings import NO_FIAT, Details, Fiat
from domain.ledger.records import SETTLED
from domain.ledger.views import TransactionRow
from domain.members import Member, refuse_erased, refuse_inactive
from domain.offline_allowances import (
    AUDIENCE,
    CANCELLED,
    OPEN,
    AllowanceView,
    OfflineAllowance,
    OfflineAllowanceInvalid,
    OfflineAllowanceLimit,
    ends_of,
    refuse_unless_open,
    refuse_zero,
    status_of,
)
from domain.problems import FieldFault, InvalidRequest
from handlers.call import Call
from handlers.messages.json_text import digest_of
from handlers.services import tokens
from handlers.services.ledger.holds import find_keys_and_states, find_transaction, hold_points, open_hold
from handlers.services.references import account_of_members_with_key
from handlers.services.unit_of_work.unit import UnitOfWork
from persistence import ledger_transactions, posting
from persistence.holds import find_holding_records
from persistence.offline_allowances import ALLOWANCES
from persistence.paging import Page, Paged
from persistence.rows import fields_of

_DESCRIPTION = "Offline allowance"
_ENTITY = "offline-allowance"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAllowance:
    """The request for an allowance; without `valid_for` it lasts as long as the account allows."""

    amount: Decimal
    ledger_account_key: str | None = None
    valid_for: str | None = None
    system_unique_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowanceRedemption:
    """The request to redeem an allowance by its token."""

    token: str
    amount: Decimal
    system_unique_key: str
    external_event_date: datetime
    order_external_id: str | None = None
    fiat_value: Decimal | None = None
    fiat_currency: str | None = None

    def digest(self, allowance: OfflineAllowance) -> bytes:
        """The digest of the request, with the allowance instead of its token."""
        details = (self.amount, self.external_event_date, self.order_external_id, self.fiat_value, self.fiat_currency)
        return digest_of((allowance.offline_allowance_key, *details))


@dataclass(frozen=True, slots=True)
class RedeemedAllowance:
    """A redeemed allowance, and the rows of its burn."""

    allowance: AllowanceView
    transactions: list[TransactionRow]


def create_allowance(call: Call, member: Member, request: NewAllowance) -> AllowanceView:
    """Hold points of the member until the end of the allowance, and return it with its token.

    The same request under the same key returns the first response. Raises MemberInactive, MemberErased, KeyReused, what
    `ends_of` raises, OfflineAllowanceLimit for a second open allowance on the account, UnknownLedgerAccount,
    InsufficientBalance, CaptureNotSupported or AccountInactive.
    """
    unit = UnitOfWork(call)
    member = unit.lock(member_ids=[member.member_id])[member.member_id]
    refuse_erased(member)
    digest = digest_of((_ENTITY, member.member_id, request.amount, request.ledger_account_key, request.valid_for))
    earlier_allowance = _find_earlier_allowance(call, request.system_unique_key, digest)
    if earlier_allowance is not None:
        # Without the changes since the first response.
        view = _view(call, earlier_allowance)
        view = replace(
            view, status=OPEN, redeemed_amount=None, order_external_id=None, updated_at=earlier_allowance.created_at
        )
        return _with_token(call, earlier_allowance, view)
    refuse_inactive(member)
    account = account_of_members_with_key(call, request.ledger_account_key)
    expires_at, held_until = ends_of(account, call.organization, request.amount, request.valid_for, call.now)
    open_allowances = find_holding_records(
        call.db, ALLOWANCES, member.organization_id, member.member_id, account.ledger_account_id, call.now
    )
    if open_allowances:
        raise OfflineAllowanceLimit(
            f"The member has an open offline allowance on the account {account.name}."
            " Redeem or cancel it, or wait until it ends."
        )
    details = Details(request.system_unique_key, digest, description=_DESCRIPTION)
    transaction_id = hold_points(unit, member, account, request.amount, details, held_until)
    allowance = ALLOWANCES.add(
        call.db,
        member.organization_id,
        {
            "offline_allowance_key": call.new_key(),
            "member_id": member.member_id,
            "ledger_account_id": account.ledger_account_id,
            "ledger_transaction_id": transaction_id,
            "amount": request.amount,
            "expires_at": expires_at,
            "held_until": held_until,
            # Libraries compare the dates of tokens with real time.
            "issued_at": datetime.now(UTC).replace(microsecond=0),
        },
        call.now,
    )
    view = _view(call, allowance)
    _audit(call, allowance, before=None, after=view)
    return _with_token(call, allowance, view)


def _find_earlier_allowance(call: Call, key: str, digest: bytes) -> OfflineAllowance | None:
    """Find the allowance of an earlier request with this key, None if there is none.

    Raises KeyReused if the earlier request was another one.
    """
    organization_id = call.organization.organization_id
    transaction_id = posting.find_posted(call.db, organization_id, [key]).find(key, digest)
    if transaction_id is None:
        return None
    return ALLOWANCES.find_by(call.db, organization_id, ledger_transaction_id=transaction_id)


def _with_token(call: Call, allowance: OfflineAllowance, view: AllowanceView) -> AllowanceView:
    """The allowance with its token; a repeated request gets a token with the same claims."""
    claims = {
        "aud": AUDIENCE,
        "jti": allowance.offline_allowance_key,
        "organizationId": allowance.organization_id,
        "amount": str(allowance.amount),
        "account": view.ledger_account_key,
    }
    lifetime = int((allowance.expires_at - allowance.created_at.replace(microsecond=0)).total_seconds())
    return replace(view, token=tokens.issue(call.db, call.settings, claims, lifetime, allowance.issued_at))


def find_allowances(call: Call, member: Member, query: Mapping[str, Any]) -> Paged[AllowanceView]:
    """A page of the member's allowances."""
    page = ALLOWANCES.find_page(call.db, member.organization_id, query, member_id=member.member_id)
    return page.with_results(_views(call, page.results))


def _views(call: Call, allowances: Collection[OfflineAllowance]) -> list[AllowanceView]:
    """The allowances with the keys of their accounts and the states of their holds; two statements."""
    keys, states = find_keys_and_states(call, allowances)
    names = fields_of(OfflineAllowance)
    return [
        AllowanceView(
            **{name: getattr(allowance, name) for name in names},
            ledger_account_key=keys[allowance.ledger_account_id],
            status=status_of(allowance, states[allowance.ledger_transaction_id], call.now),
        )
        for allowance in allowances
    ]


def _view(call: Call, allowance: OfflineAllowance) -> AllowanceView:
    """The allowance as `_views` returns it."""
    [view] = _views(call, [allowance])
    return view


def redeem_allowance(call: Call, request: AllowanceRedemption) -> RedeemedAllowance:
    """Burn some of the points that an allowance holds, and release the rest; an allowance is redeemed once.

    The same request under the same key returns the first response. Raises OfflineAllowanceInvalid,
    OfflineAllowanceRedeemed, OfflineAllowanceClosed, KeyReused, CaptureExceedsHold, AccountInactive, or InvalidRequest
    for a date after the end of the token.
    """
    organization_id = call.organization.organization_id
    with _open_allowance(call, _allowance_of(call, request.token)) as (unit, allowance, before):
        digest = request.digest(allowance)
        earlier_allowance = ALLOWANCES.find_by(call.db, organization_id, redemption_key=request.system_unique_key)
        if earlier_allowance is not None:
            refuse_reuse(request.system_unique_key, earlier_allowance.redemption_digest, digest)
            return _redemption_of(call, earlier_allowance)
        refuse_zero(request.amount)
        refuse_unless_open(before.status, allowance.offline_allowance_key)
        if request.external_event_date > allowance.expires_at:
            detail = "externalEventDate is after the end of the offline allowance"
            raise InvalidRequest([FieldFault(detail, pointer="/externalEventDate")])
        fiat = Fiat(request.fiat_value, currency=request.fiat_currency)
        transaction, account = find_transaction(unit, allowance)
        unit.ledger.capture(
            transaction, account, request.amount, None if fiat == NO_FIAT else fiat, request.external_event_date
        )
    redemption = {
        "redeemed_amount": request.amount,
        "redemption_key": request.system_unique_key,
        "redemption_digest": digest,
        "order_external_id": request.order_external_id,
    }
    redeemed_allowance = _redemption_of(call, ALLOWANCES.store(call.db, allowance, redemption, call.now))
    _audit(call, allowance, before, redeemed_allowance.allowance)
    return redeemed_allowance


def _allowance_of(call: Call, token: str) -> OfflineAllowance:
    """The allowance that a token names; raises OfflineAllowanceInvalid."""
    claims = tokens.verified_claims(call.db, token, AUDIENCE) or {}
    organization_id = call.organization.organization_id
    if claims.get("organizationId") != organization_id:
        raise OfflineAllowanceInvalid("This server has not signed the token for the organization.")
    allowance = ALLOWANCES.find_by(call.db, organization_id, offline_allowance_key=claims["jti"])
    if allowance is None:
        raise OfflineAllowanceInvalid("The token names no offline allowance of this organization.")
    return allowance


@contextmanager
def _open_allowance(
    call: Call, allowance: OfflineAllowance
) -> Iterator[tuple[UnitOfWork, OfflineAllowance, AllowanceView]]:
    """Open a unit of work to move the points that an allowance holds; flush it at the end of the block.

    Yields the unit, and the current allowance as record and as view.
    """
    with open_hold(call, allowance) as unit:
        # Read again under the lock, since another transaction may have changed the allowance.
        current = ALLOWANCES.find_again(call.db, allowance)
        yield unit, current, _view(call, current)


def _redemption_of(call: Call, allowance: OfflineAllowance) -> RedeemedAllowance:
    """A redeemed allowance with its burn, in the state after the redemption."""
    filters = {"from_id": allowance.ledger_transaction_id, "to_id": allowance.ledger_transaction_id}
    rows = ledger_transactions.find_rows_of_account(
        call.db, allowance.organization_id, allowance.ledger_account_id, filters, Page(0, 1)
    )
    transactions = [
        replace(row, status=SETTLED, reversal_ledger_transaction_id=None, updated_at=allowance.updated_at)
        for row in rows.results
    ]
    return RedeemedAllowance(_view(call, allowance), transactions)


def cancel_allowance(call: Call, allowance: OfflineAllowance) -> AllowanceView:
    """Release the points that an allowance holds; a cancelled allowance stays unchanged.

    Raises OfflineAllowanceRedeemed, OfflineAllowanceClosed for an expired allowance, or AccountInactive.
    """
    with _open_allowance(call, allowance) as (unit, current, before):
        if before.status == CANCELLED:
            return before
        refuse_unless_open(before.status, allowance.offline_allowance_key)
        transaction, account = find_transaction(unit, allowance)
        unit.ledger.revert(transaction, account, Details(call.new_key(), description=_DESCRIPTION))
    # Only `updatedAt` changes: the status follows from the hold.
    cancelled_allowance = _view(call, ALLOWANCES.store(call.db, current, {}, call.now))
    _audit(call, current, before, cancelled_allowance)
    return cancelled_allowance


def _audit(call: Call, allowance: OfflineAllowance, before: AllowanceView | None, after: AllowanceView) -> None:
    """Add an entry to the audit log about the member's allowance."""
    call.audit.add(
        _ENTITY,
        allowance.offline_allowance_id,
        before=None if before is None else {"status": before.status},
        after={
            "status": after.status,
            "amount": after.amount,
            "ledgerAccountKey": after.ledger_account_key,
            "redeemedAmount": after.redeemed_amount,
            "orderExternalId": after.order_external_id,
        },
        member_ids=(allowance.member_id,),
    )
