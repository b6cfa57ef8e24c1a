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
    defaults = shop.organization.defaults
    audience = shop.administration.post("/audiences", {"name": "a", "matcherType": "list-matcher"})["audience"]
    return program_body(
        loyaltyProgramId=defaults.loyalty_program_id,
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
        audienceId=audience["audienceId"],
        tags=["friends", "spring"],
        eventType="member-purchase-order-created",
        externalKey="friends-2026",
        referrerCouponBookKey=CouponBooks(shop.organization).make()["couponBookKey"],
        referredCouponBookKey=CouponBooks(shop.organization).make()["couponBookKey"],
        availableAt=None,
        availableAfter="P14D",
        availableRounding="day",
        availableOn={"eventTypes": ["member-purchase-order-confirmed"], "cancelAfter": "P60D"},
        referrerLedgerId=defaults.ledger_id,
        referredLedgerId=defaults.ledger_id,
        referrerLedgerAccountId=defaults.ledger_account_id,
        referredLedgerAccountId=defaults.ledger_account_id,
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
    assert {name: program.pop(name) for name in body} == body
    for name in STAMPS:
        program.pop(name)
    defaults = {
        "customAttributes": {},
        "tags": [],
        "maxReferralsPerMember": 2**53 - 1,
        "availableRounding": "none",
        "referredCount": 0,
        "totalCodes": 0,
        "totalLogs": 0,
    }
    nulls = {name: None for name in program if name not in defaults}
    assert program == {**nulls, **defaults}
    # Null is the same as a missing field.
    program_with_nulls = administration.post("/referral-programs", {**program_body(), **nulls})["referralProgram"]
    assert {name: program_with_nulls[name] for name in nulls} == nulls


def test_an_update_changes_the_sent_fields(shop, administration):
    body = whole_body(shop)
    program = administration.post("/referral-programs", body)["referralProgram"]
    path = f"/referral-programs/{program['referralProgramId']}"
    # Without the optional fields, which stay unchanged.
    changes = program_body(code="another", active=False, eventType="member-created", maxPerCode=1)
    updated_program = administration.put(path, changes)["referralProgram"]
    assert updated_program == {**program, **changes, "updatedAt": updated_program["updatedAt"]}
    assert updated_program["updatedAt"] > program["updatedAt"]
    assert administration.get(path)["referralProgram"] == updated_program
    # The program's own code is no duplicate.
    administration.put(path, changes)


@pytest.mark.parametrize(
    ("invalid_field", "pointer"),
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
def test_an_invalid_program_is_refused_with_the_field(shop, administration, invalid_field, pointer):
    friends = Friends(shop)
    body = program_body(**invalid_field)
    for problem in (
        administration.post("/referral-programs", body, expect=400),
        administration.put(friends.path, body, expect=400),
    ):
        assert problem["type"] == "/problems/invalid-request"
        assert {fault["pointer"] for fault in problem["errors"]} == {pointer}


@pytest.mark.parametrize(
    ("unknown_reference", "problem"),
    [
        ({"loyaltyProgramId": 999_999_999}, "unknown-loyalty-program"),
        ({"campaignId": 999_999_999}, "unknown-campaign"),
        ({"audienceId": 999_999_999}, "unknown-audience"),
        ({"eventType": "cup-returned"}, "unknown-event-type"),
        ({"referrerLedgerId": 999_999_999}, "unknown-ledger"),
        ({"referredLedgerId": 999_999_999}, "unknown-ledger"),
        ({"referrerLedgerAccountId": 999_999_999}, "unknown-ledger-account"),
        ({"referredLedgerAccountId": 999_999_999}, "unknown-ledger-account"),
        ({"referrerCouponBookKey": str(uuid.uuid4())}, "unknown-coupon-book"),
        ({"referredCouponBookKey": str(uuid.uuid4())}, "unknown-coupon-book"),
    ],
)
def test_a_program_with_an_unknown_reference_is_refused(shop, administration, unknown_reference, problem):
    friends = Friends(shop)
    for response in (
        administration.post("/referral-programs", program_body(**unknown_reference), expect=404),
        administration.put(friends.path, program_body(**unknown_reference), expect=404),
    ):
        assert response["type"] == f"/problems/{problem}"


def test_records_of_another_organization_are_not_found(shop, other_organization, administration):
    foreign_shop = Shop(other_organization)
    foreign_friends = Friends(foreign_shop)
    foreign_records = other_organization.defaults
    for foreign_reference in (
        {"loyaltyProgramId": foreign_records.loyalty_program_id},
        {"campaignId": foreign_shop.campaign()["campaignId"]},
        {"referrerLedgerId": foreign_records.ledger_id},
        {"referredLedgerAccountId": foreign_records.ledger_account_id},
    ):
        administration.post("/referral-programs", program_body(**foreign_reference), expect=404)
    for path in (foreign_friends.path, f"{foreign_friends.path}/codes", f"{foreign_friends.path}/leaderboard"):
        assert administration.get(path, expect=404)["type"] == "/problems/not-found"
    administration.put(foreign_friends.path, program_body(), expect=404)
    foreign_member_id = other_organization.member()["memberId"]
    friends = Friends(shop)
    body = {"memberId": foreign_member_id, "codes": ["a"]}
    assert administration.post(f"{friends.path}/codes", body, expect=404)["type"] == "/problems/unknown-member"
    # Codes are unique only within an organization.
    Friends(foreign_shop, code=friends.program["code"])
    [code] = friends.codes(shop.member(), "ANA")
    [foreign_code] = foreign_friends.codes(foreign_shop.member(), "ANA")
    assert code["code"] == foreign_code["code"] == "ANA"


def test_a_ledger_other_than_the_default_one_is_refused(shop, administration):
    # No request creates a second ledger.
    insert = text(
        "INSERT INTO ledgers (organization_id, ledger_key, name, created_at, updated_at)"
        " VALUES (:o, gen_random_uuid(), 'Second', now(), now()) RETURNING ledger_id"
    )
    with shop.organization.api.engine.begin() as db:
        ledger_id = db.execute(insert, {"o": shop.organization.id}).scalar_one()
    for body in (program_body(referrerLedgerId=ledger_id), program_body(referredLedgerId=ledger_id)):
        problem = administration.post("/referral-programs", body, expect=409)
        assert problem["type"] == "/problems/wallet-not-in-ledger"


def test_the_code_of_a_program_is_unique(shop, administration):
    friends, other_friends = Friends(shop), Friends(shop)
    body = program_body(code=friends.program["code"])
    for problem in (
        administration.post("/referral-programs", body, expect=409),
        administration.put(other_friends.path, body, expect=409),
    ):
        assert problem["type"] == "/problems/referral-program-exists"
    assert other_friends.record() == other_friends.program


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
    programs[0].codes(shop.member(), "x", "y")
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


@pytest.mark.parametrize("query", [{"order": "maxPerCode"}, {"limit": 101}, {"limit": 0}, {"active": True}])
def test_an_invalid_query_of_programs_is_refused(administration, query):
    problem = administration.get("/referral-programs", expect=400, **query)
    assert [fault["parameter"] for fault in problem["errors"]] == list(query)


# --- codes -------------------------------------------------------------------------------------------------------


def test_codes_are_created_and_listed(shop, administration):
    friends, other_program = Friends(shop), Friends(shop)
    ana, ben = shop.member(), shop.member()
    created_codes = friends.codes(ana, "b", "c", "a")
    assert [code["code"] for code in created_codes] == ["b", "c", "a"]
    for code in created_codes:
        assert code["memberId"] == friends.member_id(ana)
        assert code["referralProgramId"] == friends.program["referralProgramId"]
        assert (code["totalUsages"], code["createdAt"]) == (0, code["updatedAt"])
    [ben_code] = friends.codes(ben, "d")
    other_program.codes(ben, "e")
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
        results = administration.get(path, order=order)["results"]
        assert "".join(result["code"] for result in results) == expected_codes, order
    assert friends.record()["totalCodes"] == 4


@pytest.mark.parametrize("query", [{"order": "name"}, {"limit": 101}, {"memberId": 0}, {"code": "a"}])
def test_an_invalid_query_of_codes_is_refused(shop, administration, query):
    problem = administration.get(f"{Friends(shop).path}/codes", expect=400, **query)
    assert [fault["parameter"] for fault in problem["errors"]] == list(query)


def test_codes_are_unique_in_the_organization_and_created_all_or_none(shop, administration):
    friends, other_program = Friends(shop), Friends(shop)
    ana, ben = shop.member(), shop.member()
    friends.codes(ana, "ANA")
    for program, member in ((friends, ana), (friends, ben), (other_program, ana), (other_program, ben)):
        body = {"memberId": friends.member_id(member), "codes": ["free", "ANA"]}
        response = administration.post(f"{program.path}/codes", body, expect=409)
        assert response["type"] == "/problems/referral-code-taken"
        assert "ANA" in response["detail"]
    assert (friends.record()["totalCodes"], other_program.record()["totalCodes"]) == (1, 0)
    # Similar codes are different, and "free" was not created.
    other_program.codes(ben, "anna", " ANA", "free", "%", "a/b", "é")


@pytest.mark.parametrize("codes", [["ana"], ["free", "aNa"], ["éclair"], ["free", "Free"]])
def test_codes_that_differ_only_in_the_case_of_letters_are_refused(shop, administration, codes):
    friends, other_program = Friends(shop), Friends(shop)
    ana, ben = shop.member(), shop.member()
    friends.codes(ana, "ANA", "ÉCLAIR")
    for program in (friends, other_program):
        body = {"memberId": friends.member_id(ben), "codes": codes}
        response = administration.post(f"{program.path}/codes", body, expect=409)
        assert response["type"] == "/problems/referral-code-taken"
    assert other_program.record()["totalCodes"] == 0


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
    """An event of a member who uses a code."""
    return event(member, payload={"referralCode": code, **more})


def test_logs_are_listed_and_ordered(shop, administration):
    friends = Friends(shop)
    ana, ben, cleo = shop.member(), shop.member(), shop.member()
    [code] = friends.codes(ana)
    attributes = {"flyer": 7, "deep": {"a": [1]}}
    shop.track_one({**refer(code["code"], ben, referralAttributes=attributes), "systemUniqueKey": "b"})
    shop.track_one({**refer(code["code"], cleo), "systemUniqueKey": "a"})
    path = f"{friends.path}/codes/{code['referralCodeId']}/logs"
    whole_page = administration.get(path)
    assert (whole_page["totalCount"], whole_page["page"], whole_page["limit"]) == (2, 0, 100)
    log_of_cleo, log_of_ben = whole_page["results"]
    assert log_of_ben == {
        "referralLogId": log_of_ben["referralLogId"],
        "referralCodeId": code["referralCodeId"],
        "referredMemberId": friends.member_id(ben),
        "systemUniqueKey": "b",
        "customAttributes": attributes,
        "createdAt": log_of_ben["createdAt"],
        "updatedAt": log_of_ben["createdAt"],
    }
    assert (log_of_cleo["systemUniqueKey"], log_of_cleo["customAttributes"]) == ("a", {})
    assert administration.get(path, page=1, limit=1)["results"] == [log_of_ben]
    for order, expected_keys in (
        ("referralLogId", "ba"),
        ("referredMemberId,desc", "ab"),
        ("systemUniqueKey", "ab"),
        ("createdAt", "ba"),
        ("updatedAt,desc", "ab"),
    ):
        results = administration.get(path, order=order)["results"]
        assert "".join(result["systemUniqueKey"] for result in results) == expected_keys, order


@pytest.mark.parametrize("query", [{"order": "memberId"}, {"limit": 101}, {"memberId": 1}])
def test_an_invalid_query_of_logs_is_refused(shop, administration, query):
    friends = Friends(shop)
    [code] = friends.codes(shop.member())
    problem = administration.get(f"{friends.path}/codes/{code['referralCodeId']}/logs", expect=400, **query)
    assert [fault["parameter"] for fault in problem["errors"]] == list(query)


def test_logs_of_a_code_are_found_only_in_its_program(shop, administration):
    friends, other_program, ana = Friends(shop), Friends(shop), shop.member()
    [code] = friends.codes(ana)
    [code_of_other_program] = other_program.codes(ana)
    for unknown_path in (
        f"{friends.path}/codes/{code_of_other_program['referralCodeId']}/logs",
        f"{friends.path}/codes/999999999/logs",
        f"/referral-programs/999999999/codes/{code['referralCodeId']}/logs",
    ):
        assert administration.get(unknown_path, expect=404)["type"] == "/problems/not-found"


@pytest.mark.slow
def test_the_leaderboard_equals_a_count_of_the_results(shop, administration):
    friends, other_program = Friends(shop, maxRedeemsPerReferredMemberPerCode=2), Friends(shop)
    owners = [
        shop.member(profile={"name": name, "email": f"{name}@example.com"} if name else {})
        for name in ("Dora", None, "Ana", "Cleo")
    ]
    # Two codes of each owner.
    codes = [[friends.code(owner) for _ in range(2)] for owner in owners]
    other_program_code = other_program.code(owners[0])
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
                # 100 points for each referral.
                "pointsAccumulated": 100 * sum(referrer == owner for referrer, _guest in referrals),
            }
        )
    path = f"{friends.path}/leaderboard"
    expected_rows = sorted(rows, key=lambda row: (row["pointsAccumulated"], row["memberId"]), reverse=True)
    assert administration.get(path) == {"totalCount": 4, "page": 0, "limit": 100, "results": expected_rows}
    assert administration.get(path, page=1, limit=3)["results"] == expected_rows[3:]
    assert len({row["pointsAccumulated"] for row in rows}) > 1
    for name in ("memberId", "name", "email", "invites", "acceptedInvites", "pointsAccumulated"):
        for direction in ("asc", "desc"):
            rows_with_value = [row for row in rows if row[name] is not None]
            ordered_rows = sorted(
                rows_with_value, key=lambda row: (row[name], row["memberId"]), reverse=direction == "desc"
            )
            # Rows without the field come last in both directions.
            ordered_rows += [row for row in rows if row[name] is None]
            assert administration.get(path, order=f"{name},{direction}")["results"] == ordered_rows, (name, direction)
    assert sum(row["pointsAccumulated"] for row in rows) == 100 * friends.record()["totalLogs"]
    assert friends.record()["referredCount"] == len({guest for _owner, guest in referrals})


@pytest.mark.parametrize("query", [{"order": "code"}, {"limit": 101}, {"limit": 0}])
def test_an_invalid_query_of_the_leaderboard_is_refused(shop, administration, query):
    problem = administration.get(f"{Friends(shop).path}/leaderboard", expect=400, **query)
    assert [fault["parameter"] for fault in problem["errors"]] == list(query)
