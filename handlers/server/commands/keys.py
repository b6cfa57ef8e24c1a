"""Commands on the keys that sign tokens and offline allowances."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

import click

from domain.calendar import instant_text
from handlers.server.commands.context import (
    json_option,
    load_settings,
    migrated_engine,
    print_json,
    print_result,
    print_table,
)

if TYPE_CHECKING:
    from sqlalchemy import Connection

Result = TypeVar("Result")


@click.group()
def keys() -> None:
    """Replace the key that signs tokens and offline allowances.

    The key that began to sign last signs; all keys verify.
    """


@keys.command("list")
@json_option
def list_keys(as_json: bool) -> None:
    """List the keys, the one that signs first."""
    from handlers.services.signing_keys import NOT_YET
    from persistence.organizations import find_signing_keys

    rows = [
        {
            "keyId": key.key_id,
            "algorithm": key.algorithm,
            "signsFrom": None if key.created_at == NOT_YET else instant_text(key.created_at),
            "isSigning": number == 0,
        }
        for number, key in enumerate(_run(find_signing_keys))
    ]
    if as_json:
        print_json({"keys": rows})
        return
    cells = [
        (
            row["keyId"],
            row["algorithm"],
            row["signsFrom"] or "-",
            "signs and verifies" if row["isSigning"] else "only verifies",
        )
        for row in rows
    ]
    print_table(("KEY", "ALGORITHM", "SIGNS FROM", "USE"), cells)


@keys.command()
@json_option
def add(as_json: bool) -> None:
    """Add a key and print its id.

    The servers publish it at /.well-known/jwks.json. It only verifies until `loyalty keys sign` lets it sign.
    """
    from handlers.services.signing_keys import add_key

    key = _run(lambda db: add_key(db, datetime.now(UTC)))
    print_result(as_json, {"keyId": key.key_id}, key.key_id)


@keys.command()
@click.argument("key_id", metavar="KEY")
@json_option
def sign(key_id: str, as_json: bool) -> None:
    """Let a KEY sign all tokens and offline allowances from now on."""
    from handlers.services.signing_keys import let_sign

    _run(lambda db: let_sign(db, key_id, datetime.now(UTC)))
    print_result(as_json, {"keyId": key_id}, f"The key {key_id} signs.")


@keys.command()
@click.argument("key_ids", metavar="[KEY]...", nargs=-1)
@click.option("--all", "is_all", is_flag=True, help="Remove every key; the next token gets a new one.")
@json_option
def remove(key_ids: tuple[str, ...], is_all: bool, as_json: bool) -> None:
    """Remove keys.

    Their tokens are no longer valid, and their offline allowances cannot be redeemed, once all servers are restarted.
    """
    from handlers.services.signing_keys import remove_all_keys, remove_keys

    if bool(key_ids) == is_all:
        raise click.UsageError("name the keys to be removed, or use --all")
    removed_ids = _run(lambda db: remove_all_keys(db) if is_all else remove_keys(db, key_ids))
    print_result(as_json, {"removed": removed_ids}, f"{len(removed_ids)} removed.")
    click.echo("Restart all servers: a running server remembers the keys that it has read.", err=True)


def _run(work: Callable[[Connection], Result]) -> Result:
    """Run the work in a transaction; a refusal ends the command."""
    from handlers.services.signing_keys import KeyRefused
    from persistence import transactions

    with migrated_engine(load_settings()) as engine:
        try:
            return transactions.run(engine, work)
        except KeyRefused as refusal:
            raise click.ClickException(str(refusal)) from None
