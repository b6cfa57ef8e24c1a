"""Payment intents of two partners that many threads send at the same time."""

from __future__ import annotations

from functools import partial

import pytest

from handlers.services.partners import payments
from tests.builders.campaigns import mint
from tests.builders.missions import create as create_mission
from tests.builders.partners import PAYMENT, Partner, customer, footprint
from tests.builders.tracking import running
from tests.concurrency.simultaneous import PATIENCE, run_simultaneously, start_after

INFO = {"userGovId": "30111222", "email": "ana@example.com", "firstName": "Ana"}


@pytest.fixture
def partners(shop):
    return [Partner.of(shop, name) for name in ("partnera", "partnerb")]


@pytest.mark.parametrize(
    "info",
    [
        pytest.param(None, id="no information"),
        pytest.param(INFO, id="information without loyaltyMemberId"),
        pytest.param({**INFO, "loyaltyMemberId": "card-0077"}, id="information with loyaltyMemberId"),
    ],
)
def test_50_payments_of_one_new_customer_enrol_one_member(shop, partners, info):
    shop.campaign(running(mint(100)), eventType="member-created")
    shop.campaign(running(mint(("=", "payment.total"))), eventType=PAYMENT)
    create_mission(shop, eventType=PAYMENT, goalCount=10, pointsAccrual=1000)
    name = "30111222"

    def pay(number):
        return partners[number % 2].pay(name, total=number, forceUserSubscription=True, memberInfo=info)

    outcomes = run_simultaneously([partial(pay, number) for number in range(50)])
    assert sum(outcome["isNewMember"] for outcome in outcomes) == 1
    assert {outcome["loyaltyMemberId"] for outcome in outcomes} == {(info or {}).get("loyaltyMemberId", name)}
    counts = footprint(shop)
    assert (counts["members"], counts["wallets"], counts["partner_payments"]) == (1, 1, 50)
    member = outcomes[0]["loyaltyMemberId"]
    # 100 for the enrolment, the totals of 0 to 49 of the payments, and 1000 for each 10 payments.
    assert shop.balance(member) == 100 + sum(range(50)) + 5 * 1000
    # The responses are those of payments one after the other: they agree with the progress and balance in the end.
    counters = sorted(outcome["missionsStatus"][0]["newCounter"] for outcome in outcomes)
    assert counters == sorted(number % 10 + 1 for number in range(50))
    account_balances = [outcome["accountBalances"][0] for outcome in outcomes if outcome["accountBalances"]]
    assert sum(account_balance["newAccrual"] for account_balance in account_balances) == shop.balance(member)
    assert max(account_balance["balance"] for account_balance in account_balances) == shop.balance(member)


def test_two_payments_of_one_new_customer_that_name_different_new_ids_enrol_one_member(shop, partners, monkeypatch):
    outcomes = []

    def pay_with_card():
        info = {"loyaltyMemberId": "card-0077"}
        outcomes.append(partners[1].pay("30111222", forceUserSubscription=True, memberInfo=info))

    # The second payment begins after the first one has found no member.
    payment_with_card = start_after(monkeypatch, shop, payments, "_refuse_uncreatable", pay_with_card)
    outcomes.append(partners[0].pay("30111222", forceUserSubscription=True))
    payment_with_card.join(PATIENCE)
    assert sorted(outcome["isNewMember"] for outcome in outcomes) == [False, True]
    assert {outcome["loyaltyMemberId"] for outcome in outcomes} == {"30111222"}
    assert footprint(shop)["members"] == 1


def test_only_one_of_many_payments_with_one_payment_id_succeeds(shop, partners):
    shop.campaign(running(mint(5)), eventType=PAYMENT)
    members = [shop.member() for _ in range(4)]
    counts_before = footprint(shop)

    def pay(number):
        partner = partners[number % 2]
        # Half of the payments of partnerb have the id as their reference.
        has_reference = partner.name == "partnerb" and number % 4 >= 2
        reference = {"paymentId": None, "referenceId": "payment-1"} if has_reference else {"paymentId": "payment-1"}
        # Some of the customers are new.
        member = members[number] if number < 4 else customer()
        return partner.send(partner.body(member, forceUserSubscription=True, **reference))

    replies = run_simultaneously([partial(pay, number) for number in range(16)])
    statuses = sorted(reply.status for reply in replies)
    assert statuses == [200] + [409] * 15
    assert {reply.json["type"] for reply in replies if reply.status == 409} == {"/problems/payment-exists"}
    [accepted_payment] = [reply.json for reply in replies if reply.status == 200]
    counts_after = footprint(shop)
    assert counts_after["partner_payments"] == 1
    assert counts_after["members"] == counts_before["members"] + accepted_payment["isNewMember"]
    assert counts_after["ledger_transactions"] == 1


def test_a_payment_during_the_enrolment_of_its_customer_does_not_enrol_a_second_member(shop, partners):
    for _ in range(5):
        name = customer()

        def enrol(name=name):
            body = {"loyaltyMemberId": name}
            return shop.integration.request("POST", "/members", body).status

        def pay(name=name):
            return partners[0].pay(name, forceUserSubscription=True)["isNewMember"]

        status, *are_new_members = run_simultaneously([enrol, pay, pay])
        # Either the call enrols the member, or one of the payments.
        assert (status, sum(are_new_members)) in ((201, 0), (409, 1))


def test_only_one_of_many_new_customers_with_one_government_id_is_enrolled(shop, partners):
    def pay(number):
        partner = partners[number % 2]
        body = partner.body(f"customer-{number}", forceUserSubscription=True, memberInfo=INFO)
        return partner.send(body)

    replies = run_simultaneously([partial(pay, number) for number in range(12)])
    assert sorted(reply.status for reply in replies) == [200] + [404] * 11
    assert footprint(shop)["members"] == 1
