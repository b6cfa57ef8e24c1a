"""The locked members and wallets of a unit of work."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from domain.event_types import POINTS_AVAILABLE, POINTS_CANCELLED, POINTS_EXPIRED, TRANSACTION_CREATED
from domain.events import DRY_RUN, FULL, IncomingEvent
from domain.ledger.session import LedgerSession
from domain.members import Member
from domain.organizations import Organization
from domain.tiers import HeldTier, MemberProgram
from handlers.services.configuration import Configuration
from handlers.services.unit_of_work.derived_events import settled_wait
from handlers.services.unit_of_work.orders import sent_orders
from handlers.services.unit_of_work.participants.referrals import max_referral_chain, usable_codes
from persistence import member_lookups, posting, referral_uses

_ABOUT_MOVEMENTS = {TRANSACTION_CREATED, POINTS_AVAILABLE, POINTS_CANCELLED, POINTS_EXPIRED}


class LockedMembers:
    """The part of a unit of work that locks members and wallets, in the order of `persistence.locks`."""

    db: Connection
    organization: Organization
    organization_id: int
    ledger: LedgerSession
    configuration: Configuration
    possible_types: frozenset[str]
    mode: str
    is_dry_run: bool
    _reported: frozenset[str]

    def __init__(self) -> None:
        self.members: dict[int, Member] = {}
        self.ledger_ids: dict[int, int] = {}
        # The referral codes that may be used, by id, each with the member who has it.
        self.referral_codes: Mapping[int, int] = {}
        self._held_tiers: dict[MemberProgram, HeldTier] = {}
        # The ids of members who were created in this database transaction.
        self._created: set[int] = set()
        # The types of events that points of the members wait for.
        self.awaited_types: set[str] = set()

    def lock(
        self,
        loyalty_member_ids: Collection[str] = (),
        member_ids: Collection[int] = (),
        incoming: Sequence[IncomingEvent] = (),
    ) -> dict[Any, Member]:
        """Lock and load members, and the owners of referral codes that the events may use.

        Returns them by either id.
        """
        if self.configuration.referral_programs.by_id and self.mode in (FULL, DRY_RUN):
            self.referral_codes = usable_codes(
                self.db, self.configuration, incoming, loyalty_member_ids, member_ids, self._reported
            )
            member_ids = {*member_ids, *self.referral_codes.values()}
        others = [member_id for member_id in member_ids if member_id not in self._created]
        if loyalty_member_ids or others:
            self._lock_and_add(loyalty_member_ids, others, incoming)
        members: dict[Any, Member] = {}
        for member in self.members.values():
            members[member.loyalty_member_id] = members[member.member_id] = member
        return members

    def _lock_and_add(
        self, loyalty_member_ids: Collection[str], member_ids: Collection[int], incoming: Sequence[IncomingEvent]
    ) -> None:
        """Lock and load members by their ids, and the owners of points that wait for the orders of the events."""
        order_ids = None
        if self.organization.awaits_events:
            order_ids = {order["externalId"] for order in sent_orders(incoming)}
        db, organization_id, lock = self.db, self.organization_id, not self.is_dry_run
        matches = member_lookups.find_members(db, organization_id, loyalty_member_ids, member_ids, order_ids, lock=lock)
        if not order_ids:
            self._add(matches)
            return
        waiting_ids = [
            member.member_id
            for member, *_ in matches
            if member.member_id not in member_ids and member.loyalty_member_id not in loyalty_member_ids
        ]
        if waiting_ids and lock:
            # Their points may have begun to wait since the lock was requested: then they are locked only now.
            matches = [match for match in matches if match.member.member_id not in waiting_ids]
            matches += member_lookups.find_members(db, organization_id, (), waiting_ids, (), lock=True)
        self._add(matches)

    def lock_wallets(self, wallet_ids: Collection[int], account_ids: Collection[int]) -> None:
        """Lock wallets to move points of these accounts, with the members who may be rewarded as a consequence.

        The members who own the wallets are loaded only if movements of the accounts may concern them.
        """
        distance = max_referral_chain(self.configuration, self._reported)
        wallets = set(wallet_ids)
        if distance and wallets:
            wallets.update(referral_uses.find_wallets_of_referrers(self.db, self.organization_id, wallets, distance))
        locked = posting.lock_wallets(self.db, self.organization_id, wallets)
        self.ledger_ids |= {wallet_id: wallet.ledger_id for wallet_id, wallet in locked.items()}
        if not self._may_concern_members(account_ids):
            return
        self._add(self._find_owners(wallets))
        if distance and self.members:
            self.referral_codes = referral_uses.find_usable(
                self.db, self.organization_id, member_ids=self.members, distance=distance
            )

    def adopt(self, created: Sequence[tuple[Member, Mapping[int, HeldTier]]]) -> None:
        """Add members whom this transaction has created: no other one can see them, so `lock` need not read them.

        Each is given with the tiers held, by program id.
        """
        ledger_id = self.organization.default_ledger_id or 0
        self._add([member_lookups.FoundMember(member, held_tiers, ledger_id) for member, held_tiers in created])
        self._created |= {member.member_id for member, _ in created}

    def _add(self, members: Sequence[member_lookups.FoundMember]) -> None:
        for member, held_tiers, ledger_id, awaited_types in members:
            self.awaited_types.update(awaited_types)
            self.members[member.member_id] = member
            self.ledger_ids[member.wallet_id] = ledger_id
            for program_id, tier in held_tiers.items():
                self._held_tiers[member.member_id, program_id] = tier

    def _find_owners(self, wallet_ids: Collection[int]) -> list[member_lookups.FoundMember]:
        awaits_events = self.organization.awaits_events
        return member_lookups.find_members_of_wallets(self.db, self.organization_id, wallet_ids, awaits_events)

    def _may_concern_members(self, account_ids: Collection[int]) -> bool:
        """True if the owners of the wallets are needed.

        They are if movements on these accounts can move a tier, if points of them expire by a tier (`member_accounts`),
        or if the movements or points are reported as events.
        """
        if not self.possible_types.isdisjoint(_ABOUT_MOVEMENTS):
            return bool(account_ids)
        return not self.configuration.member_accounts.isdisjoint(account_ids)

    def _add_owners_of_arrivals(self) -> None:
        """Load the members whose points are or never will be available: that is reported in any case."""
        wallet_ids = {member.wallet_id for member in self.members.values()}
        wallets = {
            mint.to_wallet_id
            for step in self.ledger.steps
            if (mint := settled_wait(step)) is not None and mint.to_wallet_id is not None
        }
        if wallets - wallet_ids:
            self._add(self._find_owners(wallets - wallet_ids))
