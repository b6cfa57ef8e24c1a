"""Every report equals a count in the test after random steps of clients and of the job that moves changes to totals."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from handlers.services.verify import verify_reports
from persistence import transactions
from persistence.reports.totals import move_changes
from tests.builders.tracking import WHOLE_DOLLARS, Shop, order, running

MEMBERS = 3
TAGS = ("web", "spring")
CREATED = "member-purchase-order-created"
ZONES = ("UTC", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe", "Europe/Amsterdam", "Pacific/Apia")
FIRST, LAST = datetime(1930, 1, 1, tzinfo=UTC), datetime(2024, 12, 31, tzinfo=UTC)

# At changes of daylight saving time and of calendars, within one month, and at any time.
moments = st.one_of(
    st.sampled_from(
        [
            datetime(2024, 3, 10, 7, 0, tzinfo=UTC),
            datetime(2024, 11, 3, 5, 59, 59, 999999, tzinfo=UTC),
            datetime(2011, 12, 30, 9, 59, 59, tzinfo=UTC),
            datetime(1930, 1, 1, 23, 40, 28, tzinfo=UTC),
            datetime(2023, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
            datetime(2024, 1, 1, tzinfo=UTC),
        ]
    ),
    st.datetimes(datetime(2024, 1, 1), datetime(2024, 2, 1), timezones=st.just(UTC)),
    st.datetimes(FIRST.replace(tzinfo=None), LAST.replace(tzinfo=None), timezones=st.just(UTC)),
)
members = st.integers(0, MEMBERS - 1)
steps = st.one_of(
    st.tuples(st.just("buy"), members, st.integers(1, 50), moments),
    st.tuples(st.just("cancel"), st.integers(0, 9)),
    st.tuples(st.just("mint"), members, st.integers(1, 50), moments, st.sets(st.sampled_from(TAGS))),
    st.tuples(st.just("revert"), st.integers(0, 9), moments),
    st.tuples(st.just("assign"), members, st.integers(1, 3)),
    st.tuples(st.just("use"), st.integers(0, 9), st.sampled_from([None, Decimal("0.5"), 2])),
    st.tuples(st.just("undo"), st.integers(0, 9)),
    st.tuples(st.just("move"), st.sampled_from([1, 5, 1000])),
)
drawn_ranges = st.tuples(moments, moments, st.sampled_from(ZONES))


class Events(NamedTuple):
    """A number of events at a moment, -1 for a cancellation."""

    at: datetime
    number: int


class Mint(NamedTuple):
    """A mint; its reversal is a mint of a negative amount, with False for `is_mint`."""

    at: datetime
    member: int
    amount: int
    tags: frozenset[str]
    is_mint: bool


class Coupons(NamedTuple):
    """The numbers of coupons that were assigned and used at a moment, and their discount."""

    at: datetime
    assigned: Decimal
    uses: Decimal
    discount: Decimal


@dataclass
class Tally:
    """The expected figures."""

    events: list[Events] = field(default_factory=list)
    mints: list[Mint] = field(default_factory=list)
    coupons: list[Coupons] = field(default_factory=list)


class Client:
    """Performs steps by the API, and adds their expected figures to the tally."""

    def __init__(self, organization: Any) -> None:
        self.shop = Shop(organization)
        self.names = [self.shop.member() for _ in range(MEMBERS)]
        self.shop.campaign(running(WHOLE_DOLLARS), eventType=CREATED)
        body = {"name": "Cup", "type": "codeless", "publishingStatus": "published", "requiredPointsConfig": None}
        self.book = self.shop.administration.post("/coupon-books", body)["couponBook"]
        self.tally = Tally()
        self.bought: list[tuple[str, int, int]] = []
        self.minted: list[tuple[Any, int, int, frozenset[str]]] = []
        self.assigned: list[int] = []
        self.used: list[tuple[int, str, Decimal]] = []

    def do(self, step: tuple[Any, ...]) -> None:
        """Perform a step, whose first item names the method."""
        getattr(self, f"_{step[0]}")(*step[1:])

    def _buy(self, member: int, total: int, at: datetime) -> None:
        result = self.shop.track_one(order(self.names[member], total, externalEventDate=at.isoformat()))
        self.tally.events.append(Events(at, 1))
        moments_of_transactions = self.shop.rows(
            "ledger_transactions", "coalesce(external_event_date, created_at) AS at", order="ledger_transaction_id"
        )
        at_of_mint = moments_of_transactions[-1].at
        self.tally.mints.append(Mint(at_of_mint, member, total, frozenset(), is_mint=True))
        self.bought.append((result["loyaltyEventKey"], member, total))

    def _cancel(self, which: int) -> None:
        if which < len(self.bought):
            key, member, total = self.bought.pop(which)
            [result] = self.shop.integration.post(f"/events/{key}/cancel", {}, expect=200)["results"]
            assert result["loyaltyEventKey"] == key
            now = datetime.now(UTC)
            self.tally.events.append(Events(now, -1))
            self.tally.mints.append(Mint(now, member, -total, frozenset(), is_mint=False))

    def _mint(self, member: int, amount: int, at: datetime, tags: set[str]) -> None:
        transaction = self.shop.give(self.names[member], amount, tags=sorted(tags), externalEventDate=at.isoformat())
        self.tally.mints.append(Mint(at, member, amount, frozenset(tags), is_mint=True))
        self.minted.append((transaction, member, amount, frozenset(tags)))

    def _revert(self, which: int, at: datetime) -> None:
        if which < len(self.minted):
            row, member, amount, tags = self.minted.pop(which)
            ledger = f"/ledgers/{self.shop.organization.defaults.ledger_id}/accounts/{row['ledgerAccountId']}"
            path = f"{ledger}/transactions/{row['ledgerTransactionId']}/revert"
            body = {"externalEventDate": at.isoformat(), "tags": ["web", "mistake"]}
            self.shop.administration.post(path, body, expect=200)
            self.tally.mints.append(Mint(at, member, -amount, tags, is_mint=False))

    def _path(self, member: int) -> str:
        return f"/members/{self.names[member]}/coupon-books/{self.book['couponBookKey']}"

    def _coupons(self, assigned: Any = 0, uses: Any = 0, discount: Any = 0) -> None:
        coupons = Coupons(datetime.now(UTC), Decimal(assigned), Decimal(uses), Decimal(discount))
        self.tally.coupons.append(coupons)

    def _assign(self, member: int, amount: int) -> None:
        self.shop.integration.post(f"{self._path(member)}/assign", {"amount": amount}, expect=200)
        self.assigned += [member] * amount
        self._coupons(assigned=amount)

    def _use(self, which: int, discount: Any) -> None:
        if which < len(self.assigned):
            member = self.assigned.pop(which)
            body = {} if discount is None else {"amountDiscounted": discount}
            usage = self.shop.integration.post(f"{self._path(member)}/use", body, expect=200)["couponUsage"]
            self.used.append((member, usage["couponUsageKey"], Decimal(discount or 0)))
            self._coupons(uses=1, discount=discount or 0)

    def _undo(self, which: int) -> None:
        if which < len(self.used):
            member, key, discount = self.used.pop(which)
            path = f"/members/{self.names[member]}/coupon-usages/{key}/revert"
            self.shop.integration.post(path, {}, expect=200)
            self.assigned.append(member)
            self._coupons(uses=-1, discount=-discount)

    def _move(self, limit: int) -> None:
        transactions.run(self.shop.engine, lambda db: move_changes(db, self.shop.organization.id, limit))

    def report(self, name: str, **query: Any) -> Any:
        return self.shop.administration.get(f"/reports/{name}", **query)


def _series(rows: list[tuple[datetime, Any]], begin: datetime, end: datetime, zone: ZoneInfo) -> dict[str, Any]:
    """The sums of the amounts of each day in the zone that are not 0; the rows are (moment, amount)."""
    amounts_by_day: dict[str, Any] = {}
    for at, amount in rows:
        if begin <= at < end:
            day = at.astimezone(zone).date().isoformat()
            amounts_by_day[day] = amounts_by_day.get(day, 0) + amount
    return {day: amount for day, amount in amounts_by_day.items() if amount}


def _check_reports(client: Client, begin: datetime, end: datetime, zone: str) -> None:
    """Check that every report of a time has the figures of the tally."""
    tally, report = client.tally, client.report
    query = {"sinceFrom": begin.isoformat(), "sinceTo": end.isoformat(), "tz": zone}

    def within(rows: list[Any]) -> list[Any]:
        return [row for row in rows if begin <= row.at < end]

    def total(rows: list[Any], name: str) -> Any:
        """The sum of a field of the rows within the time."""
        return sum(getattr(row, name) for row in within(rows))

    assert report("event-count", eventType=CREATED, **query)["result"]["totalCount"] == total(tally.events, "number")
    for tag in (None, *TAGS, "mistake"):
        mints = [mint for mint in tally.mints if tag is None or tag in mint.tags]
        by_tag = query if tag is None else {**query, "tag": tag}
        assert report("tag-total", **by_tag)["result"]["amount"] == total(mints, "amount")
        amounts_of_members: Counter[str] = Counter()
        for mint in within(mints):
            amounts_of_members[client.names[mint.member]] += mint.amount
        top_members = {row["key"]: row["amount"] for row in report("top-members", **by_tag)["results"]}
        assert top_members == {name: amount for name, amount in amounts_of_members.items() if amount > 0}
        assert list(top_members.values()) == sorted(top_members.values(), reverse=True)
        # Reports by day cover at most 3660 days.
        if end - begin < timedelta(days=3660):
            amounts_by_day = _series([(mint.at, mint.amount) for mint in mints], begin, end, ZoneInfo(zone))
            _check_series(report("tag-series", **by_tag), amounts_by_day, "amount")
    account = client.shop.organization.defaults.ledger_account_id
    totals = report(f"ledger-accounts/{account}/totals", **query)["result"]
    receivers = {mint.member for mint in within(tally.mints) if mint.is_mint}
    assert totals["totalAmount"] == total(tally.mints, "amount")
    average = Decimal(total(tally.mints, "amount")) / len(receivers) if receivers else Decimal(0)
    assert totals["avgAmountPerUser"] == round(average, 6)
    [book] = report("coupon-books-by-tag", **query)["results"]
    assert book["assigned"] == total(tally.coupons, "assigned")
    assert book["usages"] == total(tally.coupons, "uses")
    assert book["discountAmount"] == total(tally.coupons, "discount")
    if end - begin < timedelta(days=3660):
        series = report("coupons-over-time", **query)
        assigned_by_day = _series([(row.at, row.assigned) for row in tally.coupons], begin, end, ZoneInfo(zone))
        _check_series(series, assigned_by_day, "assigned")
        uses_by_day = _series([(row.at, row.uses) for row in tally.coupons], begin, end, ZoneInfo(zone))
        _check_series(series, uses_by_day, "usages")


def _check_series(series: Any, amounts_by_day: dict[str, Any], name: str) -> None:
    """Check that a report has each day once, and these amounts in the field `name`; other days have 0."""
    days = [row["date"] for row in series["results"]]
    assert days == sorted(set(days))
    assert {row["date"]: row[name] for row in series["results"] if row[name]} == amounts_by_day


def _with_fixed_ranges(ranges: list[tuple[datetime, datetime, str]]) -> list[tuple[datetime, datetime, str]]:
    now = datetime.now(UTC)
    fixed_ranges = [
        (FIRST - timedelta(1), now + timedelta(1), "UTC"),
        (now - timedelta(days=40), now + timedelta(seconds=1), "Asia/Kathmandu"),
    ]
    return fixed_ranges + [(min(a, b), max(a, b), zone) for a, b, zone in ranges]


@given(st.lists(steps, min_size=5, max_size=15), st.lists(drawn_ranges, min_size=1, max_size=2))
@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_every_report_equals_the_tally(api, drawn_steps, ranges):
    client = Client(api.organization())
    for step in drawn_steps:
        client.do(step)
    for begin, end, zone in _with_fixed_ranges(ranges):
        _check_reports(client, begin, end, zone)
    with api.engine.connect() as db:
        assert verify_reports(db, client.shop.organization.id) == []
