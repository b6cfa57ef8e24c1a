"""Referrals: members bring others by codes of their own, and both sides are rewarded (administration "Referrals").

The owner of a code is the referrer, the member who uses it the referred member. Each use that counts is stored as a
log; limits count logs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from domain.fields import Key, Personal
from domain.ledger.availability import Wait
from domain.ledger.records import LedgerAccount
from domain.members import Member, MemberInactive
from domain.problems import Conflict, NotFound, Refusal

# 2^53 - 1, the greatest integer that every JSON reader holds exactly.
MAX_REFERRALS = 9007199254740991
REFERRER, REFERRED = "referrer", "referred"
# The statuses of referrals and of their rewards.
APPLIED, SKIPPED = "applied", "skipped"


@dataclass(frozen=True, slots=True)
class ReferralProgram:
    """A stored referral program; `valid_from_date` and `valid_to_date` are included, and None means no limit.

    `max_redeems_per_referred_member_per_code` None means once. Points and coupon books are None if a side gets none,
    ledger accounts if the loyalty program determines them. The points of both sides become available by the terms of
    the program, or else by those of their account; `available_on` is stored in the form of the API.
    """

    organization_id: int
    referral_program_id: int
    referral_program_key: Key
    loyalty_program_id: int | None
    name: str
    description: str | None
    picture_url: str | None
    custom_attributes: Mapping[str, Any]
    active: bool
    valid_from_date: datetime | None
    valid_to_date: datetime | None
    max_per_code: int
    max_referrals_per_member: int
    max_redeems_per_referred_member_per_code: int | None
    campaign_id: int | None
    audience_id: int | None
    tags: tuple[str, ...]
    code: str
    event_type: str
    referrer_points_accrual: Decimal | None
    referrer_ledger_id: int | None
    referrer_ledger_account_id: int | None
    referrer_coupon_book_key: Key | None
    referred_points_accrual: Decimal | None
    referred_ledger_id: int | None
    referred_ledger_account_id: int | None
    referred_coupon_book_key: Key | None
    available_at: datetime | None
    available_after: str | None
    available_rounding: str
    available_on: Mapping[str, Any] | None
    # An IANA name; None means the zone of the organization.
    timezone: str | None
    external_key: str | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class ProgramTotals:
    """Totals of a program: referred members, codes, and unreversed logs."""

    referred_count: int = 0
    total_codes: int = 0
    total_logs: int = 0


@dataclass(frozen=True, slots=True)
class ReferralCode:
    """A member's code in a program; `total_usages` counts the unreversed logs."""

    organization_id: int
    referral_code_id: int
    referral_program_id: int
    member_id: int
    code: Personal[str]
    total_usages: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class ReferralLog:
    """A use of a code that counted; `referrer_points` were minted for its owner."""

    organization_id: int
    referral_log_id: int
    referral_code_id: int
    referral_program_id: int
    referrer_member_id: int
    referred_member_id: int
    loyalty_event_id: int
    system_unique_key: str
    custom_attributes: Personal[Mapping[str, Any]]
    referrer_points: Decimal
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class LeaderboardRow:
    """The results of a member's codes in a program so far."""

    member_id: int
    name: str | None
    email: str | None
    invites: int
    accepted_invites: int
    points_accumulated: Decimal


class ReferralProgramExists(Conflict, title="The code belongs to another referral program"):
    """Another referral program of the organization has the code."""


class ReferralCodeTaken(Conflict, title="The referral code is taken"):
    """Another referral code of the organization has the same text."""


class UnknownReferralCode(NotFound, title="The referral code does not exist"):
    """The organization does not have the referral code that the event names."""


class ReferralProgramInactive(Conflict, title="The referral program is not in force"):
    """The program is not active, or the event is not within its dates."""


class SelfReferral(Conflict, title="Members cannot refer themselves"):
    """A member used their own code."""


class NotInReferralAudience(Conflict, title="The member is not in the audience of the referral program"):
    """The referred member is not in the audience of the program."""


class ReferralLimitReached(Conflict, title="A limit of the referral program is reached"):
    """A limit of the program is reached; `limit` names it."""


@dataclass(frozen=True, slots=True)
class ReferralReward:
    """The reward of one side: points into an account, or a coupon; the account is None if the programs name none."""

    recipient: str
    points: Decimal | None = None
    ledger_account_id: int | None = None
    coupon_book_key: str | None = None


@dataclass(frozen=True, slots=True)
class ProgramWithRewards:
    """A referral program with its rewards and their ledger accounts."""

    record: ReferralProgram
    rewards: tuple[ReferralReward, ...]


def program_with_rewards(program: ReferralProgram, main_account: LedgerAccount | None) -> ProgramWithRewards:
    """A program with its rewards; `main_account` receives points for which the program names no account."""
    main_id = None if main_account is None else main_account.ledger_account_id
    rewards = []
    for recipient in (REFERRER, REFERRED):
        points: Decimal | None = getattr(program, f"{recipient}_points_accrual")
        account_id: int | None = getattr(program, f"{recipient}_ledger_account_id")
        book_key: str | None = getattr(program, f"{recipient}_coupon_book_key")
        if points:
            rewards.append(ReferralReward(recipient, points, account_id or main_id))
        if book_key is not None:
            rewards.append(ReferralReward(recipient, coupon_book_key=book_key))
    return ProgramWithRewards(program, tuple(rewards))


class ReferralPrograms:
    """All referral programs of an organization, active or not; `types` are the event types that they consider."""

    def __init__(self, programs: Iterable[ProgramWithRewards] = ()) -> None:
        self.by_id: Mapping[int, ProgramWithRewards] = {
            program.record.referral_program_id: program for program in programs
        }
        records = [program.record for program in self.by_id.values()]
        self.types = frozenset(program.event_type for program in records)
        self.active_types = frozenset(program.event_type for program in records if program.active)


@dataclass(frozen=True, slots=True)
class RewardOutcome:
    """The outcome of a reward; `error` is the problem that prevented it, `code` that of an assigned coupon.

    `points` were paid; `wait` is set if they are not available yet.
    """

    reward: ReferralReward
    member_id: int
    status: str
    error: Mapping[str, Any] | None = None
    code: str | None = None
    points: Decimal = Decimal(0)
    wait: Wait | None = None


@dataclass(frozen=True, slots=True)
class ReferralOutcome:
    """The outcome of an event's referral code; program and code are unknown if no record has this code."""

    code: str
    referral_program_id: int | None
    referral_code_id: int | None
    referrer_member_id: int | None
    status: str
    error: Mapping[str, Any] | None = None
    rewards: tuple[RewardOutcome, ...] = ()

    @classmethod
    def of_refusal(cls, code: str, referral_code: ReferralCode | None, refusal: Refusal) -> ReferralOutcome:
        """The outcome of a use that was refused, and so did not count."""
        problem = refusal.as_problem()
        if referral_code is None:
            return cls(
                code,
                referral_program_id=None,
                referral_code_id=None,
                referrer_member_id=None,
                status=SKIPPED,
                error=problem,
            )
        return cls(
            code,
            referral_program_id=referral_code.referral_program_id,
            referral_code_id=referral_code.referral_code_id,
            referrer_member_id=referral_code.member_id,
            status=SKIPPED,
            error=problem,
        )


@dataclass(frozen=True, slots=True)
class CodeUse:
    """A use of a code that counts and is to be stored."""

    code: ReferralCode
    referred_member_id: int
    loyalty_event_id: int
    system_unique_key: str
    custom_attributes: Mapping[str, Any]
    referrer_points: Decimal


@dataclass(slots=True)
class ReferralUsageState:
    """In-memory state of the referral codes that a unit of work may use, and of their counts.

    `use_counts_by_referrer` has the number of uses of a member's codes in a program, by (program id, member id), and
    `use_counts_by_pair` the number of uses of a code by a referred member, by (code id, member id). `added_logs` and
    `removed_logs` are changes by the unit of work.
    """

    codes: dict[int, ReferralCode]
    use_counts_by_referrer: dict[tuple[int, int], int]
    use_counts_by_pair: dict[tuple[int, int], int]
    added_logs: list[CodeUse] = field(default_factory=list)
    removed_logs: list[ReferralLog] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._ids = {code.code: code.referral_code_id for code in self.codes.values()}

    _ids: dict[str, int] = field(init=False)

    def find(self, code: str) -> ReferralCode | None:
        """The code with this text, None if the organization has none."""
        code_id = self._ids.get(code)
        return None if code_id is None else self.codes[code_id]

    def refuse_over_limit(self, program: ReferralProgram, code: ReferralCode, referred_member_id: int) -> None:
        """Raise ReferralLimitReached if one more use of the code by the member exceeds a limit."""
        max_per_pair = program.max_redeems_per_referred_member_per_code or 1
        uses_of_pair = self.use_counts_by_pair.get((code.referral_code_id, referred_member_id), 0)
        uses_of_referrer = self.use_counts_by_referrer.get((program.referral_program_id, code.member_id), 0)
        for name, maximum, uses, description in (
            ("maxRedeemsPerReferredMemberPerCode", max_per_pair, uses_of_pair, "uses of the code by the member"),
            ("maxPerCode", program.max_per_code, code.total_usages, "uses of the code"),
            (
                "maxReferralsPerMember",
                program.max_referrals_per_member,
                uses_of_referrer,
                "uses of the referrer's codes",
            ),
        ):
            if uses >= maximum:
                raise ReferralLimitReached(f"{name} is {maximum}; {description} so far: {uses}.", limit=name)

    def add(self, use: CodeUse) -> None:
        """Count a use."""
        self.added_logs.append(use)
        self._count(use.code.referral_code_id, use.referred_member_id, 1)

    def reverse(self, log: ReferralLog) -> None:
        """Remove a stored use from the counts."""
        self.removed_logs.append(log)
        self._count(log.referral_code_id, log.referred_member_id, -1)

    def _count(self, code_id: int, referred_member_id: int, change: int) -> None:
        """Add `change` to the counts of the code, of the code and the referred member, and of the referrer."""
        code = self.codes[code_id]
        self.codes[code_id] = replace(code, total_usages=code.total_usages + change)
        pair, referrer = (code_id, referred_member_id), (code.referral_program_id, code.member_id)
        self.use_counts_by_pair[pair] = self.use_counts_by_pair.get(pair, 0) + change
        self.use_counts_by_referrer[referrer] = self.use_counts_by_referrer.get(referrer, 0) + change


def refuse_referral(
    program: ReferralProgram,
    referrer: Member,
    referred_member_id: int,
    at: datetime,
    is_in_audience: bool,
    is_referred_active: bool = True,
) -> None:
    """Refuse uses that the program never rewards, regardless of its counts; `at` is when the event happened.

    Raises ReferralProgramInactive, SelfReferral, MemberInactive or NotInReferralAudience.
    """
    if not program.active:
        raise ReferralProgramInactive("The referral program is not active.")
    if program.valid_from_date is not None and at < program.valid_from_date:
        raise ReferralProgramInactive("The event happened before the referral program began.")
    if program.valid_to_date is not None and at > program.valid_to_date:
        raise ReferralProgramInactive("The event happened after the referral program had ended.")
    if referrer.member_id == referred_member_id:
        raise SelfReferral("The code is the member's own.")
    if not referrer.active:
        raise MemberInactive("The owner of the referral code is not active.")
    if not is_referred_active:
        raise MemberInactive("The referred member is not active.")
    if program.audience_id is not None and not is_in_audience:
        raise NotInReferralAudience("The referred member is not in the audience of the program.")
