"""The size of an organization's configuration has a limit, and processes keep and load few configurations at once."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from handlers import loyalty_programs
from handlers.services import configuration, limit_configuration
from handlers.services.ledger import accounts as ledger_accounts
from persistence import organizations, transactions
from persistence.configuration_sizes import BYTES_OF_RECORD, configuration_bytes


@pytest.fixture
def size(organization):
    """Return the number of bytes of the organization's configuration."""

    def bytes_of_configuration():
        with organization.api.engine.connect() as db:
            return configuration_bytes(db, organization.id)

    return bytes_of_configuration


def audience(letters, **fields):
    """The body of an audience with this many letters in its tags, each of which has 200."""
    tags = ["a" * 200] * (letters // 200)
    return {"active": True, "name": "A", "matcherType": "attribute-matcher", "matcher": {"tags": tags}, **fields}


def load(api, organization_id):
    """The configuration that a call of its own gets."""

    def read(db):
        return configuration.configuration_of(db, organizations.find(db, organization_id))

    return transactions.run(api.engine, read)


def test_a_configuration_grows_up_to_its_limit(organization, size, monkeypatch):
    administration = organization.administration
    first_audience = administration.post("/audiences", audience(10_000), expect=201)["audience"]
    monkeypatch.setattr(limit_configuration, "MAX_CONFIGURATION_BYTES", size() + 10_000)
    administration.post("/audiences", audience(6_000), expect=201)
    monkeypatch.setattr(limit_configuration, "MAX_CONFIGURATION_BYTES", size() + 100)
    size_at_limit = size()
    refusal = administration.post("/audiences", audience(4_000), expect=400)
    assert refusal["detail"].startswith("The organization's configuration would have ")
    assert "Make matchers, rules or texts shorter" in refusal["detail"]
    refusal = administration.put(f"/audiences/{first_audience['audienceId']}", audience(14_000), expect=400)
    assert refusal["detail"].startswith("The organization's configuration would have ")
    account = {"alias": "large", "name": "Large", "active": True, "isRevolving": False, "chainSyncEnabled": False}
    ledger_id = administration.get("/ledgers")["results"][0]["ledgerId"]
    account_refusal = administration.post(f"/ledgers/{ledger_id}/accounts", {**account, "name": "a" * 255}, expect=400)
    assert account_refusal["detail"].startswith("The organization's configuration would have ")
    assert size() == size_at_limit


def test_a_configuration_above_its_limit_can_be_made_smaller(organization, size, monkeypatch):
    administration = organization.administration
    size_without_audience = size()
    path = f"/audiences/{administration.post('/audiences', audience(10_000))['audience']['audienceId']}"
    size_with_audience = size()
    monkeypatch.setattr(limit_configuration, "MAX_CONFIGURATION_BYTES", 1_000)
    administration.put(path, audience(8_000))
    # 10 tags fewer, each of 200 letters, two quotes, a comma and a blank.
    assert size() == size_with_audience - 10 * (200 + 4)
    # An inactive audience does not count.
    administration.put(path, audience(8_000, active=False))
    assert size() == size_without_audience


def bodies_by_path(organization):
    """A body for each list to which a record of the configuration can be added."""
    defaults, administration = organization.defaults, organization.administration
    campaign = {"code": "one", "name": "One", "active": True}
    campaign_id = administration.post("/campaigns", campaign)["campaign"]["campaignId"]
    condition = {"field": "categoryCode", "operator": "equals", "value": "hot"}
    minting = {"effectId": "mint-points", "params": [{"id": "amount", "value": 5}]}
    account = {"name": "Stars", "active": True, "isRevolving": True, "chainSyncEnabled": False}
    tier = {"name": "Gold", "active": True, "minRequiredPoints": 100, "tierOrder": 1}
    program = {"ledgerId": defaults.ledger_id, "description": "Spare", "setAsDefault": False}
    return {
        "/audiences": audience(0),
        "/badges": {"name": "B", "maxAmount": 1, "active": True},
        "/campaigns": {**campaign, "code": "two"},
        f"/campaigns/{campaign_id}/actions": {"effects": {"items": [minting]}, "status": "running", "priority": 1},
        "/custom-event-types": {"name": "Cup", "apiCode": "cup", "schemaType": "custom"},
        f"/ledgers/{defaults.ledger_id}/accounts": account,
        "/loyalty-programs": program,
        f"/loyalty-programs/{defaults.loyalty_program_id}/tiers": tier,
        "/matchers": {
            "name": "Hot",
            "type": "item-matcher",
            "matcher": {"operator": "AND", "conditions": [condition]},
        },
        "/missions": {"name": "M", "eventType": "cup", "maxRepetitions": 1, "goalCount": 5},
        "/referral-programs": {"name": "F", "code": "f", "active": True, "maxPerCode": 9, "eventType": "cup"},
        "/stacking-groups": {"name": "Offers", "mode": "best"},
        "/triggers": {"triggerKey": "t", "type": "WebHook", "name": "T", "settings": {"url": "https://hooks.invalid/"}},
    }


def test_each_record_of_the_configuration_has_a_size_without_its_texts(organization, size, monkeypatch):
    for path, body in bodies_by_path(organization).items():
        surface = organization.integration if path == "/badges" else organization.administration
        size_before = size()
        # The texts of the record need at least one byte, and less than the record.
        monkeypatch.setattr(limit_configuration, "MAX_CONFIGURATION_BYTES", size_before + BYTES_OF_RECORD)
        assert "would have" in surface.post(path, body, expect=400)["detail"]
        assert size() == size_before
        monkeypatch.setattr(limit_configuration, "MAX_CONFIGURATION_BYTES", size_before + 2 * BYTES_OF_RECORD)
        surface.post(path, body, expect=201)
        assert size_before + BYTES_OF_RECORD < size() <= size_before + 2 * BYTES_OF_RECORD


def test_a_configuration_above_its_limit_can_be_read_changed_and_used(organization, monkeypatch):
    integration = organization.integration
    badge = {"name": "Early", "maxAmount": 1, "active": True}
    key = integration.post("/badges", badge, expect=201)["badge"]["badgeKey"]
    monkeypatch.setattr(limit_configuration, "MAX_CONFIGURATION_BYTES", 1_000)
    integration.patch(f"/badges/{key}", {"name": "Lark"})
    assert integration.get(f"/badges/{key}")["badge"]["name"] == "Lark"
    organization.member("ana")
    integration.post(f"/members/ana/badges/{key}/assign", {}, expect=200)
    refusal = integration.post("/badges", badge, expect=400)
    assert refusal["detail"].startswith("The organization's configuration would have ")


def test_missions_are_grouped_by_type_in_their_order(organization):
    administration = organization.administration
    for event_type in ("member-created", "member-updated", "member-created"):
        mission = {"name": "M", "eventType": event_type, "maxRepetitions": 1, "goalCount": 5}
        administration.post("/missions", {**mission, "active": True}, expect=201)
    mission_configuration = load(organization.api, organization.id)
    enrolment_mission, update_mission, other_enrolment_mission = mission_configuration.missions.values()
    assert mission_configuration.missions_by_type == {
        "member-created": (enrolment_mission, other_enrolment_mission),
        "member-updated": (update_mission,),
    }


def test_a_body_of_the_configuration_is_at_most_256_kib(organization):
    administration = organization.administration

    def body(letters):
        """An audience with 1,000 tags of 200 letters, and this many letters in its locations."""
        return audience(0, matcher={"tags": ["a" * 200] * 1000, "locations": ["a" * 200] * (letters // 200)})

    # 256 KiB are 262,144 bytes. 200 letters take 203 bytes, so these texts take 1,290 x 203 = 261,870 bytes.
    record = administration.post("/audiences", body(58_000), expect=201)["audience"]
    # Two texts more: 1,292 x 203 = 262,276 bytes.
    for refusal in (
        administration.post("/audiences", body(58_400), expect=413),
        administration.put(f"/audiences/{record['audienceId']}", body(58_400), expect=413),
    ):
        assert refusal["type"] == "/problems/payload-too-large"
        assert refusal["detail"] == "The body is larger than 262144 bytes."
    # The limit of bodies with lists of items is 1 MiB: this one is read, and its type is too long.
    problem = organization.integration.post("/events/track", {"events": [{"eventType": "a" * 300_000}]}, expect=400)
    pointers = [fault["pointer"] for fault in problem["errors"]]
    assert pointers == ["/events/0/loyaltyMemberId", "/events/0/systemUniqueKey", "/events/0/eventType"]
    organization.integration.post("/events/track", {"events": [{"eventType": "a" * 2**20}]}, expect=413)


def test_calls_at_the_same_time_load_a_configuration_once(organization, monkeypatch):
    loads = []
    original = configuration._load

    def load_slowly(db, *arguments):
        loads.append(organization.id)
        time.sleep(0.2)
        return original(db, *arguments)

    configuration._cache.pop(organization.id, None)
    monkeypatch.setattr(configuration, "_load", load_slowly)
    with ThreadPoolExecutor(4) as threads:
        configurations = list(threads.map(lambda _: load(organization.api, organization.id), range(4)))
    assert loads == [organization.id]
    assert configurations == [configurations[0]] * 4


def test_a_full_cache_forgets_the_configurations_that_were_loaded_first(api, monkeypatch):
    first_id, second_id, third_id = (api.organization().id for _ in range(3))
    monkeypatch.setattr(configuration, "_cache", {})
    size_of_one = load(api, first_id).size
    # The cache can hold two configurations, not three.
    monkeypatch.setattr(configuration, "_MAX_CACHED_BYTES", int(size_of_one * 2.5))
    load(api, second_id)
    load(api, third_id)
    assert list(configuration._cache) == [second_id, third_id]
    monkeypatch.setattr(configuration, "_MAX_CACHED", 1)
    load(api, first_id)
    assert list(configuration._cache) == [first_id]


def test_an_organization_has_a_maximum_of_ledger_accounts_in_all_its_ledgers(organization, monkeypatch):
    administration = organization.administration
    assert ledger_accounts.MAX_ACCOUNTS == 200
    monkeypatch.setattr(ledger_accounts, "MAX_ACCOUNTS", 2)
    account = {"name": "Stars", "active": True, "isRevolving": True, "chainSyncEnabled": False}
    second_ledger_id = administration.post("/ledgers", {"name": "Second"}, expect=201)["ledger"]["ledgerId"]
    paths = [f"/ledgers/{ledger_id}/accounts" for ledger_id in (organization.defaults.ledger_id, second_ledger_id)]
    # The default ledger has one account from the beginning.
    record = administration.post(paths[1], account, expect=201)["ledgerAccount"]
    for path in paths:
        refusal = administration.post(path, account, expect=409)
        assert refusal["type"] == "/problems/ledger-account-limit"
        assert refusal["detail"] == "The organization has 2 ledger accounts, the maximum."
    assert [administration.get(path)["totalCount"] for path in paths] == [1, 1]
    # An organization that has more accounts can still change them.
    monkeypatch.setattr(ledger_accounts, "MAX_ACCOUNTS", 1)
    administration.put(f"{paths[1]}/{record['ledgerAccountId']}", {**account, "name": "Moons"}, expect=200)
    assert administration.get(paths[1])["results"][0]["name"] == "Moons"


def test_an_organization_has_a_maximum_of_loyalty_programs(organization, monkeypatch):
    administration = organization.administration
    assert loyalty_programs.MAX_PROGRAMS == 100
    monkeypatch.setattr(loyalty_programs, "MAX_PROGRAMS", 2)
    program = {"ledgerId": organization.defaults.ledger_id, "description": "Spare", "setAsDefault": False}
    # An organization has one program from the beginning.
    record = administration.post("/loyalty-programs", program, expect=201)["loyaltyProgram"]
    refusal = administration.post("/loyalty-programs", program, expect=409)
    assert refusal["type"] == "/problems/loyalty-program-limit"
    assert refusal["detail"] == "The organization has 2 loyalty programs, the maximum."
    assert len(administration.get("/loyalty-programs")["loyaltyPrograms"]) == 2
    # An organization that has more programs can still change them.
    monkeypatch.setattr(loyalty_programs, "MAX_PROGRAMS", 1)
    path = f"/loyalty-programs/{record['loyaltyProgramId']}"
    administration.put(path, {**program, "description": "Second"}, expect=200)
    assert administration.get(path)["loyaltyProgram"]["description"] == "Second"
