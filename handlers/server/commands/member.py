"""The command that prints one member with the timeline."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import click

from domain.timeline.rows import KINDS, PROFILE, amount_text
from handlers.server.commands.context import load_settings, migrated_engine, organization_or_only_one

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from domain.members import Member
    from domain.organizations import Organization
    from handlers.services.members.timeline import TimelinePage
    from handlers.settings import Settings

_MAX_ROWS = 100


@click.command()
@click.argument("loyalty_member_id", metavar="MEMBER")
@click.option("--organization", type=click.IntRange(1), help="Id of the organization; needed if there are several.")
@click.option(
    "--kind", "kinds", multiple=True, type=click.Choice(KINDS), help="Only rows of this kind; may be repeated."
)
@click.option("--limit", type=click.IntRange(1, _MAX_ROWS), default=25, show_default=True, help="How many rows.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: the member and the rows.")
def member(loyalty_member_id: str, organization: int | None, kinds: tuple[str, ...], limit: int, as_json: bool) -> None:
    """Print a MEMBER and what happened, the newest first.

    MEMBER is a loyaltyMemberId. Tiers and balances come first.
    """
    from persistence import transactions

    settings = load_settings()
    with migrated_engine(settings) as engine:
        organization_id = organization_or_only_one(engine, organization)

        def read(db: Connection) -> str:
            return _timeline_text(db, settings, organization_id, loyalty_member_id, kinds, limit, as_json)

        click.echo(transactions.run(engine, read))


def _timeline_text(
    db: Connection,
    settings: Settings,
    organization_id: int,
    loyalty_member_id: str,
    kinds: tuple[str, ...],
    limit: int,
    as_json: bool,
) -> str:
    """The text to print: the member with the first page of the timeline."""
    from handlers.call import ADMINISTRATION, Call
    from handlers.messages.members import MEMBER
    from handlers.schemas.timeline import timeline_page
    from handlers.services.members.timeline import TimelineQuery, timeline_of
    from handlers.services.members.view import view_members
    from persistence import organizations
    from persistence.engine import to_json
    from persistence.members import MEMBERS

    organization = organizations.find(db, organization_id)
    member = MEMBERS.find_by(db, organization_id, loyalty_member_id=loyalty_member_id)
    if organization is None or member is None:
        raise click.ClickException(f"organization {organization_id} has no member {loyalty_member_id}")
    call = Call(
        db=db,
        organization=organization,
        now=organization.time_at(datetime.now(UTC)),
        # The name of the command: no request has made this call.
        request_id="loyalty member",
        caller=None,
        surface=ADMINISTRATION,
        settings=settings,
    )
    [view] = view_members(call, [member], with_balances=True)
    page = timeline_of(db, member, TimelineQuery(limit, kinds))
    if as_json:
        # The same name as in responses of the administration.
        return to_json({"loyalMember": MEMBER.dump(view), "timeline": timeline_page(page)})
    return "\n".join([*_header(member, view), "", *_lines(organization, page)])


def _header(member: Member, view: dict[str, Any]) -> list[str]:
    """The lines with the name, the tiers and the balances."""
    name = " ".join(filter(None, (member.profile.get("name"), member.profile.get("lastName"))))
    state = "" if member.active else "inactive"
    if member.erased_at is not None:
        state = "erased"
    facts = [name, f"member since {member.created_at:%Y-%m-%d}", state]
    lines = [click.style(member.loyalty_member_id, bold=True) + "  " + ", ".join(filter(None, facts))]
    for status in view["tier_status"]:
        if status.tier is not None:
            lines.append(f"Tier: {status.tier.name}")
    for balance in view["ledger_balances"]:
        debt = balance.current_overdraft_balance
        debt_text = f", and a debt of {amount_text(debt)}" if debt else ""
        lines.append(f"Balance: {amount_text(balance.current_balance)} {balance.ledger_account_name}{debt_text}")
    return lines


def _lines(organization: Organization, page: TimelinePage) -> list[str]:
    """One line for each row, in the time of the organization."""
    zone = ZoneInfo(organization.timezone)
    width = max((len(row.kind) for row in page.rows), default=0)
    lines = []
    for row in page.rows:
        recorded_at, happened_at = row.recorded_at.astimezone(zone), row.happened_at.astimezone(zone)
        day_text = f" (of {happened_at:%Y-%m-%d})" if happened_at.date() != recorded_at.date() else ""
        actor_text = f" (by {row.by})" if row.by is not None and row.kind != PROFILE else ""
        kind = click.style(f"{row.kind:<{width}}", fg="cyan")
        lines.append(f"{recorded_at:%Y-%m-%d %H:%M}  {kind}  {row.text}{day_text}{actor_text}")
    return [*lines, *(["More: raise --limit, or read the list by the API."] if page.next is not None else [])]
