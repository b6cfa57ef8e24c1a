"""Mints by wallet: which members received the most points, and how many members received any."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from sqlalchemy import Connection, text

from domain.reports import WALLET_TOTALS, cover
from persistence.reports.figures import FigureQuery, select_by_subject, uncovered_parts
from persistence.reports.records import MINTS


class MintTotals(NamedTuple):
    """The minted amount less reversals, and the number of wallets that anything was minted to."""

    amount: Decimal
    wallet_count: int


class TopMember(NamedTuple):
    """A member, and the amount minted to the member."""

    key: str
    amount: Decimal
    name: str | None
    lastname: str | None


_NAMES = """
SELECT wallet_id, loyalty_member_id, profile ->> 'name', profile ->> 'lastName' FROM members
WHERE organization_id = :organization_id AND wallet_id = ANY(:wallet_ids)
"""


def find_top(
    db: Connection,
    organization_id: int,
    begin: datetime,
    end: datetime,
    limit: int,
    *,
    tag: str | None = None,
    ledger_account_id: int | None = None,
) -> list[TopMember]:
    """The members with the highest minted sums, in this order; members with a sum of zero or less are left out."""
    query, wallet_mints = _wallet_mints(organization_id, begin, end, tag, ledger_account_id)
    rows = query.execute(
        db,
        f"SELECT wallet_id, sum(minted) FROM ({wallet_mints}) wallets GROUP BY wallet_id HAVING sum(minted) > 0"
        f" ORDER BY sum(minted) DESC, wallet_id LIMIT {query.bind(limit)}",
    )
    return _top_members(db, organization_id, [(wallet_id, amount) for wallet_id, amount in rows])


def find_mint_totals(
    db: Connection, organization_id: int, begin: datetime, end: datetime, ledger_account_id: int
) -> MintTotals:
    """In a range, the amount minted in an account less reversals, and the number of wallets with any mint."""
    query, wallet_mints = _wallet_mints(organization_id, begin, end, tag=None, ledger_account_id=ledger_account_id)
    # The sum is read from the totals of the account; the totals of wallets are only used to count wallets.
    minted = f"SELECT coalesce(sum(a), 0) FROM ({select_by_subject(query, begin, end)}) account"
    receivers = f"SELECT wallet_id FROM ({wallet_mints}) wallets GROUP BY wallet_id HAVING sum(mints) > 0"
    [row] = query.execute(db, f"SELECT ({minted}), (SELECT count(*) FROM ({receivers}) receivers)")
    return MintTotals(*row)


def _wallet_mints(
    organization_id: int, begin: datetime, end: datetime, tag: str | None, ledger_account_id: int | None
) -> tuple[FigureQuery, str]:
    """A query, and its SQL for the mints in a range, with the columns wallet_id, minted and mints.

    A wallet has several rows, which the caller adds up. Totals of spans with a negative sign are subtracted.
    """
    coverage = cover(begin, end, WALLET_TOTALS)
    query = FigureQuery(organization_id, MINTS, tag or "", ledger_account_id)
    parts = []
    for span in coverage.spans:
        sign = "" if span.sign > 0 else "-"
        parts.append(
            f"SELECT wallet_id, {sign}minted AS minted, {sign}mints AS mints FROM report_wallet_totals"
            f" WHERE organization_id = :organization_id AND level = {span.level} AND label = :label"
            f" AND bucket >= {query.bind_moment(span.begin)} AND bucket < {query.bind_moment(span.end)}"
            f"{query.condition_on_subject('ledger_account_id')}"
        )
    parts += uncovered_parts(query, coverage, "wallet_id, a AS minted, CAST(b AS bigint) AS mints")
    return query, " UNION ALL ".join(parts)


def _top_members(db: Connection, organization_id: int, top: Sequence[tuple[int, Decimal]]) -> list[TopMember]:
    """The members of wallets with their amounts, in the order of `top`."""
    values = {"organization_id": organization_id, "wallet_ids": [wallet_id for wallet_id, _ in top]}
    members = {wallet_id: member for wallet_id, *member in db.execute(text(_NAMES), values)}
    top_members = []
    for wallet_id, amount in top:
        key, name, lastname = members[wallet_id]
        top_members.append(TopMember(key, amount, name, lastname))
    return top_members
