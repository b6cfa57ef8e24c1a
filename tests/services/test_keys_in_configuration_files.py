"""External keys in configuration files: they identify records, so that a changed name is an update of the record."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from handlers.http.local import LocalApi
from handlers.server.configuration_files import changes
from handlers.server.configuration_files.kinds import KIND_OF
from handlers.server.configuration_files.yaml_files import FaultyFiles, Ref, read_folder, texts_of
from handlers.services.organizations.create import create_organization
from persistence import transactions
from tests.builders.external_keys import KeyedRecords

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def local_api(engine, settings):
    return LocalApi(settings, engine, "operator")


def badge_file(reference, *, name, key=None):
    """The text of a file with a badge: its name in references, its name, and its external key, if any."""
    text = f"record: badge/{reference}\nfields:\n  name: {name}\n  maxAmount: 3\n  active: true\n"
    return text if key is None else f"{text}  externalKey: {key}\n"


class Files:
    """An organization (a new one by default), and a folder of configuration files that are applied to it."""

    def __init__(self, engine, api, folder, organization_id=None):
        self.engine, self.api, self.folder = engine, api, folder
        if organization_id is None:
            organization = transactions.run(engine, lambda db: create_organization(db, name="Corner Coffee", now=NOW))
            organization_id = organization.organization_id
        self.organization_id = organization_id

    def call(self, work):
        return transactions.run(self.engine, lambda db: work(self.api.calls_within(db, self.organization_id)))

    def export(self):
        """The fields of all exported records by their references."""
        return self.call(lambda calls: changes.export_records(self.api, calls))

    def names(self, kind):
        """The names that the exported records of a kind have in references."""
        return [ref.name for ref in self.export() if ref.kind == kind]

    def texts(self):
        """The exported files as texts by file name."""
        return texts_of(self.export())

    def apply(self, **texts):
        """Replace the files of the folder by these texts, and apply them; returns the outcome."""
        for path in self.folder.rglob("*.yaml"):
            path.unlink()
        self.write({f"{name}.yaml": text for name, text in texts.items()})
        return self.apply_all()

    def write(self, texts):
        for name, text in texts.items():
            (self.folder / name).parent.mkdir(exist_ok=True)
            (self.folder / name).write_text(text)

    def apply_all(self):
        files = read_folder(self.folder)
        return self.call(lambda calls: changes.apply(self.api, calls, files))


@pytest.fixture
def files(engine, local_api, tmp_path):
    return Files(engine, local_api, tmp_path)


def changes_by_record(outcome):
    """The action and the changed fields, each from old to new, of every changed record."""
    return {
        str(change.ref): (change.action, {name: (old, new) for name, old, new in change.fields})
        for change in outcome.changes
    }


def test_a_new_name_for_a_record_with_a_key_is_an_update(files):
    files.apply(a=badge_file("early-bird", name="Early bird", key="early-bird"))
    [before] = files.call(lambda calls: calls.integration("listBadges"))["results"]
    outcome = files.apply(a=badge_file("early-bird", name="Lark", key="early-bird"))
    assert changes_by_record(outcome) == {"badge/early-bird": ("update", {"name": ("Early bird", "Lark")})}
    [after] = files.call(lambda calls: calls.integration("listBadges"))["results"]
    assert (after["badgeKey"], after["name"]) == (before["badgeKey"], "Lark")
    # The reference is the key already, so the file may omit the field externalKey.
    outcome = files.apply(a=badge_file("early-bird", name="Owl"))
    assert changes_by_record(outcome) == {"badge/early-bird": ("update", {"name": ("Lark", "Owl")})}
    assert files.names("badge") == ["early-bird"]


def test_a_file_whose_reference_is_a_new_key_gives_the_key_to_the_record_of_its_name(files):
    files.apply(a=badge_file("Early bird", name="Early bird"), b=badge_file("Owl", name="Owl"))
    outcome = files.apply(a=badge_file("early-bird", name="Early bird", key="early-bird"))
    assert changes_by_record(outcome) == {"badge/early-bird": ("update", {"externalKey": (None, "early-bird")})}
    assert [str(ref) for ref in outcome.in_no_file if ref.kind == "badge"] == ["badge/Owl"]
    assert files.names("badge") == ["Owl", "early-bird"]
    assert files.apply(a=badge_file("early-bird", name="Early bird", key="early-bird")).changes == []
    # The record with this name already has another key, so a new record is created.
    outcome = files.apply(a=badge_file("lark", name="Early bird", key="lark"))
    assert changes_by_record(outcome) == {"badge/lark": ("create", {})}


def test_a_file_with_a_new_key_creates_a_record_if_another_file_defines_the_record_of_its_name(files):
    files.apply(a=badge_file("Early bird", name="Early bird"))
    text_with_key, text_without_key = (
        badge_file("early-bird", name="Early bird", key="early-bird"),
        badge_file("Early bird", name="Early bird"),
    )
    outcome = files.apply(a=text_with_key, b=text_without_key)
    assert changes_by_record(outcome) == {"badge/early-bird": ("create", {})}
    assert outcome.unchanged == 1


def test_references_to_a_record_follow_its_new_name(files):
    program = "record: loyaltyProgram/{}\nfields:\n  name: Club\n  description: A\n  ledgerId: !ref ledger/default\n"
    tier = "record: loyaltyTier/{}\nfields:\n  name: Gold\n  active: true\n  minRequiredPoints: 5\n  tierOrder: 2\n"
    campaign = "record: campaign/spring\nfields:\n  name: Spring\n  code: spring\n  loyaltyProgramId: !ref '{}'\n"
    files.apply(a=program.format("Club"), b=tier.format("Club/Gold"), c=campaign.format("loyaltyProgram/Club"))
    key, gold = "  externalKey: club\n", "  externalKey: gold\n"
    outcome = files.apply(
        a=program.format("club") + key, b=tier.format("club/gold") + gold, c=campaign.format("loyaltyProgram/club")
    )
    assert changes_by_record(outcome) == {
        "loyaltyProgram/club": ("update", {"externalKey": (None, "club")}),
        "loyaltyTier/club/gold": ("update", {"externalKey": (None, "gold")}),
    }
    assert outcome.unchanged == 1
    assert "club/gold" in files.names("loyaltyTier")
    assert files.export()[Ref("campaign", "spring")]["loyaltyProgramId"] == Ref("loyaltyProgram", "club")


def test_the_default_records_keep_their_name(files):
    fields = "  externalKey: club\n  name: Club\n  description: A\n  ledgerId: !ref ledger/default\n"
    text = f"record: loyaltyProgram/default\nfields:\n{fields}"
    assert changes_by_record(files.apply(a=text))["loyaltyProgram/default"][1]["externalKey"] == (None, "club")
    assert files.names("loyaltyProgram") == ["default"]
    assert files.export()[Ref("loyaltyProgram", "default")]["externalKey"] == "club"
    assert files.apply(a=text).changes == []
    # The key can be removed, since files refer to the record as `default`.
    text_without_key = text.replace("externalKey: club", "externalKey: null")
    assert changes_by_record(files.apply(a=text_without_key))["loyaltyProgram/default"][1] == {
        "externalKey": ("club", None)
    }


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (badge_file("Early bird", name="Early bird", key="early-bird"), "call it badge/early-bird"),
        (badge_file("early-bird", name="Early bird", key="lark"), "call it badge/lark"),
        (
            "record: loyaltyTier/default/Gold\nfields:\n  name: Gold\n  active: true\n  minRequiredPoints: 5\n"
            "  externalKey: gold\n  tierOrder: 2\n",
            "call it loyaltyTier/default/gold",
        ),
    ],
)
def test_a_file_whose_reference_is_not_its_key_is_refused(files, text, fault):
    (files.folder / "a.yaml").write_text(text)
    with pytest.raises(FaultyFiles, match=f"a.yaml, line 6: externalKey is .*{fault}"):
        files.apply_all()
    [fault_of_check], _warnings = changes.check_files(files.api, read_folder(files.folder))
    assert fault in fault_of_check
    assert files.names("badge") == []


def test_a_key_that_files_use_as_reference_cannot_be_removed(files):
    files.apply(a=badge_file("early-bird", name="Early bird", key="early-bird"))
    with pytest.raises(FaultyFiles, match=r"a.yaml, line 6: externalKey is null, but the record is called badge/early"):
        files.apply(a=badge_file("early-bird", name="Early bird", key="null"))
    # Event types are referred to by their apiCode, so that their key can be removed.
    text = "record: eventType/opened\nfields:\n  name: A\n  apiCode: opened\n  schemaType: custom\n  externalKey: {}\n"
    files.apply(a=text.format("opened"))
    assert changes_by_record(files.apply(a=text.format("null")))["eventType/opened"][1] == {
        "externalKey": ("opened", None)
    }


def test_a_key_that_another_record_has_is_refused(files):
    tier = (
        "record: loyaltyTier/{}/gold\nfields:\n  name: Gold\n  active: true\n  minRequiredPoints: 5\n  tierOrder: 2\n"
    )
    program = "record: loyaltyProgram/Club\nfields:\n  name: Club\n  description: A\n  ledgerId: !ref ledger/default\n"
    key = "  externalKey: gold\n"
    files.apply(a=tier.format("default") + key)
    with pytest.raises(FaultyFiles, match=r"b.yaml, line 2: loyaltyTier/Club/gold: .*has the externalKey gold"):
        files.apply(a=program, b=tier.format("Club") + key)


def test_the_export_of_a_record_whose_name_is_the_key_of_another_record_is_refused(files):
    def create_two_badges(calls):
        body = {"maxAmount": 1, "active": True}
        calls.integration("createBadge", {**body, "name": "Early bird", "externalKey": "lark"})
        calls.integration("createBadge", {**body, "name": "lark"})

    files.call(create_two_badges)
    with pytest.raises(FaultyFiles, match="several records are called badge/lark: give them different names"):
        files.export()


def test_records_with_the_same_name_are_distinguished_by_their_keys(files):
    twins = {name: badge_file(name, name="Twin", key=name) for name in ("castor", "pollux")}
    files.apply(**twins)
    assert files.names("badge") == ["castor", "pollux"]
    assert files.apply(**twins).changes == []


def test_an_external_key_that_equals_the_key_of_the_record_is_exported(files):
    def create_badge(calls):
        """Create a badge, and give it its own key as its external key; return the key."""
        body = {"maxAmount": 1, "active": True, "name": "Early bird"}
        badge = calls.integration("createBadge", body)["badge"]
        calls.integration("updateBadge", {"externalKey": badge["badgeKey"]}, badgeKey=badge["badgeKey"])
        return badge["badgeKey"]

    key = files.call(create_badge)
    assert files.export()[Ref("badge", key)]["externalKey"] == key


@pytest.mark.slow
def test_files_of_records_with_keys_reproduce_them_in_another_organization(engine, local_api, api, tmp_path):
    organization = api.organization()
    for name in KIND_OF:
        keyed = KeyedRecords.of(organization, name)
        keyed.create("one", externalKey=f"{name}:1")
        keyed.create("two")
    source = Files(engine, local_api, tmp_path, organization.id)
    texts = source.texts()
    for name, kind in KIND_OF.items():
        parent = {"ledger": "default/", "loyaltyProgram": "default/", "campaign": "spring/"}.get(kind.parent or "", "")
        assert f"{parent}{name}:1" in source.names(name)
    target = Files(engine, local_api, tmp_path)
    target.write(texts)
    assert changes.check_files(local_api, read_folder(tmp_path)) == ([], [])
    target.apply_all()
    assert target.texts() == texts
    second_outcome = target.apply_all()
    assert (second_outcome.changes, second_outcome.unchanged) == ([], len(texts))
