"""Referral programs, the codes that members have in them, and the uses of codes that counted."""

from sqlalchemy import BigInteger, Column, text

from domain.referrals import ReferralCode, ReferralLog, ReferralProgram
from persistence.tables.base import belongs_to_organization, foreign_key, index, record_table, unique

referral_programs = record_table(
    "referral_programs",
    ReferralProgram,
    "referral_program_id",
    unique("referral_program_key"),
    unique("code"),
    belongs_to_organization(),
    foreign_key("loyalty_programs", "loyalty_program_id"),
    foreign_key("campaigns", "campaign_id"),
    foreign_key("audiences", "audience_id"),
    foreign_key("ledgers", "referrer_ledger_id", target=("ledger_id",)),
    foreign_key("ledgers", "referred_ledger_id", target=("ledger_id",)),
    foreign_key("ledger_accounts", "referrer_ledger_account_id", target=("ledger_account_id",)),
    foreign_key("ledger_accounts", "referred_ledger_account_id", target=("ledger_account_id",)),
    defaults={"available_rounding": "'none'"},
)

# The counts of a code change under the lock of its owner, so total_usages is always exact.
referral_codes = record_table(
    "referral_codes",
    ReferralCode,
    "referral_code_id",
    unique("code"),
    index("ix_referral_codes_folded", text("lower(code)")),
    index("ix_referral_codes_member", "referral_program_id", "member_id"),
    foreign_key("referral_programs", "referral_program_id"),
    foreign_key("members", "member_id"),
    defaults={"total_usages": "0"},
)

# If its event is reversed, a log stays, gets the reversing event, and does not count any more.
referral_logs = record_table(
    "referral_logs",
    ReferralLog,
    "referral_log_id",
    Column("reversal_loyalty_event_id", BigInteger),
    index("ix_referral_logs_code", "referral_code_id", "referred_member_id"),
    index("ix_referral_logs_referrer", "referral_program_id", "referrer_member_id"),
    # For the timeline, which has a member's logs of all programs, as referrer and as referred member.
    index("ix_referral_logs_made", "referrer_member_id", "referral_log_id"),
    index("ix_referral_logs_used", "referred_member_id", "referral_log_id"),
    index("ix_referral_logs_event", "loyalty_event_id"),
    foreign_key("referral_codes", "referral_code_id"),
    foreign_key("referral_programs", "referral_program_id"),
    foreign_key("members", "referrer_member_id", target=("member_id",)),
    foreign_key("members", "referred_member_id", target=("member_id",)),
)
