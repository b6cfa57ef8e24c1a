"""Referral programs, their codes and lists over HTTP."""

from __future__ import annotations

import uuid

import pytest
from sqlalchemy import text

from domain.ledger.records import MAX_AMOUNT
from tests.builders.campaigns import mint
from tests.builders.coupons import CouponBooks
from tests.builders.referrals import Friends, program_body
from tests.builders.tracking import Shop, event, running

STAMPS = ("referralProgramId", "referralProgramKey", "organizationId", "createdAt", "updatedAt")


@pytest.fixture
def shop(organization):
    return Shop(organization)


@pytest.fixture
def administration(organization):
    return organization.administration


def whole_body(shop):
    """A body with every field that a program can have."""
    created = shop.organization.created
    side = {"LedgerId": created.ledger_id, "LedgerAccountId": created.ledger_account_id}
    return program_body(
        loyaltyProgramId=created.loyalty_program_id,
        description="A hundred points for you",
        pictureUrl="https://example.com/friends.png",
        customAttributes={"theme": {"colour": "red"}},
        validFromDate="2026-01-01T00:00:00Z",
        validToDate="2036-01-01T00:00:00.500000Z",
        timezone="Europe/Madrid",
        maxPerCode=10,
        maxReferralsPerMember=20,
        maxRedeemsPerReferredMemberPerCode=2,
        campaignId=shop.campaign(running(mint(1)))["campaignId"],
        audienceId=shop.administration.post("/audiences", {"name": "a", "matcherType": "list-matcher"})["audience"][
            "audienceId"
        ],
        tags=["friends", "spring"],
        eventType="member-purchase-order-created",
        externalKey="friends-2026",
        referrerCouponBookKey=CouponBooks(shop.organization).make()["couponBookKey"],
        referredCouponBookKey=CouponBooks(shop.organization).make()["couponBookKey"],
        availableAt=None,
        availableAfter="P14D",
        availableRounding="day",
        availableOn={"eventTypes": ["member-purchase-order-confirmed"], "cancelAfter": "P60D"},
        **{f"{recipient}{name}": value for recipient in ("referrer", "referred") for name, value in side.items()},
    )


def test_a_program_is_stored_with_every_field(shop, administration):
    body = whole_body(shop)
    program = administration.post("/referral-programs", body)["referralProgram"]
    counts = {"referredCount": 0, "totalCodes": 0, "totalLogs": 0}
    assert program == {**body, **counts, **{name: program[name] for name in STAMPS}}
    assert program["organizationId"] == shop.organization.id
    # The key is a UUID in canonical form.
    assert program["referralProgramKey"] == str(uuid.UUID(program["referralProgramKey"]))
    assert program["createdAt"] == program["updatedAt"]
    path = f"/referral-programs/{program['referralProgramId']}"
    assert administration.get(path) == {"referralProgram": program}
    assert administration.get("/referral-programs")["results"] == [program]


def test_missing_fields_have_their_defaults(administration):
    body = program_body()
    program = administration.post("/referral-programs", body)["referralProgram"]
    fields = {name: program.pop(name) for name in body}
    assert fields == body
    defaults = {
        "customAttributes": {},
        "tags": [],
        "maxReferralsPerMember": 2**53 - 1,
        "availableRounding": "none",
        "referredCount": 0,
        "totalCodes": 0,
        "totalLogs": 0,
    }
    for name in STAMPS:
        program.pop(name)
    assert program == {**dict.fromkeys(program), **defaults}
    nulls = {name: None for name in program if program[name] is None}
    # Null is the same as a missing field.
    with_nulls = administration.post("/referral-programs", {**program_body(), **nulls})["referralProgram"]
    assert {name: with_nulls[name] for name in nulls} == nulls


def test_an_update_changes_the_sent_fields(shop, administration):
    body = whole_body(shop)
    program = administration.post("/referral-programs", body)["referralProgram"]
    path = f"/referral-programs/{program['referralProgramId']}"
    new = program_body(code="another", active=False, eventType="member-created", maxPerCode=1)
    updated_program = administration.put(path, new)["referralProgram"]
    assert updated_program == {**program, **new, "updatedAt": updated_program["updatedAt"]}
    assert updated_program["updatedAt"] > program["updatedAt"]
    assert administration.get(path)["referralProgram"] == updated_program
    # The program's own code is no duplicate.
    administration.put(path, new)


@pytest.mark.parametrize(
    ("more", "pointer"),
    [
        *(({name: None}, f"/{name}") for name in ("name", "active", "maxPerCode", "code", "eventType")),
        ({"name": ""}, "/name"),
        ({"name": "x" * 256}, "/name"),
        ({"code": ""}, "/code"),
        ({"maxPerCode": 0}, "/maxPerCode"),
        ({"maxPerCode": 1.5}, "/maxPerCode"),
        ({"maxPerCode": 2**53}, "/maxPerCode"),
        ({"maxReferralsPerMember": 0}, "/maxReferralsPerMember"),
        ({"maxReferralsPerMember": None}, "/maxReferralsPerMember"),
        ({"maxRedeemsPerReferredMemberPerCode": 0}, "/maxRedeemsPerReferredMemberPerCode"),
        ({"validFromDate": "2026-02-01T00:00:00Z", "validToDate": "2026-01-01T00:00:00Z"}, "/validToDate"),
        ({"validFromDate": "yesterday"}, "/validFromDate"),
        ({"referrerPointsAccrual": -1}, "/referrerPointsAccrual"),
        ({"referrerPointsAccrual": 0.5}, "/referrerPointsAccrual"),
        ({"referredPointsAccrual": 0.5}, "/referredPointsAccrual"),
        ({"referredPointsAccrual": MAX_AMOUNT + 1}, "/referredPointsAccrual"),
        ({"tags": ["a,b"]}, "/tags/0"),
        ({"referrerCouponBookKey": "x"}, "/referrerCouponBookKey"),
        ({"referralProgramKey": str(uuid.uuid4())}, "/referralProgramKey"),
        ({"totalCodes": 1}, "/totalCodes"),
    ],
)
def test_an_invalid_program_is_refused_with_the_field(shop, administration, more, pointer):
    friends = Friends(shop)
    body = program_body(**more)
    for problem in (
        administration.post("/referral-programs", body, expect=400),
        administration.put(friends.path, body, expect=400),
    ):
        assert problem["type"] == "/problems/invalid-request"
        assert {fault["pointer"] for fault in problem["errors"]} == {pointer}


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"loyaltyProgramId": 999_999_999}, "unknown-loyalty-program"),
        ({"campaignId": 999_999_999}, "unknown-campaign"),
        ({"audienceId": 999_999_999}, "unknown-audience"),
        ({"eventType": "cup-returned"}, "unknown-event-type"),
        *(
            case
            for side in ("referrer", "referred")
            for case in (
                ({f"{side}LedgerId": 999_999_999}, "unknown-ledger"),
                ({f"{side}LedgerAccountId": 999_999_999}, "unknown-ledger-account"),
                ({f"{side}CouponBookKey": str(uuid.uuid4())}, "unknown-coupon-book"),
            )
        ),
    ],
)
def test_a_program_with_an_unknown_reference_is_refused(shop, administration, more, problem):
    friends = Friends(shop)
    for response in (
        administration.post("/referral-programs", program_body(**more), expect=404),
        administration.put(friends.path, program_body(**more), expect=404),
    ):
        assert response["type"] == f"/problems/{problem}"


def test_records_of_another_organization_are_not_found(shop, other_organization, administration):
    other = Shop(other_organization)
    foreign_friends = Friends(other)
    created = other_organization.created
    for more in (
        {"loyaltyProgramId": created.loyalty_program_id},
        {"campaignId": other.campaign()["campaignId"]},
        {"referrerLedgerId": created.ledger_id},
        {"referredLedgerAccountId": created.ledger_account_id},
    ):
        administration.post("/referral-programs", program_body(**more), expect=404)
    for path in (foreign_friends.path, f"{foreign_friends.path}/codes", f"{foreign_friends.path}/leaderboard"):
        assert administration.get(path, expect=404)["type"] == "/problems/not-found"
    administration.put(foreign_friends.path, program_body(), expect=404)
    stranger = other_organization.member()["memberId"]
    friends = Friends(shop)
    response = administration.post(f"{friends.path}/codes", {"memberId": stranger, "codes": ["a"]}, expect=404)
    assert response["type"] == "/problems/unknown-member"
    # Codes are unique only within an organization.
    Friends(other, code=friends.program["code"])
    assert [
        friends.codes(shop.member(), "ANA")[0]["code"],
        foreign_friends.codes(other.member(), "ANA")[0]["code"],
    ] == ["ANA"] * 2


def test_a_ledger_other_than_the_default_one_is_refused(shop, administration):
    add = text(
        "INSERT INTO ledgers (organization_id, ledger_key, name, created_at, updated_at)"
        " VALUES (:o, gen_random_uuid(), 'Second', now(), now()) RETURNING ledger_id"
    )
    with shop.organization.api.engine.begin() as db:
        ledger_id = db.execute(add, {"o": shop.organization.id}).scalar_one()
    for side in ("referrer", "referred"):
        response = administration.post("/referral-programs", program_body(**{f"{side}LedgerId": ledger_id}), expect=409)
        assert response["type"] == "/problems/wallet-not-in-ledger"


def test_the_code_of_a_program_is_unique(shop, administration):
    first, second = Friends(shop), Friends(shop)
    for response in (
        administration.post("/referral-programs", program_body(code=first.program["code"]), expect=409),
        administration.put(second.path, program_body(code=first.program["code"]), expect=409),
    ):
        assert response["type"] == "/problems/referral-program-exists"
    assert second.record() == second.program


def test_programs_are_listed_and_ordered(organization):
    shop = Shop(organization)
    programs = [
        Friends(shop, name=name, code=code, active=active, eventType=event_type, validFromDate=begins, validToDate=ends)
        for name, code, active, event_type, begins, ends in (
            ("b", "1", True, "member-created", "2026-01-02T00:00:00Z", "2027-01-02T00:00:00Z"),
            ("c", "3", False, "member-updated", None, None),
            ("a", "2", True, "member-tier-set", "2026-01-01T00:00:00Z", "2027-01-03T00:00:00Z"),
        )
    ]
    ana = shop.member()
    programs[0].codes(ana, "x", "y")
    administration = organization.administration
    whole_page = administration.get("/referral-programs")
    assert whole_page == {
        "totalCount": 3,
        "page": 0,
        "limit": 100,
        "results": [program.record() for program in programs[::-1]],
    }
    assert [result["totalCodes"] for result in whole_page["results"]] == [0, 0, 2]
    assert administration.get("/referral-programs", page=1, limit=2)["results"] == [programs[0].record()]
    for order, expected_names in (
        ("referralProgramId,asc", "bca"),
        ("name", "abc"),
        ("code,desc", "cab"),
        ("active", "cba"),
        ("eventType", "bac"),
        ("validFromDate", "abc"),
        ("validToDate", "bac"),
        ("createdAt", "bca"),
        ("updatedAt,desc", "acb"),
    ):
        results = administration.get("/referral-programs", order=order)["results"]
        assert "".join(result["name"] for result in results) == expected_names, order
    for query in ({"order": "maxPerCode"}, {"limit": 101}, {"limit": 0}, {"active": True}):
        administration.get("/referral-programs", expect=400, **query)


# --- codes -------------------------------------------------------------------------------------------------------


def test_codes_are_created_and_listed(shop, administration):
    friends, other = Friends(shop), Friends(shop)
    ana, ben = shop.member(), shop.member()
    created_codes = friends.codes(ana, "b", "c", "a")
    assert [code["code"] for code in created_codes] == ["b", "c", "a"]
    for code in created_codes:
        assert code["memberId"] == friends.member_id(ana)
        assert code["referralProgramId"] == friends.program["referralProgramId"]
        assert (code["totalUsages"], code["createdAt"]) == (0, code["updatedAt"])
    [ben_code] = friends.codes(ben, "d")
    other.codes(ben, "e")
    path = f"{friends.path}/codes"
    all_codes = [ben_code, *created_codes[::-1]]
    assert administration.get(path) == {"totalCount": 4, "page": 0, "limit": 100, "results": all_codes}
    assert administration.get(path, page=1, limit=3)["results"] == all_codes[3:]
    assert administration.get(path, memberId=ben_code["memberId"])["results"] == [ben_code]
    assert administration.get(path, memberId=999_999_999)["totalCount"] == 0
    for order, expected_codes in (
        ("code", "abcd"),
        ("code,desc", "dcba"),
        ("referralCodeId", "bcad"),
        ("memberId,desc", "dacb"),
        ("totalUsages", "bcad"),
        ("createdAt", "bcad"),
        ("updatedAt,desc", "dacb"),
    ):
        assert (
            "".join(result["code"] for result in administration.get(path, order=order)["results"]) == expected_codes
        ), order
    for query in ({"order": "name"}, {"limit": 101}, {"memberId": 0}, {"code": "a"}):
        administration.get(path, expect=400, **query)
    assert friends.record()["totalCodes"] == 4


def test_codes_are_unique_in_the_organization_and_created_all_or_none(shop, administration):
    friends, other = Friends(shop), Friends(shop)
    ana, ben = shop.member(), shop.member()
    friends.codes(ana, "ANA")
    for program, member in ((friends, ana), (friends, ben), (other, ana), (other, ben)):
        body = {"memberId": friends.member_id(member), "codes": ["free", "ANA"]}
        response = administration.post(f"{program.path}/codes", body, expect=409)
        assert response["type"] == "/problems/referral-code-taken"
        assert "ANA" in response["detail"]
    assert [friends.record()["totalCodes"], other.record()["totalCodes"]] == [1, 0]
    # Similar codes are different, and "free" was not created.
    other.codes(ben, "anna", " ANA", "free", "%", "a/b", "é")


@pytest.mark.parametrize("codes", [["ana"], ["free", "aNa"], ["éclair"], ["free", "Free"]])
def test_codes_that_differ_only_in_the_case_of_letters_are_refused(shop, administration, codes):
    friends, other = Friends(shop), Friends(shop)
    ana, ben = shop.member(), shop.member()
    friends.codes(ana, "ANA", "ÉCLAIR")
    for program in (friends, other):
        body = {"memberId": friends.member_id(ben), "codes": codes}
        response = administration.post(f"{program.path}/codes", body, expect=409)
        assert response["type"] == "/problems/referral-code-taken"
    assert other.record()["totalCodes"] == 0


def test_codes_of_another_organization_are_free(shop, other_organization):
    Friends(shop).codes(shop.member(), "FLYER")
    other_shop = Shop(other_organization)
    Friends(other_shop).codes(other_shop.member(), "flyer")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"codes": ["a"]}, "/memberId"),
        ({"memberId": 1}, "/codes"),
        ({"memberId": 1, "codes": []}, "/codes"),
        ({"memberId": 1, "codes": [""]}, "/codes/0"),
        ({"memberId": 1, "codes": ["a", "a"]}, "/codes"),
        ({"memberId": 1, "codes": ["x" * 256]}, "/codes/0"),
        ({"memberId": 1, "codes": [str(n) for n in range(101)]}, "/codes"),
        ({"memberId": 0, "codes": ["a"]}, "/memberId"),
        ({"memberId": 1, "codes": ["a"], "number": 2}, "/number"),
    ],
)
def test_invalid_codes_are_refused_with_the_field(shop, administration, body, pointer):
    problem = administration.post(f"{Friends(shop).path}/codes", body, expect=400)
    assert problem["type"] == "/problems/invalid-request"
    assert {fault["pointer"] for fault in problem["errors"]} == {pointer}


def test_only_active_members_get_codes(shop, administration):
    friends, ana = Friends(shop), shop.member()
    shop.integration.patch(f"/members/{ana}", {"active": False})
    body = {"memberId": friends.member_id(ana), "codes": ["a"]}
    response = administration.post(f"{friends.path}/codes", body, expect=409)
    assert response["type"] == "/problems/member-inactive"
    body["memberId"] = 999_999_999
    response = administration.post(f"{friends.path}/codes", body, expect=404)
    assert response["type"] == "/problems/unknown-member"


# --- logs and leaderboard ----------------------------------------------------------------------------------------


def refer(code, member, **more):
    return event(member, payload={"referralCode": code, **more})


def test_logs_are_listed_and_ordered(shop, administration):
    friends, other = Friends(shop), Friends(shop)
    ana, ben, cleo = shop.member(), shop.member(), shop.member()
    [code] = friends.codes(ana)
    [other_code] = other.codes(ana)
    events = [
        {**refer(code["code"], ben, referralAttributes={"flyer": 7, "deep": {"a": [1]}}), "systemUniqueKey": "b"},
        {**refer(code["code"], cleo), "systemUniqueKey": "a"},
    ]
    for referral_event in events:
        shop.track_one(referral_event)
    path = f"{friends.path}/codes/{code['referralCodeId']}/logs"
    whole_page = administration.get(path)
    assert {**whole_page, "results": None} == {"totalCount": 2, "page": 0, "limit": 100, "results": None}
    second, first = whole_page["results"]
    assert first == {
        "referralLogId": first["referralLogId"],
        "referralCodeId": code["referralCodeId"],
        "referredMemberId": friends.member_id(ben),
        "systemUniqueKey": "b",
        "customAttributes": {"flyer": 7, "deep": {"a": [1]}},
        "createdAt": first["createdAt"],
        "updatedAt": first["createdAt"],
    }
    assert (second["systemUniqueKey"], second["customAttributes"]) == ("a", {})
    assert administration.get(path, page=1, limit=1)["results"] == [first]
    for order, expected_keys in (
        ("referralLogId", "ba"),
        ("referredMemberId,desc", "ab"),
        ("systemUniqueKey", "ab"),
        ("createdAt", "ba"),
        ("updatedAt,desc", "ab"),
    ):
        results = administration.get(path, order=order)["results"]
        assert "".join(result["systemUniqueKey"] for result in results) == expected_keys, order
    for query in ({"order": "memberId"}, {"limit": 101}, {"memberId": 1}):
        administration.get(path, expect=400, **query)
    for unknown_path in (
        f"{friends.path}/codes/{other_code['referralCodeId']}/logs",
        f"{friends.path}/codes/999999999/logs",
        f"/referral-programs/999999999/codes/{code['referralCodeId']}/logs",
    ):
        assert administration.get(unknown_path, expect=404)["type"] == "/problems/not-found"


@pytest.mark.slow
def test_the_leaderboard_equals_a_count_of_the_results(shop, administration):
    friends, other = Friends(shop, maxRedeemsPerReferredMemberPerCode=2), Friends(shop)
    owners = [
        shop.member(profile={"name": name, "email": f"{name}@example.com"} if name else {})
        for name in ("Dora", None, "Ana", "Cleo")
    ]
    codes = [[friends.code(owner) for _ in range(2)] for owner in owners]
    other_program_code = other.code(owners[0])
    # Six guests enrol with a code, by the first code of three owners. Two guests enrol without one.
    guests = [shop.member(referralCode=codes[n % 3][0]) for n in range(6)]
    guests += [shop.member() for _ in range(2)]
    # Each guest uses four codes.
    owner_indexes = [(guest * 7 + step * 3) % 4 for guest in range(8) for step in range(4)]
    attempts = [(guests[i // 4], codes[owner][i % 2]) for i, owner in enumerate(owner_indexes)]
    results = [shop.track_one(refer(code, guest)) for guest, code in attempts]
    results += [shop.track_one(refer(other_program_code, guests[0]))]
    cancelled_index = 2
    shop.integration.post(f"/events/{results[cancelled_index]['loyaltyEventKey']}/cancel", {}, expect=200)

    rows = []
    owner_of = {code: owner for owner, codes_of_owner in zip(owners, codes, strict=True) for code in codes_of_owner}
    enrolments = {(owner_of[codes[n % 3][0]], guests[n]) for n in range(6)}
    referrals = [
        (owner_of[code], guest)
        for index, ((guest, code), result) in enumerate(zip(attempts, results[:-1], strict=True))
        if result["referrals"][0]["status"] == "applied" and index != cancelled_index
    ]
    for owner in owners:
        profile = shop.integration.get(f"/members/{owner}")["loyaltyMember"]["profile"]
        accepted_guests = {guest for referrer, guest in referrals if referrer == owner}
        rows.append(
            {
                "memberId": friends.member_id(owner),
                "name": profile["name"],
                "email": profile["email"],
                "invites": len({guest for referrer, guest in enrolments if referrer == owner} | accepted_guests),
                "acceptedInvites": len(accepted_guests),
                "pointsAccumulated": 100 * sum(referrer == owner for referrer, _ in referrals),
            }
        )
    path = f"{friends.path}/leaderboard"
    expected_rows = sorted(rows, key=lambda row: (row["pointsAccumulated"], row["memberId"]), reverse=True)
    assert administration.get(path) == {"totalCount": 4, "page": 0, "limit": 100, "results": expected_rows}
    assert administration.get(path, page=1, limit=3)["results"] == expected_rows[3:]
    assert len({row["pointsAccumulated"] for row in rows}) > 1
    for name in ("memberId", "name", "email", "invites", "acceptedInvites", "pointsAccumulated"):
        for way in ("asc", "desc"):
            rows_with_value = [row for row in rows if row[name] is not None]
            ordered_rows = sorted(rows_with_value, key=lambda row: (row[name], row["memberId"]), reverse=way == "desc")
            ordered_rows += [row for row in rows if row[name] is None]
            assert administration.get(path, order=f"{name},{way}")["results"] == ordered_rows, (name, way)
    assert sum(row["pointsAccumulated"] for row in rows) == 100 * friends.record()["totalLogs"]
    assert friends.record()["referredCount"] == len({guest for _, guest in referrals})
    for query in ({"order": "code"}, {"limit": 101}, {"limit": 0}):
        administration.get(path, expect=400, **query)
