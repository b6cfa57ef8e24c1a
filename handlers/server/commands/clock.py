"""Commands on the test clock of an organization: show, start, advance and remove it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from handlers.server.commands.context import (
    OrganizationCalls,
    json_option,
    load_settings,
    migrated_engine,
    organization_by_name,
    print_result,
)
from handlers.server.commands.progress import elapsed_time
from persistence import transactions

if TYPE_CHECKING:
    from domain.organizations import OrganizationDetails


class _Moment(click.ParamType[datetime]):
    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """The moment of an RFC 3339 text."""
        from domain.calendar import instant_of

        try:
            return value if isinstance(value, datetime) else instant_of(value)
        except ValueError:
            self.fail(f"{value} is not a moment such as 2026-03-01T09:00:00Z", param, ctx)


@click.group()
def clock() -> None:
    """Move the time of a test organization.

    Between these moves it does not move. Points expire and tiers end at their moments on the way.
    """


@clock.command()
@organization_by_name
@json_option
def show(organization: str, as_json: bool) -> None:
    """Print what the clock shows, and how far an advance is."""
    with _clock_client(organization) as client:
        # Refuses an organization without a clock.
        client.call("getTestClock")
        _print(client.organization(), as_json)


@clock.command()
@organization_by_name
@click.option(
    "--at", "starts_at", type=_Moment(), metavar="MOMENT", help="Where it begins; the real time unless given."
)
@json_option
def start(organization: str, starts_at: datetime | None, as_json: bool) -> None:
    """Stop the time of the organization."""
    with _clock_client(organization) as client:
        client.call("createTestClock", {} if starts_at is None else {"startsAt": starts_at.isoformat()})
        _print(client.organization(), as_json)


@clock.command()
@organization_by_name
@click.option("--to", type=_Moment(), metavar="MOMENT", help="The moment that the clock is to show.")
@click.option(
    "--by", metavar="DURATION", help="How far instead, such as P1M, P14D or PT36H, by the organization's zone."
)
@json_option
def advance(organization: str, to: datetime | None, by: str | None, as_json: bool) -> None:
    """Let time pass, and do the work that becomes due on the way.

    A failed advance continues if it is repeated; `show` prints the moment that it reached.
    """
    from domain.durations import duration_of
    from handlers.services.organizations.test_clock import advance_clock

    if (to is None) == (by is None):
        raise click.UsageError("give one of --to and --by")
    with _clock_client(organization) as client:
        if by is not None:
            # Refuses an organization without a clock.
            client.call("getTestClock")
            tenant = client.organization()
            try:
                to = duration_of(by).after(tenant.time_at(datetime.now(UTC)), tenant.zone)
            except ValueError as error:
                raise click.BadParameter(str(error), param_hint="--by") from None
        assert to is not None
        client.call("advanceTestClock", {"to": to.isoformat()})
        with elapsed_time("Advancing"):
            tenant = advance_clock(client.engine, client.settings, client.organization_id, lambda: False)
        _print(tenant, as_json)
    if tenant.clock_error is not None:
        raise click.ClickException(tenant.clock_error)


@clock.command()
@organization_by_name
@json_option
def remove(organization: str, as_json: bool) -> None:
    """Return to the real time."""
    with _clock_client(organization) as client:
        client.call("removeTestClock")
    values = {"organizationId": client.organization_id, "testClock": None}
    print_result(as_json, values, f"Organization {client.organization_id} uses the real time.")


class _ClockClient(OrganizationCalls):
    """The operations on the clock of one organization."""

    def organization(self) -> OrganizationDetails:
        """The current organization."""
        from persistence import organizations

        return transactions.run(self.engine, lambda db: organizations.find_details(db, self.organization_id))


@contextmanager
def _clock_client(organization: str) -> Iterator[_ClockClient]:
    with migrated_engine(load_settings()) as engine:
        yield _ClockClient(engine, organization)


def _print(organization: OrganizationDetails, as_json: bool) -> None:
    from handlers.schemas.test_clock import CLOCK

    clock = CLOCK(organization.test_clock)
    if as_json:
        clock = {"organizationId": organization.organization_id, **clock}
    print_result(as_json, clock)
