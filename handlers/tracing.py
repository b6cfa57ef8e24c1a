"""Traces by OpenTelemetry: spans of calls, of messages to the database and of the worker's work; off by default.

The packages of the extra `tracing` are imported only when a collector is configured. Spans have the statements without
their values, and the types of errors without their texts, since values and texts may name members.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import metadata
from typing import Any

from handlers.settings import SettingError, Settings
from persistence import connections

_MAX_STATEMENT_LENGTH = 2000

# The tracer of OpenTelemetry; None while tracing is off.
_tracer: Any = None


def start(settings: Settings) -> None:
    """Send spans to the collector of the settings, if there is one; raises SettingError without the packages.

    OpenTelemetry reads further settings from its own variables, such as `OTEL_TRACES_SAMPLER`.
    """
    if not settings.tracing_url or _tracer is not None:
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        packages = "pip install 'loyalty-server[tracing]'"
        raise SettingError(f"LOYALTY_TRACING_URL needs packages that are not installed: {packages}") from None
    service = {"service.name": "loyalty-server", "service.version": metadata.version("loyalty-server")}
    # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES take precedence.
    provider = TracerProvider(resource=Resource.create(service).merge(OTELResourceDetector().detect()))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=settings.tracing_url)))
    use(provider)


def use(provider: Any) -> None:
    """Create spans by a provider of OpenTelemetry from now on; None switches tracing off."""
    global _tracer
    _tracer = None if provider is None else provider.get_tracer("loyalty")
    connections.observe_messages(None if provider is None else _message_span)


def is_on() -> bool:
    """True while spans are created."""
    return _tracer is not None


def span(name: str, attributes: Mapping[str, Any]) -> AbstractContextManager[Any]:
    """A span of the work of a block; a context without effect while tracing is off."""
    return nullcontext() if _tracer is None else tracer_span(name, attributes=attributes)


def current() -> Any:
    """The context of the present span, for `continue_span` in another thread; None while tracing is off."""
    if _tracer is None:
        return None
    from opentelemetry import context

    return context.get_current()


@contextmanager
def _attach(context_of_span: Any) -> Iterator[None]:
    """Make the spans of a block children of the span of this context."""
    from opentelemetry import context

    token = context.attach(context_of_span)
    try:
        yield
    finally:
        context.detach(token)


def continue_span(contexts: Sequence[Any]) -> AbstractContextManager[Any]:
    """Make the spans of a block children of the span of a call, whose context `current` returned.

    For several calls, the block gets a new span: a child of the first call's span, with links to the others' spans.
    """
    if len(contexts) == 1:
        return _attach(contexts[0])
    from opentelemetry import trace

    first_context, *other_contexts = contexts
    other_spans = [trace.get_current_span(context) for context in other_contexts if context is not None]
    links = [trace.Link(span.get_span_context()) for span in other_spans]
    attributes = {"loyalty.calls": len(contexts)}
    return tracer_span("batch of calls", context=first_context, links=links, attributes=attributes)


@contextmanager
def tracer_span(name: str, **options: Any) -> Iterator[Any]:
    """A span of the tracer; tracing must be on. The span records the type of an error that leaves the block."""
    from opentelemetry.trace import StatusCode

    options |= {"record_exception": False, "set_status_on_exception": False}
    with _tracer.start_as_current_span(name, **options) as span:
        try:
            yield span
        except BaseException as error:
            span.set_status(StatusCode.ERROR, type(error).__name__)
            raise


def _message_span(statement: str | bytes) -> AbstractContextManager[Any]:
    """A span of a message to the database, if it is part of work that has a span."""
    from opentelemetry import trace

    if not trace.get_current_span().is_recording():
        return nullcontext()
    text = " ".join((statement.decode() if isinstance(statement, bytes) else statement).split())
    attributes = {"db.system.name": "postgresql", "db.query.text": text[:_MAX_STATEMENT_LENGTH]}
    return tracer_span(text.partition(" ")[0].upper(), kind=trace.SpanKind.CLIENT, attributes=attributes)
