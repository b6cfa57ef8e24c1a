"""Checks of campaigns: the counters of limits against what events have counted."""

from persistence.record_checks.forms import OF_ORGANIZATION, wrong_sums

_KEYS = (
    "campaign_id",
    "member_id",
    "ledger_account_id",
    "type",
    "period",
    "period_start",
    "shared_key",
    "location",
)

# A reversal has negative counts on its own event, and as `givenBack` on the reversed event; the latter are used here.
_COUNTED = f"""
SELECT e.organization_id,
    CASE WHEN k ->> 'sharedKey' IS NULL THEN CAST(k ->> 'campaignId' AS bigint) ELSE 0 END AS campaign_id,
    CASE k ->> 'scope' WHEN 'member' THEN e.member_id ELSE 0 END AS member_id,
    coalesce(CAST(k ->> 'ledgerAccountId' AS bigint), 0) AS ledger_account_id, k ->> 'type' AS type,
    k ->> 'period' AS period, CAST(k ->> 'periodStart' AS date) AS period_start,
    coalesce(k ->> 'sharedKey', '') AS shared_key, coalesce('@' || (k ->> 'location'), '') AS location,
    CAST(k ->> 'amount' AS numeric) - coalesce(CAST(k ->> 'givenBack' AS numeric), 0) AS used
FROM events e CROSS JOIN LATERAL jsonb_array_elements(e.limit_counters) AS k
WHERE {OF_ORGANIZATION.format("e")} AND CAST(k ->> 'amount' AS numeric) > 0
"""

CHECKS = (
    wrong_sums(
        f"""SELECT organization_id, {", ".join(_KEYS)}, sum(used) AS used FROM campaign_limit_counters c
WHERE {OF_ORGANIZATION.format("c")} GROUP BY organization_id, {", ".join(_KEYS)}""",
        _COUNTED,
        _KEYS,
        ("used",),
        "campaign %s, member %s, account %s, %s %s from %s, shared key %s, location %s",
        ("counts %s", "its events add up to %s"),
    ),
)
