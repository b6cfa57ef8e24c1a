"""Members enrolled one by one and in batches: `python -m bench.enrolling`.

The world of `bench.tracking`, durable as in production, with a campaign that gives every new member points. One server
process. Prints a table for `docs/performance.md`. Trust the ratios: machines differ, and are shared.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Iterator

from bench import load, tracking
from bench.tracking import World, new_world, serving

# operation, clients, members in a call
MEASURED = (("createMember", 1, 1), ("createMember", 8, 1), ("createMembers", 1, 10), ("createMembers", 1, 100))

# The rows of one new member, in a transaction of its own; no rules.
PGBENCH_SCRIPT = """
BEGIN;
INSERT INTO wallets (organization_id, wallet_key, ledger_id, created_at)
VALUES (:organization, gen_random_uuid(), :ledger, now()) RETURNING wallet_id AS wallet, wallet_key AS key \\gset
INSERT INTO members (organization_id, loyalty_member_id, public_loyalty_member_id, wallet_id, wallet_key, profile,
    member_type, created_at, updated_at)
VALUES (:organization, gen_random_uuid()::text, gen_random_uuid()::text, :wallet, CAST(:key AS uuid),
    json_build_object('name', 'Name', 'lastName', 'Last name', 'email', gen_random_uuid() || '@example.com',
        'birthdate', '1990-04-12', 'city', 'Rosario'), 'regular', now(), now())
RETURNING member_id AS member \\gset
INSERT INTO events (organization_id, loyalty_event_key, member_id, event_type, payload, system_unique_key,
    request_digest, evaluation_status, status, limit_counters, result, created_at, updated_at)
VALUES (:organization, gen_random_uuid(), :member, 'member-created', '{}', gen_random_uuid()::text, sha256('request'),
    1, 'success', '[]', '{}', now(), now());
INSERT INTO audit_log (organization_id, created_at, actor, operation_id, entity_type, entity_id, member_ids, changes,
    salt, personal_digest, digest)
VALUES (:organization, now(), 'benchmark', 'createMember', 'member', CAST(:member AS text),
    ARRAY[CAST(:member AS bigint)], '{}', sha256('salt'), sha256('personal'), sha256('entry'))
RETURNING audit_log_id AS entry \\gset
INSERT INTO unsealed_audit_log (organization_id, audit_log_id) VALUES (:organization, :entry);
COMMIT;
"""


def new_member(number: int) -> dict[str, object]:
    """The body of a new member."""
    profile = {
        "name": f"Name {number}",
        "lastName": f"Last name {number}",
        "email": f"m{number}@example.com",
        "birthdate": "1990-04-12",
        "city": "Rosario",
    }
    return {"loyaltyMemberId": f"enrolled-{number}", "profile": profile, "memberType": "regular"}


def enrolments_of(world: World, numbers: Iterator[int], operation: str, size: int) -> load.MakeRequest:
    """Requests that enrol so many new members each."""

    def make() -> bytes:
        bodies = [new_member(next(numbers)) for _ in range(size)]
        path, body = ("/v2/members", bodies[0]) if operation == "createMember" else ("/v2/members/batch", bodies)
        request_body = body if operation == "createMember" else {"members": body}
        return load.request("POST", path, world.token, json.dumps(request_body).encode())

    return make


def main() -> None:
    """Run everything and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=8, help="how long each measurement takes")
    parser.add_argument("--operation", choices=("createMember", "createMembers"), help="measure one operation alone")
    options = parser.parse_args()
    with new_world() as (world, _):
        _report(world, options.seconds, options.operation)


def _report(world: World, seconds: int, operation: str | None) -> None:
    """Measure each operation, or only `operation`, and print each measurement as a row of the table."""
    numbers = itertools.count(1)
    print("| operation | clients | members a call | members/s | p50 ms | p99 ms | failures |")
    print("|---|---|---|---|---|---|---|", flush=True)
    with serving(world, 1) as port:
        _add_campaign(tracking.Client(port, world, numbers), world)
        for name, clients, size in MEASURED:
            if operation in (None, name):
                make = enrolments_of(world, numbers, name, size)
                load.closed_loop(port, clients, 1, make)
                result = load.closed_loop(port, clients, seconds, make)
                print(
                    f"| `{name}` | {clients} | {size} | {result.rate * size:.0f} | {result.percentile(50):.1f} "
                    f"| {result.percentile(99):.1f} | {result.failures} |",
                    flush=True,
                )


def _add_campaign(client: tracking.Client, world: World) -> None:
    base = f"/v2/organizations/{world.organization.organization_id}/campaigns"
    body = {"code": "welcome", "name": "Welcome", "eventType": "member-created"}
    campaign = client.call("POST", base, body)["campaign"]
    effect = {"effectId": "mint-points", "params": [{"id": "amount", "value": 10}]}
    action = {"status": "running", "priority": 1, "effects": {"items": [effect]}}
    client.call("POST", f"{base}/{campaign['campaignId']}/actions", action)


if __name__ == "__main__":
    main()
