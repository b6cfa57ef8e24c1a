"""The commands: what they print, and their exit codes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import uuid
from pathlib import Path

import jwt
import psycopg2
import pytest
import yaml
from click.testing import CliRunner

import openapi
from domain.members import MemberProperties
from domain.tiers import HeldTier
from handlers.messages.base import values_of
from handlers.server.cli import main
from handlers.server.commands.simulate import _event, _print, _replace_keys
from persistence import embedded, member_tiers, members, organizations
from persistence.engine import create_engine
from persistence.programs import TIERS
from tests.builders.ledger import START, RawLedger
from tests.processes.loyalty import environment, free_port, invoke, loyalty

NO_SUCH_DATABASE = "postgresql://nobody:sesame@127.0.0.1:1/loyalty"
TOO_OLD = (
    "the database is at revision 0043, of a version before 1.0.0, and cannot be migrated: export what is in it"
    " with that version, and import it into an empty database of this version"
)


@pytest.fixture(scope="module", autouse=True)
def organization(shared_home: Path):
    """An organization in the shared home, whose database stays up for the module."""
    with embedded.server(shared_home, options={"fsync": "off"}):
        creation = loyalty(shared_home, "organizations", "create", "Corner Coffee", "--json")
        assert creation.returncode == 0, creation.stderr
        yield json.loads(creation.stdout)


def test_a_new_organization_is_printed_with_all_its_ids_keys_and_credentials(organization):
    assert list(organization) == [
        "organizationId",
        "organizationKey",
        "ledgerId",
        "ledgerAccountId",
        "ledgerAccountKey",
        "loyaltyProgramId",
        "loyaltyProgramKey",
        "clientId",
        "clientSecret",
    ]
    assert all(organization.values())


def test_a_new_organization_is_printed_without_json_as_lines_of_names_and_values(shared_home):
    creation = invoke(shared_home, "organizations", "create", "Bakery Ünïcode")
    assert creation.returncode == 0
    assert [line.split()[0] for line in creation.stdout.splitlines()][:2] == ["organizationId", "organizationKey"]


def test_organizations_are_listed(shared_home, organization):
    result = invoke(shared_home, "organizations", "list", "--json")
    assert result.returncode == 0, result.stderr
    records = [json.loads(line) for line in result.stdout.splitlines()]
    ids = [record["organizationId"] for record in records]
    assert ids == sorted(ids)
    place = ids.index(organization["organizationId"])
    corner_coffee = records[place]
    assert (corner_coffee["organizationKey"], corner_coffee["name"]) == (
        organization["organizationKey"],
        "Corner Coffee",
    )
    headings, *lines = invoke(shared_home, "organizations", "list").stdout.splitlines()
    assert headings.split() == ["id", "key", "created", "environment", "name"]
    assert len(lines) == len(records)
    assert lines[place].split()[:2] == [str(corner_coffee["organizationId"]), corner_coffee["organizationKey"]]


def test_credentials_that_cannot_be_reset_are_refused(shared_home, organization):
    organization_id = organization["organizationId"]
    with embedded.server(shared_home) as url:
        engine = create_engine(url, threads=1)
        with engine.begin() as db:
            values = {"name": "Till", "auth_client_id": "till-4", "is_api_user": True}
            stamps = {"created_at": START, "updated_at": START}
            organizations.add_user(db, organization_id, {"is_admin": False, "roles": []}, **values, **stamps)
        engine.dispose()
    of_organization = ["--organization", str(organization_id)]
    refusals = [
        (["--organization", "999999"], "there is no organization 999999"),
        # The organization has two API users: its own, and the one added above.
        (of_organization, "--client-id has to name one of the API users"),
        ([*of_organization, "--client-id", "till-5"], "no API user with the client id till-5"),
    ]
    for arguments, message in refusals:
        result = invoke(shared_home, "credentials", "reset", *arguments)
        assert (result.returncode, result.stdout) == (1, "")
        assert message in result.stderr
    reset = invoke(shared_home, "credentials", "reset", *of_organization, "--client-id", "till-4")
    assert [line.split()[0] for line in reset.stdout.splitlines()] == ["clientId", "clientSecret"]
    assert "till-4" in reset.stdout


def test_the_key_of_tokens_is_replaced_by_commands(shared_home, organization):
    def run(*arguments):
        result = invoke(shared_home, "keys", *arguments)
        assert result.returncode == 0, result.stderr
        return result

    def is_signing_by_key():
        return {key["keyId"]: key["isSigning"] for key in json.loads(run("list", "--json").stdout)["keys"]}

    def signing_key_of_a_token():
        token = invoke(shared_home, "token", "--organization", str(organization["organizationId"]), "--admin").stdout
        return jwt.get_unverified_header(token.strip())["kid"]

    old_key = signing_key_of_a_token()
    new_key = run("add").stdout.strip()
    assert is_signing_by_key() == {old_key: True, new_key: False}
    assert re.search(rf"^{new_key}  ES256      -  +only verifies$", run("list").stdout, re.MULTILINE)
    refusal = invoke(shared_home, "keys", "remove", old_key)
    assert (refusal.returncode, refusal.stdout) == (1, "")
    assert "let another key sign first" in refusal.stderr
    run("sign", new_key)
    assert (is_signing_by_key(), signing_key_of_a_token()) == ({new_key: True, old_key: False}, new_key)
    assert "Restart all servers" in run("remove", old_key).stderr
    assert is_signing_by_key() == {new_key: True}
    run("remove", "--all")
    assert is_signing_by_key() == {}
    for arguments in ((), (new_key, "--all")):
        assert invoke(shared_home, "keys", "remove", *arguments).returncode == 2
    assert "there is no key" in invoke(shared_home, "keys", "sign", new_key).stderr


@pytest.mark.parametrize("name", ["", "   ", "a" * 101, "a\nb"])
def test_an_invalid_name_of_an_organization_is_refused(shared_home, name):
    result = invoke(shared_home, "organizations", "create", name)
    assert result.returncode == 2
    assert "NAME" in result.stderr


def test_a_token_has_the_requested_organization_roles_and_lifetime(shared_home, organization):
    of_organization = ("--organization", str(organization["organizationId"]))
    result = invoke(shared_home, "token", *of_organization, "--role", "members:write", "--expires", "60")
    assert result.returncode == 0, result.stderr
    claims = jwt.decode(result.stdout.strip(), options={"verify_signature": False})
    assert claims["organizationId"] == organization["organizationId"]
    assert claims["roles"] == ["members:write"]
    assert claims["isAdmin"] is False
    assert claims["exp"] - claims["iat"] == 60
    admin_token = invoke(shared_home, "token", *of_organization, "--admin")
    assert jwt.decode(admin_token.stdout.strip(), options={"verify_signature": False})["isAdmin"] is True


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (["--organization", "999999"], 1, "there is no organization 999999"),
        (["--organization", "0"], 2, "--organization"),
        ([], 2, "--organization"),
        # A typing error in the name of the role.
        (["--organization", "1", "--role", "members:wirte"], 2, "members:wirte"),
        (["--organization", "1", "--role", "admin"], 2, "admin"),
        (["--organization", "1", "--expires", "0"], 2, "--expires"),
    ],
)
def test_a_token_of_an_unknown_organization_role_or_lifetime_is_refused(shared_home, arguments, exit_code, message):
    result = invoke(shared_home, "token", *arguments)
    assert (result.returncode, result.stdout) == (exit_code, "")
    assert message in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("surface", ["integration", "administration"])
def test_json_and_yaml_contain_the_same_document(shared_home, surface):
    as_json = invoke(shared_home, "openapi", surface)
    as_yaml = invoke(shared_home, "openapi", surface, "--format", "yaml")
    document = json.loads(as_json.stdout)
    assert document["openapi"] == "3.0.3"
    assert yaml.load(as_yaml.stdout, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)) == document


def test_the_document_of_webhooks_is_printed(shared_home):
    as_json = invoke(shared_home, "openapi", "asyncapi")
    document = json.loads(as_json.stdout)
    assert (document["asyncapi"], document["info"]["title"]) == ("3.0.0", "Loyalty webhooks")
    assert yaml.safe_load(invoke(shared_home, "openapi", "asyncapi", "--format", "yaml").stdout) == document
    result = invoke(shared_home, "openapi", "asyncapi", "--format", "postman")
    assert result.returncode == 2
    assert "asyncapi has no requests to print as postman: choose json or yaml" in result.stderr


def test_openapi_prints_example_requests_for_postman_and_as_http_file(shared_home):
    collection = json.loads(invoke(shared_home, "openapi", "integration", "--format", "postman").stdout)
    assert collection["info"]["name"] == "Loyalty integration"
    assert '"raw": "{{baseUrl}}/events/track"' in json.dumps(collection)
    requests = invoke(shared_home, "openapi", "integration", "--format", "http", "--url", "https://shop.test/v2")
    assert "\n@baseUrl = https://shop.test/v2\n" in requests.stdout
    first_line, *_, body = requests.stdout.partition("POST {{baseUrl}}/badges\n")[2].split("\n\n")[:2]
    assert first_line.startswith("Authorization: Bearer {{token}}\n")
    assert json.loads(body)["name"] == "Early bird"


def test_verify_reports_that_a_sound_ledger_is_sound(shared_home, organization):
    result = invoke(shared_home, "verify")
    assert result.returncode == 0, result.stderr
    assert result.stdout.endswith("Reports agree with the records.\nThe ledger is sound.\n")
    of_one_organization = invoke(shared_home, "verify", "--organization", str(organization["organizationId"]))
    assert of_one_organization.returncode == 0


def test_expired_points_are_burned_once(shared_home, organization):
    organization_id = organization["organizationId"]
    with embedded.server(shared_home) as url:
        engine = create_engine(url, threads=1)
        with engine.begin() as db:
            ledger = RawLedger.new(db)
            account = ledger.account(point_tracking_enabled=True, decimals=1)
            for amount in (1000, "234.5"):
                wallet = ledger.wallet()
                ledger.lot(
                    wallet,
                    ledger.mint(wallet, amount, account_id=account),
                    remaining=amount,
                    expires_at=START,
                    account_id=account,
                )
        engine.dispose()
    # The expired points are of another organization, the one that RawLedger has created.
    other_id = ledger.organization_id
    expiry_without_points = invoke(shared_home, "expire", "--organization", str(organization_id))
    assert (expiry_without_points.returncode, expiry_without_points.stdout) == (0, "Nothing has expired.\n")
    first_expiry, second_expiry = invoke(shared_home, "expire"), invoke(shared_home, "expire")
    # 1000 + 234.5
    expected_output = f"Organization {other_id}, account {account}: 1,234.5 expired, of 2 wallets.\n"
    assert first_expiry.stdout == expected_output, first_expiry.stderr
    assert (second_expiry.returncode, second_expiry.stdout) == (0, "Nothing has expired.\n")
    assert invoke(shared_home, "verify").returncode == 0
    refusal = invoke(shared_home, "expire", "--organization", "999999")
    assert (refusal.returncode, refusal.stderr) == (1, "Error: there is no organization 999999\n")


def test_tiers_that_have_expired_are_evaluated_once(shared_home, organization):
    organization_id, program_id = organization["organizationId"], organization["loyaltyProgramId"]
    with embedded.server(shared_home) as url:
        engine = create_engine(url, threads=1)
        with engine.begin() as db:
            record = organizations.find(db, organization_id)
            values = {"name": "Gold", "active": True, "min_required_points": 10, "tier_order": 1}
            values |= {"loyalty_program_id": program_id, "loyalty_tier_key": str(uuid.uuid4()), "is_default": False}
            gold = TIERS.add(db, organization_id, values, START)
            organizations.increment_configuration_version(db, organization_id)
            for name in ("ana", "bob"):
                values = values_of(MemberProperties(loyalty_member_id=f"tier-{name}"))
                [(member, _)] = members.add_members(
                    db,
                    organization_id,
                    [{**values, "wallet_key": str(uuid.uuid4())}],
                    ledger_id=record.default_ledger_id,
                    loyalty_program_id=program_id,
                    now=START,
                )
                until = START if name == "ana" else None
                tiers = {
                    (member.member_id, program_id): HeldTier(gold.loyalty_tier_id, is_manual=True, expires_at=until)
                }
                member_tiers.move(db, organization_id, tiers, START)
        engine.dispose()
    options = ("--organization", str(organization_id))
    first_run, second_run = (invoke(shared_home, "evaluate-tiers", *options) for _ in range(2))
    # Only ana's tier has expired.
    assert first_run.stdout == f"Organization {organization_id}: 1 evaluated, 1 moved.\n", first_run.stderr
    assert (second_run.returncode, second_run.stdout) == (0, "Nothing to evaluate.\n"), second_run.stderr
    of_all_members = invoke(shared_home, "evaluate-tiers", "--all", *options)
    assert of_all_members.returncode == 0
    assert of_all_members.stdout.startswith(f"Organization {organization_id}: ")
    assert of_all_members.stdout.endswith(", 0 moved.\n")
    refusal = invoke(shared_home, "evaluate-tiers", "--organization", "999999")
    assert (refusal.returncode, refusal.stderr) == (1, "Error: there is no organization 999999\n")


def test_a_member_is_printed(shared_home, organization):
    organization_id = organization["organizationId"]
    with embedded.server(shared_home) as url:
        engine = create_engine(url, threads=1)
        with engine.begin() as db:
            properties = MemberProperties(loyalty_member_id="printed", profile={"name": "Ana", "lastName": "Costa"})
            members.add_members(
                db,
                organization_id,
                [{**values_of(properties), "wallet_key": str(uuid.uuid4())}],
                ledger_id=organization["ledgerId"],
                loyalty_program_id=organization["loyaltyProgramId"],
                now=START,
            )
        engine.dispose()
    options = ("--organization", str(organization_id))
    result = invoke(shared_home, "member", "printed", *options)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[:3] == [
        f"printed  Ana Costa, member since {START:%Y-%m-%d}",
        "Tier: Member",
        "Balance: 0 Points",
    ]
    view = json.loads(invoke(shared_home, "member", "printed", *options, "--kind", "points", "--json").stdout)
    assert view["loyalMember"]["loyaltyMemberId"] == "printed"
    assert view["timeline"] == {"limit": 25, "nextCursor": None, "results": []}
    refusal = invoke(shared_home, "member", "nobody", *options)
    assert (refusal.returncode, refusal.stderr) == (1, f"Error: organization {organization_id} has no member nobody\n")


def test_a_sample_fills_a_test_organization_and_a_reset_empties_it(shared_home, organization):
    live_id = str(organization["organizationId"])
    refusal = invoke(shared_home, "sample", "coffee-shop", "--organization", live_id)
    assert (refusal.returncode, refusal.stderr) == (1, f"Error: organization {live_id} is not a test organization\n")
    # Without --yes: the command refuses before it asks.
    reset = invoke(shared_home, "organizations", "reset", live_id)
    assert (reset.returncode, reset.stdout, reset.stderr) == (1, "", refusal.stderr)
    sample = invoke(shared_home, "sample", "coffee-shop")
    assert sample.returncode == 0, sample.stderr
    sample_id = sample.stdout.split()[1]
    assert f"loyalty member ana --organization {sample_id}" in sample.stdout
    ana = invoke(shared_home, "member", "ana", "--organization", sample_id, "--limit", "100").stdout
    assert "13 Beans were received by the campaign coffee-lovers; the balance was 96." in ana
    second_sample = invoke(shared_home, "sample", "coffee-shop", "--organization", sample_id)
    assert second_sample.returncode == 1
    assert f"`loyalty organizations reset {sample_id}`" in second_sample.stderr
    first_reset = invoke(shared_home, "organizations", "reset", "Coffee Shop", "--yes")
    assert first_reset.stdout.startswith(f"Organization {sample_id} is empty: "), first_reset.stderr
    first_ids = dict(line.split() for line in first_reset.stdout.splitlines()[1:])
    second_ids = json.loads(invoke(shared_home, "organizations", "reset", sample_id, "--yes", "--json").stdout)
    assert second_ids["organizationId"] == int(sample_id)
    # Each reset creates a new ledger, account and program.
    for name in ("ledgerId", "ledgerAccountId", "loyaltyProgramId"):
        assert second_ids[name] > int(first_ids[name])
    assert uuid.UUID(second_ids["ledgerAccountKey"])
    assert uuid.UUID(second_ids["loyaltyProgramKey"])
    assert invoke(shared_home, "member", "ana", "--organization", sample_id).returncode == 1
    unknown_name = invoke(shared_home, "organizations", "reset", "Nobody", "--yes")
    assert (unknown_name.returncode, unknown_name.stderr) == (1, "Error: there is no organization Nobody\n")


def test_the_doctor_of_a_working_installation_reports_no_problem(shared_home):
    result = invoke(shared_home, "doctor")
    assert result.returncode == 0, result.stdout
    assert "BAD" not in result.stdout
    assert "embedded PostgreSQL" in result.stdout


def test_the_doctor_reports_an_unknown_setting(shared_home):
    result = invoke(shared_home, "doctor", LOYALTY_PROT="80")
    assert result.returncode == 1
    assert "LOYALTY_PROT" in result.stdout


def test_the_doctor_writes_an_ipv6_address_in_brackets(new_home):
    result = invoke(new_home, "doctor", LOYALTY_HOST="::1", LOYALTY_PORT="8319")
    assert "ok   address: [::1]:8319, reached by clients at http://[::1]:8319/v2\n" in result.stdout


def test_the_doctor_reports_a_missing_home_and_creates_none(new_home):
    result = invoke(new_home, "doctor")
    assert result.returncode == 1
    assert "none in" in result.stdout
    assert not new_home.exists()


def test_the_doctor_reports_an_unreachable_database_without_its_password(new_home):
    result = invoke(new_home, "doctor", LOYALTY_DATABASE_URL=NO_SUCH_DATABASE)
    assert result.returncode == 1
    assert "BAD  connection" in result.stdout
    assert "sesame" not in result.stdout + result.stderr


def test_the_doctor_reports_pending_migrations(shared_home):
    with embedded.server(shared_home) as url:
        connection = psycopg2.connect(url)
        connection.autocommit = True
        connection.cursor().execute("CREATE DATABASE empty")
        connection.close()
        result = invoke(shared_home, "doctor", LOYALTY_DATABASE_URL=url.replace("/loyalty?", "/empty?"))
    assert result.returncode == 1
    assert "run `loyalty migrate`" in result.stdout


def test_a_read_only_database_is_reported_by_the_doctor_and_by_commands_that_write(shared_home):
    with embedded.server(shared_home) as url:
        connection = psycopg2.connect(url.replace("/loyalty?", "/postgres?"))
        connection.autocommit = True
        connection.cursor().execute("CREATE DATABASE reads TEMPLATE loyalty")
        connection.cursor().execute("ALTER DATABASE reads SET default_transaction_read_only = on")
        connection.close()
        read_only = {"LOYALTY_DATABASE_URL": url.replace("/loyalty?", "/reads?")}
        diagnosis = invoke(shared_home, "doctor", **read_only)
        refusal = invoke(shared_home, "organizations", "create", "X", **read_only)
    assert diagnosis.returncode == 1
    assert re.search(r"^BAD  connection: PostgreSQL \S.*, which accepts only reads$", diagnosis.stdout, re.MULTILINE)
    assert "ok   schema: up to date" in diagnosis.stdout
    assert refusal.returncode == 1
    assert re.fullmatch(r"Error: the database cannot be used: cannot execute \w.* in a read-only .*\n", refusal.stderr)


@pytest.mark.parametrize(
    "command", [["organizations", "create", "X"], ["token", "--organization", "1"], ["verify"], ["expire"]]
)
def test_commands_without_a_database_ask_for_migrate(new_home, command):
    result = invoke(new_home, *command)
    assert result.returncode == 1
    assert "run `loyalty migrate` first" in result.stderr
    # A command in the wrong folder creates no second, empty database.
    assert embedded.describe(new_home) is None


def test_migrating_again_reports_that_the_schema_is_up_to_date(new_home):
    first_run, second_run = invoke(new_home, "migrate"), invoke(new_home, "migrate")
    assert (first_run.returncode, second_run.returncode) == (0, 0)
    assert first_run.stdout.startswith("Applied: 1000")
    assert second_run.stdout == "The schema is up to date.\n"


def test_distribute_refuses_a_database_without_citus(shared_home):
    result = invoke(shared_home, "distribute")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("Error: The database has no extension citus")


def test_migrate_check_reports_the_state_of_the_schema_by_text_and_exit_code(new_home):
    with embedded.server(new_home, options={"fsync": "off"}) as url:
        pending = invoke(new_home, "migrate", "--check")
        assert pending.returncode == 3
        assert re.search(r"^\d+ migrations? (is|are) pending: 1000", pending.stdout)
        assert invoke(new_home, "migrate").returncode == 0
        current = invoke(new_home, "migrate", "--check")
        assert (current.returncode, current.stdout) == (0, "The schema is up to date.\n")
        connection = psycopg2.connect(url)
        connection.cursor().execute("UPDATE alembic_version SET version_num = '9999'")
        connection.commit()
        connection.close()
        newer = invoke(new_home, "migrate", "--check", "--json")
        assert newer.returncode == 4
        assert json.loads(newer.stdout) == {"isUsable": False, "pending": [], "newer": "9999"}


def test_a_database_of_a_version_before_the_first_release_is_refused_with_the_advice_to_export_and_import(new_home):
    with embedded.server(new_home, options={"fsync": "off"}) as url:
        with psycopg2.connect(url) as connection:
            connection.cursor().execute("CREATE TABLE alembic_version AS SELECT '0043' AS version_num")
        connection.close()
        for command in (
            ["serve", "--port", str(free_port())],
            ["worker"],
            ["migrate"],
            ["migrate", "--check"],
            ["verify"],
        ):
            refusal = invoke(new_home, *command)
            assert (refusal.returncode, refusal.stdout, refusal.stderr) == (1, "", f"Error: {TOO_OLD}\n"), command
        diagnosis = invoke(new_home, "doctor")
    assert diagnosis.returncode == 1
    assert f"BAD  schema: {TOO_OLD}\n" in diagnosis.stdout


@pytest.mark.parametrize("command", ["serve", "migrate", "verify", "expire", "doctor"])
def test_an_invalid_setting_ends_a_command_with_exit_code_2_and_without_a_traceback(new_home, command):
    result = invoke(new_home, command, LOYALTY_THREADS="many")
    assert result.returncode == 2
    assert result.stderr == "Error: LOYALTY_THREADS must be a whole number from 1 to 64, not 'many'\n"


@pytest.mark.parametrize("variable", ["LOYALTY_DATABASE_URL", "LOYALTY_READ_DATABASE_URL"])
@pytest.mark.parametrize("command", ["serve", "migrate", "worker", "doctor"])
def test_an_unknown_parameter_of_a_database_url_ends_a_command_with_exit_code_2(new_home, command, variable):
    result = invoke(new_home, command, **{variable: f"{NO_SUCH_DATABASE}?sslmod=require"})
    assert result.returncode == 2
    assert result.stderr == f'Error: {variable} cannot be used: invalid connection option "sslmod"\n'


@pytest.mark.parametrize("command", ["serve", "migrate", "verify", "expire"])
def test_an_unreachable_database_ends_a_command_with_exit_code_1_without_a_traceback_or_password(new_home, command):
    result = invoke(new_home, command, LOYALTY_DATABASE_URL=NO_SUCH_DATABASE)
    assert result.returncode == 1
    assert result.stderr.startswith("Error: the database cannot be used: ")
    assert "Traceback" not in result.stderr
    assert "sesame" not in result.stderr


@pytest.mark.parametrize("command", ["worker", "verify", "expire"])
def test_commands_that_need_a_database_do_not_create_one(new_home, command):
    result = invoke(new_home, command)
    assert result.returncode == 1
    assert result.stderr.startswith(f"Error: there is no database in {new_home}: ")
    assert not new_home.exists()


def test_a_home_that_is_a_file_is_reported(new_home):
    new_home.write_text("")
    result = invoke(new_home, "migrate")
    assert result.returncode == 2
    assert result.stderr == f"Error: LOYALTY_HOME must be a directory, not '{new_home}'\n"


def test_every_command_has_a_short_help():
    groups = [name for name, command in _main_commands() if hasattr(command, "commands")]
    for arguments in (["--help"], *([group, "--help"] for group in groups)):
        command_lines = CliRunner().invoke(main, arguments).output.partition("Commands:\n")[2].splitlines()
        assert command_lines, arguments
        # Each line has the name and at least two words; a longer help would be cut off.
        assert [line for line in command_lines if len(line.split()) < 3 or line.endswith("...")] == [], arguments


def test_findings_of_commands_are_printed_as_json(shared_home):
    doctor = invoke(shared_home, "doctor", "--json")
    report = json.loads(doctor.stdout)
    assert (doctor.returncode, report["isWell"]) == (0, True)
    assert {finding["subject"] for finding in report["findings"]} >= {"settings", "database", "schema"}
    verification = json.loads(invoke(shared_home, "verify", "--json").stdout)
    assert (verification["isSound"], verification["broken"]) == (True, [])
    for command, field in (("migrate", "applied"), ("expire", "expired"), ("deliver", "attempts")):
        assert list(json.loads(invoke(shared_home, command, "--json").stdout)) == [field], command


def test_every_command_that_prints_results_has_the_option_json():
    commands_without_json = {
        name for name, command in _commands() if "as_json" not in {parameter.name for parameter in command.params}
    }
    # These run until they are stopped, or print for another program.
    assert commands_without_json == {"serve", "worker", "mcp", "openapi", "completion", "export", "playground"}


def _main_commands():
    """(name, command) of each command after `loyalty`."""
    return [(name, lazy_command.load()) for name, lazy_command in main.commands.items()]


def test_commands_are_listed_with_the_first_sentence_of_their_help():
    listed_helps = {name: command.short_help for name, command in main.commands.items()}
    assert len(listed_helps) > 20
    assert listed_helps == {name: command.get_short_help_str(200) for name, command in _main_commands()}
    assert [name for name, command in _main_commands() if command.name != name] == []


HEAVY_PACKAGES = (
    "alembic",
    "connexion",
    "flask",
    "gunicorn",
    "httpx",
    "jsonschema_rs",
    "lark",
    "marshmallow",
    "re2",
    "yaml",
)
RUN_AND_LIST_MODULES = """
import sys
from handlers.server.cli import main
try:
    main(sys.argv[1:])
finally:
    print(*sorted(sys.modules), file=sys.stderr)
"""


def imported_by(home, *arguments: str) -> set[str]:
    """The modules that a command has imported when it ends."""
    program = [sys.executable, "-c", RUN_AND_LIST_MODULES, *arguments]
    result = subprocess.run(program, env=environment(home), capture_output=True, text=True, timeout=240)
    assert result.returncode == 0, result.stderr
    return set(result.stderr.splitlines()[-1].split())


def test_the_help_imports_no_command_and_no_database(shared_home):
    imported_modules = imported_by(shared_home, "--help")
    assert "click" in imported_modules
    assert imported_modules & {*HEAVY_PACKAGES, "sqlalchemy", "psycopg2"} == set()
    assert {name for name in imported_modules if name.startswith("handlers.server.commands.")} == {
        "handlers.server.commands.context"
    }


@pytest.mark.parametrize("command", [["organizations", "list"], ["serve", "--help"], ["replay", "--help"]])
def test_a_command_imports_no_heavy_packages(shared_home, command):
    imported_modules = imported_by(shared_home, *command)
    assert "sqlalchemy" in imported_modules
    assert imported_modules & set(HEAVY_PACKAGES) == set()


@pytest.mark.parametrize("command", ["doctor", "import", "openapi"])
def test_the_help_of_some_commands_imports_no_database(shared_home, command):
    imported_modules = imported_by(shared_home, command, "--help")
    assert imported_modules & {*HEAVY_PACKAGES, "sqlalchemy", "psycopg2", "persistence.tables"} == set()


def test_the_help_of_no_command_imports_the_tables(shared_home):
    program = """
import sys
from handlers.server.cli import main
for listed in main.commands.values():
    listed.load()
    if "persistence.tables" in sys.modules:
        sys.exit(f"{listed.name} imports persistence.tables")
"""
    result = subprocess.run(
        [sys.executable, "-c", program], env=environment(shared_home), capture_output=True, text=True, timeout=60
    )
    assert (result.returncode, result.stderr) == (0, "")


AT_THE_FIRST_REQUEST = """
import sys
import httpx
from handlers.server.cli import main

def list_modules(*_, **__):
    sys.exit(" ".join(sorted(sys.modules)))

httpx.get = list_modules
main(["doctor"])
"""


def test_the_doctor_calls_the_server_before_it_imports_the_database(new_home):
    program = [sys.executable, "-c", AT_THE_FIRST_REQUEST]
    result = subprocess.run(
        program, env=environment(new_home), cwd=new_home.parent, capture_output=True, text=True, timeout=60
    )
    imported_modules = set(result.stderr.split())
    assert "handlers.server.commands.doctor" in imported_modules, result.stderr
    assert imported_modules & {"sqlalchemy", "psycopg2", "persistence.tables"} == set()


AT_THE_FIRST_CONNECTION = """
import sys
from sqlalchemy import Engine
from handlers.server.cli import main

def list_modules(*_, **__):
    sys.exit(" ".join(sorted(sys.modules)))

Engine.connect = list_modules
main(sys.argv[1:])
"""


@pytest.mark.parametrize("command", ["import", "doctor"])
def test_a_command_connects_to_the_database_before_it_imports_the_tables(shared_home, command):
    arguments = ["import", "/dev/null", "--organization", "Shop"] if command == "import" else [command]
    program = [sys.executable, "-c", AT_THE_FIRST_CONNECTION, *arguments]
    result = subprocess.run(program, env=environment(shared_home), capture_output=True, text=True, timeout=240)
    imported_modules = set(result.stderr.split())
    assert f"handlers.server.commands.{'import_file' if command == 'import' else command}" in imported_modules, (
        result.stderr
    )
    assert imported_modules & {"persistence.tables", "handlers.http.local", "marshmallow"} == set()


def _commands():
    """(name, command) of each command, those of groups with the name of the group before theirs."""
    for name, command in _main_commands():
        for below, subcommand in getattr(command, "commands", {"": command}).items():
            yield f"{name} {below}".strip(), subcommand


@pytest.mark.parametrize(
    ("shell", "completion_builtin"), [("bash", "complete"), ("zsh", "compdef"), ("fish", "complete")]
)
def test_completion_prints_the_script_of_each_shell(shell, completion_builtin):
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0
    assert completion_builtin in result.output
    assert "_LOYALTY_COMPLETE" in result.output


def test_only_terminals_get_colours(shared_home):
    assert "\x1b[" not in invoke(shared_home, "doctor").stdout
    for command in (["doctor"], ["organizations", "list"]):
        result = CliRunner().invoke(main, command, color=True, env={"LOYALTY_HOME": str(shared_home)})
        assert "\x1b[" in result.output, command


def example_simulation(**more):
    """The simulation in the example of the OpenAPI document, with the given fields replaced."""
    operation = openapi.bundle("integration")["paths"]["/simulations"]["post"]
    example = operation["responses"]["200"]["content"]["application/json"]["example"]["simulation"]
    return {**example, **more}


def test_a_simulation_is_printed_with_earnings_redemptions_and_missing_amounts(capsys):
    # The key of the account in the example is replaced by its name.
    _print(_replace_keys(example_simulation(), {"2b8c6f1d-9e4a-4c7b-b5d3-6a7f8e9d0c1b": "Points"}))
    # Without the widths of the columns.
    lines = [re.sub("  +", "  ", line) for line in capsys.readouterr().out.splitlines()]
    assert [line for line in lines if line] == [
        "campaign  effect  parameters  status",
        "point-a-peso  mint-points  amount 37, ledgerAccountKey Points  evaluated",
        "earned  of  amount",
        "points  Points  37, expiring from 2027-03-02T08:15:00Z",
        "code  discount  usable",
        "SPRING-10  3.76  yes",
        "coupon book  discount  points  usable",
        "Free flat white  4.5  150  no: 150 points are needed, and the member has 120.",
        "next  name  missing  gives",
        "campaign  A hundred for fifty  12.4 more to spend  mint-points amount 100, ledgerAccountKey Points",
    ]


def test_a_printed_simulation_contains_the_reason_why_an_action_does_not_apply(capsys):
    label = "not true: balance of points is at least 500 (it is 110)"
    explanation = {"campaignCode": "gold", "campaignId": 3, "actionId": 7, "applied": False}
    no_earnings = {name: [] for name in ("accounts", "discounts", "coupons", "badges", "missions", "tiers", "effects")}
    explain = [{**explanation, "reason": {"label": label}}]
    _print(example_simulation(earn=no_earnings, coupons=[], redeem=[], next=[], explain=explain))
    assert capsys.readouterr().out == f"Nothing would happen.\ngold, action 7: does not apply: {label}\n"


def test_simulate_sends_an_order_without_its_event_and_other_events_as_a_whole():
    order = {"order": {"total": 5, "items": []}}
    assert _event("member-purchase-order-created", order) == order
    visit = {"store": "centre"}
    assert _event("store-visited", visit) == {"event": {"eventType": "store-visited", "payload": visit}}


def test_commands_move_the_clock_of_a_test_organization(shared_home):
    name = f"Time {uuid.uuid4()}"
    creation = invoke(
        shared_home, "organizations", "create", name, "--environment", "test", "--timezone", "Europe/Madrid"
    )
    assert creation.returncode == 0, creation.stderr

    def clock(*arguments, exit_code=0):
        """Run a command about the clock of the organization; check its exit code."""
        result = invoke(shared_home, "clock", *arguments, "--organization", name)
        assert result.returncode == exit_code, result.stderr
        return result

    assert "createTestClock creates a clock" in clock("show", exit_code=1).stderr
    new_clock = json.loads(clock("start", "--at", "2026-03-20T09:00:00Z", "--json").stdout)
    assert (new_clock["now"], new_clock["status"]) == ("2026-03-20T09:00:00Z", "ready")
    # Daylight saving time begins in between: the local time of day is the same.
    advance = json.loads(clock("advance", "--by", "P14D", "--json").stdout)
    assert (advance["now"], advance["status"], advance["steps"]) == ("2026-04-03T08:00:00Z", "ready", 0)
    assert "which is after 2026-04-01T00:00:00Z" in clock("advance", "--to", "2026-04-01T00:00:00Z", exit_code=1).stderr
    assert "P1H is not a duration" in clock("advance", "--by", "P1H", exit_code=2).stderr
    clock_text = clock("show").stdout
    assert "2026-04-03T08:00:00Z" in clock_text
    # The advance is finished.
    assert "target     -\n" in clock_text
    export = invoke(shared_home, "export", "audit-log", "--organization", name)
    newest_entry = json.loads(export.stdout.splitlines()[-1])
    assert (newest_entry["operationId"], newest_entry["testClock"]) == ("export", "2026-04-03T08:00:00Z")
    assert "uses the real time" in clock("remove").stdout
