"""Reports of real purchases, compared with sums that are reckoned beside the product, also after cancellations."""

from __future__ import annotations

from collections import Counter

from handlers.services.reports.verify import verify_reports
from persistence import transactions
from persistence.reports.totals import move_changes
from tests.purchases.cdnow import orders
from tests.purchases.shop import EVENT_TYPE, Shop, mint

SOME, CANCELLED_EVERY = 1_500, 60
ALL_TIME = {"sinceFrom": "1996-01-01T00:00:00Z", "sinceTo": "2100-01-01T00:00:00Z"}


def test_reports_equal_the_sums_of_the_file(api):
    bought = orders(SOME)
    shop = Shop.new(api, bought)
    shop.campaign(mint("floor(order.total)"))
    results = shop.track(bought)
    reports = shop.organization.administration
    transactions.run(api.engine, move_changes)

    members = reports.get("/reports/members-over-time")["results"]
    assert sum(row["amount"] for row in members) == len({order.customer for order in bought})
    by_day: Counter[str] = Counter()
    by_member: Counter[str] = Counter()
    for order in bought:
        by_day[f"{order.date[:4]}-{order.date[4:6]}-{order.date[6:]}"] += int(order.total)
        by_member[order.customer] += int(order.total)
    file_time = {"sinceFrom": "1997-01-01T00:00:00Z", "sinceTo": "1998-07-01T00:00:00Z"}
    minted = reports.get("/reports/tag-series", **file_time)["results"]
    assert {row["date"]: row["amount"] for row in minted if row["amount"]} == {d: n for d, n in by_day.items() if n}
    count = reports.get("/reports/event-count", eventType=EVENT_TYPE, **file_time)["result"]["totalCount"]
    assert count == len(bought)
    top = reports.get("/reports/top-members", limit=100, **file_time)["results"]
    assert [row["amount"] for row in top] == sorted(by_member.values(), reverse=True)[:100]
    assert all(by_member[row["key"]] == row["amount"] for row in top)

    for order, result in list(zip(bought, results, strict=True))[::CANCELLED_EVERY]:
        path = f"/events/{result['loyaltyEventKey']}/cancel"
        shop.organization.integration.post(path, {}, expect=200)
        by_member[order.customer] -= int(order.total)
    cancelled = len(bought[::CANCELLED_EVERY])
    count = reports.get("/reports/event-count", eventType=EVENT_TYPE, **ALL_TIME)["result"]["totalCount"]
    assert count == len(bought) - cancelled
    total = reports.get("/reports/tag-total", **ALL_TIME)["result"]["amount"]
    assert total == sum(by_member.values()) == sum(shop.balances().values())
    top = reports.get("/reports/top-members", limit=100, **ALL_TIME)["results"]
    assert [row["amount"] for row in top] == [n for n in sorted(by_member.values(), reverse=True)[:100] if n > 0]
    with api.engine.connect() as db:
        assert verify_reports(db, shop.organization.id) == []
