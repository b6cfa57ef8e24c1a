"""Checks of referrals: the counts of codes against the logs of their uses, and the points of referrers."""

from domain.ledger.records import MINT
from persistence.record_checks.forms import MARGIN, OF_ORGANIZATION, wrong_sums

_UNREVERSED = (
    f"SELECT * FROM referral_logs l WHERE {OF_ORGANIZATION.format('l')} AND l.reversal_loyalty_event_id IS NULL"
)

_WRONG_PLACE = f"""
SELECT l.organization_id, format('referral log %s: is of program %s and referrer %s, its code %s of %s and %s',
    l.referral_log_id, l.referral_program_id, l.referrer_member_id, l.referral_code_id, c.referral_program_id,
    c.member_id)
FROM referral_logs l JOIN referral_codes c USING (organization_id, referral_code_id)
WHERE {OF_ORGANIZATION.format("l")}
    AND (l.referral_program_id <> c.referral_program_id OR l.referrer_member_id <> c.member_id)
UNION ALL
SELECT l.organization_id, format('referral log %s: member %s was referred by the same member', l.referral_log_id,
    l.referred_member_id)
FROM referral_logs l WHERE {OF_ORGANIZATION.format("l")} AND l.referrer_member_id = l.referred_member_id
"""


def _over_limit(limit: str, keys: str, subject: str) -> str:
    """SQL that finds the keys with more uses than the limit of their program.

    `keys` are columns of the uses, separated by commas, `limit` is an SQL expression on the program `p`, and `subject`
    is the text about the keys, with a `%s` for each. The SQL finds only keys whose last use is later than the program's
    last change by more than `MARGIN`: earlier uses may have followed another limit.
    """
    of_uses = ", ".join(f"u.{key}" for key in keys.split(", "))
    return f"""
SELECT u.organization_id, format('referral program %s, {subject}: has %s uses of at most %s', u.referral_program_id,
    {of_uses}, u.number, {limit})
FROM (
    SELECT organization_id, referral_program_id, {keys}, count(*) AS number, max(created_at) AS last_at
    FROM ({_UNREVERSED}) l GROUP BY organization_id, referral_program_id, {keys}
) u JOIN referral_programs p USING (organization_id, referral_program_id)
WHERE {OF_ORGANIZATION.format("p")} AND u.number > {limit} AND u.last_at > p.updated_at + {MARGIN}
"""


# A partial return lowers the amount of a pending mint, but not its `reserved_amount`, and not the points of the log.
_WRONG_POINTS = f"""
SELECT l.organization_id, format('referral log %s: gave the referrer %s points, its transactions %s',
    l.referral_log_id, trim_scale(l.referrer_points), trim_scale(coalesce(paid.amount, 0)))
FROM referral_logs l LEFT JOIN (
    SELECT t.organization_id, t.loyalty_event_id, sum(coalesce(t.reserved_amount, t.amount)) AS amount
    FROM ledger_transactions t
    WHERE {OF_ORGANIZATION.format("t")} AND t.loyalty_event_id IS NOT NULL AND t.transaction_type = {MINT}
        AND t.system_unique_key LIKE '%\\:referral-referrer'
    GROUP BY t.organization_id, t.loyalty_event_id
) paid USING (organization_id, loyalty_event_id)
WHERE {OF_ORGANIZATION.format("l")} AND l.referrer_points <> coalesce(paid.amount, 0)
"""

CHECKS = (
    wrong_sums(
        "SELECT organization_id, referral_code_id, total_usages AS uses FROM referral_codes c"
        f" WHERE {OF_ORGANIZATION.format('c')}",
        f"SELECT organization_id, referral_code_id, 1 AS uses FROM ({_UNREVERSED}) l",
        ("referral_code_id",),
        ("uses",),
        "referral code %s",
        ("counts %s uses", "its logs are %s"),
    ),
    _WRONG_PLACE,
    _over_limit("p.max_per_code", "referral_code_id", "code %s"),
    _over_limit("p.max_referrals_per_member", "referrer_member_id", "referrer %s"),
    _over_limit(
        "coalesce(p.max_redeems_per_referred_member_per_code, 1)",
        "referral_code_id, referred_member_id",
        "code %s, referred member %s",
    ),
    _WRONG_POINTS,
)
