"""Members with their tiers and balances, read by one statement: most calls that read something read these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, bindparam, literal_column, select

from domain.ledger.views import WalletView
from domain.members import Member, MemberTier
from persistence.connections import CompiledStatement
from persistence.ledger_wallets import HOLDINGS, IN_ORDER, IS_RELEVANT, VIEW_COLUMNS, view
from persistence.member_tiers import TIERS, tiers_of
from persistence.rows import columns_of
from persistence.tables.ledger import ledger_accounts, wallets
from persistence.tables.members import members


@dataclass(frozen=True, slots=True)
class MemberWithHoldings:
    """A member with the stored tiers, in the order of the programs, and the balances, the default account first."""

    member: Member
    tiers: Sequence[MemberTier]
    balances: Sequence[WalletView]


_COLUMNS = columns_of(members, Member)

# A row for each balance of the member; one without a balance if there is none.
_MEMBERS = (
    select(*_COLUMNS, literal_column(TIERS), ledger_accounts.c.ledger_account_id.is_not(None), *VIEW_COLUMNS)
    .select_from(
        members.outerjoin(
            HOLDINGS,
            and_(
                wallets.c.organization_id == members.c.organization_id,
                wallets.c.wallet_id == members.c.wallet_id,
                IS_RELEVANT,
            ),
        )
    )
    .where(members.c.organization_id == bindparam("organization_id"))
    .order_by(*IN_ORDER)
)
_BY_ID = CompiledStatement(_MEMBERS.where(members.c.member_id == bindparam("value")))
_BY_LOYALTY_MEMBER_ID = CompiledStatement(_MEMBERS.where(members.c.loyalty_member_id == bindparam("value")))


def find(db: Connection, organization_id: int, member_id: int, now: datetime) -> MemberWithHoldings | None:
    """The member with this id, and the holdings at `now`."""
    return _only(_BY_ID, db, organization_id, member_id, now)


def find_by_loyalty_member_id(
    db: Connection, organization_id: int, loyalty_member_id: str, now: datetime
) -> MemberWithHoldings | None:
    """The member with this `loyaltyMemberId`, and the holdings at `now`."""
    return _only(_BY_LOYALTY_MEMBER_ID, db, organization_id, loyalty_member_id, now)


def _only(
    statement: CompiledStatement, db: Connection, organization_id: int, value: Any, now: datetime
) -> MemberWithHoldings | None:
    rows = statement.rows(db, organization_id=organization_id, value=value, now=now)
    if not rows:
        return None
    width = len(_COLUMNS)
    member = Member(*rows[0][:width])
    balances = [view(row[width + 2 :], now) for row in rows if row[width + 1]]
    return MemberWithHoldings(member, tiers_of(member, rows[0][width]), balances)
