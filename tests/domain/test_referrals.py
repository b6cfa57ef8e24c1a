"""The rules of referrals, without a database."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.members import Member, MemberInactive
from domain.problems import Refusal
from domain.referrals import (
    CodeUse,
    ProgramTotals,
    ReferralCode,
    ReferralLimitReached,
    ReferralLog,
    ReferralOutcome,
    ReferralProgram,
    ReferralPrograms,
    ReferralReward,
    ReferralUsageState,
    RewardOutcome,
    program_with_rewards,
    refuse_referral,
)
from tests.builders.campaigns import account

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
PROGRAM = ReferralProgram(
    organization_id=1,
    referral_program_id=2,
    referral_program_key="key",
    loyalty_program_id=None,
    name="Friends",
    description=None,
    picture_url=None,
    custom_attributes={},
    active=True,
    valid_from_date=None,
    valid_to_date=None,
    max_per_code=2,
    max_referrals_per_member=3,
    max_redeems_per_referred_member_per_code=None,
    campaign_id=None,
    audience_id=None,
    tags=(),
    code="friends",
    event_type="member-created",
    referrer_points_accrual=Decimal(5),
    referrer_ledger_id=None,
    referrer_ledger_account_id=None,
    referrer_coupon_book_key=None,
    referred_points_accrual=None,
    referred_ledger_id=None,
    referred_ledger_account_id=9,
    referred_coupon_book_key="book",
    available_at=None,
    available_after=None,
    available_rounding="none",
    available_on=None,
    timezone=None,
    external_key=None,
    created_at=NOON,
    updated_at=NOON,
)
ANA = Member(
    organization_id=1,
    member_id=7,
    loyalty_member_id="ana",
    public_loyalty_member_id=None,
    active=True,
    member_type=None,
    channel_acquisition=None,
    referral_code=None,
    profile={},
    custom_attributes={},
    notifications={},
    on_chain={},
    wallet_id=70,
    wallet_key="w",
    created_at=NOON,
    updated_at=NOON,
)


def code(code_id, text, member_id=7, usages=0, program_id=2):
    """A code, by default an unused one of Ana, whose member id is 7, in the program 2."""
    return ReferralCode(
        organization_id=1,
        referral_code_id=code_id,
        referral_program_id=program_id,
        member_id=member_id,
        code=text,
        total_usages=usages,
        created_at=NOON,
        updated_at=NOON,
    )


def state_of(*codes):
    """The state of unused codes."""
    codes_by_id = {code.referral_code_id: code for code in codes}
    return ReferralUsageState(codes_by_id, use_counts_by_referrer={}, use_counts_by_pair={})


def use(of, referred, points=5):
    """The use of the code `of` by the member `referred`."""
    return CodeUse(
        code=of,
        referred_member_id=referred,
        loyalty_event_id=1,
        system_unique_key="key",
        custom_attributes={},
        referrer_points=Decimal(points),
    )


def log(of, referred):
    """The stored use of the code `of` by the member `referred`."""
    return ReferralLog(
        organization_id=1,
        referral_log_id=1,
        referral_code_id=of.referral_code_id,
        referral_program_id=2,
        referrer_member_id=of.member_id,
        referred_member_id=referred,
        loyalty_event_id=1,
        system_unique_key="key",
        custom_attributes={},
        referrer_points=Decimal(5),
        created_at=NOON,
        updated_at=NOON,
    )


@pytest.mark.parametrize(
    ("changes_of_program", "changes_of_ana", "referred_id", "is_in_audience", "slug"),
    [
        ({}, {}, 8, False, None),
        ({"active": False}, {}, 8, True, "referral-program-inactive"),
        ({"valid_from_date": NOON}, {}, 8, True, None),
        ({"valid_to_date": NOON}, {}, 8, True, None),
        ({"valid_from_date": NOON + HOUR}, {}, 8, True, "referral-program-inactive"),
        ({"valid_to_date": NOON - HOUR}, {}, 8, True, "referral-program-inactive"),
        ({}, {}, 7, True, "self-referral"),
        ({}, {"active": False}, 8, True, "member-inactive"),
        ({"audience_id": 4}, {}, 8, True, None),
        ({"audience_id": 4}, {}, 8, False, "not-in-referral-audience"),
        # The first reason is reported.
        ({"active": False, "audience_id": 4}, {"active": False}, 7, False, "referral-program-inactive"),
    ],
)
def test_a_refused_referral_has_the_slug_of_its_first_reason(
    changes_of_program, changes_of_ana, referred_id, is_in_audience, slug
):
    """Ana, whose member id is 7, refers a member; no slug: no refusal."""
    program, ana = replace(PROGRAM, **changes_of_program), replace(ANA, **changes_of_ana)
    if slug is None:
        refuse_referral(program, ana, referred_id, at=NOON, is_in_audience=is_in_audience)
        return
    with pytest.raises(Refusal) as refusal:
        refuse_referral(program, ana, referred_id, at=NOON, is_in_audience=is_in_audience)
    assert refusal.value.slug == slug


def test_an_inactive_member_cannot_be_referred():
    refuse_referral(PROGRAM, ANA, 8, NOON, is_in_audience=True, is_referred_active=True)
    with pytest.raises(MemberInactive, match=r"The referred member is not active\."):
        refuse_referral(PROGRAM, ANA, 8, NOON, is_in_audience=True, is_referred_active=False)


def test_a_member_can_use_a_code_once_unless_the_program_allows_more():
    program_of_two_uses = replace(PROGRAM, max_redeems_per_referred_member_per_code=2)
    # The member 8 has used the code 1 once.
    state = ReferralUsageState({1: code(1, "a")}, use_counts_by_referrer={}, use_counts_by_pair={(1, 8): 1})
    state.refuse_over_limit(program_of_two_uses, state.codes[1], referred_member_id=8)
    with pytest.raises(
        ReferralLimitReached,
        match="PerCode is 1; uses of the code by the member so far: 1",
    ):
        state.refuse_over_limit(PROGRAM, state.codes[1], referred_member_id=8)


def test_the_rewards_of_a_program_are_the_points_and_coupons_of_both_members():
    # The program names no account for the points of the referrer, who therefore gets them into the main account.
    assert program_with_rewards(PROGRAM, main_account=account(3)).rewards == (
        ReferralReward("referrer", points=Decimal(5), ledger_account_id=3),
        ReferralReward("referred", coupon_book_key="book"),
    )
    for_referred_only = replace(PROGRAM, referrer_points_accrual=Decimal(0), referred_points_accrual=Decimal(2))
    assert program_with_rewards(for_referred_only, main_account=None).rewards == (
        ReferralReward("referred", points=Decimal(2), ledger_account_id=9),
        ReferralReward("referred", coupon_book_key="book"),
    )


def test_programs_have_the_event_types_of_all_and_of_the_active_programs():
    programs = ReferralPrograms(
        program_with_rewards(
            replace(PROGRAM, referral_program_id=n, event_type=event_type, active=active), main_account=None
        )
        for n, (event_type, active) in enumerate((("a", True), ("b", False), ("a", False)))
    )
    assert programs.types == {"a", "b"}
    assert programs.active_types == {"a"}


@pytest.mark.parametrize(
    ("uses", "referred_id", "limit"),
    [
        ([(1, 8)], 9, None),
        ([(1, 8)], 8, "maxRedeemsPerReferredMemberPerCode"),
        ([(1, 8), (1, 9)], 10, "maxPerCode"),
        ([(1, 8), (2, 8), (2, 9)], 10, "maxReferralsPerMember"),
    ],
)
def test_limits_count_the_uses_of_the_unit_of_work(uses, referred_id, limit):
    """The codes 1 and 2 belong to one member; `uses` are pairs of a code and a referred member.

    PROGRAM allows 1 use of a code by a member, 2 of a code, and 3 of the codes of a member. `limit` is the limit that
    one more use of the code 1 by the member `referred_id` would exceed.
    """
    state = state_of(code(1, "a"), code(2, "b"))
    for code_id, member_id in uses:
        state.add(use(state.codes[code_id], member_id))
    if limit is None:
        state.refuse_over_limit(PROGRAM, state.codes[1], referred_id)
    else:
        with pytest.raises(ReferralLimitReached) as refusal:
            state.refuse_over_limit(PROGRAM, state.codes[1], referred_id)
        assert refusal.value.extension_fields == {"limit": limit}


def test_codes_are_found_by_their_exact_text():
    state = state_of(code(1, "a"), code(2, "A"))
    assert state.find("a").referral_code_id == 1
    assert state.find("A").referral_code_id == 2
    assert state.find("b") is None


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(8, 11), st.booleans()), max_size=60),
    st.integers(1, 4),
    st.integers(1, 6),
    st.none() | st.integers(1, 3),
)
def test_no_limit_is_ever_exceeded_and_reversed_uses_do_not_count(steps, per_code, per_member, per_pair):
    """Uses in any order, some of them reversed: the counts are those of the active uses."""
    program = replace(
        PROGRAM,
        max_per_code=per_code,
        max_referrals_per_member=per_member,
        max_redeems_per_referred_member_per_code=per_pair,
    )
    # The first two codes belong to member 7, the third to member 6.
    owners = {1: 7, 2: 7, 3: 6}
    state = state_of(*(code(n, str(n), member_id=owner) for n, owner in owners.items()))
    active_uses: list[tuple[int, int]] = []
    for code_id, member_id, is_reversed in steps:
        if is_reversed and active_uses:
            oldest_code_id, oldest_member_id = active_uses.pop(0)
            state.reverse(log(state.codes[oldest_code_id], oldest_member_id))
        used_code_ids = [used_code_id for used_code_id, _ in active_uses]
        uses_of_code = used_code_ids.count(code_id)
        uses_of_member = [owners[used_code_id] for used_code_id in used_code_ids].count(owners[code_id])
        uses_of_pair = active_uses.count((code_id, member_id))
        is_within_limits = uses_of_code < per_code and uses_of_member < per_member and uses_of_pair < (per_pair or 1)
        try:
            state.refuse_over_limit(program, state.codes[code_id], member_id)
        except ReferralLimitReached:
            assert not is_within_limits
        else:
            assert is_within_limits
            state.add(use(state.codes[code_id], member_id))
            active_uses.append((code_id, member_id))
    for code_id in owners:
        uses_of_code = [active_use for active_use in active_uses if active_use[0] == code_id]
        assert state.codes[code_id].total_usages == len(uses_of_code)


def test_the_outcome_of_a_refused_use_has_its_problem_and_the_ids_of_a_known_code():
    refusal = ReferralLimitReached("Too many.", limit="maxPerCode")
    known_code = code(4, "ANA-1", member_id=7, program_id=2)
    assert ReferralOutcome.of_refusal("ANA-1", known_code, refusal) == ReferralOutcome(
        code="ANA-1",
        referral_program_id=2,
        referral_code_id=4,
        referrer_member_id=7,
        status="skipped",
        error=refusal.as_problem(),
    )
    assert ReferralOutcome.of_refusal("BOB-1", None, refusal) == ReferralOutcome(
        code="BOB-1",
        referral_program_id=None,
        referral_code_id=None,
        referrer_member_id=None,
        status="skipped",
        error=refusal.as_problem(),
    )


def test_a_use_and_its_reversal_change_the_counts_of_the_code_of_the_referrer_and_of_the_referred_member():
    code_id, program_id, referrer_id, referred_id = 4, 2, 7, 8
    used_code = code(code_id, "ANA-1", member_id=referrer_id, usages=1, program_id=program_id)
    state = ReferralUsageState(
        codes={code_id: used_code},
        use_counts_by_referrer={(program_id, referrer_id): 1},
        use_counts_by_pair={},
    )
    state.add(use(used_code, referred_id))
    assert state.codes[code_id].total_usages == 1 + 1
    assert state.use_counts_by_referrer == {(program_id, referrer_id): 1 + 1}
    assert state.use_counts_by_pair == {(code_id, referred_id): 1}
    stored_use = log(used_code, referred_id)
    state.reverse(stored_use)
    assert state.codes[code_id].total_usages == 1
    assert state.use_counts_by_referrer == {(program_id, referrer_id): 1}
    assert state.use_counts_by_pair == {(code_id, referred_id): 0}
    assert len(state.added_logs) == 1
    assert state.removed_logs == [stored_use]


def test_limits_of_one_allow_the_first_use_of_a_code_and_of_a_member_and_refuse_the_second():
    program = replace(PROGRAM, referral_program_id=2, max_per_code=1, max_referrals_per_member=1)
    # Both codes belong to the member 7.
    state = state_of(code(1, "a"), code(2, "b"))
    state.refuse_over_limit(program, state.codes[1], referred_member_id=8)
    state.add(use(state.codes[1], referred=8))
    assert state.use_counts_by_referrer == {(2, 7): 1}
    assert state.use_counts_by_pair == {(1, 8): 1}
    with pytest.raises(ReferralLimitReached, match=r"maxPerCode is 1; uses of the code so far: 1\."):
        state.refuse_over_limit(program, state.codes[1], referred_member_id=9)
    with pytest.raises(ReferralLimitReached, match="PerMember is 1; uses of the referrer's codes so far: 1"):
        state.refuse_over_limit(program, state.codes[2], referred_member_id=9)


def test_the_totals_of_a_program_are_0_at_first_and_a_skipped_reward_pays_0():
    assert ProgramTotals() == ProgramTotals(referred_count=0, total_codes=0, total_logs=0)
    reward = ReferralReward("referrer", points=Decimal(5), ledger_account_id=3)
    assert RewardOutcome(reward, member_id=7, status="skipped").points == 0


def test_an_organization_may_have_no_referral_program():
    assert not ReferralPrograms().by_id
