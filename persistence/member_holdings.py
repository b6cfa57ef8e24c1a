"""Members with their tiers and balances, read by one statement: most calls that read something read these."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import and_, bindparam, literal_column, select

from domain.ledger.views import WalletView
from domain.members import Member
from domain.tiers import MemberTier
from persistence.balance_columns import HOLDINGS, IS_RELEVANT, VIEW_COLUMNS
from persistence.ledger_wallets import view
from persistence.member_tiers import TIERS, tiers_of
from persistence.records import Lookup
from persistence.rows import CompiledStatement, columns_of
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
)


def _member(rows: Sequence[Sequence[Any]], now: datetime, timezone: str) -> MemberWithHoldings:
    width = len(_COLUMNS)
    member = Member(*rows[0][:width])
    balances = [view(row[width + 2 :], now, timezone) for row in rows if row[width + 1]]
    balances.sort(key=lambda balance: (not balance.is_default_account, balance.ledger_account_id))
    return MemberWithHoldings(member, tiers_of(member, rows[0][width]), balances)


BY_ID = Lookup(CompiledStatement(_MEMBERS.where(members.c.member_id == bindparam("value"))), _member)
BY_LOYALTY_MEMBER_ID = Lookup(
    CompiledStatement(_MEMBERS.where(members.c.loyalty_member_id == bindparam("value"))), _member
)
