"""How long the way of one call through the code is: `python -m bench.way_of_a_call [--calls] [OPERATION ...]`.

For each operation the functions of the product that its thread calls, the files that they are in, how often control
returns to a file that it had left, and the statements that go to the database. The organization has one member and one
campaign, which mints; caches are warm, since the same call has been made before. `--calls` lists the files, with the
number of functions called in each.

These figures depend neither on the machine nor on its load, but on the version of Python: from 3.12 on a comprehension
is no function.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

import httpx
from sqlalchemy import event

from handlers.http.app import create_app
from handlers.services.organizations.create import CreatedOrganization, create_organization
from handlers.services.tokens import issue_operator_token
from handlers.settings import Settings
from persistence import embedded, schema, transactions
from persistence.engine import create_engine

_ROOT = Path(__file__).parent.parent
_PRODUCT = tuple(f"{_ROOT / folder}/" for folder in ("domain", "handlers", "openapi", "persistence"))
_WARM_UP = 3
_PAUSE_SECONDS = 0.1
_ORDER_CREATED = "member-purchase-order-created"
_ONE_FOR_EACH_DOLLAR = {
    "items": [{"effectId": "mint-points", "params": [{"id": "amount", "expression": "floor(order.total)"}]}]
}


@dataclass
class Way:
    """The way of one call: the calls of functions in each file, how often control returned to a file, the SQL."""

    calls: Counter[str] = field(default_factory=Counter)
    returns: int = 0
    statements: list[str] = field(default_factory=list)

    def row(self, name: str) -> str:
        """A row of the table."""
        return f"| `{name}` | {self.calls.total()} | {len(self.calls)} | {self.returns} | {len(self.statements)} |"


class Tracer:
    """Records the way of a call on the thread that works on it; to be installed before the application has threads."""

    def __init__(self) -> None:
        self._way: Way | None = None
        self._file = ""

    def install(self) -> None:
        """Watch all threads that begin from now on."""
        threading.setprofile(self._record)

    @contextmanager
    def recording(self) -> Iterator[Way]:
        """Record the way of the calls in the block."""
        self._way, self._file = Way(), ""
        try:
            yield self._way
        finally:
            self._way = None

    def record_statement(self, connection: Any, cursor: Any, statement: str, *rest: Any) -> None:
        """Count a statement; to listen to the engine."""
        if self._way is not None:
            self._way.statements.append(statement)

    def _record(self, frame: FrameType, kind: str, argument: Any) -> None:
        """Record calls of functions of the product, and returns to a file that was called before; for `setprofile`."""
        way, file = self._way, frame.f_code.co_filename
        if way is None or kind not in ("call", "return") or not file.startswith(_PRODUCT):
            return
        if kind == "call":
            if file != self._file and file in way.calls:
                way.returns += 1
            way.calls[file] += 1
        self._file = file


@dataclass(frozen=True)
class Shop:
    """The application with an organization of one member, and a client that calls it."""

    call: Callable[[str, str, Any], Any]
    organization: CreatedOrganization
    book_key: str

    def operations(self) -> dict[str, Callable[[], Any]]:
        """A call of each operation, none of which repeats another."""
        by_id = f"/organizations/{self.organization.organization_id}/members/by-loyalty-member-id/ana"
        use = f"/members/ana/coupon-books/{self.book_key}/use"
        return {
            "trackEvents": lambda: self.call("POST", "/events/track", {"events": [_purchase()]}),
            "useCoupon": lambda: self.call("POST", use, {"systemUniqueKey": _key(), "autoAssign": True}),
            "mintMemberPoints": lambda: self.call("POST", f"{by_id}/mint", {"amount": 5, "systemUniqueKey": _key()}),
            "getMember": lambda: self.call("GET", "/members/ana", None),
        }


def _key() -> str:
    return str(uuid.uuid4())


def _purchase() -> dict[str, Any]:
    return {
        "loyaltyMemberId": "ana",
        "systemUniqueKey": _key(),
        "eventType": _ORDER_CREATED,
        "payload": {"order": {"externalId": _key(), "total": 12.5}},
    }


def _new_shop(app: Any, settings: Settings, engine: Any) -> Shop:
    """Create an organization with a campaign, a member and a coupon book, by calls of the application."""
    now = datetime.now(UTC)
    organization = transactions.run(engine, lambda db: create_organization(db, name="Way of a call", now=now))
    token = transactions.run(
        engine,
        lambda db: issue_operator_token(
            db,
            settings,
            organization_id=organization.organization_id,
            roles=frozenset(),
            is_admin=True,
            lifetime=3600,
            now=now,
        ),
    )

    def call(method: str, path: str, body: Any) -> Any:
        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(app=app)
            async with httpx.AsyncClient(transport=transport, base_url="http://loyalty.test") as client:
                headers = {"Authorization": f"Bearer {token}"}
                return await client.request(method, f"/v2{path}", json=body, headers=headers)

        response = asyncio.run(send())
        if response.status_code >= 300:
            sys.exit(f"{method} {path} returned {response.status_code}: {response.text}")
        return json.loads(response.text)

    administration = f"/organizations/{organization.organization_id}"
    campaign = call("POST", f"{administration}/campaigns", {"code": "c", "name": "C", "eventType": _ORDER_CREATED})
    action = {"effects": _ONE_FOR_EACH_DOLLAR, "status": "running", "priority": 1}
    call("POST", f"{administration}/campaigns/{campaign['campaign']['campaignId']}/actions", action)
    call("POST", "/members", {"loyaltyMemberId": "ana"})
    book = {"name": "Free coffee", "type": "codeless", "publishingStatus": "published"}
    return Shop(call, organization, call("POST", "/coupon-books", book)["couponBook"]["couponBookKey"])


def main() -> None:
    """Measure the operations and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("operations", nargs="*", metavar="OPERATION", help="all unless named")
    parser.add_argument("--calls", action="store_true", help="list the files, with the functions called in each")
    options = parser.parse_args()
    tracer = Tracer()
    tracer.install()
    with tempfile.TemporaryDirectory(prefix="loyalty-way-") as folder:
        Path(folder).chmod(0o711)
        with embedded.server(Path(folder) / "home") as url:
            settings = Settings(database_url=url, log_level="WARNING")
            engine = create_engine(url, threads=settings.threads)
            schema.migrate(engine)
            event.listen(engine, "before_cursor_execute", tracer.record_statement)
            operations = _new_shop(create_app(settings, engine), settings, engine).operations()
            if unknown := set(options.operations) - operations.keys():
                parser.error(f"no operation is named {', '.join(sorted(unknown))}; known: {', '.join(operations)}")
            print("| operation | calls of functions | files | returns to a file | statements |")
            print("|---|---|---|---|---|", flush=True)
            for name, call in operations.items():
                if not options.operations or name in options.operations:
                    _report(name, call, tracer, with_files=options.calls)
            engine.dispose()


def _report(name: str, call: Callable[[], Any], tracer: Tracer, *, with_files: bool) -> None:
    """Record one call of an operation after a warm-up, and print it as a row; `with_files` also lists its files."""
    for _ in range(_WARM_UP):
        call()
    # The thread of the call before goes on for a moment after its response, and would be recorded.
    time.sleep(_PAUSE_SECONDS)
    with tracer.recording() as way:
        call()
        time.sleep(_PAUSE_SECONDS)
    print(way.row(name), flush=True)
    if with_files:
        for file, calls in way.calls.most_common():
            print(f"    {calls:4} {Path(file).relative_to(_ROOT)}")


if __name__ == "__main__":
    main()
