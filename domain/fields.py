"""Marks on the fields of records, from which tables, responses and the erasing of members are derived.

Each field is declared once: its type defines the column of the table and the field of the response. A mark adds what
the type does not include, such as that erasing a member removes the value.
"""

import re
from enum import Enum
from typing import Annotated, TypeAlias, TypeVar

Value = TypeVar("Value")


class Mark(Enum):
    """A property of a field that its type does not include."""

    KEY = "key"
    PERSONAL = "personal"
    INTERNAL = "internal"


Key: TypeAlias = Annotated[str, Mark.KEY]
"""A generated key: a UUID in lower case."""

Personal: TypeAlias = Annotated[Value, Mark.PERSONAL]
"""Personal data of a member, which is removed when the member is erased."""

Internal: TypeAlias = Annotated[Value, Mark.INTERNAL]
"""A value that no response contains."""


def wire_name(name: str) -> str:
    """The name of a field on the wire: `ledger_account_id` is `ledgerAccountId`."""
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def field_name(name: str) -> str:
    """The field of a name on the wire: `ledgerAccountId` is `ledger_account_id`."""
    return re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name)
