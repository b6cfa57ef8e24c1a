"""The migration that makes lots of what members have: nothing is lost, and each use has the lot that it took from."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from alembic import command
from sqlalchemy import make_url, text

from persistence import schema
from persistence.engine import autocommit, create_engine

BEFORE = "0016"
NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
EXPIRY = NOW + timedelta(days=9)


@pytest.fixture
def old_database(engine, database_url):
    """A database as it was before there were lots."""
    with autocommit(engine).connect() as db:
        db.execute(text("CREATE DATABASE lots_test"))
    url = make_url(database_url).set(database="lots_test").render_as_string(hide_password=False)
    other = create_engine(url, threads=1)
    with other.begin() as db:
        command.upgrade(schema.config(db), BEFORE)
    yield other
    other.dispose()
    with autocommit(engine).connect() as db:
        db.execute(text("DROP DATABASE lots_test WITH (FORCE)"))


class Old:
    """Rows as the product wrote them then, constraints to other subjects aside."""

    def __init__(self, db):
        self.db = db
        db.execute(text("SET LOCAL session_replication_role = replica"))
        self.held = {}

    def coupon(self, member, coupon, expires=None, data=None):
        self.held[member, coupon] = [0, 0, expires, data or {}]

    def usage(self, number, member, coupon, assigned=0, used=0, reverts=None):
        sums = self.held[member, coupon]
        sums[0] += assigned
        sums[1] += used
        self.db.execute(
            text(
                """INSERT INTO coupon_usages (organization_id, coupon_usage_id, coupon_usage_key, coupon_id,
                    coupon_book_id, member_id, system_unique_key, amount_used, amount_assigned, updated_total_usages,
                    updated_total_assigned, reverted_usage_id, created_at, updated_at)
                VALUES (1, :number, gen_random_uuid(), :coupon, 5, :member, :number, :used, :assigned, :a, :u, :reverts,
                    :at, :at)"""
            ),
            {"number": number, "coupon": coupon, "member": member, "used": used, "assigned": assigned}
            | {"a": sums[0], "u": sums[1], "reverts": reverts, "at": NOW + timedelta(minutes=number)},
        )
        if reverts is not None:
            values = {"by": number, "reverted": reverts}
            statement = "UPDATE coupon_usages SET reversal_usage_id = :by WHERE coupon_usage_id = :reverted"
            self.db.execute(text(statement), values)

    def finish(self):
        for (member, coupon), (assigned, used, expires, data) in self.held.items():
            self.db.execute(
                text(
                    """INSERT INTO member_coupons (organization_id, member_id, coupon_id, coupon_book_id,
                        amount_assigned, amount_used, custom_attributes, expired_at, created_at, updated_at)
                    VALUES (1, :member, :coupon, 5, :assigned, :used, CAST(:data AS jsonb), :expires, :at, :at)"""
                ),
                {"member": member, "coupon": coupon, "assigned": assigned, "used": used}
                | {"data": json.dumps(data), "expires": expires, "at": NOW},
            )
        # Foreign keys are made anew by the migration's own rows alone.
        self.db.execute(text("SET LOCAL session_replication_role = DEFAULT"))


def test_what_members_have_becomes_lots(old_database):
    with old_database.begin() as db:
        old = Old(db)
        # Two assignments, of which the first and one of the second are used; another use is reverted.
        old.coupon(7, 20, EXPIRY, {"seat": 4})
        old.usage(101, 7, 20, assigned=2)
        old.usage(102, 7, 20, used=1)
        old.usage(103, 7, 20, assigned=3)
        old.usage(104, 7, 20, used=1)
        old.usage(105, 7, 20, used=-1, reverts=102)
        old.usage(106, 7, 20, used=1)
        old.usage(107, 7, 20, used=1)
        # Cancelled with its event as far as it was not used.
        old.coupon(8, 20)
        old.usage(111, 8, 20, assigned=3)
        old.usage(112, 8, 20, used=1)
        old.usage(113, 8, 20, assigned=-2, reverts=111)
        # Reverted altogether, and reverted by force though it was used.
        old.coupon(8, 21)
        old.usage(121, 8, 21, assigned=1)
        old.usage(122, 8, 21, assigned=-1, reverts=121)
        old.coupon(9, 22, EXPIRY)
        old.usage(131, 9, 22, assigned=1)
        old.usage(132, 9, 22, used=1)
        old.usage(133, 9, 22, assigned=-1, reverts=131)
        old.finish()
    schema.migrate(old_database)
    with old_database.begin() as db:
        lots = db.execute(
            text(
                """SELECT coupon_lot_id, member_id, coupon_id, amount, amount_used, amount_owed, expired_at,
                    custom_attributes FROM coupon_lots ORDER BY 1"""
            )
        )
        assert list(map(tuple, lots)) == [
            (101, 7, 20, 2, 2, 0, EXPIRY, {"seat": 4}),
            (103, 7, 20, 3, 1, 0, EXPIRY, {"seat": 4}),
            (111, 8, 20, 1, 1, 0, None, {}),
            (121, 8, 21, 0, 0, 0, None, {}),
            (131, 9, 22, 0, 0, 0, EXPIRY, {}),
        ]
        named = "SELECT coupon_usage_id, coupon_lot_id FROM coupon_usages WHERE reverted_usage_id IS NULL"
        assert dict(map(tuple, db.execute(text(named)))) == {
            101: 101, 102: None, 103: 103, 104: 101, 106: 101, 107: 103, 111: 111, 112: 111, 121: 121, 131: 131,
            # Nothing was assigned that it could have been taken from.
            132: None,
        }  # fmt: skip
        sums = "SELECT member_id, coupon_id, amount_assigned, amount_used, expired_at FROM member_coupons ORDER BY 1, 2"
        assert list(map(tuple, db.execute(text(sums)))) == [
            (7, 20, 5, 3, EXPIRY), (8, 20, 1, 1, None), (8, 21, 0, 0, None), (9, 22, 0, 1, EXPIRY),
        ]  # fmt: skip


def test_the_way_back_keeps_the_soonest_expiry(old_database):
    with old_database.begin() as db:
        old = Old(db)
        old.coupon(7, 20)
        old.usage(101, 7, 20, assigned=1)
        old.usage(102, 7, 20, assigned=1)
        old.finish()
    schema.migrate(old_database)
    with old_database.begin() as db:
        db.execute(text("UPDATE coupon_lots SET expired_at = :at WHERE coupon_lot_id = 102"), {"at": EXPIRY})
        command.downgrade(schema.config(db), BEFORE)
        assert db.execute(text("SELECT expired_at FROM member_coupons")).scalars().all() == [EXPIRY]
