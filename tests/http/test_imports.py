"""Imports over HTTP: rows are stored, every fault is reported with its line, and no row is imported twice."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from handlers.messages import uploads
from handlers.server.jobs import run_job
from handlers.services.imports import manage, work
from handlers.services.imports import members as import_members
from tests.builders.api import running_api
from tests.builders.campaigns import mint
from tests.builders.clock import earlier
from tests.builders.imports import Imports, status_read_done_failed
from tests.builders.jobs import do_jobs_only_for
from tests.builders.statements import count, count_statements
from tests.builders.tiers import TierSchedule
from tests.builders.tracking import Shop, running

FILE_WITH_ALL_COLUMNS = "\n".join(
    [
        "loyaltyMemberId,publicLoyaltyMemberId,active,memberType,joinedAt,name,lastName,email,birthdate,govId,govIdType,"
        "addressLine,tags,notifyByEmail,customAttributes,customAttributes.shoe,profileAttributes",
        'ana,A-1,true,regular,2020-03-02,Ana,"Costa, the ""first""",ana@example.com,1990-04-12,30111222,national-id,'
        '"12, Bean St",barista|taster,yes,"{""cups"": 3}",39,"{""milk"": ""oat""}"',
        "ben,,no,,2021-03-02T09:30:00Z,Ben,,,,,,,,,,,",
    ]
)


@pytest.fixture
def imports(organization):
    return Imports(organization)


@pytest.fixture
def shop(organization):
    return Shop(organization)


def member(imports, name):
    """The record of the member with this loyaltyMemberId."""
    return imports.organization.integration.get(f"/members/{name}")["loyaltyMember"]


def member_names(imports):
    """The loyaltyMemberIds of all members, sorted."""
    results = imports.organization.integration.get("/members", order="loyaltyMemberId,asc")["results"]
    return [result["loyaltyMemberId"] for result in results]


def position_of_next_row(imports, path):
    """The byte of the unpacked file at which the next step of an import begins."""
    with imports.organization.api.engine.connect() as db:
        statement = text("SELECT next_byte FROM imports WHERE import_id = :id")
        return db.execute(statement, {"id": imports.get(path)["importId"]}).scalar_one()


def test_a_step_ends_after_some_megabytes_of_empty_lines_so_that_other_imports_can_run(imports, other_organization):
    compressed_file = gzip.compress(b"loyaltyMemberId\n" + b"\n" * 12 * 1024 * 1024 + b"ana\n")
    path, importer = imports.queue(compressed_file), imports.importer
    other_imports = Imports(other_organization)
    assert importer.step()
    assert 0 < position_of_next_row(imports, path) <= 4 * 1024 * 1024
    small_import = other_imports.queue("loyaltyMemberId\nben\n")
    # One step for each organization.
    assert importer.step()
    assert importer.step()
    assert other_imports.get(small_import)["rowsDone"] == 1
    while importer.step():
        pass
    assert status_read_done_failed(imports.get(path)) == ("done", 1, 1, 0)
    assert member_names(imports) == ["ana"]


def test_an_import_fails_when_its_unpacked_file_is_too_large(imports):
    job = imports.run(gzip.compress(b"loyaltyMemberId\n" + b"\n" * 17 * 1024 * 1024))
    assert (job["status"], job["rowsDone"]) == ("failed", 0)
    assert job["error"] == "The unpacked file has more than 16777216 bytes, the maximum."


@pytest.mark.slow
def test_long_rows_are_read_a_few_at_a_time(imports):
    rows = "".join(f"m-{number},{'x' * 600_000}\n" for number in range(12))
    path, importer = imports.queue("loyaltyMemberId,city\n" + rows), imports.importer
    assert importer.step()
    # Rows of some megabytes, not all rows of the file.
    assert 0 < imports.get(path)["rowsRead"] <= 4
    while importer.step():
        pass
    assert imports.get(path)["rowsRead"] == 12


def test_a_step_changes_members_up_to_a_number_of_bytes(imports, monkeypatch):
    rows = "loyaltyMemberId,customAttributes.text\n" + "".join(f"m-{number},{'x' * 100}\n" for number in range(5))
    imports.run(rows)
    # Two members have more bytes than that together.
    monkeypatch.setattr(work, "_MAX_MEMBER_BYTES", 150)
    path, importer, rows_read = imports.queue(rows, mode="upsert"), imports.importer, []
    while importer.step():
        rows_read.append(imports.get(path)["rowsRead"])
    # The last step finds the end of the file.
    assert rows_read == [2, 4, 5, 5]


def test_an_import_that_crashes_5_workers_fails(imports, monkeypatch):
    path = imports.queue("loyaltyMemberId\n" + "".join(f"m-{number}\n" for number in range(100)))

    class WorkerDied(BaseException):
        """The crash of a worker, which nothing catches."""

    def die(*_):
        raise WorkerDied

    with monkeypatch.context() as patch:
        patch.setitem(work._IMPORT_OF_KIND, "members", die)
        for _ in range(5):
            with pytest.raises(WorkerDied):
                imports.importer.step()
    assert imports.importer.step()
    failed_import = imports.get(path)
    assert (failed_import["status"], failed_import["rowsDone"]) == ("failed", 0)
    assert failed_import["error"] == "Workers have died 5 times at the rows from line 1 on."
    assert member_names(imports) == []


def test_an_import_that_is_cancelled_during_a_step_stores_nothing_of_this_step(imports, monkeypatch):
    path, importer = imports.queue("loyaltyMemberId\nana\n"), imports.importer
    statuses = []
    create = work._IMPORT_OF_KIND["members"]

    def create_and_cancel(*arguments):
        """Create the members of the step and cancel the import before the step ends."""
        failed_rows = create(*arguments)
        statuses.append(imports.organization.administration.post(f"{path}/cancel", expect=200)["import"]["status"])
        return failed_rows

    monkeypatch.setitem(work._IMPORT_OF_KIND, "members", create_and_cancel)
    assert importer.step()
    assert statuses == ["cancelled"]
    assert (imports.get(path)["status"], member_names(imports)) == ("cancelled", [])
    assert not importer.step()


@pytest.mark.slow
def test_a_file_whose_import_is_not_started_within_a_day_is_removed(imports, monkeypatch):
    organization, settings = imports.organization, imports.organization.api.settings
    do_jobs_only_for(monkeypatch, organization.id)
    old_import, recent_import, queued_import = imports.begin(), imports.begin(), imports.queue("loyaltyMemberId\nana\n")
    for path in (old_import, recent_import):
        imports.upload(path, b"loyaltyMemberId\n", b"ben\n")
    a_day_ago = earlier("updated_at", "'25 hours'")
    make_older = f"UPDATE imports SET updated_at = {a_day_ago} WHERE organization_id = :o AND import_id = :i"
    with organization.api.engine.begin() as connection:
        for path in (old_import, queued_import):
            connection.execute(text(make_older), {"o": organization.id, "i": int(path.rpartition("/")[2])})
    assert run_job(organization.api.engine, settings, "remove-uploads")["imports"] == 1
    failed_import = imports.get(old_import)
    assert (failed_import["status"], failed_import["error"]) == (
        "failed",
        "The import was not started within a day after its last part, so its file was removed.",
    )
    assert [imports.get(path)["status"] for path in (recent_import, queued_import)] == ["uploading", "queued"]
    parts = text("SELECT import_id, count(*) FROM import_parts WHERE organization_id = :o GROUP BY 1 ORDER BY 1")
    with organization.api.engine.connect() as connection:
        rows = connection.execute(parts, {"o": organization.id}).all()
    recent_id, queued_id = (int(path.rpartition("/")[2]) for path in (recent_import, queued_import))
    assert [tuple(row) for row in rows] == [(recent_id, 2), (queued_id, 1)]
    problem = organization.administration.post(f"{old_import}/start", {"parts": 2}, expect=409)
    assert problem["detail"] == "The import is failed, not uploading."


@pytest.mark.slow
def test_the_files_of_an_organization_have_a_maximum(settings):
    with running_api(replace(settings, import_stored_bytes=2048)) as api:
        imports, other_imports = Imports(api.organization()), Imports(api.organization())
        first_path, second_path = imports.begin(), imports.begin()
        imports.upload(first_path, b"x" * 1024, b"x" * 1000)
        [problem] = imports.upload(second_path, b"x" * 25, expect=409)
        assert problem["type"] == "/problems/import-state"
        assert problem["detail"] == (
            "With this part, the files of imports that have not ended have 2049 bytes; the organization may have 2048."
            " Wait until imports end, or cancel some."
        )
        # 1024 + 1000 + 24 = 2048.
        imports.upload(second_path, b"x" * 24)
        # A part that replaces another one of the same size fits.
        imports.upload(first_path, b"y" * 1024)
        other_imports.upload(other_imports.begin(), b"x" * 2048)
        imports.organization.administration.post(f"{first_path}/cancel", expect=200)
        imports.upload(second_path, b"x" * 2048)


def test_an_organization_has_a_maximum_of_unfinished_imports(imports, api, monkeypatch):
    assert manage.MAX_UNFINISHED_IMPORTS == 1000
    monkeypatch.setattr(manage, "MAX_UNFINISHED_IMPORTS", 3)
    uploading_path = imports.begin()
    first_path, second_path = (imports.queue(f"loyaltyMemberId\n{name}\n") for name in ("ana", "ben"))
    while imports.get(first_path)["status"] == "queued":
        imports.importer.step()
    statuses = [imports.get(path)["status"] for path in (uploading_path, first_path, second_path)]
    assert statuses == ["uploading", "running", "queued"]
    post, body = imports.organization.administration.post, {"kind": "members", "format": "csv"}
    problem = post("/imports", body, expect=409)
    assert problem["type"] == "/problems/import-limit"
    assert problem["detail"] == (
        "3 imports of the organization are being uploaded, queued or running, the maximum. Wait until one is done, or"
        " cancel one by cancelImport."
    )
    assert imports.organization.administration.get("/imports")["totalCount"] == 3
    # The limit is for each organization.
    Imports(api.organization()).begin()
    # Each import that ends, by a request or when it is done, allows another one.
    post(f"{uploading_path}/cancel", expect=200)
    imports.begin()
    post("/imports", body, expect=409)
    while imports.importer.step():
        pass
    assert [imports.get(path)["status"] for path in (first_path, second_path)] == ["done", "done"]
    imports.begin()
    imports.begin()
    post("/imports", body, expect=409)


def test_failed_rows_can_only_be_read_with_the_role_for_their_kind(imports):
    job = imports.run("loyaltyMemberId,email\nana,ana@\n")
    path = f"/imports/{job['importId']}/errors"
    surface, token_of = imports.organization.administration, imports.organization.token_of
    for roles in (["imports:read"], ["imports:write", "ledgers:read"]):
        problem = surface.with_token(token_of(*roles)).get(path, expect=403)
        assert problem["detail"] == "An import of members also needs the role members:read, which you do not hold."
    for roles in (["imports:read", "members:read"], ["imports:read", "members:write"]):
        [failure] = surface.with_token(token_of(*roles)).get(path)["results"]
        assert "ana@" in failure["row"]


def test_changes_of_members_are_in_the_audit_log(imports):
    imports.run("loyaltyMemberId,name,city\nana,Ana,Rosario\nben,Ben,Salta\n")
    # An empty cell, such as the city of ana, changes nothing.
    with count_statements(imports.organization.api.engine) as statements:
        job = imports.run("loyaltyMemberId,name,city\nana,Anna,\nben,Ben,Jujuy\ncora,Cora,Salta\n", mode="upsert")
    # One statement for the creation of the import, one for its start, and one for all rows.
    assert sum("INSERT INTO audit_log" in statement for statement in statements) == 3
    ids = {
        name: imports.organization.integration.get(f"/members/{name}")["loyaltyMember"]["memberId"]
        for name in ("ana", "ben")
    }
    entries = imports.organization.administration.get("/audit-log", actor=f"import-{job['importId']}")["results"]
    assert {entry["memberIds"][0]: entry["changes"] for entry in entries} == {
        ids["ana"]: {"profile.name": {"from": "Ana", "to": "Anna"}},
        ids["ben"]: {"profile.city": {"from": "Salta", "to": "Jujuy"}},
    }
    assert {(entry["entityType"], entry["operationId"], entry["surface"]) for entry in entries} == {
        ("member", "startImport", "administration")
    }
    dry_run = imports.run("loyaltyMemberId,name\nana,Anne\n", mode="upsert", dryRun=True)
    assert imports.organization.administration.get("/audit-log", actor=f"import-{dry_run['importId']}")["results"] == []


def in_days(days):
    """The moment so many days from now, as a text for files."""
    return (datetime.now(UTC) + timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")


def test_members_are_stored_with_the_fields_of_the_file(imports):
    job = imports.run(FILE_WITH_ALL_COLUMNS)
    assert status_read_done_failed(job) == ("done", 2, 2, 0)
    assert (job["bytesRead"], job["parts"], job["delimiter"], job["error"]) == (
        job["bytesTotal"],
        1,
        "comma",
        None,
    )
    ana, ben = member(imports, "ana"), member(imports, "ben")
    assert (ana["createdAt"], ben["createdAt"]) == ("2020-03-02T00:00:00Z", "2021-03-02T09:30:00Z")
    assert (ana["publicLoyaltyMemberId"], ana["memberType"], ana["active"]) == ("A-1", "regular", True)
    assert ana["customAttributes"] == {"cups": 3, "shoe": "39"}
    assert ana["notifications"] == {"email": True, "phone": None, "push": None}
    profile = ana["profile"]
    assert (profile["name"], profile["lastName"], profile["email"]) == ("Ana", 'Costa, the "first"', "ana@example.com")
    assert profile["govId"] == {"id": "30111222", "type": "national-id", "issuingCountry": None}
    assert (profile["address"]["addressLine"], profile["tags"]) == ("12, Bean St", ["barista", "taster"])
    assert profile["customAttributes"] == {"milk": "oat"}
    assert (ben["active"], ben["profile"]["name"]) == (False, "Ben")
    assert ana["tiers"] == ben["tiers"] != []
    assert ana["ledgerWalletId"]


def test_rows_of_json_are_imported_like_rows_of_csv(imports):
    rows = [
        {"loyaltyMemberId": "ana", "name": "Ana", "tags": ["a", "b"], "active": False, "joinedAt": "2020-03-02"},
        {"loyaltyMemberId": "ben", "customAttributes": {"cups": 3, "list": [1.5]}, "notifyByPush": True, "name": None},
    ]
    job = imports.run("\n".join(json.dumps(row) for row in rows), file_format="ndjson")
    assert status_read_done_failed(job) == ("done", 2, 2, 0)
    assert member(imports, "ana")["profile"]["tags"] == ["a", "b"]
    assert member(imports, "ben")["customAttributes"]["cups"] == 3


def test_an_import_causes_events_only_on_request(imports, shop):
    shop.campaign(running(mint(5)), eventType="member-created")
    imports.run("loyaltyMemberId\nana\n")
    assert (shop.balance("ana"), shop.rows("events")) == (0, [])
    imports.run("loyaltyMemberId\nben\n", emitEvents=True)
    assert shop.balance("ben") == 5
    enrolment = ("member-created", "The member was enrolled by an import.")
    assert shop.rows("events", "event_type, reason") == [enrolment]
    imports.run("loyaltyMemberId,name,active\nben,Ben,false\nana,,\n", mode="upsert", emitEvents=True)
    assert set(shop.rows("events", "event_type, reason")) == {
        enrolment,
        ("member-updated", "The member was changed by an import."),
        ("member-profile-deactivated", "The member was deactivated by an import."),
    }


def test_dates_are_days_in_the_time_zone_of_the_organization(imports, shop):
    # A member joins at the beginning of the day in Madrid; tiers and points expire at its end.
    shop.administration.put("", {"defaultLocale": "en", "timezone": "Europe/Madrid"})
    program = shop.organization.defaults.loyalty_program_id
    gold = {"name": "Gold", "active": True, "minRequiredPoints": 10, "tierOrder": 1}
    shop.administration.post(f"/loyalty-programs/{program}/tiers", gold)
    job = imports.run("loyaltyMemberId,joinedAt,tier,tierExpiresAt\nana,2026-01-15,Gold,2040-07-15\n")
    assert status_read_done_failed(job) == ("done", 1, 1, 0), imports.errors(job)
    ana = member(imports, "ana")
    assert (ana["createdAt"], ana["tiers"][0]["expiresAt"]) == ("2026-01-14T23:00:00Z", "2040-07-15T22:00:00Z")
    job = imports.run("loyaltyMemberId,amount,expiresAt\nana,5,2040-01-15\n", kind="balances")
    assert status_read_done_failed(job) == ("done", 1, 1, 0), imports.errors(job)
    [lot] = shop.rows("ledger_lots", "expires_at")
    assert lot.expires_at.isoformat() == "2040-01-15T23:00:00+00:00"


def test_tiers_are_imported_with_their_expiry(imports, shop):
    program = shop.organization.defaults.loyalty_program_id
    body = {"name": "Gold", "active": True, "minRequiredPoints": 10, "tierOrder": 1}
    gold = shop.administration.post(f"/loyalty-programs/{program}/tiers", body)["tier"]
    until, key = in_days(30), gold["loyaltyTierKey"]
    rows = f"ana,Gold,{until}\nben,{key},\ncora,,\ndan,Silver,\neva,Gold,2020-01-01\nfay,,{until}\n"
    job = imports.run(f"loyaltyMemberId,tier,tierExpiresAt\n{rows}")
    assert status_read_done_failed(job) == ("done", 6, 3, 3)
    [tier_of_ana], [tier_of_ben] = (member(imports, name)["tiers"] for name in ("ana", "ben"))
    assert (tier_of_ana["loyaltyTierId"], tier_of_ana["expiresAt"]) == (gold["loyaltyTierId"], until)
    assert (tier_of_ben["loyaltyTierId"], tier_of_ben["expiresAt"]) == (gold["loyaltyTierId"], None)
    assert member(imports, "ana")["tierStatus"][0]["isManual"]
    assert imports.errors(job) == [
        (5, "tier", "Silver is no tier."),
        (6, "tierExpiresAt", "tierExpiresAt is not in the future."),
        (7, "tierExpiresAt", "tierExpiresAt needs a tier."),
    ]


def test_the_mode_decides_whether_existing_members_are_refused_or_updated(imports):
    imports.run("loyaltyMemberId,name,city,customAttributes.a\nana,Ana,Rosario,1\n")
    rows = "loyaltyMemberId,name,customAttributes.b,joinedAt\nana,Anna,2,\nben,Ben,,\nana,Anne,,\n"
    # Only ben is new.
    job = imports.run(rows)
    assert status_read_done_failed(job) == ("done", 3, 1, 2)
    assert imports.errors(job)[0][:2] == (2, "loyaltyMemberId")
    job = imports.run(rows, mode="upsert")
    assert status_read_done_failed(job) == ("done", 3, 3, 0)
    ana = member(imports, "ana")
    assert (ana["profile"]["name"], ana["profile"]["city"]) == ("Anne", "Rosario")
    assert ana["customAttributes"] == {"a": "1", "b": "2"}


def test_balances_are_minted_with_their_expiry(imports, shop):
    stars = shop.account(pointTrackingEnabled=True, alias="stars", decimals=2)
    shop.member(loyaltyMemberId="ana")
    until = in_days(30)
    rows = [
        {"loyaltyMemberId": "ana", "amount": 340},
        {"loyaltyMemberId": "ana", "amount": 1.25, "account": "stars", "expiresAt": until, "tags": ["moved"]},
        {"loyaltyMemberId": "ana", "amount": "2.5", "account": stars["ledgerAccountKey"], "pending": True},
        {"loyaltyMemberId": "ana", "amount": 7, "earnedAt": "2024-01-01", "description": "Old"},
    ]
    job = imports.run("\n".join(json.dumps(row) for row in rows), kind="balances", file_format="ndjson")
    assert status_read_done_failed(job) == ("done", 4, 4, 0), imports.errors(job)
    # The pending 2.5 stars are no part of a balance.
    assert shop.balance("ana") == 340 + 7
    assert float(shop.balance("ana", stars["ledgerAccountId"])) == 1.25
    shop.check_ledger()
    lots = shop.rows("ledger_lots", "amount, expires_at")
    assert [(float(lot.amount), lot.expires_at.strftime("%Y-%m-%dT%H:%M:%SZ")) for lot in lots if lot.expires_at] == [
        (1.25, until)
    ]


def test_faults_of_balances_are_reported(imports, shop):
    shop.member(loyaltyMemberId="ana")
    rows = ["ana,1.5,,", "nobody,1,,", "ana,,,", "ana,-1,,", "ana,x,,", "ana,1,cups,", "ana,1,,2020-01-01"]
    rows += [",1,,", "ana,1,,soon"]
    job = imports.run("loyaltyMemberId,amount,account,expiresAt\n" + "\n".join(rows), kind="balances")
    assert status_read_done_failed(job) == ("done", 9, 0, 9), imports.errors(job)
    errors = imports.errors(job)
    assert [(line, column) for line, column, _ in errors] == [
        (2, None),
        (3, "loyaltyMemberId"),
        (4, "amount"),
        (5, "amount"),
        (6, "amount"),
        (7, "account"),
        (8, "expiresAt"),
        (9, "loyaltyMemberId"),
        (10, "expiresAt"),
    ]
    assert shop.balance("ana") == 0


def test_rows_with_contradictory_or_unreadable_availability_fail(imports, shop):
    shop.member(loyaltyMemberId="ana")
    shop.account(pointTrackingEnabled=True, alias="stars")
    column_by_row = {
        # A pending row has no moment of availability: a capture makes its points available.
        "ana,1,stars,2098-03-15,,true": "availableAt",
        # The points would expire before they are available, which is a fault of the row, not of one column.
        "ana,1,stars,2098-03-15,2098-03-14,": None,
        # The moment cannot be read.
        "ana,1,stars,soon,,": "availableAt",
    }
    header = "loyaltyMemberId,amount,account,availableAt,expiresAt,pending"
    job = imports.run("\n".join([header, *column_by_row]), kind="balances")
    assert [(line, column) for line, column, _ in imports.errors(job)] == list(enumerate(column_by_row.values(), 2))


def test_balances_with_the_same_key_are_imported_once(imports, shop):
    shop.member(loyaltyMemberId="ana")
    rows = "loyaltyMemberId,amount,systemUniqueKey\nana,5,k-1\nana,5,k-1\nana,6,k-1\n"
    job = imports.run(rows, kind="balances")
    assert status_read_done_failed(job) == ("done", 3, 1, 2)
    # In the mode upsert, a repeated row is no fault; the row with another amount is.
    job = imports.run(rows, kind="balances", mode="upsert")
    assert status_read_done_failed(job) == ("done", 3, 2, 1)
    assert shop.balance("ana") == 5


@pytest.mark.parametrize("mode", ["create", "upsert"])
def test_a_corrected_row_with_the_key_of_a_failed_row_of_the_file_is_imported(imports, shop, mode):
    accounts = f"/ledgers/{shop.organization.defaults.ledger_id}/accounts"
    shop.administration.put(f"{accounts}/{shop.organization.defaults.ledger_account_id}/max-supply", {"maxSupply": 10})
    shop.member(loyaltyMemberId="ana")
    # 11 exceeds the maximum supply; after the row with 9, there is none left for the repeated row with 11.
    rows = "loyaltyMemberId,amount,systemUniqueKey\nana,11,k-1\nana,9,k-1\nana,11,k-1\n"
    job = imports.run(rows, kind="balances", mode=mode)
    assert status_read_done_failed(job) == ("done", 3, 1, 2)
    assert [line for line, _, _ in imports.errors(job)] == [2, 4]
    assert shop.balance("ana") == 9


def test_tiers_follow_imported_points_and_cause_events_only_on_request(imports, shop):
    program = shop.organization.defaults.loyalty_program_id
    body = {"name": "Gold", "active": True, "minRequiredPoints": 10, "tierOrder": 1}
    gold = shop.administration.post(f"/loyalty-programs/{program}/tiers", body)["tier"]
    shop.member(loyaltyMemberId="ana")
    imports.run("loyaltyMemberId,amount\nana,50\n", kind="balances")
    assert [tier["loyaltyTierId"] for tier in member(imports, "ana")["tiers"]] == [gold["loyaltyTierId"]]
    assert shop.events("ana") == []
    shop.member(loyaltyMemberId="ben")
    imports.run("loyaltyMemberId,amount\nben,50\n", kind="balances", emitEvents=True)
    assert [loyalty_event["eventType"] for loyalty_event in shop.events("ben")] == ["member-tier-set"]


def test_a_dry_run_reports_faults_and_changes_nothing(imports, shop):
    job = imports.run("loyaltyMemberId,email\nana,\nben,nowhere\n", dryRun=True)
    assert status_read_done_failed(job) == ("done", 2, 1, 1)
    assert member_names(imports) == []
    shop.member(loyaltyMemberId="ana")
    job = imports.run("loyaltyMemberId,amount\nana,5\n", kind="balances", dryRun=True)
    assert status_read_done_failed(job) == ("done", 1, 1, 0)
    assert shop.balance("ana") == 0


def test_columns_can_have_other_names(imports):
    names = {"loyaltyMemberId": "Customer", "name": "First name"}
    rows = "Customer;First name;Shoe\nana;Ana;39\nbad/id;B;1\n"
    job = imports.run(rows, columnNames=names, ignoreUnknownColumns=True)
    assert status_read_done_failed(job) == ("done", 2, 1, 1)
    assert member(imports, "ana")["profile"]["name"] == "Ana"
    assert imports.errors(job)[0][:2] == (3, "Customer")


@pytest.mark.parametrize(
    ("content", "options", "begin_of_error"),
    [
        (b"\xff\xfea\x00", {}, "The file is in UTF-16"),
        (b"\n\n", {}, "The file is empty"),
        (b"name\nAna\n", {}, "The column loyaltyMemberId is missing"),
        (b"loyaltyMemberId,shoe\nana,1\n", {}, "The column 'shoe' is unknown"),
        (b"loyaltyMemberId,name,name\nana,1,2\n", {}, "The column name is in the first line twice"),
        (b"Kunde\nana\n", {"columnNames": {"loyaltyMemberId": "Customer"}}, "The column Customer is missing"),
        (
            b"loyaltyMemberId\nana\n",
            {"columnNames": {"name": "x", "city": "x"}},
            "columnNames has the column x for both city and name.",
        ),
        (b"Ku\xe4,loyaltyMemberId\n", {}, "The first line has no names of columns. Byte 3"),
        # mtime=0: with the present time, the test would have another name in each process that collects it.
        (gzip.compress(b"loyaltyMemberId\nana\n", mtime=0)[:-9], {}, "The gzip file is truncated"),
        (gzip.compress(b"loyaltyMemberId\nana\n", mtime=0)[:10] + b"nothing packed", {}, "The gzip file is damaged"),
    ],
)
def test_an_import_of_an_unreadable_file_fails(imports, content, options, begin_of_error):
    job = imports.run(content, **options)
    assert job["status"] == "failed"
    assert job["error"].startswith(begin_of_error)
    assert job["finishedAt"] is not None


def test_unreadable_rows_fail_individually(imports):
    long_name = b"x" * (1024 * 1024)
    rows = [
        b"ana,Ana",  # line 2
        b"ben,B\xe4rbel",
        b"cora,a,b",
        b"dan",
        b'eva,"never closed',
        b"fay,Fay",
        b"gil,a\x00b",  # line 8
        b"long," + long_name,
        b"hal,Hal",
        b'ida,"two\r\nlines"',  # lines 11 and 12
        b"",
        # A reserved id: /members/exists is the path of another operation.
        b"exists,No",
    ]
    job = imports.run(b"\xef\xbb\xbfloyaltyMemberId,name\r\n" + b"\r\n".join(rows))
    assert member_names(imports) == ["ana", "fay", "hal", "ida"], imports.errors(job)
    reasons = [(line, reason.split(".")[0]) for line, _, reason in imports.errors(job)]
    assert reasons[:4] == [
        (3, "Byte 6 of the row, 0xe4, is not utf-8"),
        (4, "The row has 3 columns, the first line of the file has 2"),
        (5, "The row has 1 columns, the first line of the file has 2"),
        (6, "The quote that opens in this row is not closed"),
    ]
    assert [line for line, _ in reasons] == [3, 4, 5, 6, 8, 9, 14]
    assert "longer than" in dict(reasons)[9]


def test_a_file_can_have_another_encoding(imports):
    job = imports.run("loyaltyMemberId,name\nana,B\xe4r\n".encode("cp1252"), encoding="windows-1252")
    assert (job["status"], member(imports, "ana")["profile"]["name"]) == ("done", "B\xe4r")


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_the_parts_of_a_file_can_begin_at_any_byte(imports, packed):
    rows = [f'm{n},"N\xe4me ""{n}"""' for n in range(50)]
    content = ("loyaltyMemberId,name\n" + "\n".join(rows)).encode()
    content = gzip.compress(content) if packed else content
    # 37 bytes in a part, and 7 rows in a step.
    parts = [content[begin : begin + 37] for begin in range(0, len(content), 37)]
    imports_in_steps = Imports(imports.organization, rows=7)
    job = imports_in_steps.run(*parts)
    assert status_read_done_failed(job) == ("done", 50, 50, 0), imports_in_steps.errors(job)
    assert member(imports, "m17")["profile"]["name"] == 'N\xe4me "17"'


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_a_new_worker_continues_an_import_at_its_next_row(imports, packed):
    content = ("loyaltyMemberId\n" + "\n".join(f"m{n}" for n in range(100))).encode()
    imports_in_steps = Imports(imports.organization, rows=9)
    path = imports_in_steps.queue(gzip.compress(content) if packed else content)
    # Each use of `importer` creates a new worker.
    for _ in range(5):
        assert imports_in_steps.importer.step()
    assert imports_in_steps.get(path)["rowsRead"] == 5 * 9
    while imports_in_steps.importer.step():
        pass
    assert status_read_done_failed(imports_in_steps.get(path)) == ("done", 100, 100, 0)


def test_the_file_of_errors_can_be_corrected_and_sent_again(imports):
    failed_job = imports.run(
        "loyaltyMemberId,email,phoneNumber,name\nana,nowhere,+54 11,=1+1\nben,,,Ben\ncora,no@where,-5,'x\n"
    )
    errors = imports.errors_csv(failed_job)
    assert errors.startswith("importLine,importColumn,importReason,loyaltyMemberId,email,phoneNumber,name\r\n2,email,")
    # The apostrophes keep spreadsheets from reading formulas; the import removes them.
    assert "ana,nowhere,'+54 11,'=1+1\r\n" in errors
    job = imports.run(errors.replace("nowhere", "ana@example.com"))
    # The row of ana; those of ben and cora had no fault.
    assert status_read_done_failed(job) == ("done", 1, 1, 0)
    profile = member(imports, "ana")["profile"]
    assert (profile["email"], profile["phoneNumber"], profile["name"]) == ("ana@example.com", "+54 11", "=1+1")


def test_errors_can_be_read_in_pages(imports):
    # A slash is not allowed in an id, so all 30 rows fail.
    job = imports.run("loyaltyMemberId\n" + "\n".join(["a/b"] * 30))
    assert [line for line, _, _ in imports.errors(job, limit=3)] == [2, 3, 4]
    assert [line for line, _, _ in imports.errors(job, limit=3, afterLine=4)] == [5, 6, 7]
    assert len(imports.errors(job)) == 30


def test_parts_of_a_file_can_be_replaced_until_the_import_is_started(imports, organization):
    path = imports.begin()
    imports.upload(path, b"loyaltyMemberId\n", b"ana\n")
    [response] = imports.upload(path, b"loyaltyMemberId\n")
    [response_of_repetition] = imports.upload(path, b"loyaltyMemberId\n")
    assert response == response_of_repetition
    organization.administration.put(f"{path}/parts/2", b"ben\n")
    assert imports.get(path)["bytesTotal"] == len(b"loyaltyMemberId\n" + b"ben\n")
    problem = organization.administration.post(f"{path}/start", {"parts": 4}, expect=409)
    assert problem["type"] == "/problems/import-incomplete"
    assert problem["detail"] == "Parts 1 to 4 are needed; these parts were not uploaded: 3, 4."
    problem = organization.administration.post(f"{path}/start", {"parts": 1}, expect=409)
    assert problem["type"] == "/problems/import-state"
    started_import = organization.administration.post(f"{path}/start", {"parts": 2}, expect=200)
    assert started_import == organization.administration.post(f"{path}/start", {"parts": 2}, expect=200)
    problem = organization.administration.put(f"{path}/parts/2", b"cora\n", expect=409)
    assert problem["type"] == "/problems/import-state"
    while imports.importer.step():
        pass
    assert member_names(imports) == ["ben"]


def test_a_cancelled_import_stops_after_its_step(imports, organization):
    imports_in_steps = Imports(organization, rows=2)
    path = imports_in_steps.queue("loyaltyMemberId\nana\nben\ncora\n")
    imports_in_steps.importer.step()
    cancelled_import = organization.administration.post(f"{path}/cancel", expect=200)["import"]
    # The step of two rows was done.
    assert (cancelled_import["status"], cancelled_import["rowsDone"]) == ("cancelled", 2)
    assert organization.administration.post(f"{path}/cancel", expect=200)["import"] == cancelled_import
    assert not imports_in_steps.importer.step()
    assert member_names(imports) == ["ana", "ben"]
    problem = organization.administration.post(f"{path}/start", {"parts": 1}, expect=409)
    assert problem["type"] == "/problems/import-state"


def test_an_import_that_is_done_cannot_be_cancelled(imports, organization):
    job = imports.run("loyaltyMemberId\ndan\n")
    problem = organization.administration.post(f"/imports/{job['importId']}/cancel", expect=409)
    assert problem["type"] == "/problems/import-state"
    assert member_names(imports) == ["dan"]


def test_an_import_needs_the_role_to_write_its_kind(organization, imports):
    administration = organization.administration
    path = imports.begin(kind="balances")
    reader = administration.with_token(organization.token_of("imports:read"))
    assert reader.get(path)["import"]["kind"] == "balances"
    reader.post("/imports", {"kind": "members", "format": "csv"}, expect=403)
    writer = administration.with_token(organization.token_of("imports:write", "members:write"))
    writer.post("/imports", {"kind": "members", "format": "csv"})
    problem = writer.post("/imports", {"kind": "balances", "format": "csv"}, expect=403)
    assert "ledgers:write" in problem["detail"]
    writer.put(f"{path}/parts/1", b"x", expect=403)
    writer.post(f"{path}/start", {"parts": 1}, expect=403)
    writer.post(f"{path}/cancel", expect=403)


def test_imports_of_another_organization_are_not_found(api, imports):
    path = imports.begin()
    administration_of_another = api.organization().administration
    administration_of_another.get(path, expect=404)
    administration_of_another.put(f"{path}/parts/1", b"x", expect=404)
    assert administration_of_another.get("/imports")["totalCount"] == 0


def test_lists_of_imports_can_be_filtered_and_ordered(imports, organization):
    imports.run("loyaltyMemberId\nana\n")
    imports.begin(kind="balances")
    get = organization.administration.get
    assert [job["kind"] for job in get("/imports")["results"]] == ["balances", "members"]
    assert [job["kind"] for job in get("/imports", status="done", order="importId,asc")["results"]] == ["members"]
    assert get("/imports", kind="balances")["totalCount"] == 1


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"kind": "members", "format": "xml"}, "/format"),
        # The columns of balances and of members differ.
        ({"kind": "members", "format": "csv", "columnNames": {"amount": "x"}}, "/columnNames/amount"),
        ({"kind": "balances", "format": "csv", "columnNames": {"name": "x"}}, "/columnNames/name"),
    ],
)
def test_an_import_of_an_unknown_format_or_with_names_of_unknown_columns_is_refused(organization, body, pointer):
    problem = organization.administration.post("/imports", body, expect=400)
    assert [fault["pointer"] for fault in problem["errors"]] == [pointer]


def test_an_import_cannot_be_started_with_0_parts(imports, organization):
    problem = organization.administration.post(f"{imports.begin()}/start", {"parts": 0}, expect=400)
    assert [fault["pointer"] for fault in problem["errors"]] == ["/parts"]


def test_a_part_needs_a_body_of_bytes_and_a_number_from_1_on(imports, organization):
    path = imports.begin()
    organization.administration.request("PUT", f"{path}/parts/1", {"a": 1}, expect=415)
    problem = organization.administration.put(f"{path}/parts/0", b"x", expect=400)
    assert [fault["parameter"] for fault in problem["errors"]] == ["partNumber"]
    problem = organization.administration.request("PUT", f"{path}/parts/1", expect=400).json
    assert problem["detail"] == "The body is missing."


def test_a_part_has_a_maximum_size(imports, organization):
    path = imports.begin()
    headers = {"Content-Length": str(64 * 1024 * 1024 + 1)}
    organization.administration.request("PUT", f"{path}/parts/1", b"x", headers=headers, expect=413)
    [part] = imports.upload(path, b"y" * (3 * 1024 * 1024 + 5))
    assert part["part"]["size"] == 3 * 1024 * 1024 + 5


@pytest.mark.parametrize("kind", ["members", "balances"])
def test_the_number_of_statements_does_not_depend_on_the_number_of_rows(imports, shop, kind):
    statement_counts = {}
    # The first imports fill caches.
    imports.run("loyaltyMemberId\nfirst\n")
    imports.run("loyaltyMemberId,amount\nfirst,5\n", kind="balances")
    for size in (1, 10, 300):
        names = [f"{kind}-{size}-{n}" for n in range(size)]
        rows = "loyaltyMemberId,name\n" + "\n".join(f"{name},N" for name in names)
        if kind == "balances":
            imports.run(rows)
            rows = "loyaltyMemberId,amount\n" + "\n".join(f"{name},5" for name in names)
        imports.queue(rows, kind=kind)
        importer = imports.importer
        statement_counts[size] = count(shop.engine, lambda importer=importer: importer.step())
        while importer.step():
            pass
    assert statement_counts[1] == statement_counts[10] == statement_counts[300]


def test_new_members_with_tiers_are_inserted_once_and_not_locked(imports, shop):
    program = shop.organization.defaults.loyalty_program_id
    gold = {"name": "Gold", "active": True, "minRequiredPoints": 10, "tierOrder": 1}
    shop.administration.post(f"/loyalty-programs/{program}/tiers", gold)
    path, importer = imports.queue("loyaltyMemberId,tier\nana,Gold\nben,Gold\n"), imports.importer
    with count_statements(shop.engine) as statements:
        importer.step()
    assert imports.get(path)["rowsDone"] == 2
    assert [statement for statement in statements if "FOR NO KEY UPDATE" in statement] == []
    assert [statement for statement in statements if "past_member_tiers" in statement] == []
    assert len(shop.rows("member_tiers")) == 2


def test_new_members_have_the_order_of_their_rows_and_the_tiers_that_the_rows_name(imports, shop):
    tiers = TierSchedule.new(shop, policy={"basis": "earned"}, Silver=500)
    # Every third row names a tier; the members of the other rows get the default tier.
    rows = [f"m{number},{'' if number % 3 else 'Silver'}" for number in range(250)]
    assert status_read_done_failed(imports.run("loyaltyMemberId,tier\n" + "\n".join(rows))) == ("done", 250, 250, 0)
    stored_members = sorted(shop.rows("members"), key=lambda row: row.member_id)
    assert [row.loyalty_member_id for row in stored_members] == [f"m{number}" for number in range(250)]
    silver_members = [row.member_id for row in stored_members[::3]]
    # Only a tier that a row names is manual and causes an event.
    is_manual = {tier.member_id: tier.is_manual for tier in shop.rows("member_tiers")}
    assert is_manual == {row.member_id: row.member_id in silver_members for row in stored_members}
    assert sorted(event.member_id for event in shop.rows("events")) == silver_members
    assert tiers.moves("m249") == [("member-tier-set", "Basic", "Silver")]
    # Each member has a wallet.
    shop.give("m249", 5)
    assert shop.balance("m249") == 5


def test_a_member_who_is_enrolled_during_the_import_fails_the_row(imports, shop, monkeypatch):
    insert_members = import_members.insert_members

    def enrol_and_insert(call, new_members):
        # After the import has looked up its members.
        monkeypatch.setattr(import_members, "insert_members", insert_members)
        shop.member(loyaltyMemberId="m150")
        return insert_members(call, new_members)

    monkeypatch.setattr(import_members, "insert_members", enrol_and_insert)
    job = imports.run("loyaltyMemberId\n" + "\n".join(f"m{number}" for number in range(250)))
    assert status_read_done_failed(job) == ("done", 250, 249, 1)
    # Line 1 has the names of the columns, line 2 the row of m0.
    assert imports.errors(job) == [
        (152, "loyaltyMemberId", "A member with the loyaltyMemberId m150 already exists."),
    ]
    assert len(shop.rows("members")) == 249 + 1


# The rows that take half of the remaining time, but at least 20 and at most 40.
@pytest.mark.parametrize(
    ("remaining_seconds", "seconds_of_row", "rows"),
    [
        (0.98, 0.001, 40),
        # 0.6 / 2 / 0.01 = 30
        (0.6, 0.01, 30),
        (0.8, 0.1, 20),
        (-0.5, 0.1, 20),
        (0.9, 0.0, 40),
    ],
)
def test_20_to_40_rows_are_evaluated_at_once_depending_on_their_time_and_the_remaining_time(
    remaining_seconds, seconds_of_row, rows
):
    assert work._rows_to_evaluate(remaining_seconds, seconds_of_row) == rows


def test_rows_that_take_little_time_are_evaluated_40_at_once(imports, monkeypatch):
    sizes = []
    monkeypatch.setattr(work, "_IMPORT_OF_KIND", {"members": lambda step: sizes.append(len(step.rows))})
    names = "\n".join(f"m{number}" for number in range(250))
    job = imports.run(f"loyaltyMemberId\n{names}", emitEvents=True)
    assert status_read_done_failed(job) == ("done", 250, 250, 0)
    # The first 20 rows show how long a row takes; the last 30 are the remaining rows.
    assert sizes == [20, 40, 40, 40, 40, 40, 30]


def test_a_row_with_a_system_error_fails_individually(imports, monkeypatch):
    import_all = work._IMPORT_OF_KIND["members"]

    def import_with_a_fault(step):
        if any(row.values["loyaltyMemberId"] == "m13" for row in step.rows):
            raise RuntimeError("broken")
        import_all(step)

    monkeypatch.setattr(work, "_IMPORT_OF_KIND", {"members": import_with_a_fault})
    job = imports.run("loyaltyMemberId\n" + "\n".join(f"m{n}" for n in range(40)))
    assert status_read_done_failed(job) == ("done", 40, 39, 1)
    # Line 1 has the names of the columns, line 2 the row of m0.
    assert imports.errors(job) == [(15, None, "The row could not be imported. The log of the worker has the reason.")]


_FULL_DISK = """
CREATE FUNCTION disk_is_full() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'disk_full', MESSAGE = 'could not extend file: No space left on device';
END $$
"""


@pytest.mark.parametrize("table", ["members", "imports"])
def test_an_import_waits_while_the_disk_of_the_database_is_full(imports, engine, table):
    path = imports.queue("loyaltyMemberId\nana\nben\n")
    with engine.begin() as db:
        db.execute(text(_FULL_DISK))
        db.execute(text(f"CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE ON {table} EXECUTE FUNCTION disk_is_full()"))
    importer = imports.importer
    try:
        for _ in range(2):
            with pytest.raises(DBAPIError, match="No space left"):
                importer.step()
            assert status_read_done_failed(imports.get(path)) == ("queued", 0, 0, 0)
    finally:
        with engine.begin() as db:
            db.execute(text("DROP FUNCTION disk_is_full() CASCADE"))
    while importer.step():
        pass
    assert status_read_done_failed(imports.get(path)) == ("done", 2, 2, 0)
    assert member_names(imports) == ["ana", "ben"]


# With a part of 300,000 bytes, 8 MiB (8,388,608 bytes) must stay free.
@pytest.mark.parametrize(("free_bytes", "status"), [(9_000_000, 200), (8_000_000, 503)])
def test_a_part_leaves_space_on_the_disk_for_the_metrics(imports, monkeypatch, free_bytes, status):
    monkeypatch.setattr(uploads, "disk_usage", lambda folder: SimpleNamespace(free=free_bytes))
    path = imports.begin()
    [problem] = imports.upload(path, b"x" * 300_000, expect=status)
    if status == 503:
        assert problem["detail"] == "The server has no disk space left for the body."
    # A small part stays in memory.
    imports.upload(path, b"loyaltyMemberId\nana\n")


def test_imports_are_in_the_audit_log(imports, organization):
    imports.run("loyaltyMemberId\nana\n")
    entries = organization.administration.get("/audit-log", entityType="import")["results"]
    assert [entry["operationId"] for entry in entries] == ["startImport", "createImport"]


def test_erasing_a_member_erases_the_failed_rows_about_it(imports, organization):
    organization.member("ana")
    # The first row fails because ana exists, the second because of its email address.
    job = imports.run("loyaltyMemberId,email\nana,\nben,nowhere\n")
    assert len(imports.errors(job)) == 2
    organization.administration.delete(f"/members/{member(imports, 'ana')['memberId']}", expect=200)
    assert [line for line, _, _ in imports.errors(job)] == [3]


@pytest.mark.parametrize(
    ("kind", "file_format", "content", "remaining_lines"),
    [
        ("balances", "csv", "loyaltyMemberId,amount\nana,x\nben,x\n", [3]),
        ("balances", "csv", "loyaltyMemberId,amount\nana,5,6\nben,5,6\n", [3]),
        ("balances", "csv", 'loyaltyMemberId,amount\n"ana"",5\nben"",5\n', [3]),
        ("members", "csv", "loyaltyMemberId\n ana\n ben\n", [3]),
        ("members", "csv", "loyaltyMemberId,publicLoyaltyMemberId\ncora,A-1\ndora,A-1\nben,\n", [4]),
        ("members", "ndjson", '{"loyaltyMemberId": "ana", "tags": 5}\n{"loyaltyMemberId": "ben", "tags": 5}\n', [2]),
        ("members", "ndjson", '{"loyaltyMemberId": "ana"\n{"loyaltyMemberId": "ben"\n', [2]),
        ("events", "csv", "loyaltyMemberId,eventType,sponsorLoyaltyMemberId\nben,none,ana\nben,none,dan\n", [3]),
    ],
)
def test_erasing_a_member_erases_the_failed_rows_that_name_it(
    imports, organization, kind, file_format, content, remaining_lines
):
    organization.member("ana", publicLoyaltyMemberId="A-1")
    organization.member("ben")
    job = imports.run(content, kind=kind, file_format=file_format)
    # All rows fail; CSV has a line with the names of the columns.
    row_count = content.count("\n") - (1 if file_format == "csv" else 0)
    assert len(imports.errors(job)) == row_count
    assert job["rowsDone"] == 0
    organization.administration.delete(f"/members/{member(imports, 'ana')['memberId']}", expect=200)
    assert [line for line, _, _ in imports.errors(job)] == remaining_lines


def test_erasing_a_member_erases_the_failed_rows_under_a_former_id(imports, organization):
    ana = organization.member("ana")
    job = imports.run("loyaltyMemberId,name\nana,Ana\nben,\nben,Ben\n")
    # ana exists, and ben is in the file twice.
    assert [line for line, _, _ in imports.errors(job)] == [2, 4]
    organization.integration.patch("/members/ana", {"loyaltyMemberId": "ana-2"})
    organization.administration.delete(f"/members/{ana['memberId']}", expect=200)
    assert [line for line, _, _ in imports.errors(job)] == [4]
