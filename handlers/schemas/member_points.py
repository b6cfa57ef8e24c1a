"""Mint and burn by member on the wire (administration "Members" 6)."""

from marshmallow import fields

from handlers.messages.base import Shape, WireSchema, wrapped_list
from handlers.services.ledger.move_points import MovedPoints


class _Text(fields.Field[str]):
    dump = str


class _TextId(WireSchema):
    ledger_transaction_id = _Text()


MOVED_POINTS = wrapped_list("ledgerTransactions", Shape(_TextId, MovedPoints))
"""Renders the response to a mint or burn: a list of one transaction, whose id is a text."""
