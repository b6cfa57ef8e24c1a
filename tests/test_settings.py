"""Settings: their documentation, defaults, variables and errors."""

from __future__ import annotations

import ast
import dataclasses
import re
from pathlib import Path

import pytest

from handlers.settings import SettingError, Settings, unknown_variables, variable

ROOT = Path(__file__).parents[1]
FIELDS = dataclasses.fields(Settings)


def test_the_table_of_settings_is_complete_and_exact():
    page = (ROOT / "docs" / "configuration.md").read_text()
    rows = re.findall(r"^\| `(LOYALTY_\w+)` \| (.*?) \| (.*) \|$", page, re.MULTILINE)
    assert rows == [(variable(field), field.metadata["documented_default"], field.metadata["help"]) for field in FIELDS]


def test_the_page_of_limits_has_all_settings_that_are_limits():
    page = (ROOT / "docs" / "limits.md").read_text()
    variables = set(re.findall(r"`(LOYALTY_\w+)`", page))
    assert variables <= {variable(field) for field in FIELDS}
    suffixes_of_limits = (
        "_ms",
        "_bytes",
        "_per_address",
        "_per_token",
        "_per_client",
        "threads",
        "together",
        "connections",
    )
    limits = {variable(field) for field in FIELDS if field.name.endswith(suffixes_of_limits)}
    assert limits - variables == {"LOYALTY_QUEUE_POLL_MS", "LOYALTY_QUEUE_RETRY_MS"}


def test_documented_defaults_are_the_real_ones():
    for field in FIELDS:
        documented_default = field.metadata["documented_default"]
        if field.default != "":
            assert documented_default.lower() == str(field.default).lower()


def test_every_setting_without_a_variable_has_its_default():
    settings = Settings.from_environment({"LOYALTY_PORT": "", "LOYALTY_HOST": "  "})
    # The audience of external tokens is by default the token audience.
    assert settings == dataclasses.replace(Settings(), external_audience="loyalty-server")


@pytest.mark.parametrize("setting", FIELDS, ids=lambda setting: setting.name)
def test_every_setting_is_read_from_its_variable(setting):
    samples = {
        "database_url": "postgresql://a:b@db/loyalty",
        "read_database_url": "postgresql://a:b@replica/loyalty",
        "base_url": "https://loyalty.example/v2/",
        "external_issuer": "https://id.example/",
        "external_jwks_url": "https://id.example/jwks",
        "tracing_url": "http://collector.example/v1/traces",
        "log_level": "DEBUG",
        "log_format": "text",
        "home": "/srv/loyalty",
        "webhook_ports": "any",
        "management_bind": "127.0.0.1:9090",
        "trusted_proxies": "10.0.0.0/8, 192.0.2.1",
        **{field.name: "7/hour" for field in FIELDS if field.name.startswith(("rate_per", "wrong_secrets"))},
    }
    samples_of_types = {bool: "true", int: "17"}
    value = samples.get(setting.name, samples_of_types.get(type(setting.default), "value"))
    if setting.name in ("max_body_bytes", "import_unpacked_bytes", "import_stored_bytes", "export_stored_bytes"):
        value = "2048"
    environ = {variable(setting): value}
    if setting.name.startswith("external_"):
        # The issuer and the URL of its keys are required together.
        issuer = {"LOYALTY_EXTERNAL_ISSUER": samples["external_issuer"]}
        keys = {"LOYALTY_EXTERNAL_JWKS_URL": samples["external_jwks_url"]}
        environ = {**issuer, **keys, **environ}
    settings = Settings.from_environment(environ)
    assert getattr(settings, setting.name) != setting.default
    # URLs lose a slash at their end, except the issuer, which tokens contain unchanged.
    text = value if setting.name == "external_issuer" else value.rstrip("/")
    assert str(getattr(settings, setting.name)).lower() == text.lower()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LOYALTY_PORT", "0"),
        ("LOYALTY_PORT", "65536"),
        ("LOYALTY_PORT", "http"),
        ("LOYALTY_PORT", "80.5"),
        ("LOYALTY_PORT", "٨٠"),
        ("LOYALTY_WORKERS", "-1"),
        ("LOYALTY_THREADS", "0"),
        ("LOYALTY_MAX_BODY_BYTES", "1e6"),
        ("LOYALTY_LOG_LEVEL", "loud"),
        ("LOYALTY_LOG_FORMAT", "xml"),
        ("LOYALTY_VALIDATE_RESPONSES", "maybe"),
        ("LOYALTY_BASE_URL", "loyalty.example"),
        ("LOYALTY_BASE_URL", "http://[::1"),
        ("LOYALTY_BASE_URL", "http://loyalty.example"),
        ("LOYALTY_BASE_URL", "http://loyalty.example/api"),
        ("LOYALTY_BASE_URL", "http://loyalty.example/xv2"),
        ("LOYALTY_BASE_URL", "http://v2"),
        ("LOYALTY_BASE_URL", "http://loyalty.example/?path=/v2"),
        ("LOYALTY_BASE_URL", "http://loyalty.example/#/v2"),
        ("LOYALTY_BASE_URL", "http://loyalty.example /v2"),
        ("LOYALTY_BASE_URL", "http://loyalty\u2009.example/v2"),
        ("LOYALTY_BASE_URL", "http://loyalty.example:99999/v2"),
        ("LOYALTY_BASE_URL", "http://loyalty.example:0/v2"),
        ("LOYALTY_EXTERNAL_JWKS_URL", "https://id.example/jwks keys"),
        ("LOYALTY_EXTERNAL_JWKS_URL", "ftp://id.example"),
        ("LOYALTY_EXTERNAL_ISSUER", "https://id.example"),
        ("LOYALTY_RATE_PER_TOKEN", "ten a minute"),
        ("LOYALTY_WEBHOOK_PORTS", "443,0"),
        ("LOYALTY_WEBHOOK_PORTS", "https"),
        ("LOYALTY_MANAGEMENT_BIND", "9090"),
        ("LOYALTY_TRUSTED_PROXIES", "10.0.0.0/33"),
        ("LOYALTY_MANAGEMENT_BIND", "http://127.0.0.1:9090"),
        ("LOYALTY_HOST", "http://127.0.0.1"),
        ("LOYALTY_HOST", "999.1.1.1"),
        ("LOYALTY_HOME", "/dev/null"),
        ("LOYALTY_DATABASE_URL", "mysql://root@db/loyalty"),
        ("LOYALTY_DATABASE_URL", "postgresql://db:99999/loyalty"),
        ("LOYALTY_DATABASE_URL", "postgresql://a:b@db:port/loyalty"),
        ("LOYALTY_DATABASE_URL", "postgresql:///loyalty?host=db1&port=first"),
        ("LOYALTY_DATABASE_URL", "postgresql://db/loyalty?async=1"),
        ("LOYALTY_READ_DATABASE_URL", "postgresql://[::1]:0/loyalty"),
    ],
)
def test_the_error_of_an_invalid_value_contains_its_variable(name, value):
    with pytest.raises(SettingError, match=name):
        Settings.from_environment({name: value})


def test_a_password_is_in_no_error_and_no_repr():
    with pytest.raises(SettingError) as caught:
        Settings.from_environment({"LOYALTY_DATABASE_URL": "mysql://root:sesame@db/loyalty"})
    assert "sesame" not in str(caught.value)
    assert "sesame" not in repr(Settings(database_url="postgresql://root:sesame@db/loyalty"))


@pytest.mark.parametrize(
    ("values", "public_url"),
    [
        ({}, "http://127.0.0.1:8080/v2"),
        ({"host": "0.0.0.0", "port": 9000}, "http://127.0.0.1:9000/v2"),
        ({"host": "::1"}, "http://[::1]:8080/v2"),
        ({"host": "shop.example"}, "http://shop.example:8080/v2"),
        ({"host": "0.0.0.0", "base_url": "https://loyalty.example/v2"}, "https://loyalty.example/v2"),
    ],
)
def test_the_public_url_is_one_that_a_client_can_use(values, public_url):
    assert Settings(**values).public_url == public_url


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://",
        "postgresql://db/loyalty",
        "postgresql://[::1]:5432/loyalty?sslmode=require",
        "postgresql://a:p:99999@db:5432/loyalty?application_name=a:b",
        "postgresql://a:p/1:0@db/loyalty",
        "postgresql://db/loyalty?application_name=a@b:c",
        "postgresql:///loyalty?host=/run/postgresql&port=5433",
        "postgres://loyalty@/loyalty?host=db1:5432&host=db2:5432&target_session_attrs=read-write",
    ],
)
def test_the_url_of_a_database_may_have_ports_and_parameters(url):
    assert Settings.from_environment({"LOYALTY_DATABASE_URL": url}).database_url == url


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "fe80::1%eth0", "localhost", "shop_1.example.org"])
def test_the_host_may_be_an_address_or_a_name(host):
    assert Settings.from_environment({"LOYALTY_HOST": host}).host == host


@pytest.mark.parametrize(
    ("bind", "url"),
    [
        ("", ""),
        ("127.0.0.1:9090", "http://127.0.0.1:9090"),
        ("0.0.0.0:9090", "http://127.0.0.1:9090"),
        ("[::1]:9090", "http://[::1]:9090"),
    ],
)
def test_the_url_of_the_management_is_one_that_a_client_can_use(bind, url):
    assert Settings(management_bind=bind).management_url == url


def test_variables_that_are_no_settings_are_found():
    assert unknown_variables({"LOYALTY_PROT": "1", "LOYALTY_PORT": "1", "PATH": "/bin"}) == ["LOYALTY_PROT"]


def test_external_tokens_need_the_token_audience_unless_another_is_set():
    environ = {"LOYALTY_EXTERNAL_ISSUER": "i", "LOYALTY_EXTERNAL_JWKS_URL": "https://i/jwks"}
    assert Settings.from_environment({**environ, "LOYALTY_TOKEN_AUDIENCE": "shop"}).external_audience == "shop"
    assert Settings.from_environment({**environ, "LOYALTY_EXTERNAL_AUDIENCE": "own"}).external_audience == "own"


# The names in `os` that read the environment.
_READS = ("environ", "environb", "getenv")


def test_only_entrances_and_metrics_read_the_environment():
    # These pass the environment to Settings.from_environment or unknown_variables.
    entrances = {
        "handlers/server/asgi.py",
        "handlers/server/commands/context.py",
        "handlers/server/commands/doctor.py",
    }
    # prometheus-client reads its directory only from the environment.
    metrics = {"handlers/server/gunicorn_server.py", "handlers/metrics.py"}
    readers = set()
    for folder in ("domain", "handlers", "openapi", "persistence"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text()
            # Few files have one of these words, and reading them as Python takes longest.
            for node in ast.walk(ast.parse(text)) if any(name in text for name in _READS) else ():
                if isinstance(node, ast.Attribute) and node.attr in _READS and ast.unparse(node.value) == "os":
                    readers.add(path.relative_to(ROOT).as_posix())
    assert readers == entrances | metrics
