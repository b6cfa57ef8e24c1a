"""The locked members and wallets of a unit of work."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy import Connection

from domain.event_types import POINTS_AVAILABLE, POINTS_CANCELLED, POINTS_EXPIRED, TRANSACTION_CREATED
from domain.events import DRY_RUN, FULL, IncomingEvent
from domain.ledger.postings import Capture
from domain.ledger.session import LedgerSession
from domain.members import Member
from domain.organizations import Organization
from domain.tiers import HeldTier, MemberProgram
from handlers.services.configuration import Configuration
from handlers.services.unit_of_work.derived_events import mint_settled_by
from handlers.services.unit_of_work.orders import sent_orders
from handlers.services.unit_of_work.participants.referrals import find_usable_codes, max_referral_chain
from persistence import member_lookups, posting, referral_uses
from persistence.member_lookups import FoundMember

# The types of derived events about movements of points.
_MOVEMENT_EVENTS = {TRANSACTION_CREATED, POINTS_AVAILABLE, POINTS_CANCELLED, POINTS_EXPIRED}


class LockedMembers:
    """The part of a unit of work that locks members and wallets, in the order of `persistence.locks`."""

    db: Connection
    organization: Organization
    organization_id: int
    now: datetime
    ledger: LedgerSession
    configuration: Configuration
    possible_derived_types: frozenset[str]
    mode: str
    is_dry_run: bool
    moments: frozenset[datetime]
    _reported_types: frozenset[str]

    def __init__(self) -> None:
        self.members: dict[int, Member] = {}
        self.ledger_ids: dict[int, int] = {}
        # The id of the owner of each referral code that may be used, by the code's id.
        self.referral_codes: Mapping[int, int] = {}
        self._held_tiers: dict[MemberProgram, HeldTier] = {}
        # The ids of members who were created in this database transaction.
        self._created_ids: set[int] = set()
        # The types of events that points of the members wait for.
        self.awaited_types: set[str] = set()

    def lock(
        self,
        loyalty_member_ids: Collection[str] = (),
        member_ids: Collection[int] = (),
        incoming_events: Sequence[IncomingEvent] = (),
    ) -> dict[Any, Member]:
        """Lock and load members, and the owners of referral codes that the events may use.

        Returns all members of the unit, by `loyaltyMemberId` and by `memberId`.
        """
        if self.configuration.referral_programs.by_id and self.mode in (FULL, DRY_RUN):
            self.referral_codes = find_usable_codes(
                self.db, self.configuration, incoming_events, loyalty_member_ids, member_ids, self._reported_types
            )
            member_ids = {*member_ids, *self.referral_codes.values()}
        stored_ids = [member_id for member_id in member_ids if member_id not in self._created_ids]
        if loyalty_member_ids or stored_ids:
            self._lock_and_add(
                loyalty_member_ids, stored_ids, incoming_events, awaits_events=self.organization.awaits_events
            )
        members: dict[Any, Member] = {}
        for member in self.members.values():
            members[member.loyalty_member_id] = members[member.member_id] = member
        return members

    def _lock_and_add(
        self,
        loyalty_member_ids: Collection[str],
        member_ids: Collection[int],
        incoming_events: Sequence[IncomingEvent],
        *,
        awaits_events: bool,
    ) -> None:
        """Lock and load members by their ids, and the owners of points that wait for the orders of the events.

        `awaits_events` is True if points of the organization wait for events. If it is False, but points have begun to
        wait since the organization was read, all is read again.
        """
        # Points that wait are only looked up if the organization has any.
        order_ids = {order["externalId"] for order in sent_orders(incoming_events)} if awaits_events else None
        matches = member_lookups.find_members(
            self.db, self.organization_id, loyalty_member_ids, member_ids, order_ids, lock=not self.is_dry_run
        )
        if not awaits_events and member_lookups.awaits_events(matches):
            self._lock_and_add(loyalty_member_ids, member_ids, incoming_events, awaits_events=True)
        else:
            self._add(matches)

    def lock_wallets(
        self, wallet_ids: Collection[int], account_ids: Collection[int], *, loads_owners: bool = False
    ) -> None:
        """Lock wallets to move points of these accounts, and the wallets of referrers whom the movements may reward.

        Unless `loads_owners`, the members who own the wallets are loaded only if movements of the accounts may concern
        them.
        """
        max_chain = max_referral_chain(self.configuration, self._reported_types)
        wallets = set(wallet_ids)
        if max_chain and wallets:
            wallets.update(referral_uses.find_wallets_of_referrers(self.db, self.organization_id, wallets, max_chain))
        locked_wallets = posting.lock_wallets(self.db, self.organization_id, wallets)
        self.ledger_ids |= {wallet_id: wallet.ledger_id for wallet_id, wallet in locked_wallets.items()}
        if not (loads_owners or self._may_concern_members(account_ids)):
            return
        self._add(self._find_owners(wallets))
        if max_chain and self.members:
            self.referral_codes = referral_uses.find_usable(
                self.db, self.organization_id, member_ids=self.members, max_distance=max_chain
            )

    def adopt(self, new_members: Sequence[tuple[Member, Mapping[int, HeldTier]]]) -> None:
        """Add members whom this transaction has created, each with the tiers held, by program id.

        No other transaction can see these members, so `lock` need not read them.
        """
        ledger_id = self.organization.default_ledger_id or 0
        self._add([FoundMember(member, held_tiers, ledger_id) for member, held_tiers in new_members])
        self._created_ids |= {member.member_id for member, _ in new_members}

    def _add(self, members: Sequence[FoundMember]) -> None:
        """Add locked or new members with their tiers, and the types of events for which their points wait."""
        for member, held_tiers, ledger_id, awaited_types in members:
            self.awaited_types.update(awaited_types)
            self.members[member.member_id] = member
            self.ledger_ids[member.wallet_id] = ledger_id
            for program_id, tier in held_tiers.items():
                self._held_tiers[member.member_id, program_id] = tier

    @property
    def has_lapsed_tiers(self) -> bool:
        """True if the time of a tier that a locked member holds is over."""
        return any(tier.has_lapsed(self.now) for tier in self._held_tiers.values())

    def read_members_again(self) -> None:
        """Read the locked members again, because another unit of the transaction may have changed their tiers."""
        self._held_tiers.clear()
        self._add(self._find_owners({member.wallet_id for member in self.members.values()}))

    def _find_owners(self, wallet_ids: Collection[int]) -> list[FoundMember]:
        find = partial(member_lookups.find_members_of_wallets, self.db, self.organization_id, wallet_ids)
        awaits_events = self.organization.awaits_events
        matches = find(awaits_events=awaits_events)
        return find(awaits_events=True) if not awaits_events and member_lookups.awaits_events(matches) else matches

    def _may_concern_members(self, account_ids: Collection[int]) -> bool:
        """True if movements of points of these accounts require that the owners of the wallets are loaded.

        The owners are needed if movements are reported as events, or if one of the accounts is in `member_accounts`:
        its movements can change a tier, or its points expire depending on the tier.
        """
        if not self.possible_derived_types.isdisjoint(_MOVEMENT_EVENTS):
            return bool(account_ids)
        return not self.configuration.member_accounts.isdisjoint(account_ids)

    def _expect_awaited_events(self) -> None:
        """Add the types of the events for which mints of the session wait, so that later events find these mints."""
        for mint in self.ledger.new_waiting_mints:
            if mint.wait is not None and mint.wait.awaited is not None:
                self.awaited_types.update(mint.wait.awaited["eventTypes"])

    def _add_due_moments(self) -> None:
        """Add the moments at which points became available, were cancelled or expired, as events will report.

        These events count in the periods of their moments, as tracked events do.
        """
        moments = {
            step.available_at if isinstance(step, Capture) else step.details.external_event_date
            for step in self.ledger.steps
        }
        self.moments |= {moment for moment in moments if moment is not None}

    def _add_owners_of_settled_points(self) -> None:
        """Load the members whose points became available or never will: events report that in any case."""
        wallet_ids = {member.wallet_id for member in self.members.values()}
        settled_mints = filter(None, map(mint_settled_by, self.ledger.steps))
        credited_ids = {mint.to_wallet_id for mint in settled_mints if mint.to_wallet_id is not None}
        if credited_ids - wallet_ids:
            self._add(self._find_owners(credited_ids - wallet_ids))
