"""Measurements for Prometheus: requests, their durations, database connections in use, the queue.

With several worker processes, set `PROMETHEUS_MULTIPROC_DIR` to an empty directory before this module is imported, and
call `forget_worker(pid)` in the master when a worker ends. Any worker then reports the measurements of all workers.
"""

import os
from collections.abc import Iterable

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client import generate_latest as _generate
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from sqlalchemy import Engine, event

from domain.campaigns.outcomes import RuleError
from domain.queue import QueueFigures
from domain.triggers import DeliveryFigures

DIRECTORY_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
MEDIA_TYPE = CONTENT_TYPE_LATEST

_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
_BUCKETS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

_requests = Counter("loyalty_http_requests", "Requests that got a response.", ("operation", "method", "status"))
_durations = Histogram(
    "loyalty_http_request_seconds", "Seconds from a request to its response.", ("operation", "method"), buckets=_BUCKETS
)
_connections = Gauge(
    "loyalty_database_connections_in_use", "Database connections at work.", multiprocess_mode="livesum"
)

_replica_reads = Counter(
    "loyalty_replica_reads", "Reads meant for the replica, by the database that served them.", ("database",)
)
_throttled = Counter("loyalty_http_throttled", "Requests refused with 429, by the rate that was used up.", ("rate",))
_refused_clients = Counter("loyalty_token_requests_refused", "Token requests with wrong credentials.")
_rule_errors = Counter(
    "loyalty_rule_errors", "Rules of campaigns that failed at an event.", ("organization", "campaign")
)
_count_errors = Counter(
    "loyalty_mission_count_errors",
    "Failures of the count expressions of missions at an event.",
    ("organization", "mission"),
)

# The organization, campaign and mission of each rule that errors are counted for by name. Their number has a maximum: a
# process keeps each combination of labels until it ends, and a scrape of `/metrics` reads them all.
_failed_rules: set[tuple[int, int | None, int | None]] = set()
_MAX_FAILED_RULES = 1_000
_FURTHER_RULE = "other"

# The labelled metrics, which are found here faster than by `labels`.
_counters: dict[tuple[str, str, int], Counter] = {}
_histograms: dict[tuple[str, str], Histogram] = {}


def observe(operation: str, method: str, status: int, seconds: float) -> None:
    """Count one request with its response; `operation` must be from a bounded set of names."""
    method = method if method in _METHODS else "OTHER"
    counter = _counters.get((operation, method, status))
    if counter is None:
        counter = _counters[operation, method, status] = _requests.labels(operation, method, str(status))
    histogram = _histograms.get((operation, method))
    if histogram is None:
        histogram = _histograms[operation, method] = _durations.labels(operation, method)
    counter.inc()
    histogram.observe(seconds)


def count_replica_read(database: str) -> None:
    """Count one read that was meant for the replica; `database` is `replica` or `primary`, which served it."""
    _replica_reads.labels(database).inc()


def count_throttled(rate: str) -> None:
    """Count one request that was refused because the rate of this name was used up."""
    _throttled.labels(rate).inc()


def count_refused_client() -> None:
    """Count one token request with wrong credentials."""
    _refused_clients.inc()


def count_error(organization_id: int, error: RuleError) -> None:
    """Count one rule, or one count expression of a mission, that failed for an event.

    The first campaigns and missions of this process have a label each, all further ones of an organization share one.
    """
    counter, record_id = (
        (_rule_errors, error.campaign_id) if error.mission_id is None else (_count_errors, error.mission_id)
    )
    rule = organization_id, error.campaign_id, error.mission_id
    if len(_failed_rules) < _MAX_FAILED_RULES:
        _failed_rules.add(rule)
    counter.labels(str(organization_id), str(record_id) if rule in _failed_rules else _FURTHER_RULE).inc()


def watch_pool(engine: Engine) -> None:
    """Count the connections of an engine that are checked out."""
    event.listen(engine, "checkout", lambda *_: _connections.inc())
    event.listen(engine, "checkin", lambda *_: _connections.dec())


def exposition() -> bytes:
    """All measurements in the text format of Prometheus, of all worker processes if there are several."""
    if DIRECTORY_VARIABLE not in os.environ:
        return _generate(REGISTRY)
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return _generate(registry)


def queue_exposition(figures: QueueFigures) -> bytes:
    """The figures of the queue of events, which are the same in every process, in the text format of Prometheus."""
    return _gauges(
        ("loyalty_queue_events", "Queued events of all organizations that wait for evaluation.", figures.waiting),
        ("loyalty_queue_oldest_seconds", "Seconds that the oldest queued event has waited.", figures.oldest_seconds),
        (
            "loyalty_queue_retries",
            "Queued events that have failed before and wait for another attempt.",
            figures.retrying,
        ),
        ("loyalty_queue_dead_letters", "Dead letters of all organizations.", figures.dead),
    )


def delivery_exposition(figures: DeliveryFigures) -> bytes:
    """The figures of the deliveries that wait to be sent to receivers, in the text format of Prometheus."""
    return _gauges(
        ("loyalty_webhook_deliveries", "Messages that wait to be sent for active triggers.", figures.pending),
        (
            "loyalty_webhook_overdue_seconds",
            "Seconds for which the longest overdue message has been due.",
            figures.overdue_seconds,
        ),
        (
            "loyalty_webhook_retries",
            "Messages that wait to be sent for active triggers and have failed at least once.",
            figures.retrying,
        ),
    )


def replica_exposition(lag_seconds: float) -> bytes:
    """How far the read replica is behind, in the text format of Prometheus."""
    return _gauges(
        ("loyalty_replica_lag_seconds", "Age of the last change that the read replica has replayed.", lag_seconds)
    )


class _PresentValues:
    """A collector of present values, each with its name and meaning.

    A Gauge would keep the values in the files of this process, and other processes would report them again.
    """

    def __init__(self, gauges: Iterable[tuple[str, str, float]]) -> None:
        self._gauges = gauges

    def collect(self) -> Iterable[Metric]:
        """The metrics of the exposition."""
        return [GaugeMetricFamily(name, meaning, value=value) for name, meaning, value in self._gauges]


def _gauges(*gauges: tuple[str, str, float]) -> bytes:
    """Values, each with its name and meaning, in the text format of Prometheus."""
    registry = CollectorRegistry()
    registry.register(_PresentValues(gauges))
    return _generate(registry)


def forget_worker(pid: int) -> None:
    """Drop the gauges of a worker process that has ended; its counters and histograms stay."""
    if DIRECTORY_VARIABLE in os.environ:
        mark_process_dead(pid)  # type: ignore[no-untyped-call]
