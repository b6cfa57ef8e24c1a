"""The served playground, and its modules that need no page: completion, and requests as code."""

from __future__ import annotations

import json
import re
import ssl
import subprocess
import threading
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urljoin, urlsplit

import pytest

import handlers.http
import openapi
from openapi import METHODS
from openapi.clients.operations import REQUEST_KEY
from openapi.clients.packages import write_python, write_typescript
from tests.http.support import operation, parameter, serve
from tests.npm import node

SITE = Path(handlers.http.__file__).with_name("site")
PATHS = {
    "/books/{code}": {"get": operation("getBook", parameters=[parameter("code", {"type": "string"}, "path")])},
}
# For the first view of the page, with all its files, compressed.
MAX_BYTES_OF_PAGE = 300_000
FORM = "application/x-www-form-urlencoded"


@pytest.fixture(scope="module")
def client():
    return serve(PATHS)[0]


def get(client, path):
    """Get a file of the page, compressed; return the reply."""
    return client("GET", path, token=None, headers={"Accept-Encoding": "gzip"})


# What a page or a script names to load it at once: stylesheets and scripts, imported scripts, and fetched files.
LOADED_ADDRESS = re.compile(
    r'''(?:<link [^>]*href=|<script [^>]*src=|^import .* from |fetch\(new URL\()"(?!data:)([^"]+)"''', re.MULTILINE
)


@pytest.fixture(scope="module")
def loaded_files(client):
    """The size of the page and of each file that it loads, compressed, by the path of the file."""
    sizes, addresses = {}, ["/playground"]
    while addresses:
        path = addresses.pop()
        if path not in sizes:
            reply = get(client, path)
            assert reply.status == 200, path
            sizes[path] = len(reply.content)
            text = client("GET", path, token=None).content.decode()
            addresses += [urljoin(path, address) for address in LOADED_ADDRESS.findall(text)]
    return sizes


def test_the_page_and_all_that_it_loads_come_from_the_server(loaded_files):
    # A file of another origin would be named by its whole URL.
    assert set(loaded_files) == {
        *("/playground", "/docs/page.css", "/docs/page.js"),
        *("/playground/playground.css", "/playground/playground.js", "/playground/lit-html.js"),
        *("/playground/playground-api.js", "/playground/playground-code.js", "/playground/playground-editor.js"),
        *("/playground/playground-explain.js", "/playground/playground-ledger.js", "/playground/playground-member.js"),
        "/playground/event-schema.json",
    }


def test_the_page_loads_fewer_bytes_than_the_limit(loaded_files):
    assert sum(loaded_files.values()) < MAX_BYTES_OF_PAGE


def test_the_page_may_only_run_scripts_of_the_server(client):
    assert "script-src 'self'" in get(client, "/playground").headers["content-security-policy"]


def test_the_schema_of_payloads_has_no_references(client):
    schema = client("GET", "/playground/event-schema.json", token=None).json
    # `reported` has the types of events that only the server creates.
    assert "ledger-transaction-created" in schema["reported"]
    assert "member-purchase-order-created" not in schema["reported"]
    items = schema["payload"]["properties"]["order"]["properties"]["items"]
    assert {"productCode", "quantity", "total"} <= set(items["items"]["properties"])
    assert "$ref" not in json.dumps(schema)


def run_javascript(source: str):
    """Run a JavaScript module in the folder of the site; return the JSON that it prints."""
    path = node()
    if path is None:
        pytest.skip("the scripts are run by Node")
    process = subprocess.run(
        [path, "--input-type=module", "-e", source], cwd=SITE, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


SCHEMA = {
    "properties": {
        "order": {
            "properties": {
                "total": {"type": "number"},
                "type": {"type": "string"},
                "items": {"items": {"properties": {"productCode": {}, "price": {}}}},
            }
        },
        "payment": {},
    }
}


@pytest.mark.parametrize(
    ("typed_text", "completions"),
    [
        ('{"', ["order", "payment"]),
        ('{"p', ["payment"]),
        ('{"order": {"t', ["total", "type"]),
        ('{"order": {"total": 5, "ty', ["type"]),
        ('{"order": {"items": [{"productCode": "a, {b"}, {"p', ["productCode", "price"]),
        ('{"order": {"total": 5}, "', ["order", "payment"]),
        # No name of a known field is being typed: a value, an unknown object, nothing yet, a text in a list.
        ('{"order": {"type": "t', []),
        ('{"other": {"t', []),
        ('{"order": ', []),
        ('{"order": {"items": ["p', []),
    ],
)
def test_fields_are_completed_where_the_cursor_is(typed_text, completions):
    names = run_javascript(
        f"""import {{ placeAt, suggestions }} from "./playground-editor.js";
        const text = {json.dumps(typed_text)};
        const found = suggestions({json.dumps(SCHEMA)}, placeAt(text, text.length));
        console.log(JSON.stringify(found.map(({{ name }}) => name)));"""
    )
    assert names == completions


@pytest.mark.parametrize(
    ("before_cursor", "after_cursor", "expected_text"),
    [
        ('{"order": {"to', "}}", '{"order": {"total": }}'),
        ('{"order": {"to', '": 5}}', '{"order": {"total": 5}}'),
        ('{"order": {"to', 'xx": 5}}', '{"order": {"total": 5}}'),
    ],
)
def test_a_chosen_field_replaces_the_typed_text(before_cursor, after_cursor, expected_text):
    completion = run_javascript(
        f"""import {{ completed }} from "./playground-editor.js";
        const [before, after] = {json.dumps([before_cursor, after_cursor])};
        console.log(JSON.stringify(completed(before + after, before.length, "to", "total")));"""
    )
    assert completion["text"] == expected_text


BEANS = {"ledgerAccountKey": "beans", "ledgerAccountId": 1, "name": "Beans", "isDefaultAccount": True}
STARS = {"ledgerAccountKey": "stars", "ledgerAccountId": 2, "name": "Stars", "isDefaultAccount": False}


def effect_on_points(effect_id="mint-points", **more):
    """An effect of campaign 5 as a response has it; `more` are its parameters, except `availableAt`."""
    values = {"ledgerAccountKey": None, "recipient": "member", "expirationDate": None} | more
    wait = {"availableAt": values.pop("availableAt")} if "availableAt" in values else {}
    params = [{"id": name, "value": value} for name, value in values.items()]
    return {"effectId": effect_id, "campaignId": 5, "params": params, **wait}


def entries_of(*effects, earn=None, accounts=(BEANS, STARS), **more):
    """The ledger entries that the page shows for a result, or for the `earn` of a simulation. Ana has 10.1 beans."""
    result = {"effects": effects, "missions": [], "referrals": [], **more}
    wallet = {"walletId": 7, "currentBalance": 10.1, "currentOverdraftBalance": 0, "pending": 0}
    outcome = {"result": result, "wallets": [wallet | BEANS], "accounts": accounts, "mainAccounts": {"5": 1}}
    return run_javascript(
        f"""import {{ entriesOf }} from "./playground-ledger.js";
        const outcome = {json.dumps({**outcome, "memberId": "ana"})};
        console.log(JSON.stringify(entriesOf({{ ...outcome, earn: {json.dumps(earn)} ?? undefined }})));"""
    )


def test_each_ledger_entry_has_the_balances_before_and_after_it():
    reward = {"kind": "points", "amount": 5, "ledgerAccountKey": "stars"}
    rows = entries_of(
        effect_on_points(amount=0.2),
        effect_on_points("burn-points", amount=3),
        effect_on_points(amount=0),
        {"effectId": "assign-badge", "campaignId": 5, "params": [{"id": "amount", "value": 1}]},
        missions=[{"rewards": [reward, {"kind": "badge", "amount": 1}]}],
    )
    # Rewards of missions come first. Ana had no stars and 10.1 beans.
    assert [tuple(row[name] for name in ("account", "member", "amount", "before", "after")) for row in rows] == [
        ("Stars", "ana", 5, 0, 5),
        ("Beans", "ana", 0.2, 10.1, 10.3),
        ("Beans", "ana", -3, 10.3, 7.3),
    ]


def test_points_that_wait_do_not_change_the_balance():
    [until_christmas, until_an_event] = entries_of(
        effect_on_points(amount=4, availableAt="2026-12-24T00:00:00Z"), effect_on_points(amount=4, availableAt=None)
    )
    # Ana has 10.1 beans.
    assert (until_christmas["before"], until_christmas["after"]) == (10.1, 10.1)
    assert until_christmas["availableAt"] == "2026-12-24T00:00:00Z"
    assert (until_an_event["after"], until_an_event["availableAt"]) == (10.1, None)


def test_entries_expire_at_their_own_date_or_at_that_of_the_account():
    dated_mint = effect_on_points(amount=1, expirationDate="2027-01-01T00:00:00Z")
    mint = effect_on_points(amount=1)

    def expiries(account_expires_at, *effects):
        """When the points of each entry of a simulation expire, if new points of the account expire at this moment."""
        earn = {"effects": effects, "missions": [], "accounts": [BEANS | {"expiresAt": account_expires_at}]}
        return [row.get("expires") for row in entries_of(earn=earn)]

    date_of_account = "2027-06-01T00:00:00Z"
    assert expiries(date_of_account, mint) == [{"at": date_of_account, "isFirst": False}]
    assert expiries(date_of_account, mint, dated_mint) == [
        {"at": date_of_account, "isFirst": True},
        {"at": "2027-01-01T00:00:00Z", "isFirst": False},
    ]
    assert expiries(None, mint) == [{"at": None, "isFirst": False}]
    assert expiries(date_of_account, effect_on_points("burn-points", amount=1)) == [None]
    # Only a simulation reports when points expire.
    assert [row.get("expires") for row in entries_of(mint)] == [None]


def test_balances_that_the_responses_do_not_show_are_unknown():
    referral = {"rewards": [{"recipient": "referrer", "memberId": 3, "points": 20, "ledgerAccountId": 1}]}
    [sponsor_entry, debt_entry, referral_entry] = entries_of(
        effect_on_points(amount=2, recipient="sponsor"),
        effect_on_points("burn-points", amount=11),
        referrals=[referral],
    )
    # Ana has 10.1 beans, so a burn of 11 needs debt.
    assert (sponsor_entry["member"], sponsor_entry["before"], sponsor_entry["after"]) == ("sponsor", None, None)
    assert (debt_entry["before"], debt_entry["after"]) == (10.1, None)
    assert (referral_entry["member"], referral_entry["account"], referral_entry["after"]) == ("member 3", "Beans", None)
    refunds = [{"tender": "points", "amount": 6, "points": 600}, {"tender": "card", "amount": 6, "points": None}]
    [refund, mint] = entries_of(effect_on_points(amount=2), refunds=refunds)
    assert (refund["account"], refund["amount"], refund["after"], mint["after"]) == ("unknown", 600, None, None)
    [unnamed_entry] = entries_of(effect_on_points(amount=2), accounts=[])
    assert (unnamed_entry["account"], unnamed_entry["before"]) == ("Account 1", None)


def test_a_return_lists_the_transactions_that_it_reverts():
    def reversal(kind, amount, *, wallet_id, outcome="reverted"):
        """A transaction of this kind in beans, as the result of a return reports that it was reverted."""
        transaction = {"transactionType": kind, "revertedAmount": amount, "walletId": wallet_id, "outcome": outcome}
        return transaction | {"ledgerAccountKey": "beans"}

    # 7 is Ana's wallet, which has 10.1 beans.
    transactions = [
        reversal("burn", 2, wallet_id=7),
        reversal("mint", 5, wallet_id=7),
        reversal("mint", 1, wallet_id=8),
        # Released points were never in the balance, so there is no entry for them.
        reversal("mint", 9, wallet_id=7, outcome="released"),
    ]
    rows = entries_of(reverted=[{"ledgerTransactions": transactions}])
    assert [(row["member"], row["amount"], row["after"]) for row in rows] == [
        ("ana", 2, 12.1),
        ("ana", -5, 7.1),
        ("another member", -1, None),
    ]


def codes_of(**request):
    """The code of a request, by language."""
    return run_javascript(
        f"""import {{ codeOf }} from "./playground-code.js";
        console.log(JSON.stringify(codeOf({json.dumps({"base": "http://127.0.0.1:8080/v2", **request})})));"""
    )


def arguments_of(curl):
    """The arguments that the shell gives to curl."""
    script = curl.replace("curl -sS", "printf '%s\\n'", 1)
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.splitlines()


def test_the_request_is_written_as_code_with_its_exact_content():
    body = {
        "events": [{"loyaltyMemberId": "o'neill", "payload": {"order": {"total": 12.5, "tags": None, "paid": True}}}]
    }
    codes = codes_of(name="trackEvents", path="/events/track", body=body)
    assert list(codes) == ["curl", "Python", "TypeScript", "PHP", "Java"]
    output = subprocess.run(
        ["bash", "-c", codes["curl"].replace("curl -sS", "printf '%s\\n'")], capture_output=True, text=True, check=True
    ).stdout
    assert json.loads(output.partition("-d\n")[2]) == body
    for text in codes.values():
        assert "http://127.0.0.1:8080/v2" in text


def test_the_request_is_written_for_the_ready_made_clients():
    codes = codes_of(name="createCoupon", path="/coupons/{code}", pathValues={"code": "A"}, body={"a": 1.5, "b": "2.5"})
    assert (
        codes["Python"]
        == """import os
from decimal import Decimal

from loyalty_client import IntegrationClient

with IntegrationClient("http://127.0.0.1:8080/v2", token=os.environ["TOKEN"]) as client:
    print(client.create_coupon("A", {
        "a": Decimal("1.5"),
        "b": "2.5"
    }))"""
    )
    assert (
        codes["TypeScript"]
        == """import { IntegrationClient } from "loyalty-client";

const client = new IntegrationClient("http://127.0.0.1:8080/v2", { token: process.env.TOKEN ?? "" });
console.log(await client.createCoupon("A", {
  "a": 1.5,
  "b": "2.5"
}));"""
    )


def test_a_request_without_a_body_has_its_parameters_in_every_language():
    values = {"organizationId": "3", "memberId": "7"}
    codes = codes_of(
        surface="administration",
        method="GET",
        name="listThings",
        path="/organizations/{organizationId}/members/{memberId}/things",
        pathValues=values,
        query={"tags": "a b,c", "isActive": "true", "search": "7"},
        types={
            "organizationId": "integer",
            "memberId": "integer",
            "tags": "array",
            "isActive": "boolean",
            "search": "string",
        },
    )
    address = "http://127.0.0.1:8080/v2/organizations/3/members/7/things"
    query = "tags=a+b%2Cc&isActive=true&search=7"
    assert arguments_of(codes["curl"]) == [f"{address}?{query}", "-H", "Authorization: Bearer "]
    assert 'with AdministrationClient("http://127.0.0.1:8080/v2", 3, token=os.environ["TOKEN"])' in codes["Python"]
    assert re.sub(r"\s+", "", codes["Python"]).endswith(
        'client.list_things(7,tags=["ab","c"],is_active=True,search="7"))'
    )
    assert 'new AdministrationClient("http://127.0.0.1:8080/v2", 3, {' in codes["TypeScript"]
    assert re.sub(r"\s+", "", codes["TypeScript"]).endswith(
        'client.listThings(7,{"tags":["ab","c"],"isActive":true,"search":"7"}));'
    )
    assert ".GET()" in codes["Java"]
    assert not any("Content-Type" in code for code in codes.values())


def test_the_code_sends_a_form_as_a_form_and_an_api_key_in_its_header():
    fields = {"client_secret": "it's one"}
    codes = codes_of(name="createAccessToken", path="/oauth/token", type=FORM, body=fields, auth=None)
    assert arguments_of(codes["curl"])[-2:] == ["--data-urlencode", "client_secret=it's one"]
    assert 'with IntegrationClient("http://127.0.0.1:8080/v2") as client:' in codes["Python"]
    assert not any("Authorization" in code for code in codes.values())
    api_key = {"header": "x-api-key", "prefix": "", "variable": "API_KEY"}
    for language, code in codes_of(name="doIt", path="/a", body={}, auth=api_key).items():
        key_argument = {"Python": "api_key=", "TypeScript": "apiKey: "}.get(language, "x-api-key")
        assert key_argument in code, language
        assert "API_KEY" in code, language
        assert "Bearer" not in code, language


class Recorder(ThreadingHTTPServer):
    """Responds to every request with an empty object, and records the method, target, body and credentials."""

    def __init__(self) -> None:
        self.requests: list[tuple] = []
        super().__init__(("127.0.0.1", 0), _Recording)


class _Recording(BaseHTTPRequestHandler):
    def handle_one_request(self) -> None:
        self.raw_requestline = self.rfile.readline()
        if not self.raw_requestline or not self.parse_request():
            self.close_connection = True
            return
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        url = urlsplit(self.path)
        credentials = self.headers.get("Authorization") or self.headers.get("x-api-key")
        self.server.requests.append((self.command, unquote(url.path), parse_qsl(url.query), content, credentials))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def recorder():
    with Recorder() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield server
        server.shutdown()


@pytest.fixture(scope="module")
def clients_folder(tmp_path_factory):
    """A folder with the ready-made clients, where programs of both languages find them."""
    folder = tmp_path_factory.mktemp("clients")
    write_python(folder, "1.2.3")
    write_typescript(folder / "node_modules" / "loyalty-client", "1.2.3")
    (folder / "file").write_bytes(b"content")
    return folder


def sample_requests(surface, base):
    """A request of each operation, with a value for each parameter of a plain type."""
    document = openapi.bundle(surface)
    samples = {"integer": "12", "number": "1.5", "boolean": "true", "array": "a,b"}
    for path, item in document["paths"].items():
        for method in METHODS:
            if method not in item:
                continue
            operation_ = item[method]
            parameters = [
                openapi.resolve(document, node)
                for node in (*item.get("parameters", ()), *operation_.get("parameters", ()))
            ]
            types = {node["name"]: openapi.resolve(document, node["schema"]).get("type") for node in parameters}
            values = {
                place: {
                    node["name"]: samples.get(types[node["name"]], "a b")
                    for node in parameters
                    if node["in"] == place and "x-parameter-family" not in node
                }
                for place in ("path", "query")
            }
            content = openapi.resolve(document, operation_.get("requestBody", {})).get("content", {})
            media_type = next(iter(content), None)
            fields = {"name": "it's"} if media_type == FORM else {"name": "it's", "amount": 12.5, "tags": None}
            body = {} if media_type is None else {"type": media_type, "body": fields}
            is_partner = any("apiKey" in name for scheme in operation_["security"] for name in scheme)
            bearer = {"header": "Authorization", "prefix": "Bearer ", "variable": "TOKEN"}
            api_key = {"header": "x-api-key", "prefix": "", "variable": "API_KEY"}
            auth = None if not operation_["security"] else api_key if is_partner else bearer
            yield {
                "base": base,
                "surface": surface,
                "name": operation_.get("x-operation-name", operation_["operationId"]),
                "method": method.upper(),
                "path": path,
                "pathValues": values["path"],
                "query": values["query"],
                "types": types,
                "auth": auth,
                **body,
            }


def expected_record(request):
    """(method, path, query, body, credentials) that the recorder must get for a sample request."""
    path = "/v2" + request["path"].format(**request["pathValues"])
    content = {"application/json": request.get("body"), "application/octet-stream": b"content"}.get(request.get("type"))
    if request.get("type") == FORM:
        content = b"name=it%27s"
    credentials = {None: None, "TOKEN": "Bearer t", "API_KEY": "k"}[(request["auth"] or {}).get("variable")]
    return request["method"], path, list(request["query"].items()), content, credentials


def records_of(recorder):
    """Take the recorded requests. JSON bodies are parsed, without the keys and empty lists that clients add."""
    records = []
    for method, path, query, content, credentials in recorder.requests:
        body = content or None
        if content.startswith(b"{"):
            body = {name: value for name, value in json.loads(content).items() if name != REQUEST_KEY and value != []}
        records.append((method, path, query, body, credentials))
    recorder.requests.clear()
    return records


@pytest.mark.slow
@pytest.mark.parametrize("surface", openapi.SURFACES)
def test_the_ready_made_clients_send_the_request_of_every_operation(surface, recorder, clients_folder, monkeypatch):
    requests = list(sample_requests(surface, f"http://127.0.0.1:{recorder.server_port}/v2"))
    codes = run_javascript(
        f"""import {{ codeOf }} from "./playground-code.js";
        console.log(JSON.stringify({json.dumps(requests)}.map(codeOf)));"""
    )
    expected_records = [expected_record(request) for request in requests]
    monkeypatch.syspath_prepend(clients_folder)
    monkeypatch.chdir(clients_folder)
    monkeypatch.setenv("TOKEN", "t")
    monkeypatch.setenv("API_KEY", "k")
    # Each program has a client of its own, which would read all certificates again.
    monkeypatch.setattr(ssl, "create_default_context", cache(ssl.create_default_context))
    for code in codes:
        exec(code["Python"], {})
    assert records_of(recorder) == expected_records
    for number, code in enumerate(codes):
        (clients_folder / f"{surface}-{number}.mjs").write_text(code["TypeScript"])
    program = "".join(f'await import("./{surface}-{number}.mjs");\n' for number in range(len(codes)))
    (clients_folder / f"{surface}.mjs").write_text(program)
    process = subprocess.run(
        [node(), f"{surface}.mjs"], cwd=clients_folder, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    assert records_of(recorder) == expected_records
