"""Statements of calls: the same number for 1 and for 100 events, and for lists of 1 and of 25 rows."""

from __future__ import annotations

import pytest

from tests.builders.campaigns import mint
from tests.builders.statements import count
from tests.builders.tracking import Shop, event, order, order_update, running, spend


@pytest.fixture(scope="module")
def shop(api):
    return Shop(api.organization())


@pytest.fixture(scope="module")
def rewarding_shop(shop):
    """Campaigns that mint, burn, count limits of every kind and use lots."""
    tracking_account = shop.account(pointTrackingEnabled=True, expiresInMonths=6, maxSupply=10**9)
    for _ in range(3):
        shop.campaign(
            running(mint(3), spend(1), mint(2, ledgerAccountKey=tracking_account["ledgerAccountKey"])),
            running(spend(1, ledgerAccountKey=tracking_account["ledgerAccountKey"])),
            pointsMonthlyLimitPerMember=10**9,
            maxTransactionsPerMember=10**9,
            limitRules=[
                {"scope": scope, "type": kind, "period": period, "limit": 10**9}
                for scope in ("member", "campaign")
                for kind in ("points", "transactions")
                for period in ("daily", "total")
            ],
        )
    return shop


@pytest.mark.slow
def test_tracking_costs_as_many_statements_for_1_event_as_for_100(rewarding_shop):
    shop = rewarding_shop
    members = [shop.member() for _ in range(20)]

    def batch(size):
        return [
            order(members[i % 20], 10, items=[{"productCode": str(n)} for n in range(5)], tags=["a"])
            for i in range(size)
        ]

    def cost(size):
        def call():
            results = shop.track(*batch(size))
            assert {result["status"] for result in results} == {"success"}
            assert {effect["status"] for result in results for effect in result["effects"]} == {"executed"}
            # 3 campaigns with 4 effects each.
            assert len(results[0]["effects"]) == 12

        return count(shop.engine, call)

    shop.track(*batch(20))
    cost_of_1, cost_of_10, cost_of_100 = (cost(size) for size in (1, 10, 100))
    # A batch that spends its own lots reserves their ids in a further statement.
    assert cost_of_1 <= cost_of_10 <= cost_of_100 <= cost_of_1 + 1
    assert cost_of_100 < 40


@pytest.mark.slow
def test_tracking_of_one_member_costs_as_many_statements_for_1_event_as_for_100(rewarding_shop):
    shop, member = rewarding_shop, rewarding_shop.member()
    shop.track(event(member))
    counts = {
        size: count(shop.engine, lambda s=size: shop.track(*(event(member) for _ in range(s)))) for size in (1, 10, 100)
    }
    # A batch that spends its own lots reserves their ids in a further statement.
    assert counts[1] <= counts[10] <= counts[100] <= counts[1] + 1


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["dryRun", "captureOnly"])
def test_dry_runs_and_captures_cost_as_many_statements_for_1_event_as_for_100(rewarding_shop, mode):
    shop, member = rewarding_shop, rewarding_shop.member()
    batches = [[order(member, 5, items=[{}]) for _ in range(size)] for size in (1, 10, 100)]
    counts = [count(shop.engine, lambda events=batch: shop.track(*events, executionMode=mode)) for batch in batches]
    assert len(set(counts)) == 1


@pytest.mark.slow
def test_repeated_requests_cost_fewer_statements_than_new_ones(rewarding_shop):
    shop, member = rewarding_shop, rewarding_shop.member()
    batch = [order(member, 5) for _ in range(50)]
    cost_of_new = count(shop.engine, lambda: shop.track(*batch))
    cost_of_repeated = count(shop.engine, lambda: shop.track(*batch))
    assert cost_of_repeated < cost_of_new
    assert cost_of_repeated == count(shop.engine, lambda: shop.track(batch[0]))


def test_confirming_orders_costs_as_many_statements_for_1_as_for_50(shop):
    shop = Shop(shop.organization.api.organization())
    member = shop.member()
    shop.campaign(running(mint(3)), pointsMonthlyLimitPerMember=10**9)
    shop.track(*(order(member, 5, external_id=f"move-{i}", items=[{}]) for i in range(51)))
    cost_of_1 = count(shop.engine, lambda: shop.track(order_update(member, "move-0", "confirmed")))
    cost_of_50 = count(
        shop.engine, lambda: shop.track(*(order_update(member, f"move-{i}", "confirmed") for i in range(1, 51)))
    )
    assert cost_of_1 == cost_of_50


@pytest.mark.slow
def test_orders_that_already_exist_cost_as_many_statements_for_1_as_for_50(shop):
    member = shop.member()
    batches = {size: [order(member, 5) for _ in range(size)] for size in (1, 50)}

    def track_again(batch):
        results = shop.track(*({**item, "systemUniqueKey": f"again-{item['systemUniqueKey']}"} for item in batch))
        assert {result["error"]["type"] for result in results} == {"/problems/order-exists"}

    for batch in batches.values():
        shop.track(*batch)
    counts = {size: count(shop.engine, lambda b=batch: track_again(b)) for size, batch in batches.items()}
    assert counts[50] == counts[1]


@pytest.mark.slow
def test_lists_cost_as_many_statements_for_1_row_as_for_25(shop):
    members = [shop.member() for _ in range(25)]
    for amount in range(1, 26):
        shop.give(members[0], amount, tags=["a"])
    member_id = shop.integration.get(f"/members/{members[0]}")["loyaltyMember"]["memberId"]
    shop.track(*(event(members[0]) for _ in range(25)))
    shop.campaign(*(running(mint(1)) for _ in range(3)))
    defaults = shop.organization.defaults
    account = f"/ledgers/{defaults.ledger_id}/accounts/{defaults.ledger_account_id}"
    lists = [
        (shop.integration, "/members"),
        (shop.administration, "/members"),
        (shop.administration, "/members/search"),
        (shop.integration, f"/members/{members[0]}/ledger-transactions"),
        (shop.administration, f"{account}/transactions"),
        (shop.integration, f"/members/{members[0]}/events"),
        (shop.administration, f"/members/{member_id}/events"),
    ]
    # The configuration that lists need is cached at the first call.
    shop.integration.get("/members", limit=1)
    for surface, path in lists:
        cost_of_1 = count(shop.engine, lambda s=surface, p=path: s.get(p, limit=1))
        assert len(surface.get(path, limit=25)["results"]) == 25
        assert count(shop.engine, lambda s=surface, p=path: s.get(p, limit=25)) <= cost_of_1, path


@pytest.fixture(scope="module")
def plain_shop(api):
    """An organization without campaigns, missions or programs that react to events."""
    return Shop(api.organization())


class TestPointsOnEvents:
    """Points that become available at an event of their member."""

    TYPE = "member-profile-completed"

    def statements(self, shop, members, size=1):
        """The number of statements that track so many events of the members, at which points become available."""

        def call():
            results = shop.track(*(event(members[i % len(members)], self.TYPE) for i in range(size)))
            assert {result["status"] for result in results} == {"success"}

        return count(shop.engine, call)

    def mint_waiting_points(self, shop, member, lots):
        """Mint so many lots of 1 point for the member, which wait for the event."""
        body = {"amount": 1, "availableOn": {"eventTypes": [self.TYPE]}}
        for _ in range(lots):
            shop.administration.post(f"/members/by-loyalty-member-id/{member}/mint", body, expect=200)

    def balance(self, shop, member):
        """The available and the pending points of a member."""
        [balance] = shop.integration.get(f"/members/{member}")["loyaltyMember"]["ledgerBalances"]
        return balance["balance"], balance["pending"]

    def test_waiting_points_of_a_member_cost_events_of_others_no_statement(self, plain_shop):
        member, waiting_member = plain_shop.member(), plain_shop.member()
        plain_shop.track(event(member, self.TYPE))
        cost_before = self.statements(plain_shop, [member])
        self.mint_waiting_points(plain_shop, waiting_member, lots=2)
        assert self.statements(plain_shop, [member]) == cost_before

    def test_many_lots_cost_no_further_statement_and_many_events_at_most_one(self, plain_shop):
        def count_statements(member_count, lots, event_count):
            members = [plain_shop.member() for _ in range(member_count)]
            for member in members:
                self.mint_waiting_points(plain_shop, member, lots)
            statement_count = self.statements(plain_shop, members, event_count)
            # All lots are available, none is pending.
            assert [self.balance(plain_shop, member) for member in members] == [(lots, 0)] * member_count
            return statement_count

        cost_of_1_lot = count_statements(member_count=1, lots=1, event_count=1)
        assert count_statements(member_count=1, lots=20, event_count=1) == cost_of_1_lot
        # One more reserves ids if there are many derived events.
        assert count_statements(member_count=4, lots=5, event_count=40) <= cost_of_1_lot + 1
