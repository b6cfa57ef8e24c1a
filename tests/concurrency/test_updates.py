"""Updates of one record at the same time: each changes the fields that it names, and none undoes another."""

from __future__ import annotations

from functools import partial

import pytest

from handlers.http import dispatch
from tests.builders.content import Content, document_key
from tests.concurrency.simultaneous import PATIENCE, run_after, run_simultaneously, start_after, statuses

CAMPAIGN = {"code": "one", "name": "One"}
MISSION = {"name": "One", "eventType": "member-generic-event", "maxRepetitions": 9, "goalCount": 3}
PROGRAM = {"name": "One", "code": "one", "active": True, "maxPerCode": 9, "eventType": "member-created"}
LIST = {"name": "List", "matcherType": "list-matcher"}
TIER = {"name": "Basic", "active": True, "minRequiredPoints": 0, "tierOrder": 0}
ACCOUNT = {"name": "One", "active": True, "isRevolving": False, "chainSyncEnabled": False}

# Fields with a value and with the value that empties them.
FIELDS = {"description": ("A", None), "tags": (["x"], []), "customAttributes": ({"a": 1}, {})}
ACCOUNT_FIELDS = {"alias": ("a", None), "formatString": ("b", None), "expiresInMonths": (3, None)}


@pytest.mark.parametrize(
    ("name", "key", "path", "body"),
    [
        ("campaign", "campaignId", "/campaigns", CAMPAIGN),
        ("mission", "missionId", "/missions", MISSION),
        ("referralProgram", "referralProgramId", "/referral-programs", PROGRAM),
        ("ledgerAccount", "ledgerAccountId", "/ledgers/{ledger}/accounts", ACCOUNT),
    ],
)
def test_updates_of_one_record_at_the_same_time_are_all_kept(shop, name, key, path, body):
    administration = shop.administration
    path = path.format(ledger=shop.organization.defaults.ledger_id)
    record = administration.post(path, body)[name]
    fields = ACCOUNT_FIELDS if name == "ledgerAccount" else FIELDS
    put = partial(administration.put, f"{path}/{record[key]}")
    for _ in range(3):
        run_simultaneously(partial(put, {**body, field: value}) for field, (value, _) in fields.items())
        stored_record = put(body)[name]
        assert {field: stored_record[field] for field in fields} == {
            field: value for field, (value, _) in fields.items()
        }
        run_simultaneously(partial(put, {**body, field: empty_value}) for field, (_, empty_value) in fields.items())
        stored_record = put(body)[name]
        assert {field: stored_record[field] for field in fields} == {
            field: empty_value for field, (_, empty_value) in fields.items()
        }


def test_two_calls_that_create_one_document_at_the_same_time_are_both_kept(shop):
    documents = Content.of(shop.organization)
    body = {"attrs": {"a": 1}, "status": "draft"}
    for _ in range(5):
        path = f"{documents.documents}/{document_key()}"
        put = partial(shop.integration.put, f"{path}/locales/default")
        run_simultaneously(
            [partial(put, {**body, "slug": "s"}), partial(put, {**body, "fromDate": "2026-01-01T00:00:00Z"})]
        )
        document = shop.integration.get(path, locale="")["document"]
        assert (document["slug"], document["fromDate"]) == ("s", "2026-01-01T00:00:00Z")


def test_an_update_of_an_audience_keeps_the_count_of_members_who_are_added_at_the_same_time(shop, monkeypatch):
    ana = shop.organization.member()
    path = f"/audiences/{shop.administration.post('/audiences', LIST)['audience']['audienceId']}"
    add_ana = partial(shop.administration.patch, f"{path}/members", {"add": [ana["memberId"]]}, expect=200)
    run_after(monkeypatch, dispatch, "_find_records", add_ana)
    renamed_audience = shop.administration.put(path, {**LIST, "name": "Friends"})["audience"]
    assert (renamed_audience["name"], renamed_audience["memberCount"]) == ("Friends", 1)
    assert shop.administration.get(path)["audience"]["memberCount"] == 1


def test_a_tier_that_is_made_the_default_at_the_same_time_cannot_be_deactivated(shop, monkeypatch):
    program = f"/loyalty-programs/{shop.organization.defaults.loyalty_program_id}"
    tier = shop.administration.post(f"{program}/tiers", TIER)["tier"]
    path = f"{program}/tiers/{tier['loyaltyTierId']}"
    replies = []
    record = shop.administration.get(program)["loyaltyProgram"]
    body = {name: record[name] for name in ("ledgerId", "description", "setAsDefault")}
    body["defaultTierId"] = tier["loyaltyTierId"]

    def choose():
        replies.append(shop.administration.request("PUT", program, body))

    choosing_thread = start_after(monkeypatch, shop, dispatch, "_find_records", choose)
    replies.append(shop.administration.request("PUT", path, {**TIER, "active": False}))
    choosing_thread.join(PATIENCE)
    # Whichever is first, the other one is refused.
    assert statuses(replies) == {(200, None): 1, (409, "/problems/tier-inactive"): 1}
