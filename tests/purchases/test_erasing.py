"""A real customer is erased: nobody knows who it was, and the books are as before."""

from __future__ import annotations

from tests.purchases.cdnow import orders
from tests.purchases.shop import Shop, mint

SOME = 600


def test_a_customer_is_erased_from_the_purchases(api):
    bought = orders()[:SOME]
    shop = Shop.new(api, bought)
    shop.campaign(mint("floor(order.total)"))
    shop.track(bought)
    before, sizes = shop.balances(), shop.sizes()
    customer = max(before, key=lambda name: before[name])
    totals = "SELECT sum(total), count(*) FROM purchase_orders WHERE organization_id = :organization_id"
    spent = shop.ask(totals)
    [(member_id,)] = shop.ask(
        f"SELECT member_id FROM members WHERE organization_id = :organization_id AND loyalty_member_id = '{customer}'"
    )

    administration = shop.organization.administration
    erased = administration.delete(f"/members/{member_id}", expect=200)["loyalMember"]

    after = shop.balances()
    assert after.pop(erased["loyaltyMemberId"]) == before.pop(customer)
    assert after == before
    assert (shop.sizes(), shop.ask(totals)) == (sizes, spent)
    assert shop.faults() == []
    told = [order.number for order in bought if order.customer == customer]
    found = administration.get(f"/members/{member_id}/purchase-orders")["results"]
    assert len(found) == min(25, len(told))
    for table in ("members", "events", "purchase_orders", "trigger_deliveries", "audit_log"):
        named = f"SELECT 1 FROM {table} t WHERE organization_id = :organization_id AND CAST(t AS text) LIKE "
        assert shop.ask(f'{named} \'%"loyaltyMemberId":"{customer}"%\'') == []
    assert (
        shop.ask(f"SELECT 1 FROM members WHERE loyalty_member_id = '{customer}' AND organization_id = :organization_id")
        == []
    )
    assert shop.track([order for order in bought if order.customer == customer])[0]["error"]["type"] == (
        "/problems/unknown-member"
    )
