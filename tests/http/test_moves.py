"""A move from one organization to another by files: members keep their points, tiers and progress."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta

import pytest

from domain.calendar import instant_text
from handlers.http.local import LocalApi
from handlers.server.configuration_files import changes
from handlers.server.configuration_files.yaml_files import read_folder, texts_of
from handlers.server.samples.coffee_shop import CoffeeShop
from persistence import transactions
from tests.builders.configuration_files import write
from tests.builders.exports import exported_lines
from tests.builders.imports import Imports, status_read_done_failed
from tests.builders.missions import create
from tests.builders.tiers import TierSchedule
from tests.builders.tracking import Shop

KINDS = ("members", "balances", "badges", "mission-progress")


def move(source, target):
    """Export all records of the source and import them into the target; return the exported lines of each kind."""
    lines = {kind: exported_lines(source, kind) for kind in KINDS}
    for kind in filter(lines.get, KINDS):
        data_import = Imports(target).run("".join(lines[kind]), kind=kind, file_format="ndjson")
        assert status_read_done_failed(data_import)[2:] == (len(lines[kind]), 0), Imports(target).errors(data_import)
    return lines


def status_of(shop, member):
    """The balances, tiers and missions of a member."""
    record = shop.integration.get(f"/members/{member}")["loyaltyMember"]
    missions = shop.administration.get(f"/members/{record['memberId']}/missions", limit=100)["results"]
    return {
        "balances": sorted(
            (balance["balance"], balance["pending"], str(balance.get("nextAvailable")))
            for balance in record["ledgerBalances"]
        ),
        "tiers": [
            (status["tier"]["name"], status["tierHold"], status["isManual"], status["points"], status["expiresAt"])
            for status in record["tierStatus"]
        ],
        "missions": sorted(
            (mission["name"], mission["balance"]["timesAchieved"], mission["balance"]["currentCounterCount"])
            for mission in missions
        ),
    }


def remaining_points(shop):
    """The remaining points of members, by member and expiry."""
    remaining: dict[object, object] = {}
    wallets = {row.wallet_id: row.loyalty_member_id for row in shop.rows("members", "wallet_id, loyalty_member_id")}
    for row in shop.rows("ledger_lots", "wallet_id, expires_at, remaining"):
        if row.remaining:
            key = wallets[row.wallet_id], row.expires_at
            remaining[key] = remaining.get(key, 0) + row.remaining
    return remaining


@pytest.mark.slow
def test_the_members_of_the_sample_keep_points_tiers_and_progress(api, tmp_path):
    # The sample fills only test organizations.
    source, target = (api.organization(environment="test") for _ in range(2))
    local_api = LocalApi(api.settings, api.engine, "operator")

    def within(organization, work):
        """Do work in the organization, in one database transaction."""
        return transactions.run(api.engine, lambda db: work(db, local_api.calls_within(db, organization.id)))

    within(source, lambda db, calls: CoffeeShop(db, calls, datetime.now(UTC)).fill())
    write(tmp_path, texts_of(within(source, lambda db, calls: changes.export_records(local_api, calls))))
    within(target, lambda db, calls: changes.apply(local_api, calls, read_folder(tmp_path)))
    source_shop, target_shop = Shop(source), Shop(target)
    lines = move(source, target)
    names = [json.loads(line)["loyaltyMemberId"] for line in lines["members"]]
    assert {"ana", "ben", "chloe"} <= set(names)
    for name in names:
        assert status_of(target_shop, name) == status_of(source_shop, name)
    assert remaining_points(target_shop) == remaining_points(source_shop)
    assert {kind: exported_lines(target, kind) for kind in KINDS} == lines
    source_shop.check_ledger()
    target_shop.check_ledger()


def rows_of(number, rng):
    """The random rows of one member, by kind."""
    now, name = datetime.now(UTC).replace(microsecond=0), f"m{number:05}"
    member = {"loyaltyMemberId": name}
    if rng.random() < 0.5:
        member |= {"tier": rng.choice(["Silver", "Gold"]), "tierHold": rng.choice(["floor", "fixed"])}
        if rng.random() < 0.5:
            member["tierExpiresAt"] = instant_text(now + timedelta(hours=rng.randint(1, 9000)))
    balances = []
    for _ in range(rng.randint(0, 4)):
        row = {"loyaltyMemberId": name, "amount": rng.randint(0, 900), "account": rng.choice(["points", "stars"])}
        row["earnedAt"] = instant_text(now - timedelta(minutes=rng.randint(0, 900_000)))
        if row["account"] == "stars" and rng.random() < 0.7:
            row["expiresAt"] = instant_text(now + timedelta(days=rng.randint(1, 40)))
        if rng.random() < 0.5 or not row["amount"]:
            row["qualifyingAmount"] = rng.randint(0, 1500)
        if rng.random() < 0.3:
            row["availableAt"] = instant_text(now + timedelta(hours=rng.randint(1, 23)))
        balances.append(row)
    progress = []
    for mission, goal in (("Coffees", 10), ("Teas", 3)):
        if rng.random() < 0.6:
            times = rng.choice([0, 0, 1, 7])
            count = rng.randint(1, goal) if times else rng.randint(1, goal - 1)
            progress.append({"loyaltyMemberId": name, "mission": mission, "count": count, "timesAchieved": times})
    return {"members": [member], "balances": balances, "mission-progress": progress}


@pytest.mark.slow
@pytest.mark.parametrize("member_count", [80, pytest.param(10_000, marks=pytest.mark.stress)])
def test_an_import_of_an_export_is_exported_identically(api, member_count):
    shops = [Shop(api.organization()) for _ in range(2)]
    for shop in shops:
        policy = {"basis": "earned", "period": "rolling", "months": 12}
        TierSchedule.new(shop, policy=policy, Silver=500, Gold=1000)
        shop.account(pointTrackingEnabled=True, alias="stars")
        create(shop, name="Coffees", goalCount=10)
        create(shop, name="Teas", goalCount=3)
    source, target = shops
    rng = random.Random(member_count)
    members = [rows_of(index, rng) for index in range(member_count)]
    for kind in ("members", "balances", "mission-progress"):
        lines = [json.dumps(row) for member in members for row in member[kind]]
        data_import = Imports(source.organization).run("\n".join(lines), kind=kind, file_format="ndjson")
        assert status_read_done_failed(data_import)[2:] == (len(lines), 0), Imports(source.organization).errors(
            data_import
        )
    lines = move(source.organization, target.organization)
    # A second import of the balances changes nothing.
    options = {"kind": "balances", "file_format": "ndjson", "mode": "upsert"}
    repeated_import = Imports(target.organization).run("".join(lines["balances"]), **options)
    assert status_read_done_failed(repeated_import)[2:] == (len(lines["balances"]), 0)
    assert {kind: exported_lines(target.organization, kind) for kind in KINDS} == lines
    for index in rng.sample(range(member_count), 40):
        moved_status, status = (status_of(shop, f"m{index:05}") for shop in (target, source))
        assert moved_status["balances"] == status["balances"]
        assert moved_status["missions"] == status["missions"]
        # Without the expiry of the tier.
        assert moved_status["tiers"][0][:-1] == status["tiers"][0][:-1]
    assert remaining_points(target) == remaining_points(source)
    for shop in shops:
        shop.check_ledger()
