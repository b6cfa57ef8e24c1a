"""Locking wallets outside of tracking, together with those of members who may be rewarded as a consequence."""

from collections.abc import Collection, Mapping

from sqlalchemy import Connection

from domain.ledger.records import Wallet
from domain.organizations import Organization
from handlers.services.configuration import configuration_of
from handlers.services.unit_of_work.participants.referrals import reach_of_own_events
from persistence import posting, referrals


def lock_wallets(
    db: Connection, organization: Organization, wallet_ids: Collection[int], reported: Collection[str] = ()
) -> Mapping[int, Wallet]:
    """Lock the wallets in their order. Returns them by id, as `posting.lock_wallets`.

    If a referral program rewards derived events of the types `reported`, or of types that follow from them, the wallets
    of the referrers are locked in one go with the others: wallets come first in the order of `locks`.
    """
    organization_id = organization.organization_id
    distance = reach_of_own_events(configuration_of(db, organization), reported)
    if not distance or not wallet_ids:
        return posting.lock_wallets(db, organization_id, wallet_ids)
    also = referrals.find_wallets_of_referrers(db, organization_id, wallet_ids, distance)
    locked = posting.lock_wallets(db, organization_id, {*wallet_ids, *also})
    return {wallet_id: wallet for wallet_id, wallet in locked.items() if wallet_id in set(wallet_ids)}


def lock_referrers(db: Connection, organization: Organization, wallet_id: int, reported: Collection[str]) -> None:
    """Lock a member's wallet together with those of `lock_wallets`; does nothing if there can be no others."""
    if reach_of_own_events(configuration_of(db, organization), reported):
        lock_wallets(db, organization, [wallet_id], reported)
