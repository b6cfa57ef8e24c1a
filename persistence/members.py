"""Members and the tiers they hold."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, join, or_, select, text
from sqlalchemy.exc import IntegrityError

from domain.members import Member, MemberExists, MemberTier
from persistence.connections import query
from persistence.paging import Page, Paged, paged
from persistence.rows import as_json, change, columns_of, fields_of, records
from persistence.tables.ledger import wallets
from persistence.tables.members import member_tiers, members
from persistence.transactions import constraint_of

MEMBER_ORDER = {
    "memberId": members.c.member_id,
    "loyaltyMemberId": members.c.loyalty_member_id,
    "active": members.c.active,
    "memberType": members.c.member_type,
    "email": members.c.email,
    "since": members.c.created_at,
    "createdAt": members.c.created_at,
    "updatedAt": members.c.updated_at,
}

_COLUMNS = columns_of(members, Member)
_TIER_COLUMNS = columns_of(member_tiers, MemberTier)
_OF_ORGANIZATION = f"SELECT {', '.join(fields_of(Member))} FROM members WHERE organization_id = %s"
_BY_IDS = f"{_OF_ORGANIZATION} AND member_id = ANY(%s)"
_BY_LOYALTY_MEMBER_IDS = f"{_OF_ORGANIZATION} AND loyalty_member_id = ANY(%s)"
_DOCUMENTS = ("profile", "custom_attributes", "notifications", "on_chain")
# The punctuation that the column `search_text` takes for blanks.
_BETWEEN_WORDS = re.compile(r"[\x00-\x20!-/:-@\[-`{-~]+")

_MEMBER_FIELDS = ", ".join(f"member.{name}" for name in fields_of(Member))
_TIER_FIELDS = ", ".join(f"tier.{name} AS tier_{name}" for name in fields_of(MemberTier))

# A wallet, its member and the default tier of the default program, in one round trip.
_ADD = text(
    f"""
    WITH wallet AS (
        INSERT INTO wallets (organization_id, wallet_key, ledger_id, created_at)
        VALUES (:organization_id, CAST(:wallet_key AS uuid), :ledger_id, :now)
        RETURNING wallet_id, wallet_key
    ), member AS (
        INSERT INTO members (
            organization_id, loyalty_member_id, public_loyalty_member_id, active, member_type, channel_acquisition,
            referral_code, profile, custom_attributes, notifications, on_chain, wallet_id, wallet_key,
            created_at, updated_at
        )
        SELECT :organization_id, :loyalty_member_id, :public_loyalty_member_id, :active, :member_type,
               :channel_acquisition, :referral_code, CAST(:profile AS jsonb), CAST(:custom_attributes AS jsonb),
               CAST(:notifications AS jsonb), CAST(:on_chain AS jsonb), wallet_id, wallet_key, :now, :now
        FROM wallet
        RETURNING *
    ), tier AS (
        INSERT INTO member_tiers (organization_id, member_id, loyalty_program_id, loyalty_tier_id, created_at)
        SELECT member.organization_id, member.member_id, program.loyalty_program_id, program.default_tier_id, :now
        FROM member
        JOIN loyalty_programs AS program
            ON program.organization_id = member.organization_id AND program.loyalty_program_id = :loyalty_program_id
        WHERE program.default_tier_id IS NOT NULL
        RETURNING *
    )
    SELECT {_MEMBER_FIELDS}, {_TIER_FIELDS} FROM member LEFT JOIN tier ON true
    """
).columns(*_COLUMNS, *(column.label(f"tier_{column.name}") for column in _TIER_COLUMNS))


@dataclass(frozen=True, slots=True)
class MemberFilter:
    """Filters of a list of members; None leaves out a condition. Moments: from inclusive, to exclusive."""

    email: str | None = None
    loyalty_member_id: str | None = None
    gov_id: str | None = None
    wallet_id: int | None = None
    member_type: str | None = None
    channel_acquisition: str | None = None
    created_from: datetime | None = None
    created_to: datetime | None = None
    words: str | None = None
    loyalty_program_id: int | None = None
    loyalty_tier_id: int | None = None


def find(db: Connection, organization_id: int, member_id: int) -> Member | None:
    """The member with this id."""
    found = find_all(db, organization_id, [member_id])
    return found[0] if found else None


def find_by_loyalty_member_id(db: Connection, organization_id: int, loyalty_member_id: str) -> Member | None:
    """The member with this `loyaltyMemberId`."""
    found = find_all_by_loyalty_member_id(db, organization_id, [loyalty_member_id])
    return found[0] if found else None


def find_all(db: Connection, organization_id: int, member_ids: Collection[int]) -> list[Member]:
    """The existing members among these, in no certain order."""
    return records(Member, query(db, _BY_IDS, (organization_id, list(member_ids))))


def find_all_by_loyalty_member_id(
    db: Connection, organization_id: int, loyalty_member_ids: Collection[str]
) -> list[Member]:
    """The existing members among these, in no certain order."""
    return records(Member, query(db, _BY_LOYALTY_MEMBER_IDS, (organization_id, list(loyalty_member_ids))))


def find_all_by_either_id(db: Connection, organization_id: int, member_id: int, loyalty_member_id: str) -> list[Member]:
    """The members, at most two, that have the one id or the other."""
    is_meant = or_(members.c.member_id == member_id, members.c.loyalty_member_id == loyalty_member_id)
    rows = db.execute(select(*_COLUMNS).where(members.c.organization_id == organization_id, is_meant))
    return records(Member, rows.all())


def find_all_by_gov_id(db: Connection, organization_id: int, gov_id: str, most: int) -> list[Member]:
    """At most so many of the members with this government id, in no certain order."""
    mine = members.c.organization_id == organization_id, members.c.gov_id == gov_id
    return records(Member, db.execute(select(*_COLUMNS).where(*mine).limit(most)).all())


def find_page(db: Connection, organization_id: int, page: Page, wanted: MemberFilter) -> Paged[Member]:
    """A page of the members that meet every condition."""
    table: Any = members
    conditions = [members.c.organization_id == organization_id, *_conditions(wanted)]
    if wanted.loyalty_program_id is not None:
        table = join(
            members,
            member_tiers,
            (member_tiers.c.organization_id == members.c.organization_id)
            & (member_tiers.c.member_id == members.c.member_id),
        )
        conditions.append(member_tiers.c.loyalty_program_id == wanted.loyalty_program_id)
        if wanted.loyalty_tier_id is not None:
            conditions.append(member_tiers.c.loyalty_tier_id == wanted.loyalty_tier_id)
    return paged(db, Member, table, conditions, page, members.c.member_id, MEMBER_ORDER)


def _conditions(wanted: MemberFilter) -> list[ColumnElement[bool]]:
    equal = {
        members.c.loyalty_member_id: wanted.loyalty_member_id,
        members.c.gov_id: wanted.gov_id,
        members.c.wallet_id: wanted.wallet_id,
        members.c.member_type: wanted.member_type,
        members.c.channel_acquisition: wanted.channel_acquisition,
    }
    found: list[ColumnElement[bool]] = [column == value for column, value in equal.items() if value is not None]
    if wanted.email is not None:
        found.append(members.c.email == func.lower(wanted.email))
    if wanted.created_from is not None:
        found.append(members.c.created_at >= wanted.created_from)
    if wanted.created_to is not None:
        found.append(members.c.created_at < wanted.created_to)
    if wanted.words is not None:
        found.append(members.c.search_text.bool_op("@@")(func.to_tsquery("simple", _text_query(wanted.words))))
    return found


def _text_query(words: str) -> str:
    """All the words, the last of which may be unfinished; text without a word finds nobody."""
    quoted = [f"'{word}'" for word in _BETWEEN_WORDS.split(words) if word]
    return " & ".join(quoted) + ":*" if quoted else ""


def add_member(
    db: Connection, organization_id: int, *, ledger_id: int | None, loyalty_program_id: int | None, **values: Any
) -> tuple[Member, MemberTier | None]:
    """Insert a member, its wallet in the ledger and its start in the program's default tier, where it has one.

    An id that another member has raises MemberExists.
    """
    try:
        return claim_member(db, organization_id, ledger_id=ledger_id, loyalty_program_id=loyalty_program_id, **values)
    except IntegrityError as error:
        refusal = _taken(values).get(constraint_of(error) or "")
        if refusal is None:
            raise
        raise refusal from error


def claim_member(
    db: Connection, organization_id: int, *, ledger_id: int | None, loyalty_program_id: int | None, **values: Any
) -> tuple[Member, MemberTier | None]:
    """As `add_member`, for callers that take over a member who is created at the same moment.

    Such a call violates a unique key, is started over (`transactions.run`), and finds the member then.
    """
    documents = {name: as_json(values[name]) for name in _DOCUMENTS}
    row = db.execute(
        _ADD,
        {
            "organization_id": organization_id,
            "ledger_id": ledger_id,
            "loyalty_program_id": loyalty_program_id,
            **values,
            **documents,
        },
    ).one()
    count = len(_COLUMNS)
    return Member(*row[:count]), None if row[count] is None else MemberTier(*row[count:])


def lock(db: Connection, member: Member) -> Member:
    """The member as it is now, with the wallet locked (see `persistence.locks`) until the transaction ends."""
    row = db.execute(
        select(*_COLUMNS)
        .join(
            wallets,
            (wallets.c.organization_id == members.c.organization_id) & (wallets.c.wallet_id == members.c.wallet_id),
        )
        .where(members.c.organization_id == member.organization_id, members.c.member_id == member.member_id)
        # Both rows, so that the member is read in its state after the lock is held.
        .with_for_update(of=[wallets, members], key_share=True)
    ).one()
    return Member(*row)


def change_member(db: Connection, member: Member, **values: Any) -> Member:
    """Change a member; an id that another member has raises MemberExists."""
    address = {"organization_id": member.organization_id, "member_id": member.member_id}
    return change(db, members, Member, address, values, _taken(values))


def _taken(values: Mapping[str, Any]) -> dict[str, MemberExists]:
    return {
        "uq_members_organization_id_loyalty_member_id": MemberExists(
            f"A member with the loyaltyMemberId {values.get('loyalty_member_id')} exists already."
        ),
        "uq_members_organization_id_public_loyalty_member_id": MemberExists(
            f"A member with the publicLoyaltyMemberId {values.get('public_loyalty_member_id')} exists already."
        ),
    }
