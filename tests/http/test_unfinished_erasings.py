"""Members with very many rows: the call erases the member and some rows, and a job erases the other rows."""

from __future__ import annotations

from functools import partial

import pytest

from handlers import audit_trail
from handlers.server.jobs import run_job, seal_audit_log
from handlers.services import wallet_batches
from handlers.services.exports.write import ExportWriter
from handlers.services.imports import members as import_members
from handlers.services.members import change
from handlers.services.verify import verify
from persistence import erasing
from tests.builders import queue, tracking
from tests.builders.campaigns import mint
from tests.builders.imports import Imports
from tests.builders.jobs import do_jobs_only_for
from tests.builders.person import NAME, WORD, event, live, traces
from tests.builders.referrals import Friends
from tests.builders.tracking import GENERIC, ORDER_CREATED, Shop, running
from tests.concurrency.simultaneous import PATIENCE, run_simultaneously, start_after

# The tables whose rows the call may leave. The member's referral code is in records of other members, and remembered
# until it is erased there.
TABLES_WITH_MANY_ROWS = {
    "audit_log",
    "badge_trackings",
    "coupon_lots",
    "coupon_usages",
    "coupons",
    "events",
    "ledger_transactions",
    "member_coupons",
    "members",
    "order_items",
    "purchase_orders",
    "trigger_deliveries",
    "unfinished_erasings",
}


@pytest.fixture
def organization(api, monkeypatch):
    """A new organization, whose calls erase one row, and whose jobs erase one row in the first transaction."""
    monkeypatch.setattr(change, "MAX_ERASING_SECONDS", 0)
    monkeypatch.setattr(erasing, "PAGE_ROWS", 1)
    monkeypatch.setattr(wallet_batches, "FIRST_WALLETS", 1)
    organization = api.organization()
    do_jobs_only_for(monkeypatch, organization.id)
    return organization


def finish_erasings(api):
    """Run the job; return the number of members whom it erased completely."""
    return run_job(api.engine, api.settings, "finish-erasings")["members"]


def erase_member_with_events(organization, count):
    """Erase a new member who has so many events, besides that of the enrolment."""
    member = organization.member(NAME)
    for _ in range(count):
        organization.integration.post("/events/track", {"events": [event("member-generic-event")]}, expect=200)
    organization.administration.delete(f"/members/{member['memberId']}", expect=200)


def completions(organization):
    """The actor of each entry about a part of an erasing, and whether the erasing was complete, in the order of time.

    Entries that only list emptied entries are left out.
    """
    entries = organization.administration.get("/audit-log", operationId="eraseMember")["results"]
    return [
        (entry["actor"], entry["changes"]["isComplete"]["to"])
        for entry in reversed(entries)
        if "isComplete" in entry["changes"]
    ]


def faults(organization):
    """The faults in the records and the audit log."""
    seal_audit_log(organization.api.engine, organization.id)
    with organization.api.engine.connect() as db:
        return verify(db, organization.id)


@pytest.mark.slow
def test_a_job_erases_the_rows_that_the_deletion_left_unchanged(api, organization):
    history = live(organization)
    path = f"/members/{history['ana']['memberId']}"
    erased_member = organization.administration.delete(path, expect=200)["loyalMember"]
    assert (erased_member["active"], erased_member["loyaltyMemberId"][:7]) == (False, "erased-")
    # The tables that still contain the word of the member.
    assert set(traces(api.engine, organization_id=organization.id)) == TABLES_WITH_MANY_ROWS
    assert faults(organization) == []
    assert finish_erasings(api) == 1
    assert traces(api.engine, organization_id=organization.id) == {}
    assert faults(organization) == []
    [(_administrator, is_complete_after_call), completion_by_job] = completions(organization)
    assert (is_complete_after_call, completion_by_job) == (False, ("worker", True))
    # A second call and a second run change nothing.
    assert organization.administration.delete(path, expect=200)["loyalMember"] == erased_member
    assert finish_erasings(api) == 0


@pytest.mark.slow
def test_other_members_can_have_the_orders_external_ids_before_the_job_erases_them(api, organization):
    shop, ana, ben = Shop(organization), organization.member(NAME), organization.member("ben")
    external_ids = [f"order-{number}" for number in range(5)]
    shop.track(*[tracking.order(NAME, external_id=external_id) for external_id in external_ids])
    organization.administration.delete(f"/members/{ana['memberId']}", expect=200)
    # The external ids that the orders of the erased member get.
    erased_ids = [f"erased-{row.order_id}" for row in shop.rows("purchase_orders", "order_id", order="order_id")]
    orders = [tracking.order("ben", external_id=external_id) for external_id in external_ids]

    [dry_result] = shop.track(orders[0], executionMode="dryRun")
    assert "error" not in dry_result
    assert shop.rows("purchase_orders", "external_id", order="order_id")[0].external_id == external_ids[0]
    results = shop.track(orders[0], orders[1])
    receipts = queue.send(shop, orders[2])
    queue.drain(shop)
    body = {"externalId": external_ids[3], "total": 10, "type": "shop", "status": "confirmed"}
    organization.administration.post(f"/members/{ben['memberId']}/purchase-orders", body)
    assert ["error" in result for result in results] == [False, False]
    assert queue.outcome(shop, receipts[0])["event"]["status"] == "success"

    def stored_ids(member):
        """The external ids of the member's orders, oldest first."""
        rows = shop.rows("purchase_orders", "member_id, external_id", order="order_id")
        return [row.external_id for row in rows if row.member_id == member["memberId"]]

    # The id of Ana's last order was not requested by another, so the job has still to erase it.
    assert (stored_ids(ana), stored_ids(ben)) == ([*erased_ids[:4], external_ids[4]], external_ids[:4])
    # Another order of the new owner is refused.
    [result] = shop.track(tracking.order("ben", external_id=external_ids[0]))
    assert result["error"]["type"] == "/problems/order-exists"
    assert finish_erasings(api) == 1
    assert (stored_ids(ana), stored_ids(ben)) == (erased_ids, external_ids[:4])
    # The events of the erased orders still name them, so that they can be cancelled.
    rows = shop.rows("events", "member_id, payload", order="loyalty_event_id")
    payloads = [row.payload for row in rows if row.member_id == ana["memberId"]]
    assert [payload["order"]["externalId"] for payload in payloads if "order" in payload] == erased_ids
    assert faults(organization) == []


def test_the_order_of_another_member_does_not_confirm_points_before_the_job_erases_the_order(api, organization):
    shop, zoe = Shop(organization), organization.member("zoe")
    terms = {"availableOn": {"eventTypes": ["member-purchase-order-confirmed"]}}
    shop.campaign(running(mint(30, recipient="sponsor", **terms)), eventType=ORDER_CREATED)
    sponsor, ben = shop.member(), shop.member()
    shop.track_one({**tracking.order("zoe", external_id="order-1"), "sponsorLoyaltyMemberId": sponsor})
    organization.administration.delete(f"/members/{zoe['memberId']}", expect=200)
    [zoes_order] = shop.rows("purchase_orders", "external_id")
    assert zoes_order.external_id == "order-1"
    shop.track_one(tracking.order(ben, external_id="order-1"))
    shop.track_one(tracking.order_update(ben, "order-1", "confirmed"))
    assert shop.balance(sponsor) == 0
    assert finish_erasings(api) == 1
    assert faults(organization) == []


def test_exports_that_were_written_during_an_erasing_expire_at_its_end(api, organization):
    erase_member_with_events(organization, count=3)
    export = organization.administration.post("/exports", {"kind": "events"})["export"]
    path = f"/exports/{export['exportId']}"
    writer = ExportWriter(api.engine, api.settings, is_stopping=lambda: False)
    while writer.step():
        pass
    assert organization.administration.get(path)["export"]["status"] == "done"
    assert finish_erasings(api) == 1
    assert organization.administration.get(path)["export"]["status"] == "expired"
    assert traces(api.engine, organization_id=organization.id) == {}


@pytest.mark.slow
def test_a_member_with_few_rows_is_erased_completely_by_the_call(api, monkeypatch):
    organization = api.organization()
    do_jobs_only_for(monkeypatch, organization.id)
    history = live(organization)
    organization.administration.delete(f"/members/{history['ana']['memberId']}", expect=200)
    assert traces(api.engine, organization_id=organization.id) == {}
    assert [is_complete for _actor, is_complete in completions(organization)] == [True]
    assert finish_erasings(api) == 0


@pytest.mark.slow
def test_several_workers_finish_an_erasing_once(api, organization):
    erase_member_with_events(organization, count=20)
    assert [*traces(api.engine, organization_id=organization.id)] == ["events"]
    # One of the four workers finishes the erasing.
    assert sum(run_simultaneously([partial(finish_erasings, api)] * 4)) == 1
    assert traces(api.engine, organization_id=organization.id) == {}
    assert [is_complete for _actor, is_complete in completions(organization)] == [False, True]


@pytest.mark.slow
def test_the_first_result_of_an_event_is_never_returned_to_another_person(api, organization):
    shop = Shop(organization)
    shop.campaign(running(mint(5)), eventType=GENERIC)
    zoe = organization.member("zoe")
    sales = [tracking.event("zoe"), tracking.event("zoe")]
    for sale in sales:
        shop.track_one(sale)
    organization.administration.delete(f"/members/{zoe['memberId']}", expect=200)
    organization.member("zoe")
    # Before the job has run, and after it.
    for _ in range(2):
        results = shop.track(*sales)
        assert [result["error"]["type"] for result in results] == ["/problems/key-reused"] * 2
        finish_erasings(api)
    assert shop.balance("zoe") == 0


@pytest.fixture
def erased_referrer(api, organization):
    """(program, codes, new codes) after the deletion of ben: each of his two codes contained WORD, and was replaced.

    The four friends friend-0 to friend-3 enrolled with the first code. Their orders, order-0 to order-3, have the two
    codes alternately.
    """
    shop, referrer = Shop(organization), organization.member("ben")
    friends, codes = Friends(shop, eventType=ORDER_CREATED), [f"{WORD}-friend", f"{WORD}-pal"]
    code_ids = [code["referralCodeId"] for code in friends.codes("ben", *codes)]
    for number in range(4):
        organization.member(f"friend-{number}", referralCode=codes[0])
        shop.track_one(
            tracking.order(f"friend-{number}", external_id=f"order-{number}", referralCode=codes[number % 2])
        )
    organization.administration.delete(f"/members/{referrer['memberId']}", expect=200)
    yield friends, codes, [f"erased-{code_id}" for code_id in code_ids]
    # Other tests count the erasings that the job finishes.
    finish_erasings(api)


def test_a_deletion_replaces_the_referral_codes_of_the_member_at_once(erased_referrer):
    friends, _, (new_friend_code, new_pal_code) = erased_referrer
    # The program is for orders, so that enrolments are no usages.
    assert friends.usages() == {new_friend_code: 2, new_pal_code: 2}


def test_the_referral_codes_of_a_deleted_member_cannot_be_used(erased_referrer):
    friends, (_, pal_code), _ = erased_referrer
    [late_result] = friends.shop.track(tracking.order("friend-0", referralCode=pal_code), executionMode="dryRun")
    [referral] = late_result["referrals"]
    assert referral["error"]["type"] == "/problems/unknown-referral-code"


def test_another_member_can_have_a_referral_code_of_a_deleted_member_only_after_the_job(
    api, organization, erased_referrer
):
    friends, (_, pal_code), _ = erased_referrer
    organization.member("carl")
    body = {"memberId": friends.member_id("carl"), "codes": [pal_code.upper()]}
    problem = organization.administration.post(f"{friends.path}/codes", body, expect=409)
    assert problem["type"] == "/problems/referral-code-taken"
    assert finish_erasings(api) == 1
    [code_of_carl] = friends.codes("carl", pal_code)
    friends.shop.track_one(tracking.order("friend-0", referralCode=pal_code))
    assert friends.usages()[code_of_carl["code"]] == 1


def test_the_audit_log_has_an_incomplete_erasing_by_the_deletion_and_a_complete_one_by_the_job(
    api, organization, erased_referrer
):
    assert finish_erasings(api) == 1
    [(_administrator, is_complete_after_deletion), completion_by_job] = completions(organization)
    assert (is_complete_after_deletion, completion_by_job) == (False, ("worker", True))
    assert faults(organization) == []


def test_a_job_replaces_referral_codes_in_the_rows_that_the_deletion_left_unchanged(api, organization, erased_referrer):
    friends, _, (new_friend_code, new_pal_code) = erased_referrer
    shop = friends.shop
    # The tables that still contain WORD, that is, a former code.
    assert set(traces(api.engine, organization_id=organization.id)) == {
        *("audit_log", "purchase_orders", "events", "members", "unfinished_erasings"),
    }
    assert finish_erasings(api) == 1
    assert traces(api.engine, organization_id=organization.id) == {}
    orders = {row.external_id: row.referral_code for row in shop.rows("purchase_orders", "external_id, referral_code")}
    assert orders == {
        "order-0": new_friend_code,
        "order-1": new_pal_code,
        "order-2": new_friend_code,
        "order-3": new_pal_code,
    }
    # The referrer has no code, each of the four friends the first one.
    assert [row.referral_code for row in shop.rows("members", "referral_code", order="member_id")] == [
        None,
        *[new_friend_code] * 4,
    ]
    payloads = [row.payload for row in shop.rows("events", "payload", order="loyalty_event_id")]
    order_codes = [payload["order"]["referralCode"] for payload in payloads if "order" in payload]
    assert order_codes == [new_friend_code, new_pal_code] * 2


def test_an_import_of_a_friend_does_not_bring_back_the_code_that_the_job_replaces(
    api, organization, erased_referrer, monkeypatch
):
    friends, _, (new_friend_code, _) = erased_referrer
    imports = Imports(organization)
    path = imports.queue("loyaltyMemberId,name\nfriend-0,Dora\n", mode="upsert")
    # The job runs after the import has read the friend.
    job = start_after(monkeypatch, friends.shop, import_members, "changed_values", partial(finish_erasings, api))
    while imports.importer.step():
        pass
    job.join(PATIENCE)
    assert imports.get(path)["rowsDone"] == 1
    names_and_codes = friends.shop.rows(
        "members", "profile ->> 'name' AS name, referral_code AS code", order="member_id"
    )
    assert [tuple(row) for row in names_and_codes[1:]] == [
        ("Dora", new_friend_code),
        *[(None, new_friend_code)] * 3,
    ]
    assert traces(api.engine, organization_id=organization.id) == {}


def test_the_job_lists_the_audit_entries_that_it_empties(api, organization):
    friends, code = Friends(Shop(organization)), f"{WORD}-friend"
    referrer = organization.member("ben")
    friends.codes("ben", code)
    referred_ids = [organization.member(f"friend-{number}", referralCode=code)["memberId"] for number in range(3)]
    organization.administration.delete(f"/members/{referrer['memberId']}", expect=200)

    def emptied_entries():
        """The ids of the emptied entries about the referred members."""
        entries = organization.administration.get("/audit-log", limit=100)["results"]
        return {entry["auditLogId"] for entry in entries if entry["isErased"] and entry["memberIds"][0] in referred_ids}

    assert emptied_entries() == set()
    assert finish_erasings(api) == 1
    entries = organization.administration.get("/audit-log", operationId="eraseMember", limit=100)["results"]
    changes_by_job = [entry["changes"] for entry in entries if entry["actor"] == "worker"]
    lists = [changes["erasedEntries"]["to"] for changes in changes_by_job if "erasedEntries" in changes]
    listed_ids = [entry_id for ids in lists for entry_id in ids]
    # The creation of each of the three friends.
    assert len(listed_ids) == 3
    assert {str(entry_id) for entry_id in listed_ids} == {str(entry_id) for entry_id in emptied_entries()}
    assert faults(organization) == []


def test_an_erasing_lists_many_emptied_entries_in_several_entries(api, monkeypatch):
    organization = api.organization()
    program = {"name": "Friends", "code": "friends", "active": True, "maxPerCode": 100, "eventType": ORDER_CREATED}
    program_id = organization.administration.post("/referral-programs", program)["referralProgram"]["referralProgramId"]
    referrer, code = organization.member("ben"), f"{WORD}-friend"
    codes = {"memberId": referrer["memberId"], "codes": [code]}
    organization.administration.post(f"/referral-programs/{program_id}/codes", codes)
    for number in range(28):
        organization.integration.post("/members", {"loyaltyMemberId": f"friend-{number}", "referralCode": code})
    # Lists of more than 10 ids would be cut.
    monkeypatch.setattr(audit_trail, "_MAX_CHANGES_BYTES", 250)
    monkeypatch.setattr(audit_trail, "_MAX_VALUE_CHARACTERS", 100)
    monkeypatch.setattr(change, "MAX_LISTED_ENTRIES", 10)
    organization.administration.delete(f"/members/{referrer['memberId']}", expect=200)
    entries = organization.administration.get("/audit-log", operationId="eraseMember")["results"]
    # The entries about the 28 friends, the member and its code.
    assert [len(entry["changes"]["erasedEntries"]["to"]) for entry in entries] == [10, 10, 10]
    assert traces(api.engine, organization_id=organization.id) == {}
    assert faults(organization) == []
