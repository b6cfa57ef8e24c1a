"""Members: finding, enrolling and changing them."""

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from sqlalchemy import Connection, func, literal_column, or_, select

from domain.members import Member, MemberProperties, member_exists, public_id_exists
from domain.tiers import HeldTier
from persistence.connections import fetch_rows
from persistence.filters import equals, is_at_or_after, is_before, is_same
from persistence.paging import Paged
from persistence.prepared_statements import Prepared
from persistence.records import Records
from persistence.reports.figures import count_all
from persistence.reports.records import MEMBERS as MEMBERS_KIND
from persistence.rows import as_json, fields_of, typed_columns
from persistence.tables.ledger import wallets
from persistence.tables.members import member_tiers, members

# The punctuation that separates words, as in the column `search_text`.
_BETWEEN_WORDS = re.compile(r"[\x00-\x20!-/:-@\[-`{-~]+")


def _has_words(words: str) -> Any:
    """The condition that a member has all these words, the last of which may be incomplete; false without words."""
    quoted = [f"'{word}'" for word in _BETWEEN_WORDS.split(words) if word]
    text_query = " & ".join(quoted) + ":*" if quoted else ""
    return members.c.search_text.bool_op("@@")(func.to_tsquery("simple", text_query))


MEMBERS = Records(
    members,
    Member,
    equal=("loyaltyMemberId", "govId", "walletId", "memberType", "channelAcquisition"),
    filters={
        "email": lambda email: members.c.email == func.lower(email),
        "query": _has_words,
        "fromCreatedAt": is_at_or_after(members.c.created_at),
        "toCreatedAt": is_before(members.c.created_at),
        "sinceFrom": is_at_or_after(members.c.created_at),
        "sinceTo": is_before(members.c.created_at),
        "loyaltyProgramId": equals(member_tiers.c.loyalty_program_id),
        "loyaltyTierId": equals(member_tiers.c.loyalty_tier_id),
    },
    order={"since": members.c.created_at},
)

# Members whose customAttributes are left out: for calls that read many members and need no attributes, since these can
# have 64 KiB for each member.
MEMBERS_WITHOUT_ATTRIBUTES = Records(
    members, Member, columns={"custom_attributes": literal_column("'{}'::jsonb").label("custom_attributes")}
)

_COLUMNS = MEMBERS.columns

_ATTRIBUTE_BYTES = Prepared("""
SELECT coalesce(sum(octet_length(custom_attributes::text)), 0)::bigint FROM members
WHERE organization_id = %s AND member_id = ANY(%s)
""")


_SIZES = """
SELECT loyalty_member_id, octet_length(profile::text) + octet_length(custom_attributes::text) FROM members
WHERE organization_id = %s AND loyalty_member_id = ANY(%s)
"""

_MEMBER_FIELDS = ", ".join(f"member.{name}" for name in fields_of(Member))

_TAKEN = Prepared("""
SELECT ARRAY(SELECT loyalty_member_id FROM members WHERE organization_id = %s AND loyalty_member_id = ANY(%s)),
    ARRAY(SELECT public_loyalty_member_id FROM members
        WHERE organization_id = %s AND public_loyalty_member_id = ANY(%s))
""")

_WRITABLE = fields_of(MemberProperties)
_TYPED = typed_columns(members, _WRITABLE)

_CHANGE = Prepared(f"""
UPDATE members m SET {", ".join(f"{name} = x.{name}" for name in _WRITABLE)}, updated_at = %s
FROM json_to_recordset(%s::json) AS x(member_id bigint, {_TYPED})
WHERE m.organization_id = %s AND m.member_id = x.member_id
RETURNING {", ".join(f"m.{name}" for name in fields_of(Member))}
""")

# New ids are in the order of the rows. Members are inserted in the order of their keys, so that two calls with the same
# members wait for each other and do not deadlock.
_ADD = Prepared(f"""
WITH given AS (
    SELECT nextval('wallets_wallet_id_seq') AS wallet_id, nextval('members_member_id_seq') AS member_id, x.*
    FROM json_to_recordset(%(rows)s::json) AS x(wallet_key uuid, created_at timestamptz, has_own_tier boolean, {_TYPED})
), wallet AS (
    INSERT INTO wallets (organization_id, wallet_id, wallet_key, ledger_id, created_at)
    SELECT %(organization_id)s, wallet_id, wallet_key, %(ledger_id)s, %(now)s FROM given
), member AS (
    INSERT INTO members (
        organization_id, member_id, wallet_id, wallet_key, created_at, updated_at, {", ".join(_WRITABLE)}
    )
    SELECT %(organization_id)s, member_id, wallet_id, wallet_key, coalesce(created_at, %(now)s), %(now)s,
        {", ".join(_WRITABLE)}
    FROM given ORDER BY loyalty_member_id
    RETURNING *
), tier AS (
    INSERT INTO member_tiers (organization_id, member_id, loyalty_program_id, loyalty_tier_id, created_at)
    SELECT program.organization_id, given.member_id, program.loyalty_program_id, program.default_tier_id, %(now)s
    FROM given CROSS JOIN loyalty_programs AS program
    WHERE program.organization_id = %(organization_id)s AND program.loyalty_program_id = %(loyalty_program_id)s
        AND program.default_tier_id IS NOT NULL AND given.has_own_tier IS NOT TRUE
    RETURNING *
)
SELECT {_MEMBER_FIELDS}, tier.loyalty_program_id, tier.loyalty_tier_id,
    CASE WHEN level.active THEN NULL ELSE level.updated_at END
FROM member
LEFT JOIN tier USING (organization_id, member_id)
LEFT JOIN loyalty_tiers level
    ON level.organization_id = %(organization_id)s AND level.loyalty_tier_id = tier.loyalty_tier_id
ORDER BY member.member_id
""")


def attribute_bytes(db: Connection, organization_id: int, member_ids: Collection[int]) -> int:
    """The bytes of the customAttributes of these members, as JSON."""
    [(size,)] = fetch_rows(db, _ATTRIBUTE_BYTES, (organization_id, list(member_ids)))
    return int(size)


def find_sizes(db: Connection, organization_id: int, loyalty_member_ids: Collection[str]) -> dict[str, int]:
    """The bytes of the profile and the customAttributes of each of these members who exists, as JSON."""
    return dict(fetch_rows(db, _SIZES, (organization_id, list(loyalty_member_ids))))


def find_all_by_either_id(db: Connection, organization_id: int, member_id: int, loyalty_member_id: str) -> list[Member]:
    """The members, at most two, that have one of the two ids."""
    has_either_id = or_(members.c.member_id == member_id, members.c.loyalty_member_id == loyalty_member_id)
    return MEMBERS.find_where(db, organization_id, has_either_id)


def find_all_by_gov_id(db: Connection, organization_id: int, gov_id: str, limit: int) -> list[Member]:
    """At most `limit` of the members with this government id, in no certain order."""
    return MEMBERS.find_where(db, organization_id, members.c.gov_id == gov_id, limit=limit)


def find_page(db: Connection, organization_id: int, query: Mapping[str, Any]) -> Paged[Member]:
    """A page of members; a `loyaltyTierId` needs its `loyaltyProgramId`."""
    source = None
    if "loyaltyProgramId" in query:
        source = members.join(member_tiers, is_same(member_tiers, members, "member_id"))
    # Without filters, the number of members is read from the totals of reports, since counting could take too long.
    count = None if query.keys() & MEMBERS.filters.keys() else partial(count_all, db, organization_id, MEMBERS_KIND)
    return MEMBERS.find_page(db, organization_id, query, source=source, count=count)


class TakenIds(NamedTuple):
    """Ids that members already have: values of `loyaltyMemberId`, and of `publicLoyaltyMemberId`."""

    loyalty_member_ids: set[str]
    public_ids: set[str]


def find_taken_ids(
    db: Connection, organization_id: int, loyalty_member_ids: Collection[str], public_ids: Collection[str]
) -> TakenIds:
    """The ids, among these, that members already have."""
    parameters = (organization_id, list(loyalty_member_ids), organization_id, list(public_ids))
    [(taken_ids, taken_public_ids)] = fetch_rows(db, _TAKEN, parameters)
    return TakenIds(set(taken_ids), set(taken_public_ids))


def add_members(
    db: Connection,
    organization_id: int,
    rows: Sequence[Mapping[str, Any]],
    *,
    ledger_id: int | None,
    loyalty_program_id: int | None,
    now: datetime,
) -> list[tuple[Member, dict[int, HeldTier]]]:
    """Insert members, their wallets in the ledger and their default tiers in the program, with one statement.

    Returns the members in the order of the rows, each with the tiers that the member holds, by program id. A row has
    the values of a member, its `wallet_key`, `created_at` if the member joined before, and `has_own_tier` if the member
    does not start in the default tier. An id that another member has violates a unique key. If that member was inserted
    since the work began, `transactions.run` retries the work, which then finds the member.
    """
    parameters = {
        "organization_id": organization_id,
        "ledger_id": ledger_id,
        "loyalty_program_id": loyalty_program_id,
        "now": now,
        "rows": as_json(rows),
    }
    new_members: list[tuple[Member, dict[int, HeldTier]]] = []
    for *columns, program_id, tier_id, expires_at in fetch_rows(db, _ADD, parameters):
        held_tiers = {}
        if program_id is not None:
            held_tiers[program_id] = HeldTier(tier_id, is_manual=False, expires_at=expires_at)
        new_members.append((Member(*columns), held_tiers))
    return new_members


def lock(db: Connection, member: Member) -> Member:
    """Lock the member's wallet (see `persistence.locks`) until the transaction ends; return the current member."""
    row = db.execute(
        select(*_COLUMNS)
        .join(wallets, is_same(wallets, members, "wallet_id"))
        .where(is_same(members, member, "member_id"))
        # Both rows, so that the member is read in its state after the lock is held.
        .with_for_update(of=[wallets, members], key_share=True)
    ).one()
    return Member(*row)


def lock_rows(db: Connection, organization_id: int, member_ids: Collection[int]) -> list[Member]:
    """Lock the rows of members whose wallets are locked; return the current members.

    The erasing of another member, whose referral code such a member has, locks only these rows.
    """
    is_one = (members.c.organization_id == organization_id) & members.c.member_id.in_(member_ids)
    statement = select(*_COLUMNS).where(is_one).order_by(members.c.member_id).with_for_update(key_share=True)
    return [Member(*row) for row in db.execute(statement)]


def store_member(db: Connection, member: Member, values: Mapping[str, Any], now: datetime) -> Member:
    """Store new values of a member; raises MemberExists for an id that another member has."""
    refusals = {
        "uq_members_organization_id_loyalty_member_id": member_exists(values.get("loyalty_member_id")),
        "uq_members_organization_id_public_loyalty_member_id": public_id_exists(values.get("public_loyalty_member_id")),
    }
    return MEMBERS.store(db, member, values, now, refusals)


def store_members(
    db: Connection, organization_id: int, changes: Sequence[tuple[int, Mapping[str, Any]]], now: datetime
) -> dict[int, Member]:
    """Store new values of members with one statement; returns the changed members, by id.

    A change is the id of a member with all values. An id that another member has violates a unique key.
    """
    rows = [{**values, "member_id": member_id} for member_id, values in changes]
    changed_members = [Member(*row) for row in fetch_rows(db, _CHANGE, (now, as_json(rows), organization_id))]
    return {member.member_id: member for member in changed_members}
