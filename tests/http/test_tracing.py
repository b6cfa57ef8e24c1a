"""The spans of calls, of statements and of the worker, as an exporter in memory gets them."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from handlers import tracing
from handlers.http.tracing import Traced
from handlers.server.job_runs import run_due_jobs
from handlers.server.jobs import JOBS, add_jobs
from handlers.settings import Settings
from persistence import connections, transactions
from tests.builders.api import Api, running_api
from tests.builders.jobs import do_jobs_only_for
from tests.builders.queue import drain, send
from tests.builders.tracking import Shop, event
from tests.builders.triggers import add_trigger

TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.fixture
def exporter() -> Iterator[InMemorySpanExporter]:
    """The spans that this process has finished, while the test runs."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing.use(provider)
    yield exporter
    tracing.use(None)


@pytest.fixture
def traced_api(exporter, settings) -> Iterator[Api]:
    with running_api(settings) as api:
        yield api


def spans(exporter, kind=None):
    """The finished spans, by default of all kinds: a call is of the kind SERVER, a statement of the kind CLIENT."""
    return [span for span in exporter.get_finished_spans() if kind is None or span.kind == kind]


def test_a_call_has_a_span_with_its_statements(traced_api, exporter):
    organization = traced_api.organization()
    organization.member("ana")
    exporter.clear()
    headers = {"traceparent": f"00-{TRACE_ID}-00f067aa0ba902b7-01", "X-Request-Id": "sale-17"}
    organization.integration.request("GET", "/members/ana", headers=headers, expect=200)
    [call] = spans(exporter, SpanKind.SERVER)
    assert call.name == "GET integration:getMember"
    assert format(call.context.trace_id, "032x") == TRACE_ID
    assert call.attributes["loyalty.request_id"] == "sale-17"
    assert call.attributes["loyalty.organization_id"] == organization.id
    assert call.attributes["http.response.status_code"] == 200
    statements = spans(exporter, SpanKind.CLIENT)
    assert statements
    assert {statement.context.trace_id for statement in statements} == {call.context.trace_id}
    assert {statement.name for statement in statements} <= {"SELECT", "WITH"}
    assert all(statement.attributes["db.query.text"].startswith(statement.name) for statement in statements)


def test_spans_contain_no_values_of_requests_and_records(traced_api, exporter):
    shop = Shop(traced_api.organization())
    shop.organization.member("ana-the-secret")
    shop.track(event("ana-the-secret"))
    shop.organization.integration.get("/members/ana-the-unknown", expect=404)
    text = " ".join(span.to_json() for span in spans(exporter))
    assert "trackEvents" in text
    assert re.search(r"\bana\b", text) is None


def test_a_span_reports_an_error_by_its_type_and_without_its_message(exporter, db):
    with pytest.raises(ZeroDivisionError), tracing.span("work", {}):
        raise ZeroDivisionError("of ana")
    [work] = spans(exporter)
    assert work.status.status_code == StatusCode.ERROR
    assert work.status.description == "ZeroDivisionError"
    assert not work.events


def test_the_calls_of_a_batch_are_linked(exporter):
    contexts = []
    for _ in range(3):
        with tracing.tracer_span("call"):
            contexts.append(tracing.current())
    call_ids = {span.context.span_id for span in spans(exporter)}
    exporter.clear()
    with tracing.continue_span(contexts):
        pass
    [batch] = spans(exporter)
    assert batch.attributes["loyalty.calls"] == 3
    # One of the calls is the parent, the other two are linked.
    assert len(batch.links) == 2
    assert {batch.parent.span_id, *(link.context.span_id for link in batch.links)} == call_ids


@pytest.mark.slow
def test_the_work_of_a_worker_has_spans(api, settings, exporter, monkeypatch):
    shop = Shop(api.organization())
    do_jobs_only_for(monkeypatch, shop.organization.id)
    add_trigger(shop.administration, eventTypes=["member-generic-event"])
    send(shop, event(shop.member()))
    drain(shop)
    batches = [
        span for span in spans(exporter) if span.attributes.get("loyalty.organization_id") == shop.organization.id
    ]
    assert {span.name for span in batches} == {"queue batch"}
    batch_id = batches[0].context.span_id
    statements = [span for span in spans(exporter, SpanKind.CLIENT) if span.parent.span_id == batch_id]
    assert "COMMIT" in {span.name for span in statements}

    exporter.clear()
    # With an interval of 0 minutes a job never runs.
    switched_off_jobs = [dataclasses.replace(job, minutes=lambda _: 0) for job in JOBS[1:]]
    job = dataclasses.replace(JOBS[0], name="expire-traced")
    add_jobs(api.engine, [job])
    assert run_due_jobs(api.engine, settings, lambda: False, [job, *switched_off_jobs])
    assert "job expire-traced" in {span.name for span in spans(exporter)}


def test_statements_outside_a_call_make_no_spans(engine, exporter):
    transactions.run(engine, lambda db: db.exec_driver_sql("SELECT 1").all())
    assert spans(exporter) == []


@pytest.mark.slow
def test_requests_are_not_traced_without_a_collector(settings):
    tracing.start(settings)
    assert not tracing.is_on()
    assert tracing.current() is None
    assert connections._observer is None
    with running_api(settings) as api:
        assert not isinstance(api.app, Traced)


@pytest.mark.slow
def test_a_server_that_does_not_trace_loads_no_package_for_it():
    code = "import sys, handlers.http.app, handlers.server.worker; print([m for m in sys.modules if 'telemetry' in m])"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "[]"


def test_a_collector_without_the_packages_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(ValueError, match=r"loyalty-server\[tracing\]"):
        tracing.start(Settings(tracing_url="http://127.0.0.1:4318/v1/traces"))
