"""The plain pages: health, documents, key set, index, and other hosts and methods."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from urllib.parse import urljoin

import pytest

import openapi
from handlers.http import documentation
from handlers.http.pages import Site
from handlers.http.reference import groups
from tests.contract.documents import problem_types
from tests.http.support import operation, parameter, serve

PATHS = {
    "/books/{code}": {"get": operation("getBook", parameters=[parameter("code", {"type": "string"}, "path")])},
}
OTHER = {"/shops": {"get": operation("listShops")}}


@pytest.fixture(scope="module")
def server():
    return serve(PATHS, other=OTHER)


def page(client, path, method="GET", **headers):
    """The reply to a request without a token."""
    return client(method, path, token=None, headers=headers)


@pytest.mark.parametrize("hosts", [(), ("one.example", "two.example"), ("one.example, two.example",)])
def test_a_request_without_exactly_one_host_is_a_400(server, hosts):
    headers = [("Host", host) for host in hosts] or [("Host", "(none)")]
    client, _ = server
    reply = client("GET", "/health/live", headers=headers, token=None)
    assert (reply.status, reply.json["type"]) == (400, "/problems/invalid-request")
    assert reply.json["detail"] == "A request of HTTP/1.1 needs one Host header."


def test_a_server_is_alive_whatever_the_state_of_its_database(server):
    client, _ = server
    reply = page(client, "/health/live")
    assert (reply.status, reply.json) == (200, {"status": "live"})


@pytest.mark.parametrize(
    ("checks", "status", "word"),
    [
        ({"database": True, "migrations": True}, 200, "ready"),
        ({"database": True, "migrations": False}, 503, "unavailable"),
        ({"database": True, "storage": False, "migrations": True}, 503, "unavailable"),
        ({"database": False, "migrations": False}, 503, "unavailable"),
    ],
)
def test_a_server_is_ready_only_if_every_check_succeeds(checks, status, word):
    client, _ = serve(PATHS, site=Site(readiness=lambda: checks))
    reply = page(client, "/health/ready")
    assert (reply.status, reply.json) == (status, {"status": word, "checks": checks})
    assert ("retry-after" in reply.headers) == (status == 503)


def test_each_surface_serves_its_own_document(server):
    client, _ = server
    integration = page(client, "/v2/integration/openapi.json")
    administration = page(client, "/v2/administration/openapi.json")
    assert integration.headers["content-type"] == "application/json"
    assert list(integration.json["paths"]) == ["/books/{code}"]
    assert list(administration.json["paths"]) == ["/shops"]
    assert integration.json["components"]["securitySchemes"]["oauth2"]["type"] == "oauth2"


def test_the_response_to_a_request_with_the_current_etag_of_a_document_is_304(server):
    client, _ = server
    path = "/v2/integration/openapi.json"
    tag = page(client, path).headers["etag"]
    unchanged_reply = client("GET", path, headers={"If-None-Match": tag}, token=None)
    assert (unchanged_reply.status, unchanged_reply.content) == (304, b"")
    assert client("GET", path, headers={"If-None-Match": '"other"'}, token=None).status == 200
    assert tag != page(client, "/v2/administration/openapi.json").headers["etag"]


def test_the_served_document_has_the_public_base_url():
    client, _ = serve(PATHS, site=Site(base_url="https://points.example/api/v2"))
    document = page(client, "/v2/integration/openapi.json").json
    assert document["servers"] == [{"url": "https://points.example/api/v2"}]
    flows = document["components"]["securitySchemes"]["oauth2"]["flows"]
    assert flows["clientCredentials"]["tokenUrl"] == "https://points.example/api/v2/oauth/token"


def test_the_index_has_the_path_of_the_public_base_url():
    client, _ = serve(PATHS, site=Site(base_url="https://points.example/api/v2"))
    index = page(client, "/").json
    assert (index["version"], index["keys"]) == ("/api/v2/version", "/api/.well-known/jwks.json")
    assert index["documents"]["integration"]["docs"] == "/api/v2/integration/docs"
    html = page(client, "/", Accept="text/html").content.decode()
    assert '<a href="/api/health/live">/api/health/live</a>' in html
    assert "/api/api/" not in html


@pytest.mark.parametrize(
    ("surface", "other_surface"), [("integration", "administration"), ("administration", "integration")]
)
def test_docs_pages_link_to_each_other_and_load_nothing_from_other_servers(server, surface, other_surface):
    client, _ = server
    reply = page(client, f"/v2/{surface}/docs")
    html = reply.content.decode()
    assert reply.status == 200
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    assert f'href="../{other_surface}/docs"' in html
    assert "http://" not in html
    assert "https://" not in html
    assert "default-src 'none'" in reply.headers["content-security-policy"]
    assets = re.findall(r'(?:src|href)="(/docs/[^"]+\.(?:js|css))"', html)
    assert len(assets) == 4
    scripts = [script for asset in assets for script in (asset, *_imports(client, asset))]
    for asset in scripts:
        asset_reply = page(client, asset)
        assert asset_reply.status == 200, asset
        assert len(asset_reply.content) > 100
        assert page(client, asset, **{"If-None-Match": asset_reply.headers["etag"]}).status == 304


def _imports(client, script):
    """The paths of the scripts that a script of /docs imports."""
    text = page(client, script).content.decode()
    return [urljoin(script, target) for target in re.findall(r'^import .* from "([^"]+)";$', text, re.M)]


@pytest.mark.parametrize("name", ["nothing.js", "..%2f__init__.py", "%2e%2e/__init__.py", "reference.js"])
def test_files_that_are_no_assets_of_the_docs_pages_are_not_served(server, name):
    client, _ = server
    assert page(client, f"/v2/integration/docs/{name}").status == 404


def test_the_page_of_a_document_lists_its_operations_by_tag_without_a_script():
    documents = [openapi.bundle(surface) for surface in ("integration", "administration")]
    for document in documents:
        entries = [entry for group in groups(document) for entry in group.entries]
        parts = [part for item in document["paths"].values() for part in item.values()]
        ids = [part["operationId"] for part in parts if isinstance(part, dict)]
        assert sorted(entry.operation_id for entry in entries) == sorted(ids)
    [events] = [group for group in groups(documents[0]) if group.tag == "events"]
    assert events.page.startswith("/docs/events")
    assert events.entries[0].path == "/events/track"


def test_the_key_set_of_the_site_is_served():
    client, _ = serve(PATHS, site=Site(jwks=lambda: {"keys": [{"kid": "k1", "kty": "EC"}]}))
    reply = page(client, "/.well-known/jwks.json")
    assert reply.json == {"keys": [{"kid": "k1", "kty": "EC"}]}
    assert reply.headers["cache-control"] == "public, max-age=300"


def test_the_index_names_pages_that_exist(server):
    client, _ = server
    index = page(client, "/").json

    def paths(node):
        return [node] if isinstance(node, str) else [path for child in node.values() for path in paths(child)]

    assert len(paths(index)) == 13
    for path in paths(index):
        assert page(client, path).status == 200, path


def test_a_page_refuses_methods_other_than_get_head_and_options(server):
    client, _ = server
    reply = page(client, "/metrics", "POST")
    assert (reply.status, reply.headers["allow"]) == (405, "GET, HEAD, OPTIONS")
    assert reply.headers["content-type"] == "application/problem+json"


def test_head_of_a_page_has_no_body(server):
    client, _ = server
    reply = page(client, "/v2/integration/openapi.json", "HEAD")
    assert (reply.status, reply.content) == (200, b"")


def test_a_page_that_fails_is_a_500_without_the_message_of_the_exception(caplog):
    def fail():
        raise RuntimeError("secret")

    client, _ = serve(PATHS, site=Site(jwks=fail))
    reply = page(client, "/.well-known/jwks.json")
    assert reply.status == 500
    assert b"secret" not in reply.content
    assert reply.json["type"] == "/problems/internal-error"


def test_metrics_count_requests_by_operation_not_by_path(server):
    client, _ = server

    def count(text, operation, status):
        """The number of requests in metrics that are for this operation and had this status."""
        name = f'loyalty_http_requests_total{{method="GET",operation="{operation}",status="{status}"}}'
        return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name))

    metrics_before = page(client, "/metrics").content.decode()
    # Two valid requests, one with an unknown parameter and one to an unknown path.
    for path in ("/v2/books/one", "/v2/books/two", "/v2/books/two?x=1", "/v2/nowhere/secret"):
        client("GET", path)
    reply = page(client, "/metrics")
    metrics_after = reply.content.decode()
    assert reply.headers["content-type"].startswith("text/plain")
    for operation_name, status, new_requests in (
        ("integration:getBook", 200, 2),
        ("integration:getBook", 400, 1),
        ("none", 404, 1),
    ):
        count_before = count(metrics_before, operation_name, status)
        assert count(metrics_after, operation_name, status) - count_before == new_requests
    bucket = 'loyalty_http_request_seconds_bucket{le="0.005",method="GET",operation="integration:getBook"}'
    assert bucket in metrics_after
    assert "loyalty_database_connections_in_use" in metrics_after
    assert "secret" not in metrics_after


def test_metrics_add_up_over_worker_processes(tmp_path):
    script = textwrap.dedent(
        """
        import os, sys
        from handlers import metrics

        child = os.fork()
        metrics.observe("op", "GET", 200, 0.01)
        if child == 0:
            metrics.observe("op", "BREW", 200, 0.01)
            metrics._connections.inc()
            os._exit(0)
        os.waitpid(child, 0)
        living = metrics.exposition().decode()
        metrics.forget_worker(child)
        import json
        print(json.dumps([living, metrics.exposition().decode()]))
        """
    )
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    process = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    # Both processes observed a GET; the connection of the child is forgotten after its end.
    before_forgetting, after_forgetting = json.loads(process.stdout)
    assert 'loyalty_http_requests_total{method="GET",operation="op",status="200"} 2.0' in after_forgetting
    assert 'loyalty_http_requests_total{method="OTHER",operation="op",status="200"} 1.0' in after_forgetting
    assert "loyalty_database_connections_in_use 1.0" in before_forgetting
    assert "loyalty_database_connections_in_use 1.0" not in after_forgetting


def test_figures_of_queue_and_deliveries_are_reported_once_and_not_by_each_process(tmp_path):
    script = textwrap.dedent(
        """
        from handlers import metrics
        from domain.triggers import DeliveryFigures
        from domain.queue import QueueFigures
        import inspect

        def lines(kind, exposition):
            return exposition(kind(*(7 for _ in inspect.signature(kind).parameters))).decode()

        print(lines(QueueFigures, metrics.queue_exposition) + lines(DeliveryFigures, metrics.delivery_exposition))
        print(metrics.exposition().decode())
        """
    )
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    process = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    lines = [line for line in process.stdout.splitlines() if line.startswith(("loyalty_queue_", "loyalty_webhook_"))]
    # All figures of both kinds, each of which is 7. The metrics of the process have none of them.
    assert len(lines) == 7
    assert all(line.endswith(" 7.0") and "{" not in line for line in lines)


def test_the_type_of_a_problem_is_the_path_of_its_explanation(server):
    client, _ = server
    reply = page(client, "/problems/not-found")
    assert reply.status == 200
    assert reply.headers["content-type"].startswith("text/html")
    text = reply.content.decode()
    assert "<h1><code>/problems/not-found</code></h1>" in text
    assert '<i class="number">404</i>' in text
    assert "## " not in text
    assert page(client, "/problems/other").status == 404


def test_every_problem_type_of_the_documents_has_its_page():
    slugs = documentation.problem_pages()
    assert {f"/problems/{slug}" for slug in slugs} == problem_types(openapi.bundle("administration")).keys()


@pytest.mark.slow
def test_management_pages_are_served_only_on_the_management_port():
    # The clients send their requests to port 80.
    client_without_port, _ = serve(PATHS)
    client_of_other_port, _ = serve(PATHS, site=Site(management_port=9090))
    client_of_same_port, _ = serve(PATHS, site=Site(management_port=80))
    for path in ("/metrics", "/", "/v2/integration/docs", "/v2/integration/openapi.json"):
        assert client_without_port("GET", path).status == 200
        assert client_of_other_port("GET", path).status == 404
        assert client_of_same_port("GET", path).status == 200
    for path in ("/health/live", "/.well-known/jwks.json", "/problems/not-found", "/docs/page.css", "/docs/page.js"):
        assert client_of_other_port("GET", path).status == 200
