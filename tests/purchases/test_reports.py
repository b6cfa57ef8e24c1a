"""Reports of real purchases, compared with sums computed outside the product, also after random cancellations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from handlers.services.verify import verify_reports
from persistence import transactions
from persistence.reports.totals import move_changes
from tests.builders.reports import move_all_changes
from tests.purchases.cdnow import MEMBERS, ORDERS, POINTS, Order, orders
from tests.purchases.shop import EVENT_TYPE, Shop, mint

FIRST_ORDERS = 1_500
# The file is sorted by customer, so cancellations and extra points are for random customers.
AT_LENGTH = [pytest.param(FIRST_ORDERS, id="some"), pytest.param(ORDERS, id="the whole file", marks=pytest.mark.stress)]
BEGIN, END = datetime(1997, 1, 1, tzinfo=UTC), datetime(1998, 7, 1, tzinfo=UTC)
NEVER = datetime(2100, 1, 1, tzinfo=UTC)
TAGS = ("spring", "web")
ZONES = ("UTC", "America/New_York", "Australia/Lord_Howe")


@dataclass
class Sums:
    """Expected figures: (moment, amount, member, tags) of mints, (moment, number) of events, and joins of members.

    A cancellation is a negative mint and a negative number of events.
    """

    mints: list[tuple[datetime, int, str, frozenset[str]]] = field(default_factory=list)
    events: list[tuple[datetime, int]] = field(default_factory=list)
    joined: dict[str, datetime] = field(default_factory=dict)

    @classmethod
    def of(cls, purchases: Iterable[Order]) -> Sums:
        sums = cls()
        for order in purchases:
            sums.mints.append((order.at, int(order.total), order.customer, frozenset()))
            sums.events.append((order.at, 1))
            sums.joined[order.customer] = min(order.at, sums.joined.get(order.customer, order.at))
        return sums

    def mints_between(
        self, begin: datetime, end: datetime, tag: str | None = None
    ) -> Iterator[tuple[datetime, int, str]]:
        """The (moment, amount, member) of each mint within a time, and with a tag if it is given."""
        for at, amount, member, tags in self.mints:
            if begin <= at < end and (tag is None or tag in tags):
                yield at, amount, member

    def by_day(self, begin: datetime, end: datetime, zone: str = "UTC", tag: str | None = None) -> Counter[str]:
        """The sum of the mints of each day in the zone."""
        days: Counter[str] = Counter()
        for at, amount, _ in self.mints_between(begin, end, tag):
            days[at.astimezone(ZoneInfo(zone)).date().isoformat()] += amount
        return days

    def by_member(self, begin: datetime, end: datetime, tag: str | None = None) -> Counter[str]:
        """The sum of the mints of each member."""
        members: Counter[str] = Counter()
        for _, amount, member in self.mints_between(begin, end, tag):
            members[member] += amount
        return members


def months(begin: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """The beginning and the end of each month within a time."""
    while begin < end:
        until = (begin + timedelta(days=31)).replace(day=1)
        yield begin, until
        begin = until


class Reports:
    """Calls a report of a shop by name, begin and end."""

    def __init__(self, shop: Shop) -> None:
        self._surface = shop.organization.administration

    def __call__(self, name: str, begin: datetime, end: datetime, **query: Any) -> Any:
        parameters = {"sinceFrom": begin.isoformat(), "sinceTo": end.isoformat(), **query}
        response = self._surface.get(f"/reports/{name}", **parameters)
        return response.get("results", response.get("result"))

    def days(self, name: str, begin: datetime, end: datetime, **query: Any) -> dict[str, Any]:
        """The amounts of a series by day, without zeros; checks that each day of the range occurs once."""
        rows = self(name, begin, end, **query)
        dates = [row["date"] for row in rows]
        assert dates == sorted(set(dates))
        if "tz" not in query:
            assert len(dates) == (end - begin).days
        return {row["date"]: row["amount"] for row in rows if row["amount"]}


def without_zeros(figures: Counter[str]) -> dict[str, int]:
    return {key: value for key, value in figures.items() if value}


def check_top_members(rows: Sequence[Any], expected_amounts: Counter[str]) -> None:
    """Check that the rows are the 100 members with the highest amounts; members with one amount may be in any order."""
    amounts = [amount for amount in sorted(expected_amounts.values(), reverse=True)[:100] if amount > 0]
    assert [row["amount"] for row in rows] == amounts
    assert all(expected_amounts[row["key"]] == row["amount"] for row in rows)


def check_reports(shop: Shop, sums: Sums) -> None:
    """Compare all reports of members, points, events and tags, for each month and for the whole time."""
    report = Reports(shop)
    joins_by_day = Counter(at.date().isoformat() for at in sums.joined.values())
    assert report.days("members-over-time", BEGIN, END) == without_zeros(joins_by_day)
    for zone in ZONES:
        assert report.days("tag-series", BEGIN, END, tz=zone) == without_zeros(sums.by_day(BEGIN, END, zone))
    for begin, end in months(BEGIN, END):
        minted_points = sum(amount for _, amount, _ in sums.mints_between(begin, end))
        assert report("tag-total", begin, end)["amount"] == minted_points
        events_in_month = sum(amount for at, amount in sums.events if begin <= at < end)
        assert report("event-count", begin, end, eventType=EVENT_TYPE)["totalCount"] == events_in_month
        assert sum(report.days("members-over-time", begin, end).values()) == sum(
            begin <= at < end for at in sums.joined.values()
        )
        check_top_members(report("top-members", begin, end, limit=100), sums.by_member(begin, end))
    for tag in TAGS:
        assert report.days("tag-series", BEGIN, END, tag=tag) == without_zeros(sums.by_day(BEGIN, END, tag=tag))
        assert report("tag-total", BEGIN, NEVER, tag=tag)["amount"] == sums.by_member(BEGIN, NEVER, tag).total()
        check_top_members(report("top-members", BEGIN, NEVER, tag=tag, limit=100), sums.by_member(BEGIN, NEVER, tag))
    members = sums.by_member(BEGIN, NEVER)
    check_top_members(report("top-members", BEGIN, NEVER, limit=100), members)
    assert report("tag-total", BEGIN, NEVER)["amount"] == members.total() == sum(shop.balances().values())
    event_count = sum(amount for _, amount in sums.events)
    assert report("event-count", BEGIN, NEVER, eventType=EVENT_TYPE)["totalCount"] == event_count
    account = shop.organization.defaults.ledger_account_id
    totals = report(f"ledger-accounts/{account}/totals", BEGIN, NEVER)
    receivers = {member for _, amount, member in sums.mints_between(BEGIN, NEVER) if amount > 0}
    average = round(Decimal(members.total()) / len(receivers), 6)
    assert totals == {"totalAmount": members.total(), "avgAmountPerUser": average}


def give_extras(shop: Shop, sums: Sums, members: Sequence[str], chance: Random) -> None:
    """Mint further points with random tags, on random days."""
    for member in members:
        tags = chance.sample(TAGS, chance.randrange(3))
        at = BEGIN + timedelta(minutes=chance.randrange((END - BEGIN) // timedelta(minutes=1)))
        body = {"amount": chance.randrange(1, 500), "tags": tags, "externalEventDate": at.isoformat()}
        path = f"/members/by-loyalty-member-id/{member}/mint"
        shop.organization.administration.post(path, body, expect=200)
        sums.mints.append((at, body["amount"], member, frozenset(tags)))


def cancel(shop: Shop, sums: Sums, cancelled: Iterable[tuple[Order, Any]]) -> None:
    """Cancel the events, which count negatively at the moment of their cancellation."""
    for order, result in cancelled:
        shop.organization.integration.post(f"/events/{result['loyaltyEventKey']}/cancel", {}, expect=200)
        now = datetime.now(UTC)
        sums.mints.append((now, -int(order.total), order.customer, frozenset()))
        sums.events.append((now, -1))


@pytest.mark.parametrize("count", AT_LENGTH)
def test_reports_equal_the_sums_of_the_file(api, count):
    purchases, chance = orders(count), Random(1997)
    # One point for each whole dollar.
    shop, sums = Shop.new(api, purchases, joined_by_first_order=True), Sums.of(purchases)
    shop.campaign(mint("floor(order.total)"))
    results = shop.track(purchases)
    if count == ORDERS:
        assert (len(sums.joined), sum(amount for _, amount, _, _ in sums.mints)) == (MEMBERS, POINTS)
    # The figures are the same if all, some or no changes have been moved to the totals.
    check_reports(shop, sums)
    transactions.run(api.engine, lambda db: move_changes(db, shop.organization.id, count))
    check_reports(shop, sums)

    change_count = max(20, count // 100)
    give_extras(shop, sums, chance.sample(sorted(sums.joined), change_count), chance)
    cancel(shop, sums, chance.sample(list(zip(purchases, results, strict=True)), change_count))
    check_reports(shop, sums)
    move_all_changes(api.engine)
    check_reports(shop, sums)
    with api.engine.connect() as db:
        assert verify_reports(db, shop.organization.id) == []
    assert shop.faults() == []
