"""Checks of tiers: members' tiers against their programs and points."""

from persistence.record_checks.forms import MARGIN, OF_ORGANIZATION

_WRONG_PROGRAM = f"""
SELECT h.organization_id, format('member %s: has tier %s in program %s, it is of program %s', h.member_id,
    h.loyalty_tier_id, h.loyalty_program_id, t.loyalty_program_id)
FROM member_tiers h JOIN loyalty_tiers t USING (organization_id, loyalty_tier_id)
WHERE {OF_ORGANIZATION.format("h")} AND h.loyalty_program_id <> t.loyalty_program_id
"""

# Every movement of points evaluates the tiers of the member. Tiers by points of a period also change by time, so they
# are not compared. After a change of the tiers, a job evaluates the members. A member who never had points has no tier.
_PROGRAMS = f"""
SELECT p.organization_id, p.loyalty_program_id, p.tier_points_ledger_account_id AS ledger_account_id,
    p.tier_policy ->> 'basis' AS basis, max(t.loyalty_tier_id) FILTER (WHERE t.active
        AND t.loyalty_tier_id = p.default_tier_id) AS default_tier_id,
    greatest(p.updated_at, max(t.updated_at)) AS changed_at
FROM loyalty_programs p JOIN loyalty_tiers t USING (organization_id, loyalty_program_id)
WHERE {OF_ORGANIZATION.format("p")} AND p.active AND p.tier_policy ->> 'period' = 'lifetime'
GROUP BY p.organization_id, p.loyalty_program_id
HAVING bool_or(t.loyalty_tier_id IS DISTINCT FROM p.default_tier_id)
"""
_REACHED = f"""
SELECT DISTINCT ON (m.organization_id, m.member_id, p.loyalty_program_id)
    m.organization_id, m.member_id, p.loyalty_program_id, points.amount,
    CASE WHEN t.min_required_points <= points.amount THEN t.loyalty_tier_id ELSE p.default_tier_id END
        AS loyalty_tier_id
FROM ({_PROGRAMS}) p JOIN loyalty_tiers t USING (organization_id, loyalty_program_id)
JOIN ledger_balances b ON b.organization_id = p.organization_id AND b.ledger_account_id = p.ledger_account_id
JOIN members m ON m.organization_id = b.organization_id AND m.wallet_id = b.wallet_id
CROSS JOIN LATERAL (VALUES (CASE p.basis WHEN 'earned' THEN b.earned ELSE b.current_balance END)) AS points(amount)
WHERE {OF_ORGANIZATION.format("b")} AND t.active AND b.updated_at > p.changed_at + {MARGIN}
ORDER BY m.organization_id, m.member_id, p.loyalty_program_id, t.min_required_points <= points.amount DESC,
    t.min_required_points DESC, t.tier_order DESC, t.loyalty_tier_id
"""
_WRONG_TIER = f"""
SELECT reached.organization_id, format('member %s: has tier %s of program %s, by %s points it is %s',
    reached.member_id, coalesce(CAST(h.loyalty_tier_id AS text), 'none'), reached.loyalty_program_id,
    trim_scale(reached.amount), coalesce(CAST(reached.loyalty_tier_id AS text), 'none'))
FROM ({_REACHED}) reached LEFT JOIN member_tiers h ON {OF_ORGANIZATION.format("h")} AND h.member_id = reached.member_id
    AND h.loyalty_program_id = reached.loyalty_program_id
WHERE NOT coalesce(h.is_manual, false) AND h.loyalty_tier_id IS DISTINCT FROM reached.loyalty_tier_id
    AND (h.loyalty_tier_id IS NOT NULL OR reached.amount > 0)
"""

CHECKS = (_WRONG_PROGRAM, _WRONG_TIER)
