"""A customer of the file is erased: no record identifies the person, and balances and reports are unchanged."""

from __future__ import annotations

from dataclasses import replace

from handlers.server.jobs import seal_audit_log
from handlers.services.verify import verify_reports
from tests.builders.person import traces
from tests.builders.reports import move_all_changes
from tests.purchases.cdnow import orders
from tests.purchases.shop import EVENT_TYPE, Shop, mint

FIRST_ORDERS = 600
PERIOD = {"sinceFrom": "1997-01-01T00:00:00Z", "sinceTo": "1998-07-01T00:00:00Z"}
# Texts about the customer; no other customer has any of them.
PROFILE = {
    "name": "Hortensia",
    "lastName": "Quillfeather",
    "email": "hortensia@quillfeather.example",
    "phoneNumber": "+1 555 0199 777",
    "govId": {"id": "QF-31337-X", "type": "passport"},
    "address": {"addressLine": "7 Quillfeather Lane"},
}
WORDS = ("Hortensia", "Quillfeather", "+1 555 0199 777", "QF-31337-X")


def reports(shop, account_id):
    """The results of all reports about members, points and events."""

    def report(name, **query):
        return shop.organization.administration.get(f"/reports/{name}", **PERIOD, **query)

    return {
        "members": report("members-over-time"),
        "points": report("tag-series"),
        "of a tag": report("tag-series", tag="spring"),
        "total": report("tag-total"),
        "account": report(f"ledger-accounts/{account_id}/totals"),
        "events": report("event-count", eventType=EVENT_TYPE),
        "top": [row["amount"] for row in report("top-members", limit=100)["results"]],
    }


def test_the_erasure_of_a_customer_removes_all_traces_and_changes_no_balances_or_reports(api):
    purchases = [replace(order, customer=f"customer-{order.customer}") for order in orders(FIRST_ORDERS)]
    shop = Shop.new(api, purchases, joined_by_first_order=True)
    integration, administration = shop.organization.integration, shop.organization.administration
    for type_ in ("WebHook", "AsyncTrackWebhook", "EntityChangeWebhook"):
        body = {"triggerKey": type_, "type": type_, "name": type_, "settings": {"url": "https://hooks.invalid/"}}
        administration.post("/triggers", body)
    shop.campaign(mint("floor(order.total)"))
    shop.track(purchases)
    balances = shop.balances()
    customer = max(balances, key=lambda name: balances[name])
    member_id = integration.patch(f"/members/{customer}", {"profile": PROFILE})["loyaltyMember"]["memberId"]
    mint_body = {
        "amount": 5,
        "tags": ["spring"],
        "description": f"For {PROFILE['name']}",
        "externalEventDate": "1997-03-01T00:00:00Z",
    }
    administration.post(f"/members/by-loyalty-member-id/{customer}/mint", mint_body, expect=200)
    balances_before, sizes = shop.balances(), shop.sizes()
    totals = "SELECT sum(total), count(*) FROM purchase_orders WHERE organization_id = :organization_id"
    order_totals, reports_before = shop.ask(totals), reports(shop, shop.organization.defaults.ledger_account_id)
    words = (customer, *WORDS)
    assert all(traces(api.engine, word) for word in words)

    erased_member = administration.delete(f"/members/{member_id}", expect=200)["loyalMember"]

    balances_after = shop.balances()
    assert balances_after.pop(erased_member["loyaltyMemberId"]) == balances_before.pop(customer)
    assert balances_after == balances_before
    assert (shop.sizes(), shop.ask(totals)) == (sizes, order_totals)
    assert reports(shop, shop.organization.defaults.ledger_account_id) == reports_before
    move_all_changes(api.engine)
    assert reports(shop, shop.organization.defaults.ledger_account_id) == reports_before
    seal_audit_log(api.engine, shop.organization.id)
    assert shop.faults() == []
    with api.engine.connect() as db:
        assert verify_reports(db, shop.organization.id) == []
    assert {word: traces(api.engine, word) for word in words} == {word: {} for word in words}
    orders_of_customer = [order for order in purchases if order.customer == customer]
    results = administration.get(f"/members/{member_id}/purchase-orders")["results"]
    # A page has at most 25 orders.
    assert len(results) == min(25, len(orders_of_customer))
    # The former loyaltyMemberId is unknown.
    assert shop.track(orders_of_customer)[0]["error"]["type"] == "/problems/unknown-member"
