"""Erasing a member: nothing in the whole database identifies the member, and every figure is unchanged."""

from __future__ import annotations

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from handlers.server.jobs import seal_audit_log
from handlers.services.verify import verify
from tests.builders import tracking
from tests.builders.campaigns import mint
from tests.builders.content import Content
from tests.builders.person import NAME, WORD, event, live, order, traces
from tests.builders.points import Points
from tests.builders.queue import drain
from tests.builders.statements import rows_read_to_commit
from tests.builders.test_clocks import Clock
from tests.builders.tracking import GENERIC, ORDER_CREATED, Shop, order_update, running

# The tables in which the member occurs before the erasing, as a proof that `traces` finds the member.
TABLES_WITH_THE_MEMBER = {
    "audit_log",
    "badge_trackings",
    "coupon_lots",
    "coupon_usages",
    "coupons",
    "events",
    "ledger_transactions",
    "member_coupons",
    "member_tier_trackings",
    "members",
    "mission_trackings",
    "order_items",
    "purchase_orders",
    "referral_codes",
    "trigger_deliveries",
}


@pytest.fixture(scope="module")
def erased_history(api):
    """An organization whose member Ana has a history and was erased, and the records of `live`.

    The records also have the tables in which Ana occurred before, the figures of that time, and the erased member.
    """
    organization = api.organization()
    history = live(organization)
    seal_audit_log(api.engine, organization.id)
    tables_before = set(traces(api.engine))
    figures = figures_of(organization, history)
    path = f"/members/{history['ana']['memberId']}"
    erased_member = organization.administration.delete(path, expect=200)["loyalMember"]
    return organization, {
        **history,
        "tables_before": tables_before,
        "figures": figures,
        "erased_member": erased_member,
    }


def figures_of(organization, history):
    """The figures of all members by table, which erasing must not change."""
    figures = {}
    with organization.api.engine.connect() as db:
        for table, columns in (
            ("ledger_entries", "*"),
            ("ledger_balances", "*"),
            ("ledger_lots", "*"),
            ("member_tiers", "*"),
            ("member_badges", "*"),
            ("member_missions", "*"),
            ("member_coupons", "member_id, coupon_id, amount_assigned, amount_used"),
            ("coupon_lots", "coupon_lot_id, member_id, amount, amount_used, expired_at"),
            ("coupon_usages", "coupon_usage_id, amount_assigned, amount_used, amount_discounted"),
            ("ledger_transactions", "ledger_transaction_id, amount, status, tags, fiat_value, created_at"),
            ("purchase_orders", "order_id, total, discounted_total, status, created_at"),
            ("referral_codes", "referral_code_id, member_id, total_usages"),
            ("referral_logs", "referral_log_id, referrer_points, referrer_member_id"),
        ):
            statement = text(f"SELECT {columns} FROM {table} WHERE organization_id = :o ORDER BY 1, 2, 3")
            figures[table] = db.execute(statement, {"o": organization.id}).all()
    program = f"/referral-programs/{history['program']['referralProgramId']}"
    [place_of_ana] = [
        result
        for result in organization.administration.get(f"{program}/leaderboard")["results"]
        if result["memberId"] == history["ana"]["memberId"]
    ]
    figures["leaderboard"] = {name: place_of_ana[name] for name in ("invites", "acceptedInvites", "pointsAccumulated")}
    return figures


@pytest.mark.slow
def test_no_trace_of_the_erased_member_is_in_the_database(api, erased_history):
    _, history = erased_history
    assert history["tables_before"] == TABLES_WITH_THE_MEMBER
    assert traces(api.engine) == {}


def test_every_figure_is_unchanged_and_the_books_are_consistent(erased_history):
    organization, history = erased_history
    assert figures_of(organization, history) == history["figures"]
    seal_audit_log(organization.api.engine, organization.id)
    with organization.api.engine.connect() as db:
        assert verify(db, organization.id) == []


EMPTY_ENTRIES = "UPDATE audit_log SET changes = NULL, salt = NULL, reason = NULL WHERE organization_id = :o AND {0}"
FIND_EMPTY_ENTRIES = "SELECT audit_log_id FROM audit_log WHERE organization_id = :o AND salt IS NULL"
# Conditions for entries about no member, for entries about another member, and for all entries.
ENTRIES_TO_KEEP = (
    "operation_id = 'createBadge'",
    "entity_type = 'member' AND member_ids <> ARRAY[CAST(:m AS bigint)]",
    "true",
)
ENTRIES_TO_KEEP_IDS = ("about no member", "about another member", "all")


@pytest.mark.parametrize("condition", ENTRIES_TO_KEEP, ids=ENTRIES_TO_KEEP_IDS)
def test_the_database_refuses_to_empty_entries_except_by_erasing_a_member(erased_history, condition):
    organization, history = erased_history
    parameters = {"o": organization.id, "m": history["ana"]["memberId"]}
    with organization.api.engine.connect() as db:
        assert db.execute(text(EMPTY_ENTRIES.format(condition)), parameters).rowcount
        # Citus reports only that a node could not commit.
        with pytest.raises(DBAPIError, match=r"emptied only by erasing a member|could not commit"):
            db.commit()


@pytest.mark.undistributed
@pytest.mark.parametrize("condition", ENTRIES_TO_KEEP, ids=ENTRIES_TO_KEEP_IDS)
def test_verify_finds_entries_that_were_emptied_without_erasing_a_member(erased_history, condition):
    organization, history = erased_history
    parameters = {"o": organization.id, "m": history["ana"]["memberId"]}
    empty_entries = text(EMPTY_ENTRIES.format(f"salt IS NOT NULL AND ({condition})") + " RETURNING audit_log_id")
    with organization.api.engine.connect() as db:
        # The triggers that would refuse the change do not run for a replica.
        db.execute(text("SET LOCAL session_replication_role = replica"))
        erasing_ids = db.execute(text(FIND_EMPTY_ENTRIES), parameters).scalars().all()
        expected_ids = db.execute(empty_entries, parameters).scalars().all()
        if condition == "true":
            # Without the entry about the erasing, nothing lists the entries that it emptied.
            expected_ids += erasing_ids
        findings = [finding for finding in verify(db, organization.id) if "is empty" in finding]
    # Such as "audit log entry 7: is empty, ..."; verify returns at most 50 findings of one kind.
    assert {int(finding.split("entry ")[1].split(":")[0]) for finding in findings[:50]} <= set(expected_ids)
    assert len(findings) == min(len(expected_ids), 50)


def test_the_entry_about_the_erasing_lists_the_entries_that_it_emptied(erased_history):
    organization, history = erased_history
    with organization.api.engine.connect() as db:
        statement = text(
            "SELECT audit_log_id, member_ids FROM audit_log WHERE organization_id = :o AND salt IS NULL ORDER BY 1"
        )
        rows = db.execute(statement, {"o": organization.id}).all()
    [entry] = organization.administration.get("/audit-log", operationId="eraseMember")["results"]
    # The entries without a salt are the empty ones.
    assert entry["changes"]["erasedEntries"] == {"from": None, "to": [row.audit_log_id for row in rows]}
    # One of these entries is about the member who was enrolled with a code of the erased member.
    assert len([row for row in rows if history["ana"]["memberId"] not in row.member_ids]) == 1


@pytest.mark.undistributed
def test_verify_finds_emptied_entries_that_the_entry_about_the_erasing_does_not_list(erased_history):
    organization, _ = erased_history
    remove_list = """
        UPDATE audit_log SET changes = '{"isErased": {"from": null, "to": true}}'
        WHERE organization_id = :o AND operation_id = 'eraseMember'
    """
    with organization.api.engine.connect() as db:
        db.execute(text("SET LOCAL session_replication_role = replica"))
        assert db.execute(text(remove_list), {"o": organization.id}).rowcount == 1
        erasing_ids = db.execute(text(FIND_EMPTY_ENTRIES), {"o": organization.id}).scalars().all()
        findings = [finding for finding in verify(db, organization.id) if "is empty" in finding]
    assert len(erasing_ids) > 1
    assert len(findings) == len(erasing_ids)


def test_verify_finds_no_fault_after_an_erasing_with_a_test_clock(api):
    organization = Clock.new(api).organization
    member = organization.member("ana")
    organization.administration.delete(f"/members/{member['memberId']}", expect=200)
    with api.engine.connect() as db:
        assert verify(db, organization.id) == []


def test_the_erased_member_is_found_by_id_without_personal_data(erased_history):
    organization, history = erased_history
    member_id, erased_member = history["ana"]["memberId"], history["erased_member"]
    record = organization.administration.get(f"/members/{member_id}")["loyalMember"]
    assert record == erased_member
    assert erased_member["loyaltyMemberId"].startswith("erased-")
    assert (erased_member["active"], erased_member["publicLoyaltyMemberId"]) == (False, None)
    assert [value for value in erased_member["profile"].values() if isinstance(value, str)] == []
    organization.integration.get(f"/members/{NAME}", expect=404)


def test_erasing_again_returns_the_same_response(erased_history):
    organization, history = erased_history
    path = f"/members/{history['ana']['memberId']}"
    assert organization.administration.delete(path, expect=200)["loyalMember"] == history["erased_member"]
    entries = organization.administration.get("/audit-log", operationId="eraseMember")["results"]
    assert [(entry["entityId"], entry["isErased"]) for entry in entries] == [(str(history["ana"]["memberId"]), False)]
    entries_about_ana = organization.administration.get("/audit-log", memberId=history["ana"]["memberId"])["results"]
    assert len(entries_about_ana) > 10
    assert {result["operationId"] for result in entries_about_ana if not result["isErased"]} == {"eraseMember"}


def test_operations_on_an_erased_member_are_refused(erased_history):
    organization, history = erased_history
    member_id, pseudonym = history["ana"]["memberId"], history["erased_member"]["loyaltyMemberId"]
    problem = organization.administration.patch(f"/members/{member_id}", {"active": True}, expect=409)
    assert problem["type"] == "/problems/member-erased"
    badge = f"/members/{pseudonym}/badges/{history['badge']['badgeKey']}/assign"
    assert organization.integration.post(badge, {}, expect=409)["type"] == "/problems/member-erased"
    codes = f"/referral-programs/{history['program']['referralProgramId']}/codes"
    problem = organization.administration.post(codes, {"memberId": member_id, "codes": ["AGAIN"]}, expect=409)
    assert problem["type"] == "/problems/member-erased"
    deactivation = {**event("member-profile-deactivated"), "loyaltyMemberId": pseudonym}
    [result] = organization.integration.post("/events/track", {"events": [deactivation]}, expect=200)["results"]
    assert result["error"]["type"] == "/problems/member-erased"


def test_an_erased_member_is_not_added_to_an_audience(organization):
    admin = organization.administration
    ana, ben = organization.member("ana"), organization.member("ben")
    body = {"name": "Panel", "active": True, "matcherType": "list-matcher"}
    path = f"/audiences/{admin.post('/audiences', body)['audience']['audienceId']}"
    erased_member = admin.delete(f"/members/{ana['memberId']}", expect=200)["loyalMember"]
    problem = admin.patch(f"{path}/members", {"add": [ben["memberId"], ana["memberId"]]}, expect=409)
    assert (problem["type"], problem["detail"]) == (
        "/problems/member-erased",
        f"The member {ana['memberId']} was erased.",
    )
    assert admin.get(path)["audience"]["memberCount"] == 0
    for member in (erased_member, ben):
        audiences = organization.integration.get(f"/members/{member['loyaltyMemberId']}/audiences")
        assert audiences["audienceKeys"] == []
    # Taking the erased member off the list is possible, and has no effect.
    assert admin.patch(f"{path}/members", {"remove": [ana["memberId"]]})["audience"]["memberCount"] == 0


def test_an_erasure_changes_the_count_and_the_version_of_the_members_audience(organization):
    admin = organization.administration
    ids = [organization.member(name)["memberId"] for name in ("ana", "ben")]
    path = f"/audiences/{admin.post('/audiences', {'matcherType': 'list-matcher'})['audience']['audienceId']}"
    audience = admin.patch(f"{path}/members", {"add": ids})["audience"]
    assert (audience["memberCount"], audience["version"]) == (2, 2)
    admin.delete(f"/members/{ids[0]}", expect=200)
    audience = admin.get(path)["audience"]
    assert (audience["memberCount"], audience["version"]) == (1, 3)


def test_reverts_for_an_erased_member_are_refused(organization):
    member = organization.member("ana")
    badge = organization.integration.post("/badges", {"name": "Lark", "maxAmount": 9, "active": True})["badge"]
    path = f"/members/ana/badges/{badge['badgeKey']}/assign"
    tracking = organization.integration.post(path, {}, expect=200)["badgeTracking"]
    tracked_event = Shop(organization).track_one({**event("member-generic-event"), "loyaltyMemberId": "ana"})
    erased_member = organization.administration.delete(f"/members/{member['memberId']}", expect=200)["loyalMember"]
    for path in (
        f"/events/{tracked_event['loyaltyEventKey']}/cancel",
        f"/members/{erased_member['loyaltyMemberId']}/badge-trackings/{tracking['badgeTrackingKey']}/revert",
    ):
        problem = organization.integration.post(path, expect=409)
        assert (problem["type"], problem["detail"]) == (
            "/problems/member-erased",
            f"The member {member['memberId']} was erased.",
        )


def test_new_movements_of_an_erased_members_points_are_refused(organization):
    points = Points.default(organization)
    ana, ben = organization.member("ana"), organization.member("ben")
    wallet_of_ana, wallet_of_ben = ana["ledgerWalletId"], ben["ledgerWalletId"]
    mint_id = points.mint(wallet_of_ana, 9)
    points.mint(wallet_of_ben, 9)
    organization.administration.delete(f"/members/{ana['memberId']}", expect=200)
    # A mint, a burn, and a transfer in each direction.
    for source, target in (
        (None, wallet_of_ana),
        (wallet_of_ana, None),
        (wallet_of_ana, wallet_of_ben),
        (wallet_of_ben, wallet_of_ana),
    ):
        problem = points.move(1, source=source, target=target, expect=409)
        assert problem["type"] == "/problems/member-erased"
        assert problem["detail"] == f"The member of the wallet {wallet_of_ana} was erased."
    # A mint from before the erasing can still be reverted.
    points.revert(mint_id)
    assert (points.balance(wallet_of_ana), points.balance(wallet_of_ben)) == (0, 9)


def test_a_repeated_event_of_an_erased_member_is_refused(erased_history):
    organization, history = erased_history
    # An event of the history, with the pseudonym of the member.
    repeated_event = {**history["event"], "loyaltyMemberId": history["erased_member"]["loyaltyMemberId"]}
    [result] = organization.integration.post("/events/track", {"events": [repeated_event]}, expect=200)["results"]
    assert result["error"]["type"] == "/problems/key-reused"
    assert WORD not in str({**result, "systemUniqueKey": None})


def test_a_repeated_event_with_the_old_id_is_refused_before_and_after_another_person_has_the_id(organization):
    shop = Shop(organization)
    shop.campaign(running(mint(5)), eventType=GENERIC)
    zoe = organization.member("zoe")
    sale = tracking.event("zoe")
    shop.track_one(sale)
    organization.administration.delete(f"/members/{zoe['memberId']}", expect=200)

    def refusals():
        """The types of the problems when the event is tracked and when it is queued."""
        results = {
            call: organization.integration.post(f"/events/{call}", {"events": [sale]}, expect=status)["results"][0]
            for call, status in (("track", 200), ("track-async", 202))
        }
        assert (results["track"]["status"], results["track-async"]["outcome"]) == ("failed", "rejected")
        return {result["error"]["type"] for result in results.values()}

    assert refusals() == {"/problems/unknown-member"}
    organization.member("zoe")
    assert refusals() == {"/problems/key-reused"}
    assert shop.balance("zoe") == 0


def test_the_order_of_another_member_does_not_confirm_the_points_for_an_erased_members_order(organization):
    shop = Shop(organization)
    terms = {"availableOn": {"eventTypes": ["member-purchase-order-confirmed"]}}
    shop.campaign(running(mint(30, recipient="sponsor", **terms)), eventType=ORDER_CREATED)
    sponsor, zoe, ben = shop.member(), organization.member("zoe"), shop.member()
    for number in range(3):
        order_event = tracking.order("zoe", external_id=f"order-{number}")
        shop.track_one({**order_event, "sponsorLoyaltyMemberId": sponsor})
    shop.track_one(order_update("zoe", "order-1", "confirmed"))
    shop.track_one(order_update("zoe", "order-2", "cancelled"))
    assert shop.balance(sponsor) == 30
    organization.administration.delete(f"/members/{zoe['memberId']}", expect=200)
    # No mint keeps the old external id of an order.
    rows = shop.rows("ledger_transactions", "available_on", order="ledger_transaction_id")
    awaited_orders = [terms.get("orderExternalId") for (terms,) in rows if terms is not None]
    [first_order, *_] = shop.rows("purchase_orders", "external_id", order="order_id")
    assert awaited_orders == [first_order.external_id, None, None]
    shop.track_one(tracking.order(ben, external_id="order-0"))
    shop.track_one(order_update(ben, "order-0", "confirmed"))
    assert shop.balance(sponsor) == 30
    shop.check_ledger()


def test_all_messages_about_the_member_except_the_last_one_are_deleted(erased_history):
    organization, history = erased_history
    deliveries = []
    for trigger in organization.administration.get("/triggers")["results"]:
        deliveries += organization.administration.get(f"/triggers/{trigger['triggerId']}/deliveries")["results"]
    records = [(delivery, delivery["payload"]["data"].get("record") or {}) for delivery in deliveries]
    member_deliveries = [
        delivery for delivery, record in records if record.get("memberId") == history["ana"]["memberId"]
    ]
    assert [delivery["payload"]["type"] for delivery in member_deliveries] == ["member.updated"]
    stored_record = member_deliveries[0]["payload"]["data"]["record"]
    assert stored_record["loyaltyMemberId"] == history["erased_member"]["loyaltyMemberId"]


def test_a_new_member_can_have_the_erased_id_and_old_tokens_remain_invalid(api):
    organization = api.organization()
    old_member = organization.member("free-again")
    token = organization.member_token("free-again")
    organization.administration.delete(f"/members/{old_member['memberId']}", expect=200)
    content = Content.of(organization)
    document = content.put({"title": "Espresso"})
    path = f"/members/free-again/content{content.path.removeprefix('/content')}/documents"
    surface_of_old_member = organization.integration.with_token(token)
    assert surface_of_old_member.request("GET", path).status == 401
    new_member = organization.member("free-again")
    assert new_member["memberId"] != old_member["memberId"]
    assert surface_of_old_member.request("GET", path).status == 401
    assert content.shown_to("free-again", token=organization.member_token("free-again")) == [document["documentKey"]]
    assert [ledger_balance["balance"] for ledger_balance in new_member["ledgerBalances"]] == [0]


@pytest.mark.slow
def test_the_code_by_which_a_member_was_referred_is_erased(api):
    organization = api.organization()
    history = live(organization)
    cleo = organization.integration.get("/members/cleo-9")["loyaltyMember"]
    # Cleo uses the referral code of Ana.
    purchase = event("member-purchase-order-created", payload={"order": {**order(), "referralCode": f"{WORD}-friend"}})
    purchase_of_cleo = {**purchase, "loyaltyMemberId": "cleo-9"}
    organization.integration.post("/events/track", {"events": [purchase_of_cleo]}, expect=200)
    codes = text(
        "SELECT m.referral_code, p.referral_code FROM members m"
        " JOIN purchase_orders p USING (organization_id, member_id) WHERE m.organization_id = :o AND m.member_id = :m"
    )
    stored_codes = []
    # Ana, whose code it is, is erased last: with her personal data, the last trace of the word disappears.
    for erased_member in (None, cleo, history["ana"]):
        if erased_member is not None:
            organization.administration.delete(f"/members/{erased_member['memberId']}", expect=200)
        with api.engine.connect() as db:
            stored_codes.append(tuple(db.execute(codes, {"o": organization.id, "m": cleo["memberId"]}).one()))
    # The code in the record of Cleo and in her order: before the erasing of Cleo, after it, and after that of Ana.
    assert stored_codes == [(f"{WORD}-friend", f"{WORD}-friend"), (None, None), (None, None)]
    assert traces(api.engine) == {}


@pytest.mark.slow
def test_a_worker_writes_no_trace_of_the_erased_member(api):
    organization = api.organization()
    # `live` also leaves a queued event and a dead letter of Ana.
    history = live(organization)
    organization.administration.delete(f"/members/{history['ana']['memberId']}", expect=200)
    drain(Shop(organization))
    assert traces(api.engine) == {}
    assert organization.administration.get("/events/dead-letters")["results"] == []


def test_members_of_another_organization_cannot_be_erased(organization, other_organization):
    foreign_member = other_organization.member()
    organization.administration.delete(f"/members/{foreign_member['memberId']}", expect=404)
    organization.administration.delete(f"/members/{2**62}", expect=404)


@pytest.mark.slow
def test_the_creation_of_an_erased_members_order_keeps_only_the_external_id(api):
    organization = api.organization()
    organization.member(NAME)
    body = event("member-purchase-order-created", payload={"order": order()})
    [tracked_event] = organization.integration.post("/events/track", {"events": [body]}, expect=200)["results"]
    member_id = organization.integration.get(f"/members/{NAME}")["loyaltyMember"]["memberId"]
    organization.administration.delete(f"/members/{member_id}", expect=200)
    with api.engine.connect() as db:
        payload = db.execute(
            text(
                "SELECT payload FROM events WHERE organization_id = :o AND event_type LIKE '%created'"
                " AND loyalty_event_key = CAST(:k AS uuid)"
            ),
            {"o": organization.id, "k": tracked_event["loyaltyEventKey"]},
        ).scalar_one()
    [purchase_order] = organization.administration.get(f"/members/{member_id}/purchase-orders")["results"]
    assert payload == {"order": {"externalId": purchase_order["externalId"]}}
    assert traces(api.engine) == {}


@pytest.mark.undistributed
def test_erasing_reads_the_orders_of_the_member_a_fixed_number_of_times(api):
    organization = api.organization()
    member = organization.member("ana")
    orders = [tracking.order("ana") for _ in range(100)]
    organization.integration.post("/events/track", {"events": orders}, expect=200)
    with rows_read_to_commit(api.engine) as counts:
        organization.administration.delete(f"/members/{member['memberId']}", expect=200)
    # The statements about events, items and orders read each of the 100 orders at most once.
    assert 100 <= counts["purchase_orders"] <= 300
