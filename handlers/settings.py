"""The settings of the product: one frozen record, and the only reader of the environment.

The metadata of each field has its meaning, its documented default, and the function that reads its variable's text.
A test keeps `docs/configuration.md` equal to it.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from handlers import setting_values
from handlers.setting_values import Rate, client_host, is_host, is_port, networks_of, ports_of

PREFIX = "LOYALTY_"
_HOME = Path(".loyalty")


class SettingError(ValueError):
    """The value of a setting cannot be used; the message names the variable, never a secret value."""


# The functions below read, or only check, the text of a variable; they raise SettingError.
def _directory(value: str) -> Path:
    path = Path(value).expanduser()
    if os.path.exists(path) and not os.path.isdir(path):
        raise SettingError(f"must be a directory, not {value!r}")
    return path


def _host(value: str) -> str:
    if not is_host(value):
        raise SettingError(f"must be an IP address or a host name, not {value!r}")
    return value


def _whole_number(minimum: int, maximum: int) -> Callable[[str], int]:
    def parse(value: str) -> int:
        try:
            number = int(value) if value.isascii() else None
        except ValueError:
            number = None
        if number is None or not minimum <= number <= maximum:
            raise SettingError(f"must be a whole number from {minimum} to {maximum}, not {value!r}")
        return number

    return parse


def _one_of(*choices: str) -> Callable[[str], str]:
    def parse(value: str) -> str:
        if value.lower() not in choices:
            raise SettingError(f"must be one of {', '.join(choices)}, not {value!r}")
        return value.lower()

    return parse


def _switch(value: str) -> bool:
    words = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    if value.lower() not in words:
        raise SettingError(f"must be true or false, not {value!r}")
    return words[value.lower()]


def _database_url(value: str) -> str:
    fault = setting_values.fault_of_database_url(value)
    if fault is not None:
        raise SettingError(fault)
    return value


def _http_url(value: str) -> str:
    if not setting_values.is_http_url(value):
        raise SettingError(f"must be an http or https URL, not {value!r}")
    return value.rstrip("/")


def _base_url(value: str) -> str:
    if not setting_values.is_base_url(value):
        raise SettingError(f"must be an http or https URL ending in /v2, such as https://a.example/v2, not {value!r}")
    return value.rstrip("/")


def _rate(value: str) -> str:
    try:
        Rate.parse(value.lower())
    except ValueError as error:
        raise SettingError(str(error)) from None
    return value.lower()


def _networks(value: str) -> str:
    try:
        networks_of(value)
    except ValueError:
        raise SettingError(f"must be IP addresses or networks, separated by commas, not {value!r}") from None
    return value


def _bind(value: str) -> str:
    """An address to listen on, as HOST:PORT; an IPv6 address may be in brackets."""
    host, _, port = value.rpartition(":")
    if not is_host(host.strip("[]")) or not is_port(port):
        raise SettingError(f"must be HOST:PORT, not {value!r}")
    return value


def _ports(value: str) -> str:
    try:
        ports_of(value.lower())
    except ValueError:
        raise SettingError(f"must be ports from 1 to 65535, separated by commas, or any, not {value!r}") from None
    return value.lower()


def _setting(
    parse: Callable[[str], Any], default: Any, meaning: str, *, documented_default: str = "", secret: bool = False
) -> Any:
    metadata = {"parse": parse, "help": meaning, "documented_default": documented_default or str(default)}
    return field(default=default, repr=not secret, metadata=metadata)


def _optional(
    parse: Callable[[str], str], meaning: str, *, documented_default: str = "none", secret: bool = False
) -> Any:
    return _setting(parse, "", meaning, documented_default=documented_default, secret=secret)


def _minutes(default: int, job: str) -> Any:
    return _setting(_whole_number(0, 525_600), default, f"Minutes between two runs of {job}; 0 switches it off.")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings; a field `x` is the environment variable `LOYALTY_X`."""

    database_url: str = _optional(
        _database_url,
        "URL of the PostgreSQL database, version 15 or later; without it the server runs a PostgreSQL of its own.",
        documented_default="embedded",
        secret=True,
    )
    read_database_url: str = _optional(
        _database_url,
        "URL of a read replica, which serves lists, reports and searches; while it is unavailable or behind, the "
        "database itself serves them.",
        secret=True,
    )
    home: Path = _setting(  # noqa: RUF009  (a field with the immutable default `_HOME`, not a shared value)
        _directory, _HOME, "Directory of the embedded database; processes with the same directory share the same data."
    )
    host: str = _setting(_host, "127.0.0.1", "Address to listen on; `0.0.0.0` means all addresses of the machine.")
    port: int = _setting(_whole_number(1, 65535), 8080, "TCP port to listen on.")
    management_bind: str = _optional(
        _bind,
        "Second address, `HOST:PORT`, that serves `/metrics`, the OpenAPI documents and the documentation in place of "
        "the main one.",
    )
    workers: int = _setting(_whole_number(1, 256), 2, "Number of server processes; about one for each core.")
    threads: int = _setting(
        _whole_number(1, 64),
        4,
        "Calls that a server process handles at once, each with a database connection of its own.",
    )
    base_url: str = _optional(
        _base_url,
        "URL under which clients reach the API, with its `/v2`; set it if a proxy is in front of the server.",
        documented_default="`http://HOST:PORT/v2`",
    )
    max_body_bytes: int = _setting(
        _whole_number(1024, 256 * 1024 * 1024),
        1024 * 1024,
        "Largest request body of most operations, in bytes; a larger one is refused with 413.",
    )
    request_timeout_ms: int = _setting(
        _whole_number(10, 3_600_000),
        30_000,
        "Milliseconds from the first byte of a request to its response; a body that arrives later is refused with 408, "
        "work that takes longer is ended with 503.",
    )
    connections: int = _setting(
        _whole_number(16, 1_000_000),
        1000,
        "Client connections that a server process holds at once, as far as `ulimit -n` allows; beyond them it closes "
        "the connection that has been silent longest.",
    )
    rate_per_address: str = _setting(
        _rate, "off", "Maximum rate of calls from one IP address, such as `600/minute`; `off` means no limit."
    )
    rate_per_token: str = _setting(
        _rate, "off", "Maximum rate of calls with one access token or API key, such as `600/minute`."
    )
    rate_per_client: str = _setting(
        _rate, "off", "Maximum rate of calls of one client, with all its access tokens, such as `600/minute`."
    )
    wrong_secrets_per_client: str = _setting(
        _rate,
        "10/minute",
        "Maximum rate of wrong secrets for one client from one address; beyond it, token requests are refused with "
        "429.",
    )
    wrong_secrets_per_address: str = _setting(
        _rate, "60/minute", "Maximum rate of wrong secrets from one address, for all clients."
    )
    trusted_proxies: str = _optional(
        _networks,
        "Addresses or networks of your proxies, separated by commas, whose `X-Forwarded-For` is believed; without "
        "it all clients of a proxy count as one address.",
    )
    evaluation_ms: int = _setting(
        _whole_number(10, 60_000),
        250,
        "Milliseconds of CPU time for the expressions of one event; rules that are not evaluated by then fail.",
    )
    call_evaluation_ms: int = _setting(
        _whole_number(10, 600_000), 5_000, "Milliseconds of CPU time for the expressions of all events of one call."
    )
    calls_together: int = _setting(
        _whole_number(1, 100),
        100,
        "Maximum number of items, such as events, in the waiting calls of one organization and operation that a server "
        "process runs as one batch, in one database transaction; 1 runs each call individually.",
    )
    statement_timeout_ms: int = _setting(
        _whole_number(0, 3_600_000), 30_000, "Milliseconds after which the database ends a statement; 0 means never."
    )
    lock_timeout_ms: int = _setting(
        _whole_number(0, 3_600_000), 10_000, "Milliseconds that a call waits for a lock; 0 means without end."
    )
    token_issuer: str = _setting(str, "loyalty-server", "Issuer (`iss`) of the access tokens that the server makes.")
    token_audience: str = _setting(str, "loyalty-server", "Audience (`aud`) of the access tokens that it accepts.")
    external_issuer: str = _optional(
        str, "Issuer (`iss`) of another token service, whose tokens the server also accepts."
    )
    external_jwks_url: str = _optional(
        _http_url, "URL of the public keys (JWK set) of that token service; needed with the issuer."
    )
    external_audience: str = _optional(
        str,
        "Audience (`aud`) that the tokens of that service must have.",
        documented_default="`LOYALTY_TOKEN_AUDIENCE`",
    )
    webhook_allow_http: bool = _setting(
        _switch,
        False,
        "Whether messages may go to `http:` URLs, which others can read on the way.",
        documented_default="false",
    )
    webhook_allow_private: bool = _setting(
        _switch,
        False,
        "Whether messages may go to addresses that are not public, such as loopback and private networks.",
        documented_default="false",
    )
    webhook_ports: str = _setting(_ports, "80,443", "Ports of the receivers, separated by commas, or `any`.")
    webhook_threads: int = _setting(
        _whole_number(1, 256),
        32,
        "Messages that a worker sends at the same time; at most half of them are of one organization, and at most a "
        "quarter of one trigger.",
    )
    log_level: str = _setting(
        _one_of("debug", "info", "warning", "error"),
        "info",
        "Lowest level that is logged: debug, info, warning or error.",
    )
    log_format: str = _setting(_one_of("json", "text"), "json", "`json` is one object a line, `text` is for people.")
    queue_batch: int = _setting(
        _whole_number(1, 500),
        100,
        "Maximum number of queued events that a worker evaluates in one database transaction.",
    )
    queue_poll_ms: int = _setting(
        _whole_number(10, 60_000), 100, "Milliseconds after which an idle worker looks for events and messages again."
    )
    queue_attempts: int = _setting(
        _whole_number(1, 100),
        8,
        "Attempts to evaluate a queued event that fails by a system error; after the last one it is a dead letter.",
    )
    queue_retry_ms: int = _setting(
        _whole_number(1, 3_600_000),
        1000,
        "Milliseconds before the second attempt; each further wait is twice as long, up to ten minutes. The server "
        "shortens each wait by a random part, at most by half.",
    )
    import_rows: int = _setting(
        _whole_number(1, 5_000), 500, "Maximum number of rows that a worker imports in one database transaction."
    )
    import_step_ms: int = _setting(
        _whole_number(10, 60_000),
        1000,
        "Milliseconds that a worker works on one import before it continues with the next organization's.",
    )
    import_unpacked_bytes: int = _setting(
        _whole_number(1024, 1024**4), 1024**3, "Maximum size in bytes of a compressed file after decompression."
    )
    import_ratio: int = _setting(
        _whole_number(1, 1100),
        100,
        "Maximum ratio of the decompressed to the compressed size of a file; 16 MiB are always allowed.",
    )
    import_stored_bytes: int = _setting(
        _whole_number(1024, 1024**5),
        10 * 1024**3,
        "Maximum bytes of all files of one organization's imports that have not ended; further parts are refused.",
    )
    import_failed_rows: int = _setting(
        _whole_number(0, 100_000_000), 100_000, "Rows of an import that may fail; with more, the import ends as failed."
    )
    import_share: int = _setting(
        _whole_number(1, 100),
        80,
        "Percentage of its time that a worker spends on imports while there are any; the rest is for live traffic.",
    )
    export_stored_bytes: int = _setting(
        _whole_number(1024, 1024**5),
        10 * 1024**3,
        "Maximum bytes of the stored rows of all exports of one organization; further exports are refused.",
    )
    expire_minutes: int = _minutes(60, "the job that does the work of `loyalty expire`")
    evaluate_tiers_minutes: int = _minutes(60, "the job that does the work of `loyalty evaluate-tiers`")
    release_answers_minutes: int = _minutes(1440, "the job that does the work of `loyalty release-answers`")
    answers_kept_days: int = _setting(
        _whole_number(0, 36_500),
        400,
        "Days for which the response to a tracked event is stored, to be returned again for the same key; 0 keeps all.",
    )
    remove_deliveries_minutes: int = _minutes(1440, "the job that does the work of `loyalty remove-deliveries`")
    deliveries_kept_days: int = _setting(
        _whole_number(0, 36_500), 30, "Days for which messages to receivers of webhooks are kept; 0 keeps all."
    )
    seal_audit_log_minutes: int = _minutes(10, "the job that seals new entries of the audit log")
    tracing_url: str = _optional(
        _http_url,
        "URL of an OpenTelemetry collector that gets traces by OTLP over HTTP, such as "
        "`http://127.0.0.1:4318/v1/traces`; needs the extra `tracing`.",
    )
    validate_responses: bool = _setting(
        _switch,
        False,
        "Whether every response is checked against the OpenAPI documents; for tests only, since it takes time.",
        documented_default="false",
    )

    @property
    def management_host(self) -> str:
        """The host of `management_bind`, an IPv6 address without brackets; empty without `management_bind`."""
        return self.management_bind.rpartition(":")[0].strip("[]")

    @property
    def management_port(self) -> int | None:
        """The port of `management_bind`; None if the main address serves everything."""
        return int(self.management_bind.rpartition(":")[2]) if self.management_bind else None

    @property
    def management_url(self) -> str:
        """The URL of `management_bind` for a client on this machine; empty if the main address serves everything."""
        return f"http://{client_host(self.management_host)}:{self.management_port}" if self.management_bind else ""

    @property
    def public_url(self) -> str:
        """The base URL of the API: `base_url` if it is set, else its URL for a client on this machine."""
        return self.base_url or f"http://{client_host(self.host)}:{self.port}/v2"

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Settings:
        """Read all settings; `external_audience` defaults to `token_audience`. Raises SettingError for a variable."""
        values = {}
        for setting in dataclasses.fields(cls):
            text = environ.get(variable(setting), "").strip()
            if not text:
                continue
            try:
                values[setting.name] = setting.metadata["parse"](text)
            except SettingError as error:
                raise SettingError(f"{variable(setting)} {error}") from None
            except ValueError:
                raise SettingError(f"{variable(setting)} cannot be read") from None
        values.setdefault("external_audience", values.get("token_audience", cls.token_audience))
        settings = cls(**values)
        if bool(settings.external_issuer) != bool(settings.external_jwks_url):
            raise SettingError("set both LOYALTY_EXTERNAL_ISSUER and LOYALTY_EXTERNAL_JWKS_URL, or neither")
        return settings


def variable(setting: dataclasses.Field[Any]) -> str:
    """The environment variable of a field of Settings."""
    return PREFIX + setting.name.upper()


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """The variables whose names begin like those of settings but name none, probably typing errors."""
    setting_names = {variable(setting) for setting in dataclasses.fields(Settings)}
    return sorted(name for name in environ if name.startswith(PREFIX) and name not in setting_names)
