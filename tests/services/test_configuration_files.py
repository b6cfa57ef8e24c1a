"""The configuration as files: exports and imports, plans, and errors of files with file, line and field."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner

from domain.organizations import TEST
from handlers.http.local import LocalApi
from handlers.server.commands.config import config
from handlers.server.configuration_files import changes
from handlers.server.configuration_files.yaml_files import FaultyFiles, read_folder
from handlers.server.samples.coffee_shop import CoffeeShop
from handlers.services.organizations.create import create_organization
from persistence import transactions
from tests.builders.configuration_files import apply, export, write
from tests.builders.markdown import DOCS

BADGE, MISSION = "badge/early-bird.yaml", "mission/tenth-coffee.yaml"
ACTION, EVENT_TYPE = "action/points-0.yaml", "eventType/app-opened.yaml"
BOOK = "!ref 'couponBook/Free coffee'"
NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)


def new_organization(engine):
    """The id of a new test organization without a configuration of its own."""
    return transactions.run(
        engine, lambda db: create_organization(db, name="Corner Coffee", now=NOW, environment=TEST)
    ).organization_id


@pytest.fixture(scope="module")
def api(engine, settings):
    return LocalApi(settings, engine, "operator")


@pytest.fixture(scope="module")
def source(engine, api):
    """The id of an organization with the sample configuration and its records."""
    organization_id = new_organization(engine)
    transactions.run(engine, lambda db: CoffeeShop(db, api.calls_within(db, organization_id), datetime.now(UTC)).fill())
    return organization_id


@pytest.fixture(scope="module")
def source_texts(engine, api, source):
    """The texts of the files of the sample, by name."""
    return export(engine, api, source)


@pytest.fixture
def files(source_texts, tmp_path):
    """A folder with the files of the sample."""
    write(tmp_path, source_texts)
    return tmp_path


@pytest.mark.slow
def test_files_of_an_organization_reproduce_its_configuration_in_another(engine, api, source_texts, files):
    texts = source_texts
    # Files contain no key that the server assigned.
    assert not any(re.search(r"[0-9a-f]{8}-[0-9a-f]{4}-", text) for text in texts.values())
    assert BOOK in texts[MISSION]
    assert "!ref 'badge/Early bird'" in texts["action/early-bird-0.yaml"]
    assert "secret" not in texts["trigger/mailer.yaml"]
    assert changes.check_files(api, read_folder(files)) == ([], [])
    target = new_organization(engine)
    first_outcome = apply(engine, api, target, files)
    assert first_outcome.in_no_file == []
    assert [str(ref) for ref, secret in first_outcome.secrets if secret] == ["trigger/mailer"]
    assert export(engine, api, target) == texts
    second_outcome = apply(engine, api, target, files)
    assert (second_outcome.changes, second_outcome.unchanged) == ([], len(texts))


@pytest.mark.slow
def test_only_fields_that_differ_are_changed(engine, api, source, files):
    target = new_organization(engine)
    apply(engine, api, target, files)
    for name, old, new in (
        ("campaign/points.yaml", "name: A bean for each unit spent", "name: Beans"),
        ("couponBook/welcome.yaml", "publishingStatus: published", "publishingStatus: archived"),
        ("trigger/mailer.yaml", "name: Mailer", "name: Post"),
    ):
        text = (files / name).read_text()
        assert old in text
        (files / name).write_text(text.replace(old, new))
    (files / "mission" / "tenth-coffee.yaml").unlink()
    outcome = apply(engine, api, target, files)
    changed_fields = {str(change.ref): change.fields for change in outcome.changes}
    assert changed_fields == {
        "campaign/points": (("name", "A bean for each unit spent", "Beans"),),
        "couponBook/Welcome": (("publishingStatus", "published", "archived"),),
        "trigger/mailer": (("name", "Mailer", "Post"),),
    }
    assert [str(ref) for ref in outcome.in_no_file] == ["mission/tenth-coffee"]
    assert apply(engine, api, target, files).changes == []


# A field of a record of each kind, with another value than in the sample.
CHANGES = {
    "ledgerAccount/default/default": "name: Points",
    "loyaltyProgram/default": "description: For all",
    "loyaltyTier/default/Gold": "minRequiredPoints: 5000",
    "eventType/app-opened": "name: Opened",
    "audience/Coffee lovers": "description: Many",
    "badge/Early bird": "maxAmount: 50",
    "couponBook/Welcome": "description: Hello",
    "contentCollection/menu": "description: Cake",
    "campaign/points": "name: Beans",
    "mission/tenth-coffee": "goalCount: 12",
    "referralProgram/bring-a-friend": "maxPerCode: 17",
    "action/points/0": "priority: 8",
    "trigger/mailer": "name: Post",
}


@pytest.mark.slow
def test_fields_that_a_file_leaves_out_keep_their_values(engine, api, files, tmp_path):
    target = new_organization(engine)
    apply(engine, api, target, files)
    texts = export(engine, api, target)
    folder = tmp_path / "changes"
    write(folder, {f"{n}.yaml": f"record: {ref}\nfields:\n  {line}\n" for n, (ref, line) in enumerate(CHANGES.items())})
    faults, warnings = changes.check_files(api, read_folder(folder))
    assert faults == []
    # The change of the mission is the file 9.yaml.
    assert "9.yaml, line 2: apply updates mission/tenth-coffee if it exists, and cannot create it without " in str(
        warnings
    )
    outcome = apply(engine, api, target, folder)
    assert {str(change.ref) for change in outcome.changes} == {*CHANGES}
    new_lines = []
    for name, new_text in export(engine, api, target).items():
        new_lines += set(new_text.splitlines()) - set(texts[name].splitlines())
    assert sorted(new_lines) == sorted(f"  {line}" for line in CHANGES.values())


def test_the_examples_of_the_page_are_valid(tmp_path):
    examples = re.findall(r"```yaml\n(.*?)```", (DOCS / "configuration-files.md").read_text(), re.DOTALL)
    write(tmp_path, {f"{number}.yaml": example for number, example in enumerate(examples)})
    result = CliRunner().invoke(config, ["validate", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert result.output == (
        "Warning: 1.yaml, line 2: apply updates badge/early-bird if it exists, and cannot create it without maxAmount, "
        "active.\n2 records have the form that they need. `plan` checks the references to other records.\n"
    )


@pytest.mark.slow
def test_an_account_may_refer_to_a_tier_that_is_created_after_it(engine, api, files):
    [account] = (files / "ledgerAccount").iterdir()
    tier = "      - loyaltyTierKey: !ref 'loyaltyTier/default/Gold'\n        months: 24"
    text = account.read_text()
    for old, new in (
        ("tierExpirations: []", f"tierExpirations:\n{tier}"),
        ("expiryRounding: none", "expiryRounding: year"),
    ):
        assert old in text
        text = text.replace(old, new)
    account.write_text(text)
    target = new_organization(engine)
    outcome = apply(engine, api, target, files)
    # The account is changed again after the tier was created; the outcome lists it once, and each of its fields once.
    [account_change] = [change for change in outcome.changes if change.ref.kind == "ledgerAccount"]
    changed_fields = [name for name, _, _ in account_change.fields]
    assert {"tierExpirations", "expiryRounding"} <= set(changed_fields)
    assert len(changed_fields) == len(set(changed_fields))
    exported_text = export(engine, api, target)[f"ledgerAccount/{account.name}"]
    assert "!ref 'loyaltyTier/default/Gold'" in exported_text
    assert "expiryRounding: year" in exported_text
    assert apply(engine, api, target, files).changes == []


@pytest.mark.parametrize(
    ("name", "old", "new", "fault"),
    [
        (BADGE, "maxAmount: 100", "maxAmount: many", f"{BADGE}, line 6: maxAmount"),
        (BADGE, "maxAmount: 100", "maxAmmount: 100", f"{BADGE}, line 6: maxAmmount"),
        (BADGE, "maxAmount: 100", "maxAmount: [", f"{BADGE}, line [0-9]+: "),
        (BADGE, "maxAmount: 100", "active: true", f"{BADGE}, line 7: active appears twice"),
        (BADGE, "maxAmount: 100", "maxAmount: .inf", f"{BADGE}, line 6: .inf is neither"),
        (BADGE, "record: badge", "record: bagde", f"{BADGE}, line 1: record does not name a record"),
        (
            BADGE,
            "fields:",
            "feilds:",
            f"{BADGE}, line 1: the entry `fields` is missing\n{BADGE}, line 2: `feilds` is not",
        ),
        (MISSION, BOOK, "!ref couponBook/Free tea", f"{MISSION}, line [0-9]+: couponBookKey: there is no couponBook"),
        (MISSION, BOOK, "!ref tea", f"{MISSION}, line [0-9]+: !ref tea names no record"),
        (ACTION, "floor(order.total)", "floor(order.totl)", f"{ACTION}, line [0-9]+: .*totl"),
        (EVENT_TYPE, "schemaType: string", "schemaType: text", f"{EVENT_TYPE}, line [0-9]+: schemaType"),
    ],
)
def test_a_broken_file_is_refused_with_file_line_and_field(engine, api, files, name, old, new, fault):
    text = (files / name).read_text()
    assert old in text, text
    (files / name).write_text(text.replace(old, new, 1))
    target = new_organization(engine)
    before = export(engine, api, target)
    with pytest.raises(FaultyFiles, match=fault):
        apply(engine, api, target, files)
    # Nothing of the other files is applied.
    assert export(engine, api, target) == before


def test_a_change_of_a_field_that_cannot_be_changed_is_refused(engine, api, files):
    target = new_organization(engine)
    apply(engine, api, target, files)
    path = files / "couponBook" / "welcome.yaml"
    path.write_text(path.read_text().replace("type: list", "type: codeless"))
    with pytest.raises(FaultyFiles, match=r"couponBook/welcome.yaml, line [0-9]+: type cannot be changed once"):
        apply(engine, api, target, files)


def test_records_with_the_same_name_and_no_keys_are_not_exported(engine, api):
    organization_id = new_organization(engine)

    def create_two_badges(db):
        for _ in range(2):
            body = {"name": "Twin", "maxAmount": 1, "active": True}
            api.calls_within(db, organization_id).integration("createBadge", body)

    transactions.run(engine, create_two_badges)
    with pytest.raises(FaultyFiles, match="several records are called badge/Twin"):
        export(engine, api, organization_id)


def test_files_without_text_or_record_and_two_files_of_one_record_are_reported(tmp_path):
    with pytest.raises(FaultyFiles, match="contains no"):
        read_folder(tmp_path)
    (tmp_path / "a.yaml").write_bytes(b"record: \xff")
    (tmp_path / "b.yaml").write_text("")
    for name in ("c.yaml", "d.yaml"):
        (tmp_path / name).write_text("record: badge/Same\nfields: {}\n")
    with pytest.raises(FaultyFiles) as error_info:
        read_folder(tmp_path)
    assert error_info.value.faults == [
        "a.yaml, byte 9: the file is not text in UTF-8",
        "b.yaml, line 1: the entry `record` is missing",
        "b.yaml, line 1: the entry `fields` is missing",
        "d.yaml, line 1: badge/Same is in c.yaml too",
    ]


def faults_of(folder, text):
    """The faults of a folder whose only file has this text."""
    (folder / "a.yaml").write_text(text)
    with pytest.raises(FaultyFiles) as error_info:
        read_folder(folder)
    return error_info.value.faults


@pytest.mark.parametrize(
    "text",
    [
        'record: badge/Lark\nfields:\n  name: "\\ud800"\n',
        'record: badge/Lark\nfields:\n  "\\ud800": Lark\n',
        'record: badge/Lark\nfields:\n  tags: ["a", "b\\ud800\\udc00"]\n',
        'record: badge/Lark\nfields:\n  book: !ref "couponBook/\\ud800"\n',
    ],
)
def test_texts_with_surrogates_are_reported_with_their_line(tmp_path, text):
    assert faults_of(tmp_path, text) == [
        "a.yaml, line 3: \\ud800 is not a character; write one above \\uffff as \\U with 8 digits"
    ]


def test_a_control_character_is_reported_with_its_line(tmp_path):
    text = "record: badge/Lark\nfields:\n  name: \x01\n"
    assert faults_of(tmp_path, text) == ["a.yaml, line 3: the character U+0001 is not allowed"]


def test_a_quote_that_is_not_closed_is_reported_with_its_first_line(tmp_path):
    text = 'record: badge/Lark\nfields:\n  name: "Lark\n  active: true\n'
    assert faults_of(tmp_path, text) == ["a.yaml, line 3: the quote is not closed"]


@pytest.mark.slow
def test_a_content_that_is_nested_too_deeply_is_reported(tmp_path):
    text = "record: badge/Lark\nfields:\n  tags: " + "[" * 5000
    assert faults_of(tmp_path, text) == ["a.yaml: the content is nested too deeply"]


@pytest.mark.slow
def test_the_content_of_a_file_is_limited_with_its_aliases_expanded(tmp_path):
    too_large = ["a.yaml: the content has more than 2000000 characters if all aliases are expanded"]
    doubled = "".join(f"  a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 20))
    text = f"record: badge/Lark\nfields:\n  a0: &a0 x\n{doubled}"
    # Each line holds twice the texts of the line before; 20 lines have 2**20 texts, and 2**20 characters.
    assert faults_of(tmp_path, text) == too_large
    # The lines before a17 have few enough.
    (tmp_path / "a.yaml").write_text(text[: text.index("  a17")])
    [record_file] = read_folder(tmp_path)
    assert record_file.fields["a3"] == [[["x", "x"]] * 2] * 2
    # Many more lines and a list that contains itself take no longer.
    endless = "".join(f"  b{n}: &b{n} [*a0, *b{n - 1}, *b{n - 1}]\n" for n in range(1, 5000))
    assert faults_of(tmp_path, f"{text}  b0: &b0 []\n{endless}") == too_large
    assert faults_of(tmp_path, "record: badge/Lark\nfields:\n  tags: &tags [*tags]\n") == too_large


@pytest.mark.slow
def test_the_commands_export_plan_and_apply_configuration_files(engine, settings, source, tmp_path):
    environment = {"LOYALTY_DATABASE_URL": settings.database_url, "LOYALTY_HOME": str(tmp_path / "home")}
    folder = tmp_path / "files"

    def run(*arguments):
        return CliRunner().invoke(config, [*map(str, arguments)], env=environment, color=True)

    export_result = run("export", folder, "--organization", source)
    assert export_result.exit_code == 0, export_result.output
    assert "--replace" in run("export", folder, "--organization", source).output
    assert run("validate", folder).exit_code == 0
    target = new_organization(engine)
    # The second plan shows that the first one has changed nothing.
    for _ in range(2):
        plan = run("plan", folder, "--organization", target)
        assert "\x1b[32m+ badge/Early bird\x1b[0m" in plan.output
        assert "\x1b[33m~ ledgerAccount/default/default\x1b[0m" in plan.output
        assert '    name: \x1b[31m"Points"\x1b[0m -> \x1b[32m"Beans"\x1b[0m' in plan.output
    application = run("apply", folder, "--organization", target)
    assert "The secret of trigger/mailer, which cannot be read again: whsec_" in application.output
    assert "0 to create, 0 to change, " in run("plan", folder, "--organization", target).output
    (folder / "badge" / "early-bird.yaml").write_text("record: badge/Early bird\nfields:\n  name: 1\n")
    for command in (("validate", folder), ("plan", folder, "--organization", target)):
        refusal = run(*command)
        assert refusal.exit_code == 1
        assert "badge/early-bird.yaml, line 3: name" in refusal.output
    assert run("plan", folder, "--organization", "Nobody").exit_code == 1


def test_files_contain_hours_but_not_the_time_zones_of_locations(engine, api, tmp_path):
    source, target = new_organization(engine), new_organization(engine)
    hours = {"dayOfWeekSchedule": {"schedule": [{"day": 5, "from": "22:00", "to": "02:00"}]}}
    book = {"name": "Late coffee", "type": "codeless", "publishingStatus": "draft", **hours}

    def fill(db):
        calls = api.calls_within(db, source)
        calls.administration("createCampaign", {"code": "late", "name": "Late", **hours})
        calls.integration("createCouponBook", book)
        locations = {"LPA": "Atlantic/Canary"}
        calls.administration("updateOrganization", {"defaultLocale": "en", "locationTimezones": locations})

    transactions.run(engine, fill)
    texts = export(engine, api, source)
    assert [name for name, text in texts.items() if "'22:00'" in text] == [
        "couponBook/late-coffee.yaml",
        "campaign/late.yaml",
    ]
    assert not any("Canary" in text for text in texts.values())
    write(tmp_path, texts)
    apply(engine, api, target, tmp_path)
    assert export(engine, api, target) == texts


@pytest.mark.slow
def test_a_plan_prints_warnings_about_expressions_that_it_changes(engine, api, settings, files, tmp_path):
    environment = {"LOYALTY_DATABASE_URL": settings.database_url, "LOYALTY_HOME": str(tmp_path / "home")}
    target = new_organization(engine)
    apply(engine, api, target, files)
    action = next(path for path in files.rglob("action/*.yaml") if "getHours" in path.read_text())
    text = action.read_text()
    action.write_text(text.replace("event.externalEventDate.getHours", "now.getHours"))
    [line_number] = [number for number, line in enumerate(text.splitlines(), 1) if "getHours" in line]
    warning = (
        f"action/{action.name}, line {line_number}: `now` is when the event is evaluated; use `event.externalEventDate`"
    )
    command = ["plan", str(files), "--organization", str(target)]
    plan = CliRunner().invoke(config, command, env=environment)
    assert f"Warning: {warning}.\n0 to create, 1 to change, " in plan.output
    as_json = json.loads(CliRunner().invoke(config, [*command, "--json"], env=environment).output)
    assert as_json["warnings"] == [warning]
    # The organization already has this expression, so the plan does not warn about it again.
    apply(engine, api, target, files)
    assert json.loads(CliRunner().invoke(config, [*command, "--json"], env=environment).output)["warnings"] == []


@pytest.mark.slow
def test_the_commands_print_json_for_programs(engine, settings, source, tmp_path):
    environment = {"LOYALTY_DATABASE_URL": settings.database_url, "LOYALTY_HOME": str(tmp_path / "home")}
    folder = tmp_path / "files"

    def run(*arguments, code=0):
        result = CliRunner().invoke(config, [*map(str, arguments), "--json"], env=environment)
        assert result.exit_code == code, result.output
        return json.loads(result.output)

    export_result = run("export", folder, "--organization", source)
    assert export_result == {"folder": str(folder), "records": len(list(folder.rglob("*.yaml")))}
    assert run("validate", folder) == {"records": export_result["records"], "faults": [], "warnings": []}
    target = new_organization(engine)
    plan = run("plan", folder, "--organization", target)
    assert plan["faults"] == []
    change_by_record = {change["record"]: change for change in plan["changes"]}
    assert change_by_record["badge/Early bird"] == {"record": "badge/Early bird", "action": "create", "fields": []}
    name_change = {"field": "name", "from": "Points", "to": "Beans"}
    assert name_change in change_by_record["ledgerAccount/default/default"]["fields"]
    changes = run("apply", folder, "--organization", target)
    [secret] = changes.pop("secrets")
    assert (secret["record"], secret["secret"][:6]) == ("trigger/mailer", "whsec_")
    assert changes == plan

    mission = folder / MISSION
    mission.write_text(mission.read_text().replace(BOOK, "!ref couponBook/Welcome"))
    [change] = run("plan", folder, "--organization", target)["changes"]
    field_change = {"field": "couponBookKey", "from": "couponBook/Free coffee", "to": "couponBook/Welcome"}
    assert change == {"record": "mission/tenth-coffee", "action": "update", "fields": [field_change]}
    (folder / BADGE).write_text("record: badge/Early bird\nfields:\n  name: 1\n")
    for command in (("validate", folder), ("plan", folder, "--organization", target)):
        faults = run(*command, code=1)["faults"]
        assert f"{BADGE}, line 3: name" in "\n".join(faults)
