"""The served playground, and its modules that need no page: completion, and requests as code."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

import handlers.http
from tests.http.support import operation, parameter, serve
from tests.npm import node

SITE = Path(handlers.http.__file__).with_name("site")
PATHS = {
    "/books/{code}": {"get": operation("getBook", parameters=[parameter("code", {"type": "string"}, "path")])},
}
# The first view of a page, compressed, should not weigh more.
MOST_BYTES = 300_000


@pytest.fixture(scope="module")
def client():
    return serve(PATHS)[0]


def get(client, path):
    return client("GET", path, token=None, headers={"Accept-Encoding": "gzip"})


def test_the_page_and_all_that_it_loads_come_from_the_server(client):
    page = get(client, "/playground")
    assert page.status == 200
    assert "script-src 'self'" in page.headers["content-security-policy"]
    sizes, to_do = {}, ["playground.js", "playground.css", "event-schema.json"]
    while to_do:
        name = to_do.pop()
        if name not in sizes:
            reply = get(client, f"/playground/{name}")
            assert reply.status == 200, name
            sizes[name] = len(reply.content)
            if name.endswith(".js"):
                to_do += re.findall(r'^import .* from "\./([^"]+)";$', (SITE / name).read_text(), re.M)
    assert len(sizes) == 10
    assert sum(sizes.values()) < MOST_BYTES


def test_the_schema_of_payloads_has_no_references(client):
    schema = client("GET", "/playground/event-schema.json", token=None).json
    assert "ledger-transaction-created" in schema["reported"]
    assert "member-purchase-order-created" not in schema["reported"]
    items = schema["payload"]["properties"]["order"]["properties"]["items"]
    assert {"productCode", "quantity", "total"} <= set(items["items"]["properties"])
    assert "$ref" not in json.dumps(schema)


def run(source: str):
    """What a module of JavaScript prints as JSON, run in the folder of the site."""
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
    ("text", "names"),
    [
        ('{"', ["order", "payment"]),
        ('{"p', ["payment"]),
        ('{"order": {"t', ["total", "type"]),
        ('{"order": {"total": 5, "ty', ["type"]),
        ('{"order": {"items": [{"productCode": "a, {b"}, {"p', ["productCode", "price"]),
        ('{"order": {"total": 5}, "', ["order", "payment"]),
        # A value, an unknown object, and nothing that is being typed.
        ('{"order": {"type": "t', []),
        ('{"other": {"t', []),
        ('{"order": ', []),
        ('{"order": {"items": ["p', []),
    ],
)
def test_fields_are_completed_where_the_cursor_is(text, names):
    completions = run(
        f"""import {{ placeAt, suggestions }} from "./playground-editor.js";
        const text = {json.dumps(text)};
        const found = suggestions({json.dumps(SCHEMA)}, placeAt(text, text.length));
        console.log(JSON.stringify(found.map(({{ name }}) => name)));"""
    )
    assert completions == names


@pytest.mark.parametrize(
    ("before", "after", "expected_text"),
    [
        ('{"order": {"to', "}}", '{"order": {"total": }}'),
        ('{"order": {"to', '": 5}}', '{"order": {"total": 5}}'),
        ('{"order": {"to', 'xx": 5}}', '{"order": {"total": 5}}'),
    ],
)
def test_a_chosen_field_replaces_what_was_typed(before, after, expected_text):
    result = run(
        f"""import {{ completed }} from "./playground-editor.js";
        const [before, after] = {json.dumps([before, after])};
        console.log(JSON.stringify(completed(before + after, before.length, "to", "total")));"""
    )
    assert result["text"] == expected_text


BEANS = {"ledgerAccountKey": "beans", "ledgerAccountId": 1, "name": "Beans", "isDefaultAccount": True}
STARS = {"ledgerAccountKey": "stars", "ledgerAccountId": 2, "name": "Stars", "isDefaultAccount": False}


def effect_on_points(effect_id="mint-points", **more):
    """An effect of campaign 5 as a response has it."""
    values = {"ledgerAccountKey": None, "recipient": "member", "expirationDate": None} | more
    wait = {"availableAt": values.pop("availableAt")} if "availableAt" in values else {}
    params = [{"id": name, "value": value} for name, value in values.items()]
    return {"effectId": effect_id, "campaignId": 5, "params": params, **wait}


def entries_of(*effects, earn=None, accounts=(BEANS, STARS), **more):
    """The rows of the ledger entries of a result; ana has 10.1 beans."""
    result = {"effects": effects, "missions": [], "referrals": [], **more}
    wallet = {"walletId": 7, "currentBalance": 10.1, "currentOverdraftBalance": 0, "pending": 0}
    outcome = {"result": result, "wallets": [wallet | BEANS], "accounts": accounts, "mainAccounts": {"5": 1}}
    return run(
        f"""import {{ entriesOf }} from "./playground-ledger.js";
        const outcome = {json.dumps({**outcome, "memberId": "ana"})};
        console.log(JSON.stringify(entriesOf({{ ...outcome, earn: {json.dumps(earn)} ?? undefined }})));"""
    )


def test_each_ledger_entry_has_the_balances_around_it():
    reward = {"kind": "points", "amount": 5, "ledgerAccountKey": "stars"}
    rows = entries_of(
        effect_on_points(amount=0.2),
        effect_on_points("burn-points", amount=3),
        effect_on_points(amount=0),
        {"effectId": "assign-badge", "campaignId": 5, "params": [{"id": "amount", "value": 1}]},
        missions=[{"rewards": [reward, {"kind": "badge", "amount": 1}]}],
    )
    assert [tuple(row[name] for name in ("account", "member", "amount", "before", "after")) for row in rows] == [
        ("Stars", "ana", 5, 0, 5),
        ("Beans", "ana", 0.2, 10.1, 10.3),
        ("Beans", "ana", -3, 10.3, 7.3),
    ]


def test_points_that_wait_do_not_change_the_balance():
    [waiting, awaiting] = entries_of(
        effect_on_points(amount=4, availableAt="2026-12-24T00:00:00Z"), effect_on_points(amount=4, availableAt=None)
    )
    assert (waiting["before"], waiting["after"], waiting["availableAt"]) == (10.1, 10.1, "2026-12-24T00:00:00Z")
    assert (awaiting["after"], awaiting["availableAt"]) == (10.1, None)


def test_entries_expire_at_their_own_date_or_at_that_of_the_account():
    own = effect_on_points(amount=1, expirationDate="2027-01-01T00:00:00Z")
    mint = effect_on_points(amount=1)

    def expiries(expires_at, *effects):
        earn = {"effects": effects, "missions": [], "accounts": [BEANS | {"expiresAt": expires_at}]}
        return [row.get("expires") for row in entries_of(earn=earn)]

    later = "2027-06-01T00:00:00Z"
    assert expiries(later, mint) == [{"at": later, "isFirst": False}]
    assert expiries(later, mint, own) == [{"at": later, "isFirst": True}, {"at": own_date(own), "isFirst": False}]
    assert expiries(None, mint) == [{"at": None, "isFirst": False}]
    assert expiries(later, effect_on_points("burn-points", amount=1)) == [None]
    assert [row.get("expires") for row in entries_of(mint)] == [None]


def own_date(effect):
    [date] = [param["value"] for param in effect["params"] if param["id"] == "expirationDate"]
    return date


def test_balances_that_the_responses_do_not_show_are_unknown():
    referral = {"rewards": [{"recipient": "referrer", "memberId": 3, "points": 20, "ledgerAccountId": 1}]}
    [sponsored, debt, referred] = entries_of(
        effect_on_points(amount=2, recipient="sponsor"),
        effect_on_points("burn-points", amount=11),
        referrals=[referral],
    )
    assert (sponsored["member"], sponsored["before"], sponsored["after"]) == ("sponsor", None, None)
    assert (debt["before"], debt["after"]) == (10.1, None)
    assert (referred["member"], referred["account"], referred["after"]) == ("member 3", "Beans", None)
    refunds = [{"tender": "points", "amount": 6, "points": 600}, {"tender": "card", "amount": 6, "points": None}]
    [refund, mint] = entries_of(effect_on_points(amount=2), refunds=refunds)
    assert (refund["account"], refund["amount"], refund["after"], mint["after"]) == ("unknown", 600, None, None)
    [unnamed] = entries_of(effect_on_points(amount=2), accounts=[])
    assert (unnamed["account"], unnamed["before"]) == ("Account 1", None)


def test_a_return_lists_what_it_reverts():
    def reverted(kind, amount, wallet_id, outcome="reverted"):
        transaction = {"transactionType": kind, "revertedAmount": amount, "walletId": wallet_id, "outcome": outcome}
        return transaction | {"ledgerAccountKey": "beans"}

    transactions = [
        reverted("burn", 2, 7),
        reverted("mint", 5, 7),
        reverted("mint", 1, 8),
        reverted("mint", 9, 7, "released"),
    ]
    rows = entries_of(reverted=[{"ledgerTransactions": transactions}])
    assert [(row["member"], row["amount"], row["after"]) for row in rows] == [
        ("ana", 2, 12.1),
        ("ana", -5, 7.1),
        ("another member", -1, None),
    ]


def codes_of(**request):
    """A request in each language."""
    return run(
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
    codes = codes_of(path="/events/track", body=body)
    assert list(codes) == ["curl", "Python", "TypeScript", "PHP", "Java"]
    output = subprocess.run(
        ["bash", "-c", codes["curl"].replace("curl -sS", "printf '%s\\n'")], capture_output=True, text=True, check=True
    ).stdout
    assert json.loads(output.partition("-d\n")[2]) == body
    [json_argument] = re.findall(r"json=(.*),\n\)\nresponse\.raise", codes["Python"], re.S)
    assert eval(json_argument) == body
    for text in codes.values():
        assert "http://127.0.0.1:8080/v2" in text


def test_a_request_without_a_body_has_its_parameters_in_every_language():
    codes = codes_of(
        method="GET", path="/members/{id}/balances", pathValues={"id": "o'neill/1"}, query={"tags": "a b,c"}
    )
    address = "http://127.0.0.1:8080/v2/members/o'neill%2F1/balances"
    assert arguments_of(codes["curl"]) == [f"{address}?tags=a+b%2Cc", "-H", "Authorization: Bearer "]
    assert f'httpx.get(\n    "{address}",' in codes["Python"]
    assert 'params={\n        "tags": "a b,c"\n    },' in codes["Python"]
    assert 'client.GET("/members/{id}/balances", {' in codes["TypeScript"]
    assert '"path": {\n      "id": "o\'neill/1"\n    }' in codes["TypeScript"]
    assert ".GET()" in codes["Java"]
    assert not any("Content-Type" in code for code in codes.values())


def test_a_form_and_a_key_are_written_as_such():
    form = "application/x-www-form-urlencoded"
    codes = codes_of(path="/oauth/token", type=form, body={"client_secret": "it's one"}, auth=None)
    assert arguments_of(codes["curl"])[-2:] == ["--data-urlencode", "client_secret=it's one"]
    assert 'data={\n        "client_secret": "it\'s one"\n    },' in codes["Python"]
    assert not any("Authorization" in code for code in codes.values())
    key = {"header": "x-api-key", "prefix": "", "variable": "API_KEY"}
    for language, code in codes_of(path="/a", body={}, auth=key).items():
        assert "x-api-key" in code, language
        assert "API_KEY" in code, language
        assert "Bearer" not in code, language
