"""`verify` finds and names every way in which records of members can contradict each other."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Connection, text

from handlers.services.verify import verify
from tests.builders.badges import Badges
from tests.builders.campaigns import mint
from tests.builders.coupons import CouponBooks
from tests.builders.missions import create
from tests.builders.points import Points
from tests.builders.referrals import Friends
from tests.builders.tiers import TierSchedule
from tests.builders.tracking import GENERIC, ORDER_CREATED, Shop, event, order, order_update, running

pytestmark = pytest.mark.undistributed

# Tables of limits and rules, which are dated back so that all points count as given under them.
_DATED_BACK = (
    "badges",
    "coupon_books",
    "missions",
    "referral_programs",
    "loyalty_programs",
    "loyalty_tiers",
    "ledger_accounts",
)


@pytest.fixture(scope="module")
def shop(api):
    """An organization with records of all kinds about members."""
    shop = Shop(api.organization())
    move_points(shop)
    track_events(shop)
    move_holdings(shop)
    return shop


def move_points(shop: Shop) -> None:
    """Points that expired, were transferred, burned for money, held and owed."""
    stars = Points.new(shop.organization, pointTrackingEnabled=True, expiresInMonths=12)
    ana, ben = stars.wallet(), stars.wallet()
    stars.move(10, target=ana, externalEventDate="2020-01-01T00:00:00Z")
    stars.move(20, target=ana)
    stars.move(5, source=ana, target=ben)
    burn = stars.burn(ana, 3, fiatValue=2)[0]["ledgerTransactionId"]
    stars.burn(ana, 4, fiatValue=3)
    stars.revert(burn)
    stars.burn(ana, 2, captureMethod="manual")
    hold = {"ledgerAccountId": stars.account_id, "fromWalletId": None, "toWalletId": ben, "amount": 6}
    hold |= {"captureMethod": "manual", "expirationDate": "2099-01-01T00:00:00Z"}
    response = stars.admin.post("/ledger-transactions/batch", {"items": [hold]}, expect=200)
    stars.capture((response["processed"][0]["transactions"][0]["ledgerTransactionId"], None))
    debts = Points.new(shop.organization, overdraftLimit=50)
    cleo = debts.wallet()
    debts.move(6, target=cleo)
    debts.burn(cleo, 10, allowOverdraft=True)
    debts.move(3, target=cleo)


def track_events(shop: Shop) -> None:
    """Orders, one partly returned, with limits, a mission, a referral and tiers by points; a spent mint clawed back."""
    schedule = TierSchedule.new(shop, Silver=5, Gold=100)
    shop.campaign(
        running(mint(10)), eventType=ORDER_CREATED, pointsMonthlyLimitPerMember=1000, maxTransactionsPerMember=50
    )
    create(shop, eventType=ORDER_CREATED, goalCount=2, pointsAccrual=7)
    friends = Friends(shop)
    ana, ben = shop.member(), shop.member()
    items = [{"productCode": "mug", "quantity": 2, "total": 8}, {"productCode": "tea", "quantity": 1, "total": 2}]
    shop.track_one(order(ana, total=10, external_id="o-1", items=items))
    shop.track_one(order_update(ana, "o-1", "confirmed"))
    shop.track_one(order_update(ana, "o-1", "partially-returned", items=[{"productCode": "mug", "quantity": 1}]))
    shop.track_one(order(ana, total=30, external_id="o-2"))
    shop.track_one(event(ben, GENERIC, payload={"referralCode": friends.code(ana)}))
    spender = shop.member()
    purchase = shop.track_one(order(spender, total=5))
    shop.take(spender, 10)
    shop.integration.post(f"/events/{purchase['loyaltyEventKey']}/cancel", {}, expect=200)
    schedule.set(shop.member(), "Gold")


def move_holdings(shop: Shop) -> None:
    """Badges and coupons, assigned, used and reverted."""
    badges, ana = Badges(shop), shop.member()
    badge = badges.create(maxAmount=5)
    badges.assign(ana, badge, amount=3)
    badges.revert(ana, badges.unassign(ana, badge, amount=1))
    books = CouponBooks(shop.organization)
    limits = {"maxCouponCount": 9, "maxAssignedPerMember": 9, "maxAssignedPerCoupon": 9}
    book = books.make("ALL", type="single", **limits)
    path = f"/members/{ana}/coupon-books/{book['couponBookKey']}"
    shop.integration.post(f"{path}/assign", {"amount": 3}, expect=200)
    shop.integration.post(f"{path}/use", {}, expect=200)
    use = shop.integration.post(f"{path}/use", {}, expect=200)["couponUsage"]
    shop.integration.post(f"/members/{ana}/coupon-usages/{use['couponUsageKey']}/revert", expect=200)
    codes = books.make("A", "B", type="list")
    for _ in range(2):
        path = f"/members/{shop.member()}/coupon-books/{codes['couponBookKey']}"
        shop.integration.post(f"{path}/assign", {}, expect=200)


def date_back(db: Connection, shop: Shop) -> None:
    """Date all rules back by a year, and switch off the constraints and triggers of the database."""
    db.execute(text("SET LOCAL session_replication_role = replica"))
    for table in _DATED_BACK:
        statement = f"UPDATE {table} SET updated_at = updated_at - interval '1 year' WHERE organization_id = :org"
        db.execute(text(statement), {"org": shop.organization.id})


def verify_after(shop: Shop, breaking_statement: str) -> tuple[Any, list[str]]:
    """Execute a statement that breaks a row, verify and roll back; return the row and the reported faults."""
    with shop.engine.connect() as db:
        date_back(db, shop)
        row = db.execute(text(breaking_statement), {"org": shop.organization.id}).first()
        faults = verify(db, shop.organization.id)
        db.rollback()
    return row, faults


def test_verify_finds_nothing_in_correct_records(shop):
    with shop.engine.connect() as db:
        date_back(db, shop)
        assert verify(db, shop.organization.id) == []
        db.rollback()


def is_first(table: str, *, key: str, condition: str) -> str:
    """The SQL condition that a row is the first row of the organization that satisfies `condition`."""
    return (
        f"organization_id = :org AND {key} ="
        f" (SELECT min({key}) FROM {table} WHERE organization_id = :org AND {condition})"
    )


def change(table: str, values: str, key: str, returning: str, condition: str = "true") -> str:
    """The statement that sets `values` in the row with the least `key` that satisfies `condition`.

    It returns the columns `returning`.
    """
    first_row = is_first(table, key=key, condition=condition)
    return f"UPDATE {table} SET {values} WHERE {first_row} AND {condition} RETURNING {returning}"


LOT = "ledger_lot_id, wallet_id, ledger_account_id"
PAIR = "wallet_id, ledger_account_id"
TRANSACTION = "ledger_transaction_id"
BURN = "transaction_type = 2 AND NOT is_expiry AND status = 1"

# A statement that breaks a row, and a part of the line that `verify` reports, with the returned columns of the row.
FAULTS = (
    # Lots
    (change("ledger_lots", "expired = 9", "ledger_lot_id", LOT, "expired > 0"),
     "lot {0} of wallet {1}, account {2}: counts 9 as expired, its expiries took 10"),
    (change("ledger_lots", "expired = 1", "ledger_lot_id", LOT, "amount = 20"),
     "lot {0} of wallet {1}, account {2}: counts 1 as expired, its expiries took 0"),
    (change("ledger_transactions", "is_expiry = false", TRANSACTION, TRANSACTION, "is_expiry"),
     "transaction {0}: took 10 from lot"),
    (change("ledger_lots", "wallet_id = wallet_id + 1000000", "ledger_lot_id", LOT, "amount = 20"),
     "lot {0} of wallet {1}, account {2}: transaction"),
    (change("ledger_lots", "amount = 25, remaining = remaining + 5", "ledger_lot_id", TRANSACTION, "amount = 20"),
     "transaction {0}: gave 25 in lots, but moved 20"),
    (change("ledger_lots", "amount = 25, remaining = remaining + 5, kept_until = '2099-01-01T00:00:00Z'",
            "ledger_lot_id", TRANSACTION, "amount = 20"),
     "transaction {0}: gave 25 in lots, but moved 20"),
    (change("ledger_lots", "expires_at = NULL", "ledger_lot_id", TRANSACTION, "amount = 5"),
     "transaction {0}: gave 5 that expire at infinity, but took 0 of these"),
    (change("ledger_lots", "expires_at = '2050-01-01T00:00:00Z'", "ledger_lot_id", LOT, "amount = 6"),
     "lot {0} of wallet {1}, account {2}: expires at 2050-01-01 00:00:00+00, its mint was to expire at"),
    (change("ledger_lots", "expires_at = '2020-01-01T00:00:00Z'", "ledger_lot_id", "ledger_lot_id", "amount = 20"),
     "from lot {0}, which had expired at 2020-01-01 00:00:00+00"),
    (change("ledger_lots", "expires_at = '2090-01-01T00:00:00Z'", "ledger_lot_id", "ledger_lot_id", "expired > 0"),
     "is the expiry of lot {0}, which expires at 2090-01-01 00:00:00+00"),
    (change("ledger_lot_uses", "amount = 1", TRANSACTION, TRANSACTION, "amount = 4"),
     "transaction {0}: took 4 from wallet"),
    # Money, debts, holds and missing points
    (change("ledger_balances", "total_fiat_value = 7", "wallet_id", PAIR, "total_fiat_value = 3"),
     "wallet {0}, account {1}: counts a fiat value of 7, its burns add up to 3"),
    (change("ledger_transactions", "fiat_value = 8", TRANSACTION, f"from_{PAIR}", "fiat_value = 3"),
     "wallet {0}, account {1}: counts a fiat value of 3, its burns add up to 8"),
    (change("ledger_balances", "total_overdraft_credit_balance = 1", "wallet_id", PAIR,
            "current_overdraft_balance = 1"),
     "wallet {0}, account {1}: owes 1 and has repaid 1, its entries went into debt by 4"),
    (change("ledger_entries", "is_overdraft = false", TRANSACTION, PAIR, "is_overdraft"),
     "wallet {0}, account {1}: owes 1 and has repaid 3, its entries went into debt by 0"),
    (change("ledger_transactions", "reserved_amount = 9", TRANSACTION, TRANSACTION, "status = 0"),
     "transaction {0}: held 9, of which 0 were released, and has the amount 2"),
    (change("ledger_transactions", "reserved_amount = NULL", TRANSACTION, TRANSACTION, "status = 0"),
     "transaction {0}: held nothing, of which 0 were released, and has the amount 2"),
    (change("ledger_transactions", "clamped_by_ledger_transaction_id = NULL", TRANSACTION, TRANSACTION, "missing > 0"),
     "transaction {0}: misses 10 since transaction none, which does not revert it"),
    (change("ledger_transactions", "unearned = 99", TRANSACTION, TRANSACTION, "unearned > 0"),
     "transaction {0}: 99 of it do not count as earned, 4 were clawed back or are missing"),
    # Badges
    (change("member_badges", "assigned_balance = 4", "member_id", "member_id, badge_id"),
     "member {0}, badge {1}: holds 4, its trackings add up to 3"),
    ("DELETE FROM member_badges WHERE organization_id = :org RETURNING member_id, badge_id",
     "member {0}, badge {1}: holds 0, its trackings add up to 3"),
    (change("badge_trackings", "updated_total_assigned = 1", "badge_tracking_id", "member_id, badge_id",
            "amount_assigned = -1"),
     "member {0}, badge {1}: the totals of its changes form no chain, see 1"),
    (change("badge_trackings", "updated_total_assigned = 6", "badge_tracking_id", "badge_tracking_id, badge_id",
            "amount_assigned = 3"),
     "badge tracking {0}: leaves 6 of badge {1}, of which members hold 0 to 5"),
    (change("badge_trackings", "reversal_badge_tracking_id = NULL", "badge_tracking_id", "badge_tracking_id",
            "reversal_badge_tracking_id IS NOT NULL"),
     "reverts {0}, which has no link to it"),
    (change("badge_trackings", "reverted_badge_tracking_id = NULL", "badge_tracking_id", "badge_tracking_id",
            "reverted_badge_tracking_id IS NOT NULL"),
     "is reverted by {0}, which has no link to it"),
    (change("badge_trackings", "amount_assigned = 2", "badge_tracking_id", "badge_tracking_id, badge_id, member_id",
            "reverted_badge_tracking_id IS NOT NULL"),
     "badge tracking {0}: moves 2 of badge {1} of member {2}, it reverts -1 of {1} of {2}"),
    # Coupons
    (change("member_coupons", "amount_used = 2", "member_coupon_id", "member_id, coupon_id", "amount_assigned = 3"),
     "member {0}, coupon {1}: counts 3 assigned and 2 used, its usages add up to 3 and 1"),
    (change("coupons", "total_assigned = 5", "coupon_id", "coupon_id", "total_assigned = 3"),
     "coupon {0}: counts 5 assigned and 1 used, its usages add up to 3 and 1"),
    (change("coupon_books", "total_usages = 4", "coupon_book_id", "coupon_book_id", "total_assigned = 3"),
     "coupon book {0}: counts 3 assigned and 4 used, its usages add up to 3 and 1"),
    (change("coupon_lots", "amount = 2", "coupon_lot_id", "coupon_lot_id", "amount = 3"),
     "coupon lot {0}: counts 2 assigned and 1 used, its usages add up to 3 and 1"),
    (change("coupon_usages", "updated_total_assigned = 8", "coupon_usage_id", "member_id, coupon_id",
            "amount_assigned = 3"),
     "member {0}, assignments of coupon {1}: the totals of its changes form no chain, see 0"),
    (change("coupon_usages", "updated_total_usages = 7", "coupon_usage_id", "member_id, coupon_id", "amount_used = 1"),
     "member {0}, uses of coupon {1}: the totals of its changes form no chain, see "),
    (change("coupon_books", "coupon_count = 3", "coupon_book_id", "coupon_book_id", "type = 'list'"),
     "coupon book {0}: counts 3 codes up to position 3, it has 2 up to 2"),
    (change("coupon_usages", "coupon_book_id = coupon_book_id + 1000000", "coupon_usage_id",
            "coupon_usage_id, coupon_book_id, coupon_id"),
     "coupon usage {0}: is of book {1}, its coupon {2} of book"),
    (change("coupon_lots", "member_id = member_id + 1000000", "coupon_lot_id", "coupon_lot_id, member_id, coupon_id"),
     "coupon lot {0}: is of member {1} and coupon {2}, its assignment of"),
    (change("coupon_lots", "amount_owed = 2", "coupon_lot_id", "coupon_lot_id", "amount = 3"),
     "coupon lot {0}: is of 3, of which 1 are used and 2 owed"),
    (change("coupon_usages", "reversal_usage_id = NULL", "coupon_usage_id", "coupon_usage_id",
            "reversal_usage_id IS NOT NULL"),
     "reverts {0}, which has no link to it"),
    (change("coupon_usages", "reverted_usage_id = NULL", "coupon_usage_id", "coupon_usage_id",
            "reverted_usage_id IS NOT NULL"),
     "is reverted by {0}, which has no link to it"),
    (change("coupon_usages", "amount_used = -2", "coupon_usage_id", "coupon_usage_id", "amount_used = -1"),
     "coupon usage {0}: moves 0 assigned and -2 used, it reverts 0 and 1"),
    (change("coupon_books", "max_coupon_count = 2", "coupon_book_id", "coupon_book_id", "type = 'single'"),
     "coupon book {0}: has 3 assigned of at most 2"),
    (change("coupon_books", "max_assigned_per_member = 1", "coupon_book_id", "coupon_book_id", "type = 'single'"),
     "coupon book {0}: member"),
    (change("coupon_books", "type = 'generated', max_coupon_count = NULL, max_assigned_per_coupon = 1",
            "coupon_book_id", "coupon_book_id", "type = 'single'"),
     "of book {0}: has 3 assigned of at most 1"),
    ("UPDATE member_coupons h SET coupon_id = (SELECT min(m.coupon_id) FROM member_coupons m"
     " WHERE m.organization_id = :org AND m.coupon_book_id = h.coupon_book_id) WHERE organization_id = :org"
     " AND coupon_book_id IN (SELECT coupon_book_id FROM coupon_books WHERE organization_id = :org AND type = 'list')"
     " RETURNING coupon_id, coupon_book_id",
     "of book {1}: is held by 2 members"),
    # Missions
    (change("member_missions", "times_achieved = 2", "member_id", "member_id, mission_id", "times_achieved = 1"),
     "member {0}, mission {1}: is achieved 2 times, last at"),
    (change("member_missions", "last_achieved_at = NULL", "member_id", "member_id, mission_id", "times_achieved = 1"),
     "member {0}, mission {1}: is achieved 1 times, last at no time, by its trackings 1, at"),
    (change("member_missions", "counted = 7", "member_id", "member_id, mission_id", "times_achieved = 1"),
     "member {0}, mission {1}: counts 7, its trackings add up to 2"),
    (change("mission_trackings", "counted = -1", "mission_tracking_id", "mission_tracking_id", "achieved = 1"),
     "mission tracking {0}: counts -1 and achieves 1"),
    (change("missions", "max_repetitions = 0", "mission_id", "mission_id"),
     "mission {0}: is achieved 1 of at most 0 times"),
    (change("ledger_transactions", "amount = 70", TRANSACTION, TRANSACTION, "amount = 7"),
     "transaction {0}: rewards event"),
    # Limits, orders, referrals and tiers
    (change("campaign_limit_counters", "used = used + 1", "member_id", "campaign_id, member_id", "type = 'points'"),
     "campaign {0}, member {1}, account 0, points monthly from"),
    ("DELETE FROM campaign_limit_counters WHERE organization_id = :org AND used = 2 RETURNING campaign_id, member_id",
     "campaign {0}, member {1}, account 0, transactions total from"),
    (change("purchase_orders", "returned_total = 11", "order_id", "order_id", "returned_total = 4"),
     "order {0}: is partially-returned, and 11 of its 10 are returned"),
    (change("purchase_orders", "returned_total = 1", "order_id", "order_id", "status = 'created'"),
     "order {0}: is created, and 1 of its 30 are returned"),
    (change("purchase_orders", "returned_total = 3", "order_id", "order_id", "returned_total = 4"),
     "order {0}: 3 of it are returned, of its items 4"),
    (change("order_items", "returned_quantity = 3", "order_item_id", "order_item_id", "returned_total = 4"),
     "order item {0}: 3 of 2 are returned, worth 4 of 8"),
    (change("order_items", "returned_total = 9", "order_item_id", "order_item_id", "returned_total = 4"),
     "order item {0}: 1 of 2 are returned, worth 9 of 8"),
    (change("purchase_orders", "member_id = member_id + 1000000", "order_id", "order_id, member_id"),
     "order {0} of member {1}: was created by event"),
    (change("purchase_orders", "event_ids = '{}'", "order_id", "order_id"),
     "order {0}: was created by event"),
    (change("referral_codes", "total_usages = 5", "referral_code_id", "referral_code_id"),
     "referral code {0}: counts 5 uses, its logs are 1"),
    (change("referral_logs", "referral_program_id = referral_program_id + 1000000", "referral_log_id",
            "referral_log_id, referral_program_id"),
     "referral log {0}: is of program {1} and referrer"),
    (change("referral_logs", "referrer_member_id = referred_member_id", "referral_log_id",
            "referral_log_id, referred_member_id"),
     "referral log {0}: member {1} was referred by the same member"),
    (change("referral_programs", "max_per_code = 0", "referral_program_id", "referral_program_id"),
     "referral program {0}, code"),
    (change("referral_logs", "referrer_points = 99", "referral_log_id", "referral_log_id"),
     "referral log {0}: gave the referrer 99 points, its transactions 100"),
    (change("member_tiers", "loyalty_program_id = loyalty_program_id + 1000000", "member_id",
            "member_id, loyalty_tier_id, loyalty_program_id"),
     "member {0}: has tier {1} in program {2}, it is of program"),
    ("UPDATE member_tiers h SET loyalty_tier_id = (SELECT t.loyalty_tier_id FROM loyalty_tiers t"
     " WHERE t.organization_id = :org AND t.name = 'Silver') FROM loyalty_tiers g WHERE h.organization_id = :org"
     " AND g.organization_id = :org AND g.loyalty_tier_id = h.loyalty_tier_id AND g.name = 'Gold' AND NOT h.is_manual"
     " RETURNING h.member_id, h.loyalty_tier_id, h.loyalty_program_id",
     "member {0}: has tier {1} of program {2}, by"),
)  # fmt: skip


def test_rewards_of_missions_that_were_cut_or_reduced_are_no_faults(api):
    shop = Shop(api.organization())
    member, capped_account = shop.member(), shop.account(maxBalance=20)
    ledger_id, capped_account_id = shop.organization.defaults.ledger_id, capped_account["ledgerAccountId"]
    # The first mission is for generic events.
    create(shop, goalCount=1, pointsAccrual=25, ledgerId=ledger_id, ledgerAccountId=capped_account_id)
    create(shop, goalCount=1, pointsAccrual=25, eventType=ORDER_CREATED, availableAfter="P14D")
    shop.track_one(event(member))
    shop.track_one(order(member, total=100, external_id="o-1"))
    shop.track_one(order_update(member, "o-1", "confirmed"))
    shop.track_one(order(member, total=50, status="partially-returned", external_id="o-1"))
    # One reward is cut to 20 points. The other still waits and is reduced to 12, the half of 25 rounded down. The third
    # transaction is the return of 13. The statuses: 0 is pending, 1 settled, 2 reverted.
    transactions = shop.rows("ledger_transactions", "amount, status", order="ledger_transaction_id")
    assert [tuple(row) for row in transactions] == [(20, 1), (12, 0), (13, 2)]
    with shop.engine.connect() as db:
        date_back(db, shop)
        assert verify(db, shop.organization.id) == []
        db.rollback()


@pytest.mark.parametrize(("breaking_statement", "message"), FAULTS)
def test_verify_reports_a_broken_record_of_the_organization(shop, breaking_statement, message):
    row, faults = verify_after(shop, breaking_statement)
    assert row is not None
    organization, expected_text = f"organization {shop.organization.id}, ", message.format(*row)
    assert any(line.startswith(organization) and expected_text in line for line in faults), (expected_text, faults)
