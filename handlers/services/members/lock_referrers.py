"""Locking a member together with those who may be rewarded as a consequence of a change."""

from collections.abc import Collection

from sqlalchemy import Connection

from domain.organizations import Organization
from handlers.services.configuration import configuration_of
from handlers.services.unit_of_work.participants.referrals import reach_of_own_events
from persistence import posting, referrals


def lock_referrers(db: Connection, organization: Organization, wallet_id: int, reported: Collection[str]) -> None:
    """Lock a member's wallet together with those of referrers; does nothing if no referral can be rewarded.

    If a referral program rewards derived events of the types `reported`, or of types that follow from them, the wallets
    are locked in one go: wallets come first in the order of `locks`.
    """
    distance = reach_of_own_events(configuration_of(db, organization), reported)
    if distance:
        organization_id = organization.organization_id
        of_referrers = referrals.find_wallets_of_referrers(db, organization_id, [wallet_id], distance)
        posting.lock_wallets(db, organization_id, {wallet_id, *of_referrers})
