"""The project's clients for Python and TypeScript: a journey, strict types, retries and webhooks."""

from __future__ import annotations

import base64
import importlib.util
import json
import re
import shutil
import tarfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest
from standardwebhooks.webhooks import Webhook

import handlers.http
from openapi.clients.packages import write_packages
from tests import npm
from tests.sdks.running import FIFTEEN_DIGITS, JOURNEYS, TWENTY_DIGITS, Running, python, run

SITE = Path(handlers.http.__file__).with_name("site")
JOURNEY = JOURNEYS / "loyalty_client_journey.py"
STRICT = ("--strict", "--exactOptionalPropertyTypes", "--noUncheckedIndexedAccess", "--noUnusedLocals")
# The second line that the examples of the READMEs print: their coupon book does not exist.
REFUSAL = "404 /problems/not-found There is no coupon book with the couponBookKey 5d2c8b7a-6f1e-4c3d-9a8b-7e6f5d4c3b2a."
TARGET = ("--target", "es2022", "--module", "nodenext", "--lib", "es2022,dom,dom.asynciterable")


def journey_result(decimal: str) -> dict[str, Any]:
    """The results of the journey of our own clients, with an order whose total is the decimal."""
    return {
        "decimal": decimal,
        "earned": decimal.partition(".")[0],
        "returned": "0",
        "coupons": ["FLAT-1", "FLAT-1"],
        "refusal": {"status": 409, "type": "/problems/coupon-not-assigned", "hasRequestId": True},
        "pointers": ["/loyaltyMemberId"],
        "members": ["ana", "ben", "cleo", "dora", "eve"],
        "campaigns": ["spend"],
    }


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both packages."""
    folder = tmp_path_factory.mktemp("clients")
    write_packages(folder, folder, "1.2.3")
    return folder


@pytest.fixture
def client_of(packages: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """A function that makes a client with a fake server; waits take no time and are recorded in `client.waits`."""
    monkeypatch.syspath_prepend(packages / "python")
    import loyalty_client
    import loyalty_client.runtime as runtime

    def make(respond: Callable[[httpx.Request], httpx.Response], **options: Any) -> Any:
        client = loyalty_client.IntegrationClient(
            "http://loyalty.test/v2", transport=httpx.MockTransport(respond), **{"token": "t", **options}
        )
        client.waits = []
        monkeypatch.setattr(runtime.time, "sleep", client.waits.append)
        return client

    return make


def test_the_python_client_makes_the_journey(running_server: Running, packages: Path) -> None:
    folder = packages / "python"
    results = running_server.journey(python(JOURNEY), cwd=folder, decimal=TWENTY_DIGITS, PYTHONPATH=str(folder))
    assert results == journey_result(TWENTY_DIGITS)


def test_the_example_of_the_python_readme_runs(running_server: Running, packages: Path) -> None:
    folder = packages / "python"
    (folder / "running_example.py").write_text(_put_in_credentials(running_server, _example(folder, "python")))
    output = run(python("running_example.py"), cwd=folder)
    assert output.splitlines()[1:] == [REFUSAL, "ana"]


def test_methods_of_the_python_client_have_a_word_for_each_word_of_their_operation(
    client_of: Callable[..., Any],
) -> None:
    client = client_of(lambda _: httpx.Response(200, json={}))
    # The id of the operation is createPartnerAPaymentIntent.
    assert client.create_partner_a_payment_intent({"paymentId": "payment-1"}) == {}


def test_a_call_is_repeated_with_its_key_after_the_time_in_retry_after(client_of: Callable[..., Any]) -> None:
    bodies: list[Any] = []

    def respond(request: httpx.Request) -> httpx.Response:
        """Respond with 429, 503, not at all, and then with 200."""
        bodies.append(json.loads(request.content))
        if len(bodies) == 3:
            raise httpx.ReadTimeout("too slow", request=request)
        status = {1: 429, 2: 503}.get(len(bodies), 200)
        return httpx.Response(status, headers={"Retry-After": "7"}, json={"couponUsage": {}})

    client = client_of(respond)
    client.use_coupon("ana", "book", {"code": "A"})
    assert len(bodies) == 4
    # The key is a UUID, and all four requests have it.
    assert len(bodies[0]["systemUniqueKey"]) == 36
    assert bodies[1:] == [bodies[0]] * 3
    # After the timeout, the client chooses the time of the third wait.
    assert client.waits[:2] == [7.0, 7.0]


def test_each_event_without_a_key_gets_a_new_one(client_of: Callable[..., Any]) -> None:
    bodies: list[Any] = []

    def respond(request: httpx.Request) -> httpx.Response:
        bodies.append(json.loads(request.content))
        return httpx.Response(200, json={"results": []})

    client_of(respond).track_events({"events": [{"eventType": "a"}, {"eventType": "b"}, {"systemUniqueKey": "mine"}]})
    keys = [event["systemUniqueKey"] for event in bodies[0]["events"]]
    assert keys[2] == "mine"
    assert len(set(keys)) == 3


def test_a_post_without_a_key_is_repeated_only_if_the_server_did_not_process_it(client_of: Callable[..., Any]) -> None:
    import loyalty_client

    calls: list[str] = []

    def respond(request: httpx.Request) -> httpx.Response:
        """Refuse the connection, respond with 429, and then with 503."""
        calls.append(request.url.path)
        if len(calls) == 1:
            raise httpx.ConnectError("refused", request=request)
        if len(calls) == 2:
            return httpx.Response(429)
        return httpx.Response(503, json={"type": "/problems/unavailable", "title": "Away", "status": 503})

    with pytest.raises(loyalty_client.Problem) as caught:
        client_of(respond).create_member({"loyaltyMemberId": "ana"})
    # The server may have processed the call with 503, so there is no fourth one.
    assert (caught.value.status, caught.value.type, len(calls)) == (503, "/problems/unavailable", 3)


@pytest.mark.parametrize(
    ("headers", "call_count"),
    [
        pytest.param({"Retry-After": "31"}, 1, id="the wait is longer than 30 seconds"),
        pytest.param({}, 1 + 4, id="four repetitions"),
    ],
)
def test_a_call_ends_after_four_repetitions_or_before_a_long_wait(
    client_of: Callable[..., Any], headers: dict[str, str], call_count: int
) -> None:
    import loyalty_client

    requests: list[httpx.Request] = []

    def respond(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return httpx.Response(429, headers=headers, text="wait")

    with pytest.raises(loyalty_client.Problem, match="429 about:blank: wait"):
        client_of(respond).get_member("ana")
    assert len(requests) == call_count


def test_the_python_client_encodes_paths_queries_and_decimals_as_documented(client_of: Callable[..., Any]) -> None:
    requests: list[httpx.Request] = []

    def respond(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return httpx.Response(200, headers={"Content-Type": "application/json"}, content=b'{"amount": 0.10}')

    client = client_of(respond)
    coupons = client.list_member_coupons("a/b", coupon_book_tags=["x", "y"], limit=None)
    client.search_documents("menu", range={"price": "1,2"})
    client.assign_coupon("ana", "book", {"amount": Decimal("12345678901234.567891"), "validTo": None})
    assert coupons == {"amount": Decimal("0.10")}
    assert requests[0].url.raw_path == b"/v2/members/a%2Fb/coupons?couponBookTags=x%2Cy"
    assert requests[1].url.params["range.price"] == "1,2"
    assert b'"amount":12345678901234.567891,"validTo":null' in requests[2].content


def test_a_token_is_fetched_once_and_renewed_before_it_expires(client_of: Callable[..., Any]) -> None:
    tokens = iter(("a", "b"))
    authorizations: list[str] = []

    def respond(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v2/oauth/token":
            return httpx.Response(200, json={"access_token": next(tokens), "expires_in": 3600})
        authorizations.append(request.headers["Authorization"])
        return httpx.Response(200, json={})

    client = client_of(respond, client_id="till", client_secret="secret")
    client.get_member("ana")
    client.get_member("ana")
    # An hour later.
    client._expires_at -= 3600
    client.get_member("ana")
    assert authorizations == ["Bearer a", "Bearer a", "Bearer b"]


SECRET = "whsec_" + base64.b64encode(b"a" * 32).decode()
OTHER_SECRET = "whsec_" + base64.b64encode(b"b" * 32).decode()
MESSAGE = b'{"type":"member.created","data":{"total":12345678901234.567891}}'


def _signed_headers(*secrets: str, body: bytes = MESSAGE, age: int = 0) -> dict[str, str]:
    """The headers of a message that the library signed `age` seconds ago, with a signature for each secret."""
    sent_at = datetime.now(UTC) - timedelta(seconds=age)
    signatures = [Webhook(secret).sign("message-1", sent_at, body.decode()) for secret in secrets]
    timestamp = str(int(sent_at.timestamp()))
    return {"Webhook-Id": "message-1", "webhook-timestamp": timestamp, "webhook-signature": " ".join(signatures)}


# The headers and the body of messages that are refused.
REFUSED = {
    "other secret": (_signed_headers(OTHER_SECRET), MESSAGE),
    "other body": (_signed_headers(SECRET), MESSAGE.replace(b"created", b"deleted")),
    "other id": ({**_signed_headers(SECRET), "Webhook-Id": "message-2"}, MESSAGE),
    "too old": (_signed_headers(SECRET, age=3600), MESSAGE),
    "too new": (_signed_headers(SECRET, age=-3600), MESSAGE),
    "no time": ({**_signed_headers(SECRET), "webhook-timestamp": "soon"}, MESSAGE),
    "no signature": ({**_signed_headers(SECRET), "webhook-signature": "v1,?"}, MESSAGE),
    "no headers": ({}, MESSAGE),
}


def test_a_webhook_is_parsed_if_one_signature_is_valid(packages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(packages / "python")
    from loyalty_client import InvalidWebhook, verify_webhook

    for secrets in ((SECRET,), (OTHER_SECRET, SECRET)):
        message = verify_webhook(SECRET, _signed_headers(*secrets), MESSAGE)
        assert message["data"]["total"] == Decimal("12345678901234.567891")
    for headers, body in REFUSED.values():
        with pytest.raises(InvalidWebhook):
            verify_webhook(SECRET, headers, body)


@pytest.mark.sdks
def test_the_typescript_client_verifies_webhooks(packages: Path, tmp_path: Path) -> None:
    node = _install_typescript(packages, tmp_path)
    valid_messages = {
        "one": (_signed_headers(SECRET), MESSAGE),
        "two": (_signed_headers(OTHER_SECRET, SECRET), MESSAGE),
    }
    cases = {name: [headers, body.decode()] for name, (headers, body) in {**valid_messages, **REFUSED}.items()}
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    (tmp_path / "verify.js").write_text(VERIFY.replace("SECRET", SECRET))
    results = json.loads(run([node, "verify.js"], cwd=tmp_path))
    assert results == {**dict.fromkeys(valid_messages, "member.created"), **dict.fromkeys(REFUSED, "InvalidWebhook")}


VERIFY = """
import { readFileSync } from "node:fs";
import { verifyWebhook } from "loyalty-client";

const saw = {};
for (const [name, [headers, body]] of Object.entries(JSON.parse(readFileSync("cases.json", "utf8")))) {
  const bytes = new TextEncoder().encode(body);
  saw[name] = await verifyWebhook("SECRET", headers, bytes).then((message) => message.type, (error) => error.name);
}
console.log(JSON.stringify(saw));
"""


@pytest.mark.sdks
def test_the_python_client_its_journey_and_its_readme_are_typed(packages: Path) -> None:
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("needs mypy")
    folder = packages / "python"
    example, sample = folder / "example.py", folder / "sample.py"
    example.write_text(_example(folder, "python"))
    sample.write_text(_sample("Python"))
    run(
        python("-m", "mypy", "--strict", "--no-incremental", "loyalty_client", JOURNEY, example, sample),
        cwd=folder,
        MYPYPATH=str(folder),
    )


@pytest.mark.sdks
def test_the_typescript_client_makes_the_journey_and_its_readme_is_typed(
    running_server: Running, packages: Path, tmp_path: Path
) -> None:
    node = _install_typescript(packages, tmp_path)
    shutil.copy(JOURNEYS / "loyalty_client_journey.ts", tmp_path / "journey.ts")
    (tmp_path / "example.ts").write_text(_example(packages / "typescript", "typescript"))
    (tmp_path / "sample.ts").write_text(_sample("TypeScript"))
    (tmp_path / "node.d.ts").write_text("declare const process: { env: Record<string, string | undefined> };")
    modules = npm.install_packages("typescript@5.9.3")
    options = (*STRICT, *TARGET, "--outDir", "out", "journey.ts", "example.ts", "sample.ts", "node.d.ts")
    run([node, modules / "typescript/bin/tsc", *options], cwd=tmp_path)
    results = running_server.journey([node, "out/journey.js"], cwd=tmp_path, decimal=FIFTEEN_DIGITS)
    assert results == journey_result(FIFTEEN_DIGITS)
    example = tmp_path / "out/example.js"
    example.write_text(_put_in_credentials(running_server, example.read_text()))
    assert run([node, example], cwd=tmp_path).splitlines()[1:] == [REFUSAL, "ana"]


@pytest.mark.sdks
def test_the_typescript_client_repeats_calls_with_their_keys(packages: Path, tmp_path: Path) -> None:
    node = _install_typescript(packages, tmp_path)
    shutil.copy(JOURNEYS / "loyalty_client_retries.js", tmp_path / "retries.js")
    results = json.loads(run([node, "retries.js"], cwd=tmp_path))
    assert results == {
        "keyedCalls": 4,
        "differentBodies": 1,
        "keyLength": 36,
        "eventKeys": ["string", "mine"],
        "unkeyed": [2, 503, "/problems/unavailable"],
        "longWait": [1, 429],
        "tokens": ["Bearer a", "Bearer a"],
        "url": "http://loyalty.test/v2/members/a%2Fb/coupons?couponBookTags=x%2Cy",
        "timeout": "TimeoutError",
    }


def _install_typescript(packages: Path, folder: Path) -> str:
    """Unpack the archive of the package where programs of the folder find it; return Node."""
    node = npm.node()
    if node is None:
        pytest.skip("needs Node")
    (folder / "package.json").write_text('{"type": "module"}\n')
    with tarfile.open(packages / "loyalty-client-1.2.3.tgz") as archive:
        archive.extractall(folder / "node_modules", filter="data")
    (folder / "node_modules/package").rename(folder / "node_modules/loyalty-client")
    return node


def _sample(language: str) -> str:
    """The request of a dry run as the playground writes it."""
    node = npm.node()
    if node is None:
        pytest.skip("needs Node")
    order = {"externalId": "1", "total": 12.5, "items": [{"productCode": "flat-white", "quantity": 1, "total": 12.5}]}
    event = {"loyaltyMemberId": "ana", "eventType": "member-purchase-order-created", "payload": {"order": order}}
    body = {"events": [event], "executionMode": "dryRun", "trace": True, "now": "2026-03-06T15:30:00Z"}
    request = {"base": "http://127.0.0.1:8080/v2", "name": "trackEvents", "path": "/events/track", "body": body}
    program = f"""import {{ codeOf }} from "./playground-code.js";
        console.log(codeOf({json.dumps(request)}).{language});"""
    return run([node, "--input-type=module", "-e", program], cwd=SITE)


def _example(package: Path, language: str) -> str:
    """The only example in a language in the README of a package."""
    [example] = re.findall(rf"```{language}\n(.*?)```", (package / "README.md").read_text(), re.DOTALL)
    return str(example)


def _put_in_credentials(running_server: Running, example: str) -> str:
    """The example with the URL of the server and the credentials of a new organization."""
    defaults = running_server.api.organization("Example").defaults
    values = {
        "https://loyalty.example.com": running_server.url,
        "till-1": defaults.client_id,
        '"..."': f'"{defaults.client_secret}"',
    }
    for placeholder, value in values.items():
        assert example.count(placeholder) == 1
        example = example.replace(placeholder, value)
    return example
