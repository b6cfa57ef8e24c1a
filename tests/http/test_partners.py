"""Payment intents over HTTP: who is found or enrolled, the refusals, and the responses to the partner."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.builders.campaigns import effect, mint
from tests.builders.missions import MissionCount
from tests.builders.missions import create as create_mission
from tests.builders.partners import PAYMENT, Partner, customer, footprint, new_id, organization_key
from tests.builders.points import Points
from tests.builders.tiers import TierSchedule
from tests.builders.tracking import Shop, event, running

BOTH = ("partnera", "partnerb")
FULL_PAYMENT = {
    "total": Decimal("12.5"),
    "type": "qr",
    "rawQr": "000201",
    "postPayment": True,
    "merchantId": "30-71234567-9",
    "products": [{"sku": "latte", "subTotal": 5, "total": Decimal("4.5"), "quantity": 1, "description": "A latte"}],
}
INFO = {
    "userGovId": "30111222",
    "email": "ana@example.com",
    "phone": "+54 11 5555 0100",
    "firstName": "Ana",
    "lastName": "Costa",
    "data": {"drink": "flat white", "visits": 3},
}


@pytest.fixture
def shop(organization):
    return Shop(organization)


@pytest.fixture
def partner(shop):
    """The wallet of partner A."""
    return Partner.of(shop)


@pytest.fixture(params=BOTH)
def any_partner(shop, request):
    """The wallet of each of the two partners."""
    return Partner.of(shop, request.param)


def test_the_response_to_a_payment_has_the_changed_balances_and_the_effects(shop, any_partner):
    stars = shop.account(name="Stars", decimals=2)
    shop.campaign(
        running(
            mint(("=", "payment.total")),
            mint(("=", "payment.total / 8.0"), ledgerAccountKey=stars["ledgerAccountKey"]),
        ),
        eventType=PAYMENT,
    )
    member = shop.member()
    shop.give(member, 100)
    outcome = any_partner.pay(member, 10)
    # The member had 100 points and no stars; the payment gives 10 points and 10 / 8 stars.
    assert outcome == {
        "loyaltyMemberId": member,
        "tier": outcome["tier"],
        "isNewMember": False,
        "accountBalances": [
            {
                "balance": 100 + 10,
                "newAccrual": 10,
                "unitName": "Points",
                "accountId": shop.organization.defaults.ledger_account_id,
            },
            {
                "balance": Decimal("1.25"),
                "newAccrual": Decimal("1.25"),
                "unitName": "Stars",
                "accountId": stars["ledgerAccountId"],
            },
        ],
        "missionsStatus": [],
        "effects": [{"effectId": "mint-points", "discount": None, "discountedTotal": None, "discountType": None}] * 2,
    }
    assert outcome["tier"] == "Member"
    assert shop.balance(member) == 100 + 10
    second_balances = any_partner.pay(member, 10)["accountBalances"]
    assert [(account_balance["balance"], account_balance["newAccrual"]) for account_balance in second_balances] == [
        (120, 10),
        (Decimal("2.5"), Decimal("1.25")),
    ]


def test_the_response_to_a_payment_that_changes_nothing_has_empty_lists(shop, any_partner):
    outcome = any_partner.pay(shop.member())
    assert (outcome["accountBalances"], outcome["missionsStatus"], outcome["effects"]) == ([], [], [])


@pytest.mark.parametrize("name", BOTH)
def test_an_intent_without_a_required_field_is_refused(shop, name):
    partner = Partner.of(shop, name)
    required_fields = {
        "partnera": {"total", "paymentId", "type", "organizationKey", "loyaltyMemberId"},
        "partnerb": {
            *("total", "referenceId", "type", "organizationKey", "forceUserSubscription"),
            *("loyaltyMemberId", "merchantId"),
        },
    }[name]
    body = partner.body(shop.member())
    assert body.keys() == required_fields
    footprint_before = footprint(shop)
    for required_field in sorted(required_fields):
        reply = partner.send({field: value for field, value in body.items() if field != required_field})
        assert reply.status == 400
        if name == "partnera":
            assert reply.text == ""
        else:
            assert [fault["pointer"] for fault in reply.json["errors"]] == [f"/{required_field}"]
    assert footprint(shop) == footprint_before
    assert partner.send(body).status == 200


@pytest.mark.parametrize(
    "invalid_fields",
    [
        {"loyaltyMemberId": "123456"},
        {"total": -1},
        {"total": "10"},
        {"organizationKey": "corner"},
        {"unknown": 1},
        {"paymentId": ""},
        {"products": [{"price": 1}]},
        {"memberInfo": {"loyaltyMemberId": "123456"}},
        {"memberInfo": {"email": "nobody"}},
        {"forceUserSubscription": "yes"},
    ],
)
def test_an_invalid_intent_is_400_without_a_body_for_partner_a(shop, invalid_fields):
    partner_a, partner_b = (Partner.of(shop, name) for name in BOTH)
    footprint_before = footprint(shop)
    reply = partner_a.send(partner_a.body("somebody") | invalid_fields)
    assert (reply.status, reply.text, reply.headers["content-length"]) == (400, "", "0")
    assert "content-type" not in reply.headers
    assert reply.headers["x-request-id"]
    refusal = partner_b.send(partner_b.body("somebody") | invalid_fields)
    assert (refusal.status, refusal.json["type"]) == (400, "/problems/invalid-request")
    assert refusal.json["errors"]
    assert footprint(shop) == footprint_before


def test_a_body_that_is_no_json_is_an_empty_400_for_partner_a(partner, shop):
    assert (partner.send([]).status, partner.send([]).text) == (400, "")
    reply = partner.send(None)
    assert (reply.status, reply.text) == (400, "")
    # Other errors have a problem as their body.
    assert partner.send(partner.body(customer())).json["type"] == "/problems/unknown-member"
    no_key = partner.send(partner.body(customer()), headers={})
    assert no_key.json["type"] == "/problems/unauthorized"


def test_only_partner_a_sends_a_store(shop):
    partner_a, partner_b = (Partner.of(shop, name) for name in BOTH)
    member = shop.member()
    assert partner_a.pay(member, storeId="store-4")
    assert partner_b.expect_refusal(member, storeId="store-4") == (400, "/problems/invalid-request")


def test_campaigns_see_every_field_of_a_payment(shop):
    partner = Partner.of(shop, key_name="The wallet")
    rule = (
        "payment.storeId == 'store-4' && payment.merchantId == '30-71234567-9' && payment.type == 'qr'"
        " && payment.rawQr == '000201' && payment.postPayment && payment.referenceId == 'ref-1'"
        " && payment.memberInfo.data.visits == 3 && payment.products[0].sku == 'latte' && payment.total == 12.5"
    )
    shop.campaign(running(mint(7), rule=rule), eventType=PAYMENT)
    member = shop.member()
    fields = {
        **FULL_PAYMENT,
        "storeId": "store-4",
        "referenceId": "ref-1",
        "memberInfo": INFO,
        "paymentId": "payment-1",
    }
    total = fields.pop("total")
    assert partner.pay(member, total, **fields)["accountBalances"][0]["newAccrual"] == 7
    [payment_event] = shop.events(member)
    assert (payment_event["eventType"], payment_event["externalId"]) == (PAYMENT, "payment-1")
    assert payment_event["description"] == "Payment reported by The wallet."
    payloads = {row.event_type: row.payload for row in shop.rows("events", "event_type, payload")}
    assert payloads[PAYMENT]["payment"] == {
        **{name: value for name, value in fields.items() if name not in ("memberInfo", "products")},
        "total": 12.5,
        "products": [{**fields["products"][0], "total": 4.5}],
        "memberInfo": {"data": INFO["data"]},
    }


def test_an_unknown_customer_is_404_unless_the_intent_requests_an_enrolment(shop, any_partner):
    footprint_before = footprint(shop)
    name = customer()
    assert any_partner.expect_refusal(name) == (404, "/problems/unknown-member")
    assert any_partner.expect_refusal(name, forceUserSubscription=False) == (404, "/problems/unknown-member")
    assert any_partner.expect_refusal(name, memberInfo=INFO) == (404, "/problems/unknown-member")
    assert footprint(shop) == footprint_before


def test_a_customer_becomes_a_member_with_only_an_id(shop, any_partner):
    name = customer()
    outcome = any_partner.pay(name, forceUserSubscription=True)
    assert (outcome["loyaltyMemberId"], outcome["isNewMember"]) == (name, True)
    assert outcome["tier"] == "Member"
    member = shop.integration.get(f"/members/{name}")["loyaltyMember"]
    assert member["active"]
    assert member["channelAcquisition"] == "The wallet"
    assert member["tiers"]
    assert any_partner.pay(name, forceUserSubscription=True)["isNewMember"] is False


def test_a_customer_becomes_a_member_with_all_onboarding_data(shop, any_partner):
    name = customer()
    assert any_partner.pay(name, forceUserSubscription=True, memberInfo=INFO)["isNewMember"]
    member = shop.integration.get(f"/members/{name}")["loyaltyMember"]
    profile = member["profile"]
    assert (profile["name"], profile["lastName"]) == ("Ana", "Costa")
    assert (profile["email"], profile["phoneNumber"]) == ("ana@example.com", "+54 11 5555 0100")
    assert profile["govId"] == {"id": "30111222", "type": None, "issuingCountry": None}
    assert member["customAttributes"] == INFO["data"]
    events = shop.rows("events", "event_type, reason", order="loyalty_event_id")
    assert events == [("member-created", "The member was enrolled by a partner's payment."), (PAYMENT, None)]
    # Onboarding data do not change an existing member.
    any_partner.pay(name, memberInfo={**INFO, "firstName": "Eva"})
    assert shop.integration.get(f"/members/{name}")["loyaltyMember"]["profile"]["name"] == "Ana"


def test_campaigns_and_triggers_receive_the_enrolment_of_a_customer(shop, partner):
    shop.campaign(running(mint(100)), eventType="member-created")
    # The points of the enrolment are available to the campaign of the payment.
    shop.campaign(running(mint(5), rule="balances.points >= 100"), eventType=PAYMENT)
    settings = {"url": "https://hooks.invalid/x", "entities": ["member"]}
    shop.administration.post(
        "/triggers", {"triggerKey": "told", "type": "EntityChangeWebhook", "name": "Told", "settings": settings}
    )
    name = customer()
    [account_balance] = partner.pay(name, forceUserSubscription=True)["accountBalances"]
    assert (account_balance["balance"], account_balance["newAccrual"]) == (100 + 5, 100 + 5)
    assert [row.type for row in shop.rows("trigger_deliveries", "type")] == ["member.created"]


def test_a_customer_is_found_by_the_government_id(shop, any_partner):
    member = shop.member(profile={"govId": {"id": "30111222"}})
    outcome = any_partner.pay("30111222", forceUserSubscription=True)
    assert (outcome["loyaltyMemberId"], outcome["isNewMember"]) == (member, False)
    # A member with this loyaltyMemberId takes precedence.
    shop.member(loyalty_member_id="30111222")
    assert any_partner.pay("30111222")["loyaltyMemberId"] == "30111222"


def test_a_new_member_has_the_id_of_the_onboarding_data(shop, any_partner):
    info = {**INFO, "loyaltyMemberId": "card-0077"}
    first_outcome = any_partner.pay("30111222", forceUserSubscription=True, memberInfo=info)
    assert (first_outcome["loyaltyMemberId"], first_outcome["isNewMember"]) == ("card-0077", True)
    for name in ("30111222", "card-0077"):
        assert any_partner.pay(name)["loyaltyMemberId"] == "card-0077"
    # The card suffices to find the member, whatever the number of the payment.
    second_outcome = any_partner.pay(
        "another-number", forceUserSubscription=True, memberInfo={"loyaltyMemberId": "card-0077"}
    )
    assert (second_outcome["loyaltyMemberId"], second_outcome["isNewMember"]) == ("card-0077", False)


def test_null_is_accepted_as_no_onboarding_data(shop, any_partner):
    assert any_partner.pay(shop.member(), memberInfo=None)["isNewMember"] is False


def test_the_id_of_the_payment_becomes_the_government_id_of_a_member_with_another_id(shop, any_partner):
    first_outcome = any_partner.pay("30111222", forceUserSubscription=True, memberInfo={"loyaltyMemberId": "card-0077"})
    assert (first_outcome["loyaltyMemberId"], first_outcome["isNewMember"]) == ("card-0077", True)
    second_outcome = any_partner.pay("30111222", forceUserSubscription=True)
    assert (second_outcome["loyaltyMemberId"], second_outcome["isNewMember"]) == ("card-0077", False)
    profile = shop.integration.get("/members/card-0077")["loyaltyMember"]["profile"]
    assert profile["govId"] == {"id": "30111222", "type": None, "issuingCountry": None}


@pytest.mark.parametrize(
    ("name", "gov_id"), [("30111222", "30111333"), ("3" * 101, None)], ids=["three ids", "a long id"]
)
def test_a_customer_is_not_enrolled_if_the_next_payment_would_not_find_the_member(shop, any_partner, name, gov_id):
    info = {"loyaltyMemberId": "card-0077", "userGovId": gov_id}
    footprint_before = footprint(shop)
    refusal = any_partner.expect_refusal(name, forceUserSubscription=True, memberInfo=info)
    assert refusal == (404, "/problems/member-not-created")
    assert footprint(shop) == footprint_before


def test_a_government_id_that_several_members_have_is_409(shop, any_partner):
    for _ in range(2):
        shop.member(profile={"govId": {"id": "30111222"}})
    assert any_partner.expect_refusal("30111222", forceUserSubscription=True) == (409, "/problems/ambiguous-member")


@pytest.mark.parametrize("name", ["a/b/c/d/e", ".......", "tab\tbed-id"])
def test_an_id_that_no_member_can_have_is_404(shop, any_partner, name):
    footprint_before = footprint(shop)
    assert any_partner.expect_refusal(name, forceUserSubscription=True) == (404, "/problems/member-not-created")
    assert footprint(shop) == footprint_before


def test_onboarding_data_with_the_government_id_of_another_member_are_404(shop, any_partner):
    shop.member(profile={"govId": {"id": "30111222"}})
    footprint_before = footprint(shop)
    refusal = any_partner.expect_refusal(customer(), forceUserSubscription=True, memberInfo=INFO)
    assert refusal == (404, "/problems/member-not-created")
    assert footprint(shop) == footprint_before


def test_the_payment_of_an_inactive_member_is_409_and_can_be_repeated_after_activation(shop, any_partner):
    member = shop.member()
    shop.integration.patch(f"/members/{member}", {"active": False})
    footprint_before = footprint(shop)
    body = any_partner.body(member, forceUserSubscription=True)
    reply = any_partner.send(body)
    assert (reply.status, reply.json["type"]) == (409, "/problems/member-inactive")
    assert footprint(shop) == footprint_before
    shop.integration.patch(f"/members/{member}", {"active": True})
    assert any_partner.send(body).status == 200


def test_a_payment_id_is_accepted_once_from_all_partners(shop):
    shop.campaign(running(mint(5)), eventType=PAYMENT)
    partner_a, partner_b = (Partner.of(shop, name) for name in BOTH)
    member = shop.member()
    body = partner_a.body(member, paymentId="payment-1")
    assert partner_a.send(body).status == 200
    footprint_before = footprint(shop)
    for sender, second_body in (
        (partner_a, body),
        (partner_a, partner_a.body(customer(), paymentId="payment-1", forceUserSubscription=True)),
        (partner_b, partner_b.body(member, paymentId="payment-1")),
        (partner_b, partner_b.body(member, referenceId="payment-1")),
    ):
        reply = sender.send(second_body)
        assert (reply.status, reply.json["type"]) == (409, "/problems/payment-exists"), reply.text
    assert footprint(shop) == footprint_before
    assert shop.balance(member) == 5


def test_the_reference_of_partner_b_is_the_payment_id_only_if_no_payment_id_is_sent(shop):
    partner = Partner.of(shop, "partnerb")
    member = shop.member()
    for payment in ("payment-1", "payment-2", None):
        partner.pay(member, paymentId=payment, referenceId="order-1")
    assert partner.expect_refusal(member, referenceId="order-1") == (409, "/problems/payment-exists")
    assert sorted(row.payment_id for row in shop.rows("partner_payments", "payment_id")) == [
        "order-1",
        "payment-1",
        "payment-2",
    ]


def test_another_organization_can_have_the_same_payment_id(api, shop, partner):
    partner_of_another_organization = Partner.of(Shop(api.organization()))
    for caller in (partner, partner_of_another_organization):
        assert caller.pay(caller.shop.member(), paymentId="payment-1")


def test_an_intent_must_name_the_organization_of_its_key(api, shop, any_partner):
    other_shop = Shop(api.organization())
    member = shop.member()
    refusal = any_partner.expect_refusal(member, organizationKey=organization_key(other_shop))
    assert refusal == (404, "/problems/unknown-organization")
    assert any_partner.pay(member, organizationKey=organization_key(shop).upper())
    # Members of another organization are not found.
    assert any_partner.expect_refusal(other_shop.member()) == (404, "/problems/unknown-member")


def mission_counts_of(outcome):
    """The counts of missions in the response to a payment."""
    names = ("currentCounter", "newCounter", "achieved", "timesAchieved")
    return [MissionCount(*(status[name] for name in names)) for status in outcome["missionsStatus"]]


def test_every_third_payment_achieves_the_mission_and_the_next_one_counts_from_zero(shop, any_partner):
    mission = create_mission(
        shop, eventType=PAYMENT, goalCount=3, pointsAccrual=50, shortDescription="The next coffee is on us."
    )
    member = shop.member()
    counts = [mission_counts_of(any_partner.pay(member)) for _ in range(7)]
    assert counts == [
        [MissionCount(before=0, after=1, achieved=False, times=0)],
        [MissionCount(before=1, after=2, achieved=False, times=0)],
        [MissionCount(before=2, after=3, achieved=True, times=1)],
        [MissionCount(before=0, after=1, achieved=False, times=1)],
        [MissionCount(before=1, after=2, achieved=False, times=1)],
        [MissionCount(before=2, after=3, achieved=True, times=2)],
        [MissionCount(before=0, after=1, achieved=False, times=2)],
    ]
    [status] = any_partner.pay(member)["missionsStatus"]
    assert (status["missionId"], status["goal"]) == (mission["missionId"], 3)
    assert status["userMessage"] == "The next coffee is on us."
    # The ninth payment achieves the mission for the third time.
    ninth_outcome = any_partner.pay(member)
    assert [account_balance["newAccrual"] for account_balance in ninth_outcome["accountBalances"]] == [50]


def test_a_mission_that_moves_twice_is_reported_once(shop, partner):
    mission = create_mission(shop, eventType="mission-status-updated", goalCount=10)
    advance = effect("advance-mission", missionKey=mission["missionKey"], amount=2)
    shop.campaign(running(advance, advance), eventType=PAYMENT)
    mission_of_payments = create_mission(shop, eventType=PAYMENT, goalCount=1)
    status_by_mission = {status["missionId"]: status for status in partner.pay(shop.member())["missionsStatus"]}
    assert status_by_mission.keys() == {mission["missionId"], mission_of_payments["missionId"]}
    mission_status = status_by_mission[mission["missionId"]]
    # Two advances of 2, and 1 for the achievement of the mission of payments.
    assert (mission_status["currentCounter"], mission_status["newCounter"]) == (0, 2 * 2 + 1)
    assert not mission_status["achieved"]


@pytest.mark.parametrize(
    # Type and value of each discount; the discounted amount, the remaining total and the type of each result.
    ("total", "discount_values", "discounts"),
    [
        (100, [("percentage", 10)], [(10, 90, "percentage")]),
        (Decimal("12.35"), [("percentage", 10)], [(Decimal("1.24"), Decimal("11.11"), "percentage")]),
        (Decimal("1.2345"), [("percentage", 10)], [(Decimal("0.1235"), Decimal("1.111"), "percentage")]),
        (10, [("amount", 25)], [(10, 0, "amount")]),
        # Nothing is left to discount, so the effect does not take place.
        (0, [("percentage", 50)], []),
        (100, [("amount", 20), ("percentage", 50)], [(20, 80, "amount"), (40, 40, "percentage")]),
    ],
)
def test_discounts_are_rounded_and_applied_to_the_remaining_total(shop, partner, total, discount_values, discounts):
    effects = [effect("discount", type=kind, value=value) for kind, value in discount_values]
    shop.campaign(running(*effects), eventType=PAYMENT)
    outcome = partner.pay(shop.member(), total)
    assert outcome["effects"] == [
        {"effectId": "discount", "discount": discount, "discountedTotal": discounted_total, "discountType": kind}
        for discount, discounted_total, kind in discounts
    ]


def test_effects_that_did_not_take_place_are_left_out(shop, partner):
    shop.campaign(running(effect("burn-points", amount=5), mint(1)), eventType=PAYMENT)
    limit = {"limitRules": [{"scope": "member", "type": "transactions", "period": "total", "limit": 1}]}
    shop.campaign(running(effect("discount", type="amount", value=1)), eventType=PAYMENT, **limit)
    member = shop.member()

    def effects_of_payment():
        return [effect["effectId"] for effect in partner.pay(member)["effects"]]

    # There are no points to burn, and the second payment is above the limit of the discount.
    assert effects_of_payment() == ["mint-points", "discount"]
    assert effects_of_payment() == ["mint-points"]


def test_the_response_has_the_tier_after_the_payment(shop, partner):
    TierSchedule.new(shop, Gold=100)
    # A payment gives a point for each unit.
    shop.campaign(running(mint(("=", "payment.total"))), eventType=PAYMENT)
    member = shop.member()
    # The default tier has the name Member.
    assert partner.pay(member, 99)["tier"] == "Member"
    assert partner.pay(member, 1)["tier"] == "Gold"


def test_reported_balances_exclude_expired_points(shop, partner):
    stars = shop.account(name="Stars", pointTrackingEnabled=True)
    key = stars["ledgerAccountKey"]
    shop.campaign(
        running(mint(5, ledgerAccountKey=key, expirationDate=("=", 'timestamp("2020-01-01T00:00:00Z")'))),
        eventType=PAYMENT,
    )
    [account_balance] = partner.pay(shop.member())["accountBalances"]
    assert (account_balance["balance"], account_balance["newAccrual"]) == (0, 5)


def test_a_payment_reports_the_points_that_waited_for_it(shop, partner):
    member = shop.member()
    wallet = shop.integration.get(f"/members/{member}")["loyaltyMember"]["ledgerWalletId"]
    Points.default(shop.organization).mint(wallet, 30, availableOn={"eventTypes": [PAYMENT]})
    [account_balance] = partner.pay(member)["accountBalances"]
    assert (account_balance["balance"], account_balance["newAccrual"]) == (30, 30)
    assert shop.balance(member) == 30
    # The next payment changes no points.
    assert partner.pay(member)["accountBalances"] == []


def test_a_payment_id_may_equal_the_key_of_an_event(shop, partner):
    member = shop.member()
    payment = new_id()
    partner.pay(member, paymentId=payment)
    assert shop.track_one(event(member, systemUniqueKey=payment))
