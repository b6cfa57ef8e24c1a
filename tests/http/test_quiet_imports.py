"""Quiet imports of new members: the database inserts 100 members while the next ones are prepared."""

from __future__ import annotations

import pytest

from handlers.services.imports import members, work
from handlers.services.imports.rows import RowReader
from tests.builders.imports import Imports, counts
from tests.builders.tiers import TierSchedule
from tests.builders.tracking import Shop


@pytest.fixture
def shop(organization):
    shop = Shop(organization)
    yield shop
    shop.check_ledger()


@pytest.fixture
def imports(organization):
    return Imports(organization)


def test_members_of_several_sets_are_inserted_in_the_order_of_their_rows_with_their_tiers(imports, shop):
    program = TierSchedule.new(shop, {"basis": "earned"}, Silver=500)
    # Every third row names a tier; the members of the other rows get the default tier.
    rows = [f"m{number},{'' if number % 3 else 'Silver'}" for number in range(250)]
    assert counts(imports.run("loyaltyMemberId,tier\n" + "\n".join(rows))) == ("done", 250, 250, 0)
    stored_members = sorted(shop.rows("members"), key=lambda member: member.member_id)
    assert [member.loyalty_member_id for member in stored_members] == [f"m{number}" for number in range(250)]
    silver_members = [member.member_id for member in stored_members[::3]]
    tiers = {tier.member_id: tier.is_manual for tier in shop.rows("member_tiers")}
    assert tiers == {member.member_id: member.member_id in silver_members for member in stored_members}
    assert sorted(event.member_id for event in shop.rows("events")) == silver_members
    assert program.moves("m249") == [("member-tier-set", "Basic", "Silver")]
    # Each member has a wallet.
    shop.give("m249", 5)
    assert shop.balance("m249") == 5


def test_a_member_who_is_enrolled_during_the_import_fails_the_row(imports, shop, monkeypatch):
    reserve_ids = members.reserve_ids

    def enrol_and_reserve(db, **numbers):
        # After the import has looked up its members.
        monkeypatch.setattr(members, "reserve_ids", reserve_ids)
        shop.member(loyaltyMemberId="m150")
        return reserve_ids(db, **numbers)

    monkeypatch.setattr(members, "reserve_ids", enrol_and_reserve)
    job = imports.run("loyaltyMemberId\n" + "\n".join(f"m{number}" for number in range(250)))
    assert counts(job) == ("done", 250, 249, 1)
    assert imports.errors(job) == [
        (152, "loyaltyMemberId", "A member with the loyaltyMemberId m150 already exists."),
    ]
    assert len(shop.rows("members")) == 250


def test_a_dry_run_of_several_sets_stores_no_member(imports, shop):
    job = imports.run("loyaltyMemberId\n" + "\n".join(f"m{number}" for number in range(250)), dryRun=True)
    assert counts(job) == ("done", 250, 250, 0)
    assert shop.rows("members") == []


def test_the_next_rows_are_read_while_the_database_executes_the_statements(organization, monkeypatch):
    calls: list[int | str] = []
    peek = RowReader.peek

    def record_peek(reader, limit):
        rows = peek(reader, limit)
        calls.append(len(rows))
        return rows

    monkeypatch.setattr(RowReader, "peek", record_peek)
    monkeypatch.setattr(work, "send_ahead", lambda db: calls.append("sent"))
    job = Imports(organization, rows=2).run("loyaltyMemberId\n" + "\n".join(f"m{number}" for number in range(5)))
    assert counts(job) == ("done", 5, 5, 0)
    # Two rows are imported, then two, then one; after each step up to two further rows are already read.
    assert calls == [2, "sent", 4, 2, "sent", 3, 1, "sent", 1, 0]
