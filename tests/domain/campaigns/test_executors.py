"""Effects with an executor: its arguments, and the status of an effect that it refuses."""

from __future__ import annotations

import pytest

from domain.campaigns.effects import EFFECTS, Effect, EffectParameter
from domain.expressions.types import DECIMAL, STRING
from domain.problems import Conflict, NotFound
from tests.builders.campaigns import Bench, action, campaign, effect, facts, mint, statuses

WAVE = "wave"


class TooTired(Conflict):
    slug = "too-tired"
    title = "Too tired"


class NoFlag(NotFound):
    slug = "no-flag"
    title = "There is no flag"


@pytest.fixture(autouse=True)
def effect_to_wave(monkeypatch):
    """The catalogue with one more effect."""
    params = (
        EffectParameter("flag", "Flag", STRING),
        EffectParameter("amount", "Amount", DECIMAL, default_value=1, is_optional=True),
    )
    monkeypatch.setitem(EFFECTS, WAVE, Effect(WAVE, "Wave", params))


def refusing(refusal):
    """Executors that refuse every effect by this refusal."""

    def refuse(event, params):
        raise refusal

    return {WAVE: refuse}


def test_an_executor_gets_the_event_and_the_evaluated_parameters():
    calls = []
    bench = Bench(
        campaign(action(1, effect(WAVE, flag="red", amount=("=", "order.total / 2")), effect(WAVE, flag="blue"))),
        executors={WAVE: lambda event, params: calls.append((event.member_id, event.sponsor_member_id, dict(params)))},
    )
    evaluation = bench.run(facts(total=10, member_id=7, sponsor_member_id=9))
    assert statuses(evaluation) == [(1, "executed"), (1, "executed")]
    # The first amount is half of the total, the second one the default.
    assert calls == [(7, 9, {"flag": "red", "amount": 5}), (7, 9, {"flag": "blue", "amount": 1})]


@pytest.mark.parametrize(
    ("refusal", "status", "aborts"), [(TooTired("Later."), "skipped", False), (NoFlag("None."), "failed", True)]
)
def test_a_conflict_skips_the_effect_and_any_other_refusal_fails_it(refusal, status, aborts):
    actions = (
        action(1, effect(WAVE, flag="red"), mint(5), abort_evaluation_on_error=True),
        action(2, mint(5)),
    )
    bench = Bench(campaign(*actions), executors=refusing(refusal))
    evaluation = bench.run()
    statuses_of_first_action = [(1, status), (1, "executed")]
    assert statuses(evaluation) == (
        statuses_of_first_action if aborts else [*statuses_of_first_action, (2, "executed")]
    )
    assert evaluation.effects[0].error["type"] == f"/problems/{refusal.slug}"


def test_an_executed_effect_counts_against_the_limit_of_transactions_and_a_refused_one_does_not():
    limited_campaign = campaign(action(1, effect(WAVE, flag="red")), max_transactions_per_member=1)
    refusing_bench = Bench(limited_campaign, executors=refusing(TooTired("Later.")))
    assert [refusing_bench.run().effects[0].status for _ in range(2)] == ["skipped", "skipped"]
    assert refusing_bench.counters.count_log == []
    calls = []
    performing_bench = Bench(limited_campaign, executors={WAVE: lambda event, params: calls.append(params)})
    assert [performing_bench.run().effects[0].status for _ in range(2)] == ["executed", "skipped"]
    assert len(calls) == 1


def test_a_dry_run_also_calls_executors_and_reports_evaluated():
    calls = []
    bench = Bench(
        campaign(action(1, effect(WAVE, flag="red"))),
        executors={WAVE: lambda event, params: calls.append(params)},
    )
    assert statuses(bench.run(explaining=True)) == [(1, "evaluated")]
    assert len(calls) == 1


def test_an_effect_with_a_parameter_that_cannot_be_evaluated_fails_and_is_not_executed():
    calls = []
    # The event has no externalId, and a flag is a string.
    waves = campaign(action(1, effect(WAVE, flag=("=", "event.externalId"))))
    evaluation = Bench(waves, executors={WAVE: lambda event, params: calls.append(params)}).run()
    assert statuses(evaluation) == [(1, "failed")]
    assert calls == []
    assert evaluation.effects[0].error["type"] == "/problems/effect-parameter"
