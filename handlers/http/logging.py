"""Logs: one structured line per request on standard error, without query strings, tokens, bodies or personal data."""

import logging
import sys
from datetime import UTC, datetime
from typing import Any

import msgspec
from pythonjsonlogger.msgspec import MsgspecFormatter

from handlers.http.exchange import Exchange, request_id_of_thread

# Of these loggers, only errors are written.
_NOISY_LOGGERS = ("connexion", "connexion.middleware", "connexion.operations", "connexion.security", "a2wsgi", "httpx")
# The attribute of the record of a finished request that has the fields of its line.
_FIELDS = "request_fields"
_encode = msgspec.json.Encoder().encode
_requests = logging.getLogger("loyalty.requests")


class _WithRequestId(logging.Filter):
    """A filter that gives each line the id of the request that its thread works for, unless it has one."""

    def filter(self, record: logging.LogRecord) -> bool:
        if not hasattr(record, "requestId"):
            record.requestId = request_id_of_thread.get()
        return True


class _JsonFormatter(MsgspecFormatter):
    """A formatter that writes one JSON object per line, and takes less time for requests, which are most lines."""

    def __init__(self) -> None:
        super().__init__(
            ["levelname", "name", "message", "requestId"],
            timestamp="time",
            rename_fields={"levelname": "level", "name": "logger"},
        )

    def format(self, record: logging.LogRecord) -> str:
        fields = getattr(record, _FIELDS, None)
        if fields is None:
            return super().format(record)
        moment = datetime.fromtimestamp(record.created, UTC)
        head = {"time": moment, "level": record.levelname, "logger": record.name, "message": record.msg}
        return _encode({**head, **fields}).decode()


class _TextFormatter(logging.Formatter):
    """A formatter for people: the message, followed by the fields of the request."""

    def format(self, record: logging.LogRecord) -> str:
        line = super().format(record)
        fields = getattr(record, _FIELDS, None)
        if fields is not None:
            line += " ".join(("", *(str(fields[key]) for key in ("method", "route", "status", "durationMs"))))
        return line


def configure(log_level: str, log_format: str) -> None:
    """Set up all logging of the process; `log_format` is `json` (one object per line) or `text`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(_WithRequestId())
    if log_format == "json":
        handler.setFormatter(_JsonFormatter())
    else:
        handler.setFormatter(_TextFormatter("%(asctime)s %(levelname)s %(name)s [%(requestId)s] %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(log_level.upper())
    for name in _NOISY_LOGGERS:
        logging.getLogger(name).setLevel(logging.ERROR)
    for name in ("gunicorn.error", "gunicorn.access"):
        # gunicorn gives its loggers their own handlers; without these, its lines are written like all others.
        logger = logging.getLogger(name)
        logger.handlers[:] = []
        logger.propagate = True


def log_request(exchange: Exchange, method: str, seconds: float) -> None:
    """Write the line of a finished request, with the template of its route instead of its path."""
    if not _requests.isEnabledFor(logging.INFO):
        return
    fields: dict[str, Any] = {
        "requestId": exchange.request_id,
        "method": method[:20],
        "route": exchange.route,
        "operation": exchange.operation_id,
        "status": exchange.status,
        "durationMs": round(seconds * 1000, 2),
    }
    if exchange.caller is not None and exchange.caller.organization_id is not None:
        fields["organizationId"] = exchange.caller.organization_id
    # A record that is created here saves the search for the calling line, which would always be this line.
    record = logging.LogRecord(_requests.name, logging.INFO, __file__, 0, "request", None, None)
    record.requestId = exchange.request_id
    setattr(record, _FIELDS, fields)
    _requests.handle(record)
