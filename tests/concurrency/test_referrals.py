"""Referral codes that many threads use at the same time: their limits are kept exactly, and no call fails."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest

from persistence import referral_uses
from tests.builders.referrals import Friends, program_body
from tests.builders.tracking import event, order, order_update
from tests.concurrency.conftest import THREADS
from tests.concurrency.simultaneous import run_after, run_simultaneously


def refer(code, member, **more):
    """An event of a member with a referral code, for which the referrer gets 100 points and the member 50."""
    return event(member, payload={"referralCode": code}, **more)


@pytest.mark.parametrize(
    ("limits", "code_count", "expected_uses"),
    [({"maxPerCode": 10}, 1, 10), ({"maxPerCode": 4}, 3, 3 * 4), ({"maxReferralsPerMember": 10}, 3, 10)],
)
def test_uses_at_the_same_time_stop_exactly_at_the_limit(shop, limits, code_count, expected_uses):
    friends, ana = Friends(shop, **limits), shop.member()
    ana_codes = [friends.code(ana) for _ in range(code_count)]
    guests = [shop.member() for _ in range(THREADS)]
    calls = [partial(shop.track_one, refer(ana_codes[n % code_count], guest)) for n, guest in enumerate(guests)]
    counts = Counter(result["referrals"][0]["status"] for result in run_simultaneously(calls))
    assert counts == {"applied": expected_uses, "skipped": THREADS - expected_uses}
    assert shop.balance(ana) == 100 * expected_uses
    assert sum(map(shop.balance, guests)) == 50 * expected_uses
    assert sum(friends.usages().values()) == expected_uses
    assert friends.record()["totalLogs"] == friends.record()["referredCount"] == expected_uses


def test_many_uses_of_a_code_by_one_guest_are_rewarded_once(shop):
    friends, ana, ben = Friends(shop), shop.member(), shop.member()
    code = friends.code(ana)
    results = run_simultaneously([partial(shop.track_one, refer(code, ben)) for _ in range(THREADS)])
    assert Counter(result["referrals"][0]["status"] for result in results) == {"applied": 1, "skipped": THREADS - 1}
    assert (shop.balance(ana), shop.balance(ben)) == (100, 50)


def test_members_who_refer_each_other_get_the_points_of_all_uses(shop):
    """Each event locks two members, and there is one for each pair in each order."""
    friends = Friends(shop)
    members = [shop.member() for _ in range(6)]
    codes = [friends.code(member) for member in members]
    calls = [
        partial(shop.track_one, refer(code, guest))
        for referrer, code in zip(members, codes, strict=True)
        for guest in members
        if guest != referrer
    ]
    results = run_simultaneously(calls)
    assert {result["referrals"][0]["status"] for result in results} == {"applied"}
    # Each member refers five others for 100 points, and is referred by five others for 50.
    assert [shop.balance(member) for member in members] == [5 * 100 + 5 * 50] * 6


def test_cancellations_and_new_uses_at_the_same_time_keep_the_limit(shop):
    friends, ana = Friends(shop, maxPerCode=5), shop.member()
    code = friends.code(ana)
    guests = [shop.member() for _ in range(24)]
    earlier_results = [shop.track_one(refer(code, guest)) for guest in guests[:5]]

    def cancel(result):
        return shop.integration.post(f"/events/{result['loyaltyEventKey']}/cancel", {}, expect=200)

    calls = [partial(cancel, result) for result in earlier_results[:3]]
    calls += [partial(shop.track_one, refer(code, guest)) for guest in guests[5:]]
    new_results = run_simultaneously(calls)[3:]
    # The two uses that are not cancelled, and the new ones.
    uses = 2 + sum(result["referrals"][0]["status"] == "applied" for result in new_results)
    assert 2 <= uses <= 5
    assert friends.usages() == {code: uses}
    assert friends.record()["totalLogs"] == uses
    assert shop.balance(ana) == 100 * uses


def test_only_one_of_many_members_gets_the_same_code(shop):
    friends = Friends(shop)
    members = [friends.member_id(shop.member()) for _ in range(8)]
    for number in range(4):
        # The call that gets the common code gets its other one too; the others get none.
        bodies = [{"memberId": member, "codes": [f"own-{member}-{number}", f"same-{number}"]} for member in members]
        call = partial(shop.administration.request, "POST", f"{friends.path}/codes")
        replies = run_simultaneously([partial(call, body) for body in bodies])
        assert Counter(reply.status for reply in replies) == {201: 1, 409: 7}
        assert {reply.json["type"] for reply in replies if reply.status == 409} == {"/problems/referral-code-taken"}
    # Two codes in each of four rounds.
    assert friends.record()["totalCodes"] == 4 * 2
    bodies = [program_body(code="same")] * 8
    call = partial(shop.administration.request, "POST", "/referral-programs")
    assert Counter(reply.status for reply in run_simultaneously([partial(call, body) for body in bodies])) == {
        201: 1,
        409: 7,
    }


def test_mints_by_request_that_lead_to_referrals_all_count(shop):
    """A mint locks its member before it is known that it rewards the referrer too, who has to be locked."""
    capped_account = shop.account(maxSupply=10**9)
    friends = Friends(
        shop,
        eventType="ledger-transaction-created",
        maxRedeemsPerReferredMemberPerCode=1000,
        referrerLedgerAccountId=capped_account["ledgerAccountId"],
        referredPointsAccrual=0,
    )
    chain = [shop.member()]
    for _ in range(4):
        chain.append(shop.member(referralCode=friends.code(chain[-1])))
    moves = [
        partial(shop.give, member, 1, ledgerAccountId=capped_account["ledgerAccountId"]) for member in chain[1:] * 6
    ]
    run_simultaneously(moves)
    # Each mint is a referral of the member, and so is each reward, up to the member without a referrer.
    assert friends.record()["totalLogs"] == 6 * (4 + 3 + 2 + 1)


def test_updates_of_members_and_of_their_referrers_at_the_same_time_all_count(shop):
    friends = Friends(shop, eventType="member-updated", maxRedeemsPerReferredMemberPerCode=1000)
    chain = [shop.member()]
    for _ in range(5):
        chain.append(shop.member(referralCode=friends.code(chain[-1])))
    last_code = friends.code(chain[-1])
    # An update uses the code with which the member enrolled. Each event locks its member and the referrer: the member
    # before in the chain, and for the first member the last one. So the locks form a ring.
    calls = [
        call
        for number in range(3)
        for member in chain[1:]
        for call in (
            partial(shop.integration.patch, f"/members/{member}", {"customAttributes": {"n": number}}),
            partial(shop.track_one, event(chain[0], "member-updated", payload={"referralCode": last_code})),
        )
    ]
    run_simultaneously(calls)
    # No limit is reached, so each call is one referral.
    assert friends.record()["totalLogs"] == len(calls)


def test_the_code_of_an_order_counts_for_an_event_that_meets_its_creation(shop, monkeypatch):
    friends = Friends(shop, eventType="member-purchase-order-confirmed")
    ana, ben = shop.member(), shop.member()
    code = friends.code(ana)
    creation = order(ben, 10, external_id="o", referralCode=code)
    run_after(monkeypatch, referral_uses, "find_usable", lambda: shop.track_one(creation))
    result = shop.track_one(order_update(ben, "o", "confirmed"))
    assert [referral["status"] for referral in result["referrals"]] == ["applied"]
    assert (shop.balance(ana), shop.balance(ben)) == (100, 50)
