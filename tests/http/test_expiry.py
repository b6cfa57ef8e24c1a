"""When points expire: rounded dates, months by tier, and points that a revert returns to expired lots."""

from __future__ import annotations

import pytest

from tests.builders.campaigns import mint
from tests.builders.imports import Imports, status_read_done_failed
from tests.builders.points import Points
from tests.builders.test_clocks import Clock
from tests.builders.tiers import TierSchedule
from tests.builders.tracking import ORDER_CREATED, Shop, order, running

IS_ORDER = f"event.eventType == '{ORDER_CREATED}'"


@pytest.fixture
def clock(api):
    """A clock at 10 February 2025, 10:00 in Madrid."""
    return Clock.new(api, starts_at="2025-02-10T09:00:00Z")


def lots_of(points, wallet):
    """The amounts of a wallet by their moments of expiry."""
    return {lot["expiresAt"]: lot["available"] for lot in points.wallet_of(wallet, include="lots")["lots"]["expiring"]}


class TestRounding:
    """The clock begins at 10 February 2025, 10:00 in Madrid."""

    def test_points_of_a_quarter_expire_together(self, clock):
        points = Points.new(clock.organization, expiresInMonths=12, expiryRounding="quarter")
        ana = points.wallet()
        points.mint(ana, 100)
        # 12 months later, at the end of the quarter: 1 April 2026, 00:00 in Madrid.
        assert lots_of(points, ana) == {"2026-03-31T22:00:00Z": 100}
        # The last second of the quarter in Madrid.
        clock.advance("2025-03-31T21:59:59Z")
        points.mint(ana, 50)
        assert lots_of(points, ana) == {"2026-03-31T22:00:00Z": 100 + 50}
        clock.advance("2025-03-31T22:00:00Z")
        points.mint(ana, 7)
        assert lots_of(points, ana) == {"2026-03-31T22:00:00Z": 100 + 50, "2026-06-30T22:00:00Z": 7}
        assert points.verify() == []

    def test_an_expiry_depends_on_the_date_of_the_event_and_the_time_zone_of_the_account(self, clock):
        # Points are earned a second before midnight on 1 September in New York, and at midnight. The organization is
        # in Madrid.
        points = Points.new(clock.organization, expiresInMonths=12, expiryRounding="month", timezone="America/New_York")
        ana = points.wallet()
        points.mint(ana, 100, externalEventDate="2024-09-01T03:59:59Z")
        points.mint(ana, 10, externalEventDate="2024-09-01T04:00:00Z")
        assert lots_of(points, ana) == {"2025-09-01T04:00:00Z": 100, "2025-10-01T04:00:00Z": 10}

    def test_the_months_of_imported_points_begin_when_they_were_earned(self, clock):
        points = Points.new(clock.organization, expiresInMonths=12, alias="stars")
        wallet = clock.organization.member("ana")["ledgerWalletId"]
        rows = "loyaltyMemberId,account,amount,earnedAt\nana,stars,100,2024-09-01T12:00:00Z\nana,stars,10,\n"
        record = Imports(clock.organization).run(rows, kind="balances")
        assert status_read_done_failed(record) == ("done", 2, 2, 0)
        # 12 months after the date in the file, or after the import.
        assert lots_of(points, wallet) == {"2025-09-01T12:00:00Z": 100, "2026-02-10T09:00:00Z": 10}

    def test_an_expiry_year_begins_with_the_configured_month(self, clock):
        points = Points.new(clock.organization, expiresInMonths=1, expiryRounding="year", expiryYearStartMonth=4)
        ana = points.wallet()
        points.mint(ana, 100)
        # The year that begins in April ends on 31 March.
        assert lots_of(points, ana) == {"2025-03-31T22:00:00Z": 100}

    def test_an_explicit_expiration_date_is_not_rounded(self, clock):
        points = Points.new(clock.organization, expiresInMonths=12, expiryRounding="quarter")
        shop, key = Shop(clock.organization), points.account["ledgerAccountKey"]
        params = {"ledgerAccountKey": key, "expirationDate": "2025-05-05T05:05:05Z"}
        shop.campaign(running(mint(10, **params), rule=IS_ORDER))
        member = clock.organization.member("ana")
        shop.track_one(order("ana"))
        assert lots_of(points, member["ledgerWalletId"]) == {"2025-05-05T05:05:05Z": 10}

    def test_a_changed_rounding_does_not_change_existing_lots(self, clock):
        points = Points.new(clock.organization, expiresInMonths=12)
        ana = points.wallet()
        points.mint(ana, 100)
        body = {"name": "Stars", "active": True, "isRevolving": True, "chainSyncEnabled": False}
        updated_account = points.admin.put(points.path, {**body, "expiryRounding": "year"})["ledgerAccount"]
        assert (updated_account["expiryRounding"], updated_account["expiresInMonths"]) == ("year", 12)
        points.mint(ana, 1)
        # 12 months after each mint; the second lot lives until the end of that year.
        assert lots_of(points, ana) == {"2026-02-10T09:00:00Z": 100, "2026-12-31T23:00:00Z": 1}

    def test_a_rounding_without_months_and_an_unknown_time_zone_are_refused(self, clock):
        path = f"/ledgers/{clock.organization.defaults.ledger_id}/accounts"
        body = {"name": "Stars", "active": True, "isRevolving": True, "chainSyncEnabled": False}

        def faults(**settings):
            """The details of the faults of an account with these settings, by pointer."""
            problem = clock.organization.administration.post(path, {**body, **settings}, expect=400)
            return {error["pointer"]: error["detail"] for error in problem["errors"]}

        detail = "expiryRounding needs expiresInMonths or tierExpirations, whose end it rounds."
        assert faults(expiryRounding="month") == {"/expiryRounding": detail}
        assert list(faults(timezone="Europe/Atlantis")) == ["/timezone"]


class TestTiers:
    """The clock begins at 10 February 2025, 10:00 in Madrid. Points live for 12 months, those of the tier Gold for 24.

    The amounts are powers of two, so that a sum shows which mints it has.
    """

    @pytest.fixture
    def shop(self, clock):
        return Shop(clock.organization)

    @pytest.fixture
    def tiers(self, shop):
        return TierSchedule.new(shop, Gold=1000)

    @pytest.fixture
    def points(self, clock, tiers):
        """An account whose points live for 12 months, or 24 if they were earned in the tier Gold."""
        gold_expiration = {"loyaltyTierKey": tiers.key("Gold"), "months": 24}
        return Points.new(clock.organization, expiresInMonths=12, tierExpirations=[gold_expiration])

    def test_the_lifetime_of_points_depends_on_the_tier_in_which_they_were_earned(self, clock, shop, tiers, points):
        ana = clock.organization.member("ana")["ledgerWalletId"]
        points.mint(ana, 1)
        tiers.set("ana", "Gold")
        points.mint(ana, 2)
        clock.advance("2025-02-11T09:00:00Z")
        # Without a name: the tier is unassigned.
        tiers.set("ana")
        assert lots_of(points, ana) == {"2026-02-10T09:00:00Z": 1, "2027-02-10T09:00:00Z": 2}
        points.mint(ana, 4)
        # While ana was in the tier, and before.
        points.mint(ana, 8, externalEventDate="2025-02-10T20:00:00Z")
        points.mint(ana, 16, externalEventDate="2025-02-10T08:00:00Z")
        assert lots_of(points, ana) == {
            "2026-02-10T08:00:00Z": 16,
            "2026-02-10T09:00:00Z": 1,
            "2026-02-11T09:00:00Z": 4,
            "2027-02-10T09:00:00Z": 2,
            "2027-02-10T20:00:00Z": 8,
        }

    def test_points_of_late_events_live_by_the_tier_of_the_evaluation_with_the_setting_evaluation(
        self, clock, shop, tiers, points
    ):
        shop.administration.put("", {"defaultLocale": "en", "lateEventTiers": "evaluation"})
        ana = clock.organization.member("ana")["ledgerWalletId"]
        clock.advance("2025-02-11T09:00:00Z")
        tiers.set("ana", "Gold")
        points.mint(ana, 1, externalEventDate="2025-02-10T20:00:00Z")
        # Points that are released later live by the tier of their mint.
        waiting_mint = points.mint(ana, 2, externalEventDate="2025-02-10T20:00:00Z", availableAfter="P30D")
        clock.advance("2025-02-20T09:00:00Z")
        tiers.set("ana")
        points.mint(ana, 4, externalEventDate="2025-02-12T20:00:00Z")
        points.release(waiting_mint)
        assert lots_of(points, ana) == {
            "2026-02-12T20:00:00Z": 4,
            "2027-02-10T20:00:00Z": 1,
            "2027-02-20T09:00:00Z": 2,
        }

    def test_campaigns_and_dry_runs_see_the_same_expiry(self, clock, shop, tiers, points):
        member = clock.organization.member("ana")
        tiers.set("ana", "Gold")
        shop.campaign(running(mint(10, ledgerAccountKey=points.account["ledgerAccountKey"]), rule=IS_ORDER))
        body = {"order": {"externalId": "basket", "total": 10}, "loyaltyMemberId": "ana", "include": ["earn"]}
        [earning] = shop.integration.post("/simulations", body, expect=200)["simulation"]["earn"]["accounts"]
        shop.track_one(order("ana"))
        assert earning["expiresAt"] == "2027-02-10T09:00:00Z"
        assert lots_of(points, member["ledgerWalletId"]) == {"2027-02-10T09:00:00Z": 10}

    def test_a_simulated_member_has_the_tiers_of_the_request(self, shop, tiers, points):
        shop.campaign(running(mint(10, ledgerAccountKey=points.account["ledgerAccountKey"]), rule=IS_ORDER))
        body = {"order": {"externalId": "basket", "total": 10}, "include": ["earn"]}

        def expiry(**person):
            """The expiry of the points that this simulated member would earn."""
            response = shop.integration.post("/simulations", {**body, "as": person}, expect=200)
            return response["simulation"]["earn"]["accounts"][0]["expiresAt"]

        assert expiry() == "2026-02-10T09:00:00Z"
        assert expiry(tierKeys=[tiers.key("Gold")]) == "2027-02-10T09:00:00Z"

    def test_only_points_of_a_listed_tier_expire(self, clock, tiers):
        only_gold = [{"loyaltyTierKey": tiers.key("Gold").upper(), "months": 1}]
        points = Points.new(clock.organization, tierExpirations=only_gold, expiryRounding="month")
        assert points.account["tierExpirations"] == [{"loyaltyTierKey": tiers.key("Gold"), "months": 1}]
        assert points.account["pointTrackingEnabled"] is True
        ana = clock.organization.member("ana")["ledgerWalletId"]
        points.mint(ana, 1)
        tiers.set("ana", "Gold")
        points.mint(ana, 2)
        # One month after 10 February, at the end of March.
        assert lots_of(points, ana) == {"2025-03-31T22:00:00Z": 2, None: 1}

    def test_unknown_and_repeated_tiers_are_refused(self, clock, tiers):
        path = f"/ledgers/{clock.organization.defaults.ledger_id}/accounts"
        body = {"name": "Stars", "active": True, "isRevolving": True, "chainSyncEnabled": False}
        unknown_tier = [{"loyaltyTierKey": "00000000-0000-4000-8000-000000000000", "months": 1}]
        problem = clock.organization.administration.post(path, {**body, "tierExpirations": unknown_tier}, expect=404)
        assert problem["type"] == "/problems/unknown-tier"
        repeated_tier = [{"loyaltyTierKey": tiers.key("Gold"), "months": 1}] * 2
        problem = clock.organization.administration.post(path, {**body, "tierExpirations": repeated_tier}, expect=400)
        assert [error["pointer"] for error in problem["errors"]] == ["/tierExpirations/1/loyaltyTierKey"]


class TestReverts:
    @pytest.fixture
    def burn_then_expire(self, clock):
        """Burn 80 of 100 points and let all lots expire; on 14 March 2025 the balance is 0.

        Returns the account, the wallet and the id of the burn.
        """

        def make(*, restored_days):
            points = Points.new(clock.organization, expiresInMonths=1, restoredExpiryDays=restored_days)
            ana = points.wallet()
            points.mint(ana, 60)
            points.mint(ana, 40)
            burn = points.burn(ana, 80)[0]["ledgerTransactionId"]
            clock.advance("2025-03-14T10:00:00Z")
            assert points.balance(ana) == 0
            return points, ana, burn

        return make

    def test_points_returned_to_an_expired_lot_expire_at_once(self, burn_then_expire):
        points, ana, burn = burn_then_expire(restored_days=0)
        points.revert(burn)
        assert points.balance(ana) == 0
        assert points.verify() == []

    def test_points_returned_to_an_expired_lot_live_for_the_configured_days(self, clock, burn_then_expire):
        points, ana, burn = burn_then_expire(restored_days=30)
        points.revert(burn)
        # 30 days after the revert on 14 March; summer time began in between, so that it is 11:00 in Madrid on both.
        assert lots_of(points, ana) == {"2025-04-13T09:00:00Z": 80}
        points.burn(ana, 30)
        clock.advance("2025-04-13T08:59:59Z")
        assert points.balance(ana) == 80 - 30
        clock.advance("2025-04-13T09:00:00Z")
        assert points.balance(ana) == 0
        assert points.verify() == []

    def test_a_revert_returns_points_to_lots_that_have_not_expired(self, clock):
        points = Points.new(clock.organization, expiresInMonths=1, restoredExpiryDays=30)
        ana = points.wallet()
        points.mint(ana, 50)
        clock.advance("2025-02-20T09:00:00Z")
        points.mint(ana, 50)
        # 50 of the older lot, and 20 of the newer one.
        burn = points.burn(ana, 70)[0]["ledgerTransactionId"]
        clock.advance("2025-03-14T10:00:00Z")
        points.revert(burn)
        # The 50 of the expired lot live for 30 days from the revert.
        assert lots_of(points, ana) == {"2025-03-20T09:00:00Z": 50, "2025-04-13T09:00:00Z": 50}
        assert points.verify() == []

    @pytest.mark.parametrize("moment", ["2025-04-01T10:00:00Z", "2025-05-01T10:00:00Z"])
    def test_a_revert_of_a_mint_claws_back_only_its_own_points(self, clock, moment):
        """5 of 7 points expire; 2 are burned, returned, and expire on 13 April. The 30 points are of another mint."""
        points = Points.new(clock.organization, expiresInMonths=1, restoredExpiryDays=30)
        ana = points.wallet()
        mint_id = points.mint(ana, 7)
        burn = points.burn(ana, 2)[0]["ledgerTransactionId"]
        clock.advance("2025-03-14T10:00:00Z")
        points.revert(burn)
        clock.advance(moment)
        points.mint(ana, 30)
        points.revert(mint_id)
        assert points.balance(ana) == 30
        assert points.verify() == []

    def test_a_released_hold_returns_no_expired_points(self, clock):
        points = Points.new(clock.organization, expiresInMonths=1, restoredExpiryDays=30)
        ana = points.wallet()
        points.mint(ana, 50)
        hold = points.burn(ana, 50, captureMethod="manual")[0]["ledgerTransactionId"]
        clock.advance("2025-03-14T10:00:00Z")
        points.revert(hold)
        assert points.balance(ana) == 0
        assert points.verify() == []
