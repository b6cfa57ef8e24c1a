"""The files of deploy/ agree with the server: settings, limits, paths, ports and metrics."""

from __future__ import annotations

import functools
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

import openapi
from handlers import metrics
from handlers.http import intake, operations
from handlers.http.problems import problem_body
from handlers.server import gunicorn_server
from handlers.server.cli import main
from handlers.settings import Settings, unknown_variables
from tests.builders.markdown import anchors

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
FILES = sorted(path for path in DEPLOY.rglob("*") if path.is_file())
ALERTS = DEPLOY / "prometheus" / "loyalty-alerts.yaml"
UNITS = sorted(DEPLOY.glob("systemd/*.service"))
NGINX = (DEPLOY / "nginx" / "loyalty.conf").read_text()
CADDY = (DEPLOY / "caddy" / "Caddyfile").read_text()
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
SETTINGS = Settings()


def relative_name(path: Path) -> str:
    """The path of a file in deploy/."""
    return path.relative_to(DEPLOY).as_posix()


def documents(*names: str) -> Iterator[dict[str, Any]]:
    """The objects of the manifests with these file names, or of all manifests."""
    for path in sorted((DEPLOY / "kubernetes").glob("*.yaml")):
        if not names or path.name in names:
            yield from yaml.safe_load_all(path.read_text())


def pods() -> Iterator[dict[str, Any]]:
    """The specification of the pod of each deployment and job."""
    for document in documents():
        if document["kind"] in ("Deployment", "Job"):
            yield document["spec"]["template"]["spec"]


def alerts() -> list[dict[str, Any]]:
    """The rules of all alerts."""
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


@pytest.mark.parametrize("path", FILES, ids=relative_name)
def test_the_variables_of_a_file_are_settings(path: Path) -> None:
    variables = re.findall(r"LOYALTY_[A-Z_]+", path.read_text())
    assert unknown_variables(dict.fromkeys(variables, "")) == []


@functools.cache
def measurements() -> dict[str, set[str]]:
    """The names of all samples that `/metrics` has, each with its labels."""
    metrics.observe("trackEvents", "POST", 200, 0.1)
    metrics.count_throttled("address")
    metrics.count_replica_read("replica")
    for counter in (metrics._rule_errors, metrics._count_errors):
        counter.labels("1", "1")
    text = metrics.exposition() + metrics.replica_exposition(0.0)
    text += metrics.queue_exposition(metrics.QueueFigures(0, 0.0, 0, 0))
    text += metrics.delivery_exposition(metrics.DeliveryFigures(0, 0.0, 0))
    labels_by_name: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text.decode()):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels_by_name.setdefault(name, set())
        for sample in family.samples:
            labels_by_name.setdefault(sample.name, set()).update(sample.labels)
    return labels_by_name


@functools.cache
def expressions() -> list[tuple[str, str]]:
    """The expressions of alerts, panels and the adapter, each with its file."""
    file_expressions = [(relative_name(ALERTS), rule["expr"]) for rule in alerts()]
    dashboard = json.loads((DEPLOY / "grafana" / "loyalty.json").read_text())
    targets = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    file_expressions += [("grafana/loyalty.json", expression) for expression in targets]
    adapter = yaml.safe_load((DEPLOY / "prometheus" / "adapter.yaml").read_text())
    file_expressions += [("prometheus/adapter.yaml", rule["metricsQuery"]) for rule in adapter["rules"]["external"]]
    return file_expressions


@pytest.mark.parametrize(("file", "expression"), expressions())
def test_expressions_name_measurements_of_the_server(file: str, expression: str) -> None:
    names = set(re.findall(r"\bloyalty_\w+", expression))
    # `up` is a measurement of Prometheus itself.
    assert names or expression.startswith("up{"), file
    assert names <= set(measurements())


def test_every_measurement_is_on_the_dashboard() -> None:
    dashboard_expressions = " ".join(expression for file, expression in expressions() if file.startswith("grafana"))
    names_on_dashboard = set(re.findall(r"\bloyalty_\w+", dashboard_expressions))
    parts = {name for name in measurements() if name.endswith(("_created", "_sum", "_count", "_seconds"))}
    # Prometheus creates several samples of a measurement, of which a dashboard shows only some.
    exempt_parts = {name for name in parts if name.startswith("loyalty_http_request_seconds") or "_created" in name}
    own_names = {name for name in measurements() if name.startswith("loyalty_")}
    assert own_names - exempt_parts - names_on_dashboard == set()


def test_the_labels_of_alerts_are_those_of_the_measurements() -> None:
    for file, expression in expressions():
        for labels in re.findall(r"by \(([\w, ]+)\)", expression):
            for name in re.findall(r"\bloyalty_\w+", expression):
                assert set(labels.split(", ")) <= measurements()[name], (file, expression)


def test_the_page_on_operations_has_every_alert() -> None:
    page = DEPLOY.parent / "docs" / "operations.md"
    for rule in alerts():
        name, _, anchor = rule["annotations"]["runbook"].partition("#")
        assert ROOT / name == page
        assert anchor in anchors(page)


def test_the_rules_of_alerts_are_valid_and_pass_their_tests() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("needs promtool, which comes with Prometheus")
    for command in (["check", "rules", ALERTS.name], ["test", "rules", "loyalty-alerts-test.yaml"]):
        result = subprocess.run([promtool, *command], cwd=ALERTS.parent, capture_output=True, text=True)
        assert result.returncode == 0, result.stdout + result.stderr


def test_proxies_have_the_limits_of_the_server() -> None:
    request_seconds = SETTINGS.request_timeout_ms // 1000
    assert f"client_max_body_size {SETTINGS.max_body_bytes};" in NGINX
    assert f"request_body @others {{\n\t\t# LOYALTY_MAX_BODY_BYTES\n\t\tmax_size {SETTINGS.max_body_bytes}\n" in CADDY
    for pattern in (r"proxy_read_timeout (\d+)s;", r"proxy_send_timeout (\d+)s;"):
        assert int(re.search(pattern, NGINX)[1]) > request_seconds
    assert int(re.search(r"response_header_timeout (\d+)s", CADDY)[1]) > request_seconds
    assert f"client_body_timeout {request_seconds}s;" in NGINX
    # Caddy has one time for all requests, so the server ends those that are no uploads.
    assert f"read_body {operations._UPLOAD_TIMES * request_seconds}s" in CADDY
    # A proxy ends idle connections before the server does, so that it sends no request on a closed one.
    for match in (re.search(r"keepalive_timeout (\d+)s;", NGINX), re.search(r"keepalive (\d+)s", CADDY)):
        assert int(match[1]) < gunicorn_server._KEEP_ALIVE_SECONDS


def test_proxies_allow_the_size_and_the_time_of_parts_of_imports() -> None:
    max_bytes = openapi.bundle("administration")["components"]["schemas"]["ImportFile"]["x-max-bytes"]
    upload_seconds = operations._UPLOAD_TIMES * SETTINGS.request_timeout_ms // 1000
    location = re.search(r"location ~ \S+ \{\n(.+?)\n    \}", NGINX, re.S)[1]
    assert f"client_max_body_size {max_bytes};" in location
    assert f"client_body_timeout {upload_seconds}s;" in location
    assert f"request_body @part {{\n\t\tmax_size {max_bytes}\n" in CADDY


def test_proxies_allow_large_bodies_only_for_parts_of_imports() -> None:
    nginx_patterns = re.findall(r"location ~ (\S+) \{", NGINX)
    caddy_patterns = re.findall(r"path_regexp (\S+)", CADDY)
    assert len(nginx_patterns) == len(caddy_patterns) == 1
    [pattern] = {*nginx_patterns, *caddy_patterns}
    operations_with_large_bodies = {
        (method, operation["operationId"])
        for surface in openapi.SURFACES
        for path, method, _, operation in openapi.operations_of(openapi.bundle(surface))
        if re.search(pattern, re.sub(r"\{\w+\}", "17", f"/v2{path}"))
    }
    assert operations_with_large_bodies == {("put", "uploadImportPart")}


def test_caddy_refuses_a_body_that_declares_a_larger_size() -> None:
    length = "{http.request.header.Content-Length}"
    limits = [int(limit) for limit in re.findall(r"max_size (\d+)", CADDY)]
    for name, limit in zip(("part", "other"), limits, strict=True):
        matcher = re.search(rf"@declared_{name} \{{\n(.+?)\n\t\}}\n\terror @declared_{name} 413", CADDY, re.S)[1]
        assert f'expression `{length} != "" && int({length}) > {limit}`' in matcher


def test_proxies_do_not_expose_the_metrics() -> None:
    assert re.search(r"location = /metrics \{\s+return 404;", NGINX)
    assert re.search(r"@closed path /metrics .*\n\s+respond @closed 404", CADDY)


def test_problems_of_proxies_are_those_of_the_server() -> None:
    nginx_problems = re.findall(r"return (\d+) '(\{.*\})';", NGINX)
    caddy_problems = [(status, text) for text, status in re.findall(r"respond (?:@\w+ )?`(\{.*\})` (\d+)", CADDY)]
    assert [int(status) for status, _ in nginx_problems] == [413, 413, 503]
    assert [int(status) for status, _ in caddy_problems] == [413, 413, 503]
    # Without `=503`, the response would have the status of the error.
    assert "error_page 502 504 =503 /refused/503;" in NGINX
    for status, text in [*nginx_problems, *caddy_problems]:
        problem = json.loads(text)
        server_problem = json.loads(problem_body(int(status), problem["detail"], problem["instance"]))
        assert problem == server_problem


@pytest.mark.parametrize("path", UNITS, ids=relative_name)
def test_services_have_no_required_units(path: Path) -> None:
    # systemd does not restart a service that stopped because a required unit failed.
    assert not re.search(r"^Requires=", path.read_text(), re.M)


def test_servers_have_space_for_fifteen_simultaneous_parts_of_imports() -> None:
    max_bytes = openapi.bundle("administration")["components"]["schemas"]["ImportFile"]["x-max-bytes"]
    [server] = [document for document in documents("server.yaml") if document["kind"] == "Deployment"]
    [volume] = server["spec"]["template"]["spec"]["volumes"]
    [container] = server["spec"]["template"]["spec"]["containers"]
    assert volume["emptyDir"] == {"medium": "Memory", "sizeLimit": "1Gi"}
    # The processes have 2 GiB besides the volume, whose memory counts for the container.
    assert container["resources"]["limits"]["memory"] == "3Gi"
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["server"]
    assert compose["tmpfs"] == ["/tmp:size=1g"]
    # Of 1 GiB, the server keeps some bytes free.
    assert (1024**3 - intake._MIN_FREE_BYTES) // max_bytes == 15


def test_pods_get_no_variables_of_services() -> None:
    assert all(pod["enableServiceLinks"] is False for pod in pods())


def test_containers_run_without_privileges() -> None:
    containers = [container for pod in pods() for container in pod["containers"]]
    assert len(containers) == 3
    for pod in pods():
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["securityContext"]["runAsUser"] == int(re.search(r"^USER (\d+):", DOCKERFILE, re.M)[1])
    for container in containers:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    loyalty_services = {name: service for name, service in compose.items() if service["image"] == "loyalty-server"}
    assert set(loyalty_services) == {"migrate", "server", "worker"}
    assert all(service["read_only"] and service["cap_drop"] == ["ALL"] for service in loyalty_services.values())


def test_commands_and_their_options_exist() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    commands = [container["args"] for pod in pods() for container in pod["containers"]]
    commands += [service["command"] for service in compose.values() if "command" in service]
    commands += [
        re.search(r"^ExecStart=/opt/loyalty/bin/loyalty (.+)$", unit.read_text(), re.M)[1].split() for unit in UNITS
    ]
    assert len(commands) == 9
    for name, *options in commands:
        known_options = {
            option
            for parameter in main.commands[name].load().params
            for option in (*parameter.opts, *parameter.secondary_opts)
        }
        assert set(options) <= known_options


def test_every_upgrade_writes_the_path_of_the_new_version_into_the_services() -> None:
    script = re.search(r"sed -i '(s,/opt/loyalty.+)' /etc/systemd", (ROOT / "docs" / "operations.md").read_text())[1]
    for unit in UNITS:
        text = unit.read_text()
        # The second upgrade finds the path that the first one has written.
        for version in ("1.1.0", "1.2.0"):
            command = ["sed", script.replace("1.1.0", version)]
            text = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
            assert re.findall(r"^ExecStart=(\S+) ", text, re.M) == [f"/opt/loyalty-{version}/bin/loyalty"]


def test_ports_and_probes_are_those_of_the_server() -> None:
    [server] = [document for document in documents("server.yaml") if document["kind"] == "Deployment"]
    [container] = server["spec"]["template"]["spec"]["containers"]
    [configuration] = documents("configuration.yaml")
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"http": SETTINGS.port, "management": 9090}
    assert configuration["data"]["LOYALTY_MANAGEMENT_BIND"].endswith(":9090")
    assert f"EXPOSE {SETTINGS.port}" in DOCKERFILE
    probes = {container[name]["httpGet"]["path"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert probes == {"/health/live", "/health/ready"}


def test_manifests_are_listed_and_select_each_other() -> None:
    [kustomization] = documents("kustomization.yaml")
    listed_files = {*kustomization["resources"], "kustomization.yaml"}
    assert listed_files == {path.name for path in (DEPLOY / "kubernetes").glob("*.yaml")}
    kinds_and_names = {
        (document["kind"], document["metadata"]["name"]) for document in documents() if "metadata" in document
    }
    for document in documents():
        if document["kind"] == "HorizontalPodAutoscaler":
            target = document["spec"]["scaleTargetRef"]
            assert (target["kind"], target["name"]) in kinds_and_names
        if document["kind"] == "Deployment":
            labels = document["spec"]["template"]["metadata"]["labels"]
            assert document["spec"]["selector"]["matchLabels"].items() <= labels.items()


@pytest.mark.parametrize("unit", UNITS, ids=relative_name)
def test_all_units_have_the_same_hardening(unit: Path) -> None:
    def hardening(path: Path) -> str:
        """The lines about the rights of a service."""
        return path.read_text().partition("DynamicUser=yes")[2].partition("\n\n")[0].strip()

    assert len(hardening(unit).splitlines()) > 20
    assert hardening(unit) == hardening(UNITS[0])
