"""Test organizations: the sample, the timelines of its members, and the reset."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import jwt
import pytest
from sqlalchemy import func, select, text
from sqlalchemy.exc import IntegrityError

from domain.organizations import LIVE, TEST
from domain.test_clocks import NotATestOrganization
from domain.timeline.rows import KINDS, MESSAGE, POINTS
from handlers.http.local import LocalApi
from handlers.server.samples.coffee_shop import CoffeeShop
from handlers.services import tokens
from handlers.services.members.timeline import TimelineQuery, timeline_of
from handlers.services.organizations.create import create_organization
from handlers.services.organizations.reset import reset_organization
from handlers.services.verify import verify
from handlers.settings import Settings
from persistence import transactions
from persistence.members import MEMBERS
from persistence.tables import metadata
from tests.builders.ledger import RawLedger

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)


def new_organization(engine, environment):
    """The id of a new organization."""
    return transactions.run(
        engine, lambda db: create_organization(db, name="Corner Coffee", now=NOW, environment=environment)
    ).organization_id


@pytest.fixture(scope="module")
def api(engine, settings):
    return LocalApi(settings, engine, "operator")


@pytest.fixture
def coffee_shop(engine, api):
    """A test organization with the sample."""
    organization_id, now = new_organization(engine, TEST), datetime.now(UTC)
    transactions.run(engine, lambda db: CoffeeShop(db, api.calls_within(db, organization_id), now).fill())
    return organization_id


def rows_of(db, organization_id):
    """The number of the organization's rows by table, without empty tables."""
    tables = [table for table in metadata.sorted_tables if "organization_id" in table.c]
    counts = {
        table.name: db.execute(
            select(func.count()).select_from(table).where(table.c.organization_id == organization_id)
        ).scalar_one()
        for table in tables
    }
    return {name: count for name, count in counts.items() if count}


def test_the_timelines_of_the_sample_contain_all_kinds_and_add_up_to_the_balances(engine, coffee_shop):
    with engine.connect() as db:
        kinds = set()
        for name in ("ana", "ben", "chloe"):
            member = MEMBERS.find_by(db, coffee_shop, loyalty_member_id=name)
            # Pages of 7 rows.
            rows, query = [], TimelineQuery(limit=7)
            while True:
                page = timeline_of(db, member, query)
                rows += page.rows
                if page.next is None:
                    break
                query = TimelineQuery(limit=7, positions=page.next)
            kinds |= {row.kind for row in rows}
            total_of_rows = sum(row.details["amount"] for row in rows if row.kind == POINTS)
            stored_balance = db.execute(
                text("SELECT current_balance FROM ledger_balances WHERE organization_id = :o AND wallet_id = :w"),
                {"o": coffee_shop, "w": member.wallet_id},
            ).scalar_one()
            assert total_of_rows == stored_balance > Decimal(0)
            # Each executed mint has a row.
            effects = [effect for row in rows if row.kind == "event" for effect in row.details["effects"]]
            mints = [
                effect for effect in effects if effect["effectId"] == "mint-points" and effect["status"] == "executed"
            ]
            campaign_rows = [row for row in rows if row.kind == POINTS and row.details["source"] == "campaign"]
            assert sum(effect["amount"] for effect in mints) == sum(row.details["amount"] for row in campaign_rows)
        # The sample has no trigger with a receiver, so no messages are sent.
        assert kinds == set(KINDS) - {MESSAGE}
        assert verify(db, coffee_shop) == []


@pytest.mark.slow
def test_a_reset_organization_has_only_the_records_of_a_new_one(engine, api, coffee_shop):
    with engine.connect() as db:
        rows_of_new_organization = rows_of(db, new_organization(engine, TEST))
        entries_before = db.execute(
            text("SELECT count(*) FROM audit_log WHERE organization_id = :o"), {"o": coffee_shop}
        ).scalar_one()
    reset = transactions.run(engine, lambda db: reset_organization(db, coffee_shop, NOW))
    assert reset.removed_count > 100
    with engine.connect() as db:
        [(ledger_id, program_id)] = db.execute(
            text("SELECT default_ledger_id, default_loyalty_program_id FROM organizations WHERE organization_id = :o"),
            {"o": coffee_shop},
        ).all()
        assert (reset.records.ledger_id, reset.records.loyalty_program_id) == (ledger_id, program_id)
        entries = db.execute(
            text("SELECT operation_id, changes FROM audit_log WHERE organization_id = :o ORDER BY audit_log_id"),
            {"o": coffee_shop},
        ).all()
        # The entry of the reset.
        assert len(entries) == entries_before + 1
        assert entries[-1].operation_id == "resetOrganization"
        assert not any(entry.changes for entry in entries)
        counts = {name: count for name, count in rows_of(db, coffee_shop).items() if "audit_log" not in name}
        assert counts == rows_of_new_organization
        assert verify(db, coffee_shop) == []
    # The sample can be added again.
    transactions.run(engine, lambda db: CoffeeShop(db, api.calls_within(db, coffee_shop), datetime.now(UTC)).fill())


def test_the_records_of_a_live_organization_cannot_be_removed(engine):
    with engine.begin() as db:
        ledger = RawLedger.new(db)
        ledger.mint(ledger.wallet(), 10)
    live_id = ledger.organization_id
    with pytest.raises(NotATestOrganization, match=f"The organization {live_id} is not a test organization"):
        transactions.run(engine, lambda db: reset_organization(db, live_id, NOW))
    with engine.connect() as db, pytest.raises(IntegrityError, match="never removed"):
        db.execute(text("DELETE FROM ledger_entries WHERE organization_id = :o"), {"o": live_id})
    with engine.connect() as db, pytest.raises(IntegrityError, match="environment of an organization is never changed"):
        db.execute(text("UPDATE organizations SET environment = 'test' WHERE organization_id = :o"), {"o": live_id})
    # An organization that does not exist.
    with pytest.raises(NotATestOrganization):
        transactions.run(engine, lambda db: reset_organization(db, 2**60, NOW))


@pytest.mark.parametrize("environment", [LIVE, TEST])
def test_a_token_contains_the_environment(engine, environment):
    organization_id, settings = new_organization(engine, environment), Settings(database_url="", home=Path())
    token = transactions.run(
        engine,
        lambda db: tokens.issue_operator_token(
            db,
            settings,
            organization_id=organization_id,
            roles=frozenset(),
            is_admin=True,
            lifetime=60,
            now=NOW,
        ),
    )
    assert jwt.decode(token, options={"verify_signature": False, "verify_exp": False})["environment"] == environment
