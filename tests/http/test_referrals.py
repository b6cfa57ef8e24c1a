"""Referrals by events: who is rewarded, who is not and why, and what a cancellation undoes."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.builders.campaigns import mint
from tests.builders.coupons import CouponBooks
from tests.builders.queue import drain, send
from tests.builders.queue import outcome as queued_outcome
from tests.builders.referrals import Friends
from tests.builders.tiers import TierSchedule
from tests.builders.tracking import Shop, event, key, order, order_update, running

CREATED, CONFIRMED = "member-purchase-order-created", "member-purchase-order-confirmed"
# What the programs of `Friends` give for a referral.
REFERRER_POINTS, REFERRED_POINTS = 100, 50


@pytest.fixture
def shop(organization):
    shop = Shop(organization)
    yield shop
    shop.check_ledger()


@pytest.fixture
def friends(shop):
    """A program for generic events that gives the referrer 100 points and the referred member 50."""
    return Friends(shop)


def refer(code, member, **more):
    """A generic event of a member, which names a code."""
    return event(member, payload={"referralCode": code}, **more)


def outcome(result):
    """(status, type of the problem or "") of an event's only referral."""
    [referral] = result["referrals"]
    return referral["status"], referral.get("error", {}).get("type", "").removeprefix("/problems/")


def cancel(shop, result):
    """Cancel the event of a result; return the reversals that the response reports."""
    return shop.integration.post(f"/events/{result['loyaltyEventKey']}/cancel", {}, expect=200)["results"]


def test_a_referral_rewards_both_members_and_is_logged(shop, friends):
    ana, ben = shop.member(), shop.member()
    [code] = friends.codes(ana)
    result = shop.track_one(refer(code["code"], ben))
    account = shop.organization.defaults.ledger_account_id
    reward = {"ledgerAccountId": account, "couponBookKey": None, "code": None, "status": "executed"}
    assert result["referrals"] == [
        {
            "code": code["code"],
            "referralProgramId": friends.program["referralProgramId"],
            "referralCodeId": code["referralCodeId"],
            "referrerMemberId": friends.member_id(ana),
            "status": "applied",
            "rewards": [
                {**reward, "recipient": "referrer", "memberId": friends.member_id(ana), "points": 100},
                {**reward, "recipient": "referred", "memberId": friends.member_id(ben), "points": 50},
            ],
        }
    ]
    assert (shop.balance(ana), shop.balance(ben)) == (REFERRER_POINTS, REFERRED_POINTS)
    [log] = friends.logs(code["code"])
    assert log["referredMemberId"] == friends.member_id(ben)
    record = friends.record()
    assert (record["referredCount"], record["totalCodes"], record["totalLogs"]) == (1, 1, 1)
    assert friends.usages() == {code["code"]: 1}
    # The transactions name the program.
    transactions = shop.integration.get(f"/members/{ana}/ledger-transactions")["results"]
    assert [transaction["description"] for transaction in transactions] == ["Bring a friend"]


def test_a_repeated_event_returns_the_same_result(shop, friends):
    ana, ben = shop.member(), shop.member()
    referral_event = refer(friends.code(ana), ben)
    first_result = shop.track_one(referral_event)
    assert shop.track_one(referral_event) == first_result
    assert shop.track(referral_event, referral_event) == [first_result, first_result]
    assert (shop.balance(ana), shop.balance(ben)) == (REFERRER_POINTS, REFERRED_POINTS)


def test_the_code_of_the_event_takes_precedence_over_the_codes_of_order_and_enrolment(shop):
    friends = Friends(shop, eventType=CREATED)
    ana, ben, cleo = (shop.member() for _ in range(3))
    codes = {member: friends.code(member) for member in (ana, ben, cleo)}
    dora = shop.member(referralCode=codes[cleo])
    with_both_codes = order(dora, referralCode=codes[ben])
    with_both_codes["payload"]["referralCode"] = codes[ana]
    purchases = (with_both_codes, order(dora, referralCode=codes[ben]), order(dora))
    used_codes = [shop.track_one(purchase)["referrals"][0]["code"] for purchase in purchases]
    assert used_codes == [codes[ana], codes[ben], codes[cleo]]
    assert [shop.balance(referrer) for referrer in (ana, ben, cleo)] == [REFERRER_POINTS] * 3
    assert shop.balance(dora) == 3 * REFERRED_POINTS


@pytest.mark.parametrize("calls", ["one call", "two calls"])
def test_the_code_of_an_order_is_reported_as_unknown_at_its_confirmation(shop, calls):
    Friends(shop, eventType=CONFIRMED)
    ana = shop.member()
    purchase = order(ana, external_id="o-1", referralCode="NOBODY")
    confirmation = order_update(ana, "o-1", "confirmed")
    if calls == "one call":
        creation_result, confirmation_result = shop.track(purchase, confirmation)
    else:
        creation_result, confirmation_result = shop.track_one(purchase), shop.track_one(confirmation)
    assert creation_result["referrals"] == []
    assert outcome(confirmation_result) == ("skipped", "unknown-referral-code")
    assert confirmation_result["referrals"][0]["code"] == "NOBODY"


def test_an_enrolment_with_a_code_refers_the_new_member(shop):
    friends = Friends(shop, eventType="member-created")
    ana = shop.member()
    code = friends.code(ana)
    ben = shop.member(referralCode=code)
    shop.member(referralCode="nobody has this")
    shop.member()
    assert (shop.balance(ana), shop.balance(ben)) == (REFERRER_POINTS, REFERRED_POINTS)
    assert [log["referredMemberId"] for log in friends.logs(code)] == [friends.member_id(ben)]


@pytest.mark.parametrize("in_one_request", [True, False])
def test_the_code_of_an_order_is_used_by_its_later_events(shop, in_one_request):
    friends = Friends(shop, eventType=CONFIRMED)
    ana, ben = shop.member(), shop.member()
    code = friends.code(ana)
    events = [order(ben, external_id="o", referralCode=code), order_update(ben, "o", "confirmed")]
    results = shop.track(*events) if in_one_request else [shop.track_one(event) for event in events]
    creation_result, confirmation_result = results
    assert (creation_result["status"], confirmation_result["status"]) == ("success", "success")
    assert creation_result["referrals"] == []
    assert outcome(confirmation_result) == ("applied", "")
    assert (shop.balance(ana), shop.balance(ben)) == (REFERRER_POINTS, REFERRED_POINTS)


def test_an_order_that_an_administrator_creates_can_be_a_referral(shop):
    friends = Friends(shop, eventType=CREATED)
    ana, ben = shop.member(), shop.member()
    body = {"externalId": "o", "type": "shop", "total": 5, "status": "created", "referralCode": friends.code(ana)}
    shop.administration.post(f"/members/{friends.member_id(ben)}/purchase-orders", body)
    assert (shop.balance(ana), shop.balance(ben)) == (REFERRER_POINTS, REFERRED_POINTS)


def test_events_of_other_types_are_no_referrals(shop, friends):
    ana, ben = shop.member(), shop.member()
    code = friends.code(ana)
    result = shop.track_one(order(ben, referralCode=code))
    assert result["referrals"] == []
    # A program for this event type does not accept the code of another program.
    program_for_orders = Friends(shop, eventType=CREATED)
    assert shop.track_one(order(ben, referralCode=code))["referrals"] == []
    assert outcome(shop.track_one(order(ben, referralCode=program_for_orders.code(ana)))) == ("applied", "")
    assert shop.balance(ana) == REFERRER_POINTS


def test_members_cannot_refer_themselves(shop, friends):
    ana = shop.member()
    code = friends.code(ana)
    assert outcome(shop.track_one(refer(code, ana))) == ("skipped", "self-referral")
    assert shop.balance(ana) == 0
    assert friends.logs(code) == []


def test_an_unknown_code_is_skipped_with_the_reason(shop, friends):
    ben = shop.member(referralCode="of the enrolment")
    [referral] = shop.track_one(refer("nobody", ben))["referrals"]
    assert referral.pop("error")["type"] == "/problems/unknown-referral-code"
    assert referral == {
        "code": "nobody",
        "status": "skipped",
        "rewards": [],
        "referralProgramId": None,
        "referralCodeId": None,
        "referrerMemberId": None,
    }
    # An event without a code reports no referral.
    assert shop.track_one(event(ben))["referrals"] == []


def test_a_code_in_another_case_is_unknown(shop, friends):
    ana, ben = shop.member(), shop.member()
    friends.codes(ana, "ANA")
    assert outcome(shop.track_one(refer("ana", ben))) == ("skipped", "unknown-referral-code")


@pytest.mark.parametrize(
    ("limits", "uses", "exceeded_limits"),
    [
        # A use is (code, guest), where x and y are codes of Ana. For each use, "" is no exceeded limit.
        ({"maxPerCode": 2}, ["x ben", "x cleo", "x dora", "y ben"], ["", "", "maxPerCode", ""]),
        (
            {"maxReferralsPerMember": 2},
            ["x ben", "y cleo", "y dora", "x dora"],
            ["", "", "maxReferralsPerMember", "maxReferralsPerMember"],
        ),
        pytest.param(
            {},
            ["x ben", "x ben", "y ben", "x cleo"],
            ["", "maxRedeemsPerReferredMemberPerCode", "", ""],
            id="by default once per guest and code",
        ),
        (
            {"maxRedeemsPerReferredMemberPerCode": 2},
            ["x ben", "x ben", "x ben"],
            ["", "", "maxRedeemsPerReferredMemberPerCode"],
        ),
    ],
)
@pytest.mark.parametrize("in_one_request", [True, False])
def test_a_referral_beyond_a_limit_is_skipped(shop, limits, uses, exceeded_limits, in_one_request):
    friends = Friends(shop, **limits)
    ana, guests = shop.member(), {name: shop.member() for name in ("ben", "cleo", "dora")}
    codes = {name: friends.code(ana) for name in ("x", "y")}
    codes_and_guests = [use.split() for use in uses]
    events = [refer(codes[code], guests[guest]) for code, guest in codes_and_guests]
    results = shop.track(*events) if in_one_request else [shop.track_one(event) for event in events]
    assert [result["referrals"][0].get("error", {}).get("limit", "") for result in results] == exceeded_limits
    applied_count = exceeded_limits.count("")
    assert shop.balance(ana) == REFERRER_POINTS * applied_count
    assert sum(map(shop.balance, guests.values())) == REFERRED_POINTS * applied_count
    assert sum(friends.usages().values()) == applied_count
    assert sum(len(friends.logs(code)) for code in codes.values()) == applied_count
    assert all(result["status"] == "success" for result in results)


def test_limits_apply_to_each_referrer_in_each_program(shop):
    programs = [Friends(shop, maxReferralsPerMember=1) for _ in range(2)]
    referrers, guest = [shop.member() for _ in range(2)], shop.member()
    for program in programs:
        for referrer in referrers:
            assert outcome(shop.track_one(refer(program.code(referrer), guest))) == ("applied", "")


@pytest.mark.parametrize(
    ("dates", "event_date", "expected_status"),
    [
        ({"validFromDate": "2026-03-01T00:00:00Z"}, "2026-02-28T23:59:59Z", "skipped"),
        ({"validFromDate": "2026-03-01T00:00:00Z"}, "2026-03-01T00:00:00Z", "applied"),
        ({"validToDate": "2026-03-01T00:00:00Z"}, "2026-03-01T00:00:00Z", "applied"),
        ({"validToDate": "2026-03-01T00:00:00Z"}, "2026-03-01T00:00:01Z", "skipped"),
        # Without a date the event is of now.
        ({"validFromDate": "2099-01-01T00:00:00Z"}, None, "skipped"),
    ],
)
def test_dates_of_a_program_apply_to_the_event_date(shop, dates, event_date, expected_status):
    friends = Friends(shop, **dates)
    ana, ben = shop.member(), shop.member()
    result = shop.track_one(refer(friends.code(ana), ben, externalEventDate=event_date))
    problem = "" if expected_status == "applied" else "referral-program-inactive"
    assert outcome(result) == (expected_status, problem)


def test_the_codes_of_an_inactive_program_are_skipped(shop, friends):
    ana = shop.member()
    code = friends.code(ana)
    ben = shop.member(referralCode=code)
    friends.change(active=False)
    assert outcome(shop.track_one(refer(code, ben))) == ("skipped", "referral-program-inactive")
    # The code of the enrolment is skipped, even if another program is for this type of event.
    assert shop.track_one(event(ben))["referrals"] == []
    active_program = Friends(shop)
    assert shop.track_one(event(ben))["referrals"] == []
    assert outcome(shop.track_one(refer(code, ben))) == ("skipped", "referral-program-inactive")
    friends.change(active=True)
    assert outcome(shop.track_one(event(ben))) == ("applied", "")
    assert active_program.record()["totalLogs"] == 0


def test_an_order_of_a_referred_member_counts_while_the_program_is_inactive(shop):
    friends, ana = Friends(shop, eventType=CREATED), shop.member()
    ben = shop.member(referralCode=friends.code(ana))
    friends.change(eventType=CREATED, active=False)
    shop.campaign(running(mint(5)), eventType=CREATED)
    result = shop.track_one(order(ben))
    assert (result["status"], result["referrals"]) == ("success", [])
    assert (shop.balance(ana), shop.balance(ben)) == (0, 5)


def test_an_inactive_referrer_is_not_rewarded(shop, friends):
    ana, ben = shop.member(), shop.member()
    code = friends.code(ana)
    shop.integration.patch(f"/members/{ana}", {"active": False})
    assert outcome(shop.track_one(refer(code, ben))) == ("skipped", "member-inactive")
    assert (shop.balance(ana), shop.balance(ben)) == (0, 0)


def test_the_referred_member_must_be_in_the_audience(shop):
    audience = shop.administration.post("/audiences", {"name": "New", "matcherType": "list-matcher"})["audience"]
    friends = Friends(shop, audienceId=audience["audienceId"])
    ana, ben = shop.member(), shop.member()
    code = friends.code(ana)
    assert outcome(shop.track_one(refer(code, ben))) == ("skipped", "not-in-referral-audience")
    path = f"/audiences/{audience['audienceId']}/members"
    shop.administration.patch(path, {"add": [friends.member_id(ana)]})
    assert outcome(shop.track_one(refer(code, ben))) == ("skipped", "not-in-referral-audience")
    shop.administration.patch(path, {"add": [friends.member_id(ben)]})
    assert outcome(shop.track_one(refer(code, ben))) == ("applied", "")


def test_rewards_go_to_the_ledger_accounts_of_the_program(shop):
    defaults = shop.organization.defaults
    stars, hearts = shop.account(decimals=2), shop.account()
    body = {"ledgerId": defaults.ledger_id, "description": "Second", "setAsDefault": False}
    body["mainLedgerAccountId"] = hearts["ledgerAccountId"]
    loyalty_program = shop.administration.post("/loyalty-programs", body)["loyaltyProgram"]
    # The referrer gets stars. The referred member gets points of the loyalty program, which are hearts.
    friends = Friends(
        shop,
        loyaltyProgramId=loyalty_program["loyaltyProgramId"],
        referrerLedgerId=defaults.ledger_id,
        referrerLedgerAccountId=stars["ledgerAccountId"],
        referrerPointsAccrual=1.25,
        referredPointsAccrual=7,
    )
    ana, ben = shop.member(), shop.member()
    shop.track_one(refer(friends.code(ana), ben))
    assert float(shop.balance(ana, stars["ledgerAccountId"])) == 1.25
    assert shop.balance(ben, hearts["ledgerAccountId"]) == 7


@pytest.mark.parametrize("accrual", [0, None])
@pytest.mark.parametrize(
    ("recipient", "balances"), [("referrer", (0, REFERRED_POINTS)), ("referred", (REFERRER_POINTS, 0))]
)
def test_a_referrer_or_referred_member_without_an_accrual_gets_no_points(shop, recipient, balances, accrual):
    friends = Friends(shop, **{f"{recipient}PointsAccrual": accrual})
    referrer, referred_member = shop.member(), shop.member()
    [referral] = shop.track_one(refer(friends.code(referrer), referred_member))["referrals"]
    assert referral["status"] == "applied"
    assert recipient not in [reward["recipient"] for reward in referral["rewards"]]
    assert (shop.balance(referrer), shop.balance(referred_member)) == balances


def test_a_reward_that_cannot_be_given_does_not_prevent_the_other(shop):
    # The referrer's 100 points are more than the supply.
    scarce_account = shop.account(maxSupply=10)
    friends = Friends(shop, referrerLedgerAccountId=scarce_account["ledgerAccountId"])
    ana, ben = shop.member(), shop.member()
    [referral] = shop.track_one(refer(friends.code(ana), ben))["referrals"]
    assert referral["status"] == "applied"
    referrer_reward, referred_reward = referral["rewards"]
    assert (referrer_reward["status"], referred_reward["status"]) == ("skipped", "executed")
    assert referrer_reward["error"]["type"] == "/problems/supply-exceeded"
    assert (shop.balance(ana), shop.balance(ben)) == (0, REFERRED_POINTS)
    assert shop.administration.get(f"{friends.path}/leaderboard")["results"][0]["pointsAccumulated"] == 0


def test_campaigns_also_evaluate_the_event_of_a_referral(shop, friends):
    shop.campaign(running(mint(3), rule="size(balances) >= 0"), eventType="member-generic-event")
    ana, ben = shop.member(), shop.member()
    result = shop.track_one(refer(friends.code(ana), ben))
    assert [effect["status"] for effect in result["effects"]] == ["executed"]
    assert (shop.balance(ana), shop.balance(ben)) == (REFERRER_POINTS, REFERRED_POINTS + 3)


@pytest.mark.parametrize("mode", ["dryRun", "captureOnly", "authorize"])
def test_only_the_full_mode_executes_referrals(shop, friends, mode):
    ana, ben = shop.member(), shop.member()
    code = friends.code(ana)
    [result] = shop.track(refer(code, ben), executionMode=mode)
    assert (shop.balance(ana), shop.balance(ben)) == (0, 0)
    assert friends.logs(code) == []
    assert friends.usages() == {code: 0}
    # A dry run reports what it would do.
    if mode != "dryRun":
        assert result["referrals"] == []


def test_a_dry_run_reports_the_same_referrals_as_the_full_run(shop):
    friends = Friends(shop, maxPerCode=3, maxReferralsPerMember=4)
    owners, guests = [shop.member() for _ in range(2)], [shop.member() for _ in range(4)]
    # An unknown code too, and an owner who uses codes like a guest.
    codes = [*(friends.code(owners[n % 2]) for n in range(4)), "nobody"]
    users = [*guests, owners[0]]
    events = [refer(codes[(n * 3) % 5], users[(n * 2) % 5]) for n in range(30)]
    dry_run = [referral for result in shop.track(*events, executionMode="dryRun") for referral in result["referrals"]]
    full_run = [referral for result in shop.track(*events) for referral in result["referrals"]]
    # Only the status of the rewards differs.
    for referral in dry_run:
        for reward in referral["rewards"]:
            assert reward["status"] == "evaluated"
            reward["status"] = "executed"
    assert dry_run == full_run
    assert {referral["status"] for referral in full_run} == {"applied", "skipped"}


def test_a_cancellation_restores_the_state_before_the_referral(shop):
    friends = Friends(shop, maxPerCode=1, maxReferralsPerMember=1)
    ana, ben, cleo = (shop.member() for _ in range(3))
    code = friends.code(ana)

    def state():
        return friends.record(), friends.usages(), friends.logs(code), shop.balance(ana), shop.balance(ben)

    state_before = state()
    result = shop.track_one(refer(code, ben))
    [log] = friends.logs(code)
    assert outcome(shop.track_one(refer(code, cleo))) == ("skipped", "referral-limit-reached")
    [reversal] = cancel(shop, result)
    assert reversal["referrals"] == [
        {
            "referralLogId": log["referralLogId"],
            "referralProgramId": friends.program["referralProgramId"],
            "referralCodeId": log["referralCodeId"],
            "code": code,
            "referrerMemberId": friends.member_id(ana),
            "referredMemberId": friends.member_id(ben),
        }
    ]
    amounts = [ledger_transaction["amount"] for ledger_transaction in reversal["ledgerTransactions"]]
    assert sorted(amounts) == [REFERRED_POINTS, REFERRER_POINTS]
    assert state() == state_before
    # The limits allow a referral again, even of the same member.
    second_result = shop.track_one(refer(code, ben))
    assert outcome(second_result) == ("applied", "")
    cancel(shop, second_result)
    assert outcome(shop.track_one(refer(code, cleo))) == ("applied", "")
    problem = shop.integration.post(f"/events/{second_result['loyaltyEventKey']}/cancel", {}, expect=409)
    assert problem["type"] == "/problems/event-cancelled"
    assert friends.usages() == {code: 1}


def test_a_cancellation_claws_back_only_points_that_the_referrer_still_has(shop, friends):
    ana, ben = shop.member(), shop.member()
    code = friends.code(ana)
    result = shop.track_one(refer(code, ben))
    shop.take(ana, 70)
    [reversal] = cancel(shop, result)
    outcomes = {
        ledger_transaction["amount"]: ledger_transaction["outcome"]
        for ledger_transaction in reversal["ledgerTransactions"]
    }
    # Ana has 30 of the 100.
    assert outcomes == {REFERRER_POINTS: "clamped", REFERRED_POINTS: "reverted"}
    assert (shop.balance(ana), shop.balance(ben)) == (0, 0)
    assert friends.usages() == {code: 0}


@pytest.mark.parametrize("status", ["returned", "cancelled", "rejected"])
@pytest.mark.parametrize("in_one_request", [True, False])
def test_undoing_an_order_undoes_its_referral(shop, status, in_one_request):
    friends = Friends(shop, eventType=CREATED, maxPerCode=1)
    ana, ben, cleo = (shop.member() for _ in range(3))
    code = friends.code(ana)
    creation = order(ben, external_id="o", referralCode=code)
    # Only a confirmed order can be returned.
    confirmations = [order_update(ben, "o", "confirmed")] if status == "returned" else []
    # The second referral is within the limit of the code only when the first is undone.
    events = [creation, *confirmations, order_update(ben, "o", status), order(cleo, referralCode=code)]
    results = shop.track(*events) if in_one_request else [shop.track_one(event) for event in events]
    undo_result, second_referral_result = results[-2:]
    assert len(undo_result["reverted"][0]["referrals"]) == 1
    assert outcome(second_referral_result) == ("applied", "")
    assert [shop.balance(member) for member in (ana, ben, cleo)] == [REFERRER_POINTS, 0, REFERRED_POINTS]
    assert friends.usages() == {code: 1}
    assert friends.record()["referredCount"] == 1


def test_a_partial_return_reverts_the_points_of_a_referral_in_proportion(shop):
    friends = Friends(shop, eventType=CREATED)
    ana, ben = shop.member(), shop.member()
    code = friends.code(ana)
    mug, tea = {"productCode": "mug", "total": 5}, {"productCode": "tea", "total": 5}
    shop.track_one(order(ben, total=10, external_id="o", referralCode=code, items=[mug, tea]))
    shop.track_one(order_update(ben, "o", "confirmed"))
    # Half of the order.
    shop.track_one(order_update(ben, "o", "partially-returned", items=[mug]))
    assert (shop.balance(ana), shop.balance(ben)) == (REFERRER_POINTS // 2, REFERRED_POINTS // 2)
    assert friends.usages() == {code: 1}
    shop.track_one(order_update(ben, "o", "returned"))
    assert (shop.balance(ana), shop.balance(ben)) == (0, 0)
    assert friends.usages() == {code: 0}


# --- coupons -----------------------------------------------------------------------------------------------------


@pytest.fixture
def books(organization):
    return CouponBooks(organization)


def coupons_by_member(shop, book):
    """The number of coupons of a book that each member has, by the member's id."""
    rows = shop.rows("coupon_usages", "member_id, coupon_book_id, amount_assigned")
    amounts = Counter()
    for row in rows:
        if row.coupon_book_id == book["couponBookId"]:
            amounts[row.member_id] += row.amount_assigned
    return {member: amount for member, amount in amounts.items() if amount}


def test_a_referral_can_give_points_and_coupons(shop, books):
    referrer_book, referred_book = books.make("A1", "A2"), books.make(type="codeless", maxCouponCount=5)
    shop.campaign(running(mint(1)), eventType="coupon-code-assigned")
    keys = {
        "referrerCouponBookKey": referrer_book["couponBookKey"],
        "referredCouponBookKey": referred_book["couponBookKey"],
    }
    friends = Friends(shop, **keys, referredPointsAccrual=None)
    ana, ben = shop.member(), shop.member()
    result = shop.track_one(refer(friends.code(ana), ben))
    [referral] = result["referrals"]
    outcomes = [
        (reward["recipient"], reward["points"], reward["couponBookKey"], reward["status"])
        for reward in referral["rewards"]
    ]
    assert outcomes == [
        ("referrer", 100, None, "executed"),
        ("referrer", None, referrer_book["couponBookKey"], "executed"),
        ("referred", None, referred_book["couponBookKey"], "executed"),
    ]
    assert coupons_by_member(shop, referrer_book) == {friends.member_id(ana): 1}
    assert coupons_by_member(shop, referred_book) == {friends.member_id(ben): 1}
    # Each assignment is reported, and campaigns evaluate it.
    assert (shop.balance(ana), shop.balance(ben)) == (REFERRER_POINTS + 1, 1)
    for member in (ana, ben):
        assert [event["eventType"] for event in shop.events(member)].count("coupon-code-assigned") == 1


def test_a_cancellation_reverts_the_coupons_of_a_referral(shop, books):
    referrer_book, referred_book = books.make("A1"), books.make(type="generated", maxCouponCount=1)
    keys = {
        "referrerCouponBookKey": referrer_book["couponBookKey"],
        "referredCouponBookKey": referred_book["couponBookKey"],
    }
    friends = Friends(shop, referrerPointsAccrual=0, referredPointsAccrual=0, **keys)
    ana, ben, cleo = (shop.member() for _ in range(3))
    code = friends.code(ana)
    # Each book has one coupon, so Cleo can get it only after the first cancellation.
    for member in (ben, cleo):
        result = shop.track_one(refer(code, member))
        assert {reward["status"] for reward in result["referrals"][0]["rewards"]} == {"executed"}
        assert len(friends.logs(code)) == 1
        reversals = cancel(shop, result)
        event_reversal = next(reversal for reversal in reversals if reversal["eventType"] == "member-generic-event")
        assert sorted(coupon["couponBookKey"] for coupon in event_reversal["coupons"]) == sorted(keys.values())
        assert len(event_reversal["referrals"]) == 1
        assert coupons_by_member(shop, referrer_book) == {}
        assert coupons_by_member(shop, referred_book) == {}
        assert friends.usages() == {code: 0}


@pytest.mark.parametrize(
    ("book_fields", "problem"),
    [
        pytest.param({}, "coupon-out-of-stock", id="without codes"),
        ({"publishingStatus": "draft"}, "coupon-book-not-published"),
    ],
)
def test_an_unavailable_coupon_does_not_prevent_the_other_rewards(shop, books, book_fields, problem):
    book = books.make(**book_fields)
    friends = Friends(shop, referrerCouponBookKey=book["couponBookKey"])
    ana, ben = shop.member(), shop.member()
    [referral] = shop.track_one(refer(friends.code(ana), ben))["referrals"]
    referrer_points, referrer_coupon, referred_points = referral["rewards"]
    assert (referrer_coupon["status"], referrer_coupon["error"]["type"]) == ("skipped", f"/problems/{problem}")
    assert (referrer_points["status"], referred_points["status"]) == ("executed", "executed")
    assert (shop.balance(ana), shop.balance(ben)) == (REFERRER_POINTS, REFERRED_POINTS)


def test_a_dry_run_assigns_no_coupons(shop, books):
    # The book has one coupon, so the second referral gives none.
    book = books.make("A1")
    friends = Friends(shop, referrerCouponBookKey=book["couponBookKey"])
    ana = shop.member()
    code = friends.code(ana)
    events = [refer(code, shop.member()), refer(code, shop.member())]

    def coupon_statuses(results):
        """The status of the coupon of each referral, which is the reward after the referrer's points."""
        return [result["referrals"][0]["rewards"][1]["status"] for result in results]

    assert coupon_statuses(shop.track(*events, executionMode="dryRun")) == ["evaluated", "skipped"]
    assert coupons_by_member(shop, book) == {}
    assert coupon_statuses(shop.track(*events)) == ["executed", "skipped"]
    assert coupons_by_member(shop, book) == {friends.member_id(ana): 1}


# --- events of the queue and server ------------------------------------------------------------------------------


def test_queued_events_are_referrals_when_they_are_evaluated(shop, friends):
    ana, ben, cleo = (shop.member() for _ in range(3))
    code = friends.code(ana)
    dora = shop.member(referralCode=code)
    receipts = send(shop, refer(code, ben), refer(code, ben), refer("nobody", cleo), event(dora))
    assert friends.logs(code) == []
    drain(shop)
    results = [queued_outcome(shop, receipt)["result"] for receipt in receipts]
    assert [outcome(result) for result in results] == [
        ("applied", ""),
        ("skipped", "referral-limit-reached"),
        ("skipped", "unknown-referral-code"),
        ("applied", ""),
    ]
    assert shop.balance(ana) == 2 * REFERRER_POINTS
    assert [shop.balance(member) for member in (ben, cleo, dora)] == [REFERRED_POINTS, 0, REFERRED_POINTS]
    assert friends.usages() == {code: 2}


@pytest.mark.parametrize("cause", ["track", "mint"])
def test_an_event_that_the_server_reports_can_be_a_referral(shop, cause):
    """A member who reaches Gold rewards the referrer, who thereby reaches Gold and rewards the next referrer."""
    friends = Friends(shop, eventType="member-tier-set", referredPointsAccrual=0)
    TierSchedule.new(shop, Gold=100)
    # Each member is enrolled with a code of the one before.
    chain = [shop.member()]
    for _ in range(3):
        chain.append(shop.member(referralCode=friends.code(chain[-1])))
    last_member = chain[-1]
    if cause == "track":
        shop.campaign(running(mint(100)), eventType="member-generic-event")
        shop.track_one(event(last_member))
    else:
        shop.give(last_member, 100)
    assert [shop.balance(member) for member in chain] == [100] * 4
    assert friends.record()["totalLogs"] == 3


def test_malformed_codes_in_payloads_are_refused(shop, friends):
    ben = shop.member()
    for payload, pointer in (
        ({"referralCode": 7}, "referralCode"),
        ({"referralCode": "x" * 256}, "referralCode"),
        ({"referralAttributes": "x"}, "referralAttributes"),
    ):
        body = {"events": [event(ben, payload=payload)]}
        problem = shop.integration.post("/events/track", body, expect=400)
        assert {error["pointer"] for error in problem["errors"]} == {f"/events/0/payload/{pointer}"}
    # Null and the empty text are no code.
    for no_code in (None, ""):
        assert shop.track_one(refer(no_code, ben))["referrals"] == []


def test_an_event_that_an_administrator_tracks_can_be_a_referral(shop, friends):
    ana, ben = shop.member(), shop.member()
    body = {
        "systemUniqueKey": key(),
        "memberId": friends.member_id(ben),
        "eventType": "member-generic-event",
        "organizationId": shop.organization.id,
        "payload": {"referralCode": friends.code(ana)},
    }
    shop.administration.post("/events/track", body, expect=200)
    assert (shop.balance(ana), shop.balance(ben)) == (REFERRER_POINTS, REFERRED_POINTS)
