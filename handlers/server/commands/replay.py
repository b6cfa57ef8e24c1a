"""The command that replays a file of purchases against a running server, as an integrating system would send them."""

from __future__ import annotations

import re
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import click
from sqlalchemy import Connection

from handlers.server.commands.api_client import ApiClient
from handlers.server.commands.context import as_fields, json_option, load_settings, migrated_engine, print_json
from handlers.server.commands.progress import progress_bar
from handlers.server.commands.purchases import Purchase, read_purchases
from handlers.server.commands.server_address import server_url
from handlers.server.commands.tenant import find_or_create, new_operator_token
from handlers.settings import Settings
from persistence import transactions

EVENT_TYPE = "member-purchase-order-created"
CAMPAIGN_CODE = "one-point-per-dollar"

# Members are distributed over lanes, which run in parallel. The number of lanes is fixed, so that a run after an
# interrupted one has the same batches.
_LANES = 4
_BATCH = 100
_EXISTS_BATCH = 1000
_MAX_FAILURES_LISTED = 5
_MAX_NAME = 100
# Held while the organization is looked up and created, so that two replays of a file do not create two.
_ORGANIZATION_LOCK = 0x6C6F79616C7403

Item = TypeVar("Item")
Result = TypeVar("Result")


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--base-url", help="Where the server is reached (LOYALTY_BASE_URL, or by host and port).")
@click.option("--organization", type=click.IntRange(1), help="Id of an organization to use, with --token.")
@click.option("--token", help="An access token of that organization; by default one is created in the database.")
@json_option
def replay(file: Path, base_url: str | None, organization: int | None, token: str | None, as_json: bool) -> None:
    """Try a loyalty program on the purchases of a file.

    Turns past sales into points on a running server: to load it with data that looks real, to compare campaigns on the
    purchases of a past year, or to see how fast your machine is; `make demo` replays a public data set. It is no way
    to migrate, since it recomputes the points.

    Each line is `customer_id date number_of_cds dollar_value`, after a line with these headings. The organization is
    named after the file and made in the database unless it is there, with a campaign of one point for each whole dollar
    of an order; what is already tracked is not tracked again, so a replay that was interrupted is completed.
    """
    if (organization is None) != (token is None):
        raise click.UsageError("give both --organization and --token, or neither")
    purchases = read_purchases(file)
    settings = load_settings(base_url=base_url)
    if organization is None or token is None:
        organization, token = _own_organization(settings, file.stem)
    with ApiClient(server_url(settings), token, _LANES) as api, ThreadPoolExecutor(_LANES) as pool:
        outcome = _Replay(api, pool, organization, _key_prefix(file.stem)).run(purchases)
    if as_json:
        print_json(as_fields(outcome))
    else:
        click.echo(outcome.summary())
    if outcome.failures:
        raise click.exceptions.Exit(1)


def _own_organization(settings: Settings, stem: str) -> tuple[int, str]:
    """The oldest organization named after the file, created if it is missing, and a token for its administration."""
    name = "".join(filter(str.isprintable, stem)).strip()[:_MAX_NAME] or "Replay"

    def with_token(db: Connection) -> tuple[int, str]:
        tenant = find_or_create(db, name=name, by_name=True, lock=_ORGANIZATION_LOCK)
        return tenant.organization_id, new_operator_token(db, settings, tenant.organization_id, is_admin=True)

    with migrated_engine(settings) as engine:
        return transactions.run(engine, with_token)


def _key_prefix(stem: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[:_MAX_NAME] or "purchase"


@dataclass(slots=True)
class ReplayOutcome:
    """The outcome of a replay; amounts are points, as the server reports them at its end.

    `minted_before` is the amount at its beginning.
    """

    organization: str
    orders: int
    members: int
    enrolled: int = 0
    tracked: int = 0
    minted_before: Decimal = Decimal(0)
    minted: Decimal = Decimal(0)
    top_member: str = ""
    top_points: Decimal = Decimal(0)
    enrolling_seconds: float = 0.0
    tracking_seconds: float = 0.0
    failures: list[str] = field(default_factory=list)

    def summary(self) -> str:
        """The outcome in some lines for people, with a last line if nothing changed."""
        failed = len(self.failures)
        repeated = self.orders - self.tracked - failed
        rate = self.orders / max(self.tracking_seconds, 0.001)
        seconds = self.enrolling_seconds + self.tracking_seconds
        times = f"{seconds:,.1f} s, {self.enrolling_seconds:,.1f} s of them for members; {rate:,.0f} events a second"
        lines = [
            f"Organization   {self.organization}",
            f"Orders         {self.orders:,}: {self.tracked:,} new, {repeated:,} repeated, {failed:,} failed",
            f"Members        {self.members:,}: {self.enrolled:,} new",
            f"Points minted  {self.minted:,} in all, {self.minted - self.minted_before:,} by this run",
            f"Top member     {self.top_member} with {self.top_points:,} points",
            f"Time           {times}",
        ]
        lines += [f"Failed         {failure}" for failure in self.failures[:_MAX_FAILURES_LISTED]]
        if failed > _MAX_FAILURES_LISTED:
            lines.append(f"Failed         and {failed - _MAX_FAILURES_LISTED:,} more")
        if not failed and repeated == self.orders and self.minted == self.minted_before and not self.enrolled:
            lines.append("Nothing changed: all of it had been tracked before, and got the first responses again.")
        return "\n".join(lines)


class _Replay:
    """One run against one organization of a server."""

    def __init__(self, api: ApiClient, pool: ThreadPoolExecutor, organization_id: int, key_prefix: str) -> None:
        self._api = api
        self._pool = pool
        self._path = f"/organizations/{organization_id}"
        self._key_prefix = key_prefix
        self._points: dict[str, Decimal] = {}

    def run(self, purchases: Sequence[Purchase]) -> ReplayOutcome:
        """Create the campaign, enrol the members, track the purchases, and read the results."""
        started_at = time.monotonic()
        name = self._api.get(self._path)["organization"]["name"]
        members = list(dict.fromkeys(purchase.customer_id for purchase in purchases))
        outcome = ReplayOutcome(name, len(purchases), len(members), minted_before=self._account()["issued"])
        self._prepare_campaign()
        outcome.enrolled = self._enrol(members)
        enrolled_at = time.monotonic()
        self._track(_lanes(purchases, members), outcome)
        outcome.enrolling_seconds = enrolled_at - started_at
        outcome.tracking_seconds = time.monotonic() - enrolled_at
        outcome.minted = self._account()["issued"]
        outcome.top_member = max(self._points, key=self._points.__getitem__)
        outcome.top_points = self._balance(outcome.top_member)
        return outcome

    def _prepare_campaign(self) -> None:
        """Create the campaign, one point for each whole dollar of an order, and its action, unless they exist."""
        campaigns = f"{self._path}/campaigns"
        existing_campaigns = self._api.get(campaigns, codes=CAMPAIGN_CODE)["results"]
        if existing_campaigns:
            campaign = existing_campaigns[0]
        else:
            body = {"code": CAMPAIGN_CODE, "name": "One point for each whole dollar", "eventType": EVENT_TYPE}
            campaign = self._api.post(campaigns, body)["campaign"]
        actions = f"{campaigns}/{campaign['campaignId']}/actions"
        if not self._api.get(actions)["results"]:
            mint = {"effectId": "mint-points", "params": [{"id": "amount", "expression": "floor(order.total)"}]}
            self._api.post(actions, {"status": "running", "priority": 1, "effects": {"items": [mint]}})

    def _enrol(self, members: Sequence[str]) -> int:
        """Create the missing members. Returns their number."""
        existing_ids: set[str] = set()
        for batch in _batches(members, _EXISTS_BATCH):
            existing_members = self._api.post("/members/exists", {"loyaltyMemberIds": batch})["loyaltyMembers"]
            existing_ids.update(loyalty_member["loyaltyMemberId"] for loyalty_member in existing_members)
        new_ids = iter([member for member in members if member not in existing_ids])
        created_count = 0
        with progress_bar("Members", len(members), "member", len(existing_ids)) as bar:
            for is_new in self._run_lanes(self._create_member, [new_ids] * _LANES):
                created_count += is_new
                bar.update()
        return created_count

    def _create_member(self, loyalty_member_id: str) -> bool:
        """Create a member; return False if the member already exists."""
        return self._api.post_unless("member-exists", "/members", {"loyaltyMemberId": loyalty_member_id})

    def _track(self, lanes: Sequence[Sequence[Purchase]], outcome: ReplayOutcome) -> None:
        """Track the purchases of all lanes; add the counts and failures to the outcome."""
        batches = [_batches(lane, _BATCH) for lane in lanes]
        with progress_bar("Purchases", outcome.orders, "purchase") as bar:
            for batch, results, tracked in self._run_lanes(self._track_batch, batches):
                outcome.tracked += tracked
                for purchase, result in zip(batch, results, strict=True):
                    if result["status"] == "failed":
                        outcome.failures.append(f"line {purchase.number + 1}: {result['error']['detail']}")
                    before = self._points.get(purchase.customer_id, Decimal(0))
                    self._points[purchase.customer_id] = before + _points_of(result)
                bar.update(len(batch))

    def _track_batch(self, batch: list[Purchase]) -> tuple[list[Purchase], list[Any], int]:
        """Track a batch. Returns its purchases and results, and the number of events tracked for the first time."""
        events = [self._event(purchase) for purchase in batch]
        results = self._api.post("/events/track", {"events": events})["results"]
        keys = [result["loyaltyEventKey"] for result in results if result["status"] != "failed"]
        return batch, results, self._count_new(keys)

    def _event(self, purchase: Purchase) -> dict[str, Any]:
        """The event of a purchase; its key depends only on the file and the line, so a repeated run repeats it."""
        key = f"{self._key_prefix}-{purchase.number:06}"
        return {
            "loyaltyMemberId": purchase.customer_id,
            "systemUniqueKey": key,
            "externalId": key,
            "eventType": EVENT_TYPE,
            "externalEventDate": purchase.at,
            "payload": {
                "order": {
                    "externalId": key,
                    "externalEventDate": purchase.at,
                    "total": purchase.total,
                    "items": [{"quantity": purchase.quantity, "total": purchase.total}],
                }
            },
        }

    def _count_new(self, keys: Sequence[str]) -> int:
        """Count the events of a batch that this run was the first to track.

        Each run tracks the purchases of a lane in the order of the file. Therefore an earlier run that was interrupted
        has tracked the first events of a batch, and the new events are the last ones.
        """
        if not keys or self._is_new(keys[0]):
            return len(keys)
        if not self._is_new(keys[-1]):
            return 0
        return len(keys) - bisect_left(keys, True, key=self._is_new)

    def _is_new(self, key: str) -> bool:
        """True if this run was the first to track the event.

        The response to a repeated event equals the first one, but the record of an event has the id of the first
        request.
        """
        return str(self._api.get(f"/events/{key}")["event"]["e2eTrackingId"]).startswith(self._api.run_id)

    def _run_lanes(self, work: Callable[[Item], Result], lanes: Sequence[Iterator[Item]]) -> Iterator[Result]:
        """Run the lanes in parallel, the items of a lane one by one; yield the results of `work` as they complete."""
        running: dict[Future[Result], Iterator[Item]] = {}

        def start(lane: Iterator[Item]) -> None:
            """Submit the next item of a lane, if it has one."""
            for item in islice(lane, 1):
                running[self._pool.submit(work, item)] = lane

        for lane in lanes:
            start(lane)
        while running:
            finished_futures, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in finished_futures:
                start(running.pop(future))
                yield future.result()

    def _account(self) -> Any:
        """The account that campaigns mint points in: the default account of the default ledger."""
        [ledger] = [result for result in self._api.get(f"{self._path}/ledgers")["results"] if result["isDefault"]]
        accounts = self._api.get(f"{self._path}/ledgers/{ledger['ledgerId']}/accounts")["results"]
        [account] = [account for account in accounts if account["isDefaultAccount"]]
        return account

    def _balance(self, loyalty_member_id: str) -> Decimal:
        """The balance of a member in the account that campaigns mint points in."""
        member = self._api.get(f"/members/{quote(loyalty_member_id, safe='')}")["loyaltyMember"]
        account_id = self._account()["ledgerAccountId"]
        balances = {
            ledger_balance["ledgerAccountId"]: ledger_balance["balance"] for ledger_balance in member["ledgerBalances"]
        }
        return Decimal(balances[account_id])


def _lanes(purchases: Sequence[Purchase], members: Sequence[str]) -> list[list[Purchase]]:
    """The purchases of each lane, in file order.

    All purchases of a member are in one lane, so that they are tracked in this order.
    """
    lane_of = {member: index % _LANES for index, member in enumerate(members)}
    lanes: list[list[Purchase]] = [[] for _ in range(_LANES)]
    for purchase in purchases:
        lanes[lane_of[purchase.customer_id]].append(purchase)
    return lanes


def _batches(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    remaining_items = iter(items)
    while batch := list(islice(remaining_items, size)):
        yield batch


def _points_of(result: Any) -> Decimal:
    """The points that one event minted for its member."""
    mints = [
        effect for effect in result["effects"] if effect["effectId"] == "mint-points" and effect["status"] == "executed"
    ]
    params = [param for mint in mints for param in mint["params"]]
    return sum((param["value"] for param in params if param["id"] == "amount"), Decimal(0))
