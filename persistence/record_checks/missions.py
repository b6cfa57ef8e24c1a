"""Checks of missions: members' progress and rewards against the trackings of every count."""

from domain.ledger.records import MINT
from persistence.record_checks.forms import MARGIN, OF_ORGANIZATION

_COUNTED = f"""
SELECT t.organization_id, t.member_id, t.mission_id,
    coalesce(sum(t.achieved) FILTER (WHERE t.reversal_loyalty_event_id IS NULL), 0) AS achieved,
    coalesce(sum(t.counted) FILTER (WHERE t.reversal_loyalty_event_id IS NULL), 0) AS counted,
    max(t.happened_at) FILTER (WHERE t.achieved > 0 AND t.reversal_loyalty_event_id IS NULL AND NOT t.is_imported)
        AS last_achieved_at,
    max(t.created_at) FILTER (WHERE t.achieved > 0 AND NOT t.is_imported) AS last_reward_at,
    coalesce(sum(t.achieved) FILTER (WHERE t.is_imported), 0) AS imported, bool_or(t.is_imported) AS was_imported,
    min(t.goal_count) AS least_goal, max(t.goal_count) AS greatest_goal, min(t.created_at) AS first_at,
    count(t.reversal_loyalty_event_id) AS reversals
FROM mission_trackings t WHERE {OF_ORGANIZATION.format("t")} GROUP BY t.organization_id, t.member_id, t.mission_id
"""

# An import replaces earlier counts, so a reversal of them may find less to subtract.
_WRONG_ACHIEVEMENTS = f"""
SELECT organization_id, format('member %s, mission %s: is achieved %s times, last at %s, by its trackings %s, at %s',
    member_id, mission_id, coalesce(h.times_achieved, 0), coalesce(CAST(h.last_achieved_at AS text), 'no time'),
    coalesce(t.achieved, 0), coalesce(CAST(t.last_achieved_at AS text), 'no time'))
FROM (SELECT * FROM member_missions h WHERE {OF_ORGANIZATION.format("h")}) h
FULL JOIN ({_COUNTED}) t USING (organization_id, member_id, mission_id)
WHERE coalesce(h.times_achieved, 0) <> coalesce(t.achieved, 0) AND NOT (t.was_imported AND t.reversals > 0)
    OR h.last_achieved_at IS DISTINCT FROM t.last_achieved_at
"""

# A change of the goal changes the counts, so only counts under an unchanged goal are compared.
_WRONG_COUNT = f"""
SELECT h.organization_id, format('member %s, mission %s: counts %s, its trackings add up to %s', h.member_id,
    h.mission_id, h.counted, t.counted)
FROM member_missions h JOIN ({_COUNTED}) t USING (organization_id, member_id, mission_id)
JOIN missions m ON m.organization_id = h.organization_id AND m.mission_id = h.mission_id
WHERE {OF_ORGANIZATION.format("h")}
    AND h.counted <> t.counted AND t.least_goal = h.goal_count AND t.greatest_goal = h.goal_count
    AND (t.reversals = 0 OR NOT t.was_imported AND m.goal_count = h.goal_count AND t.first_at > m.updated_at + {MARGIN})
UNION ALL
SELECT t.organization_id, format('mission tracking %s: counts %s and achieves %s', t.mission_tracking_id, t.counted,
    t.achieved)
FROM mission_trackings t WHERE {OF_ORGANIZATION.format("t")} AND least(t.counted, t.achieved) < 0
    AND NOT t.is_imported
"""

_OVER_LIMIT = f"""
SELECT h.organization_id, format('member %s, mission %s: is achieved %s of at most %s times', h.member_id,
    h.mission_id, h.times_achieved, m.max_repetitions)
FROM member_missions h JOIN ({_COUNTED}) t USING (organization_id, member_id, mission_id)
JOIN missions m ON m.organization_id = h.organization_id AND m.mission_id = h.mission_id
WHERE {OF_ORGANIZATION.format("h")} AND h.times_achieved - t.imported > m.max_repetitions
    AND t.last_reward_at > m.updated_at + {MARGIN}
"""

# A reward may be refused, cut by the limits of its account, and reduced by a return while its points wait; but it is
# never more than the points of the mission. They are compared if the event achieved one mission only.
_WRONG_REWARD = f"""
SELECT t.organization_id, format('transaction %s: rewards event %s with %s, which achieved mission %s for %s',
    t.ledger_transaction_id, t.loyalty_event_id, trim_scale(t.amount), coalesce(CAST(a.mission_id AS text), 'none'),
    trim_scale(coalesce(m.points_accrual * a.achieved, 0)))
FROM ledger_transactions t LEFT JOIN (
    SELECT a.organization_id, a.loyalty_event_id, count(*) AS number, min(a.mission_id) AS mission_id,
        sum(a.achieved) AS achieved, min(a.created_at) AS created_at
    FROM mission_trackings a WHERE {OF_ORGANIZATION.format("a")} AND a.achieved > 0
    GROUP BY a.organization_id, a.loyalty_event_id
) a USING (organization_id, loyalty_event_id)
LEFT JOIN missions m ON m.organization_id = t.organization_id AND m.mission_id = a.mission_id
WHERE {OF_ORGANIZATION.format("t")} AND t.transaction_type = {MINT} AND t.loyalty_event_id IS NOT NULL
    AND t.system_unique_key ~ '\\:mission-[0-9]+$' AND (a.number IS NULL
        OR a.number = 1 AND a.created_at > m.updated_at + {MARGIN}
            AND t.amount > coalesce(m.points_accrual * a.achieved, 0))
"""

CHECKS = (_WRONG_ACHIEVEMENTS, _WRONG_COUNT, _OVER_LIMIT, _WRONG_REWARD)
