"""The columns of members in imports and exports, which follow from their writable fields and from the profile."""

from collections.abc import Iterator, Mapping
from typing import Any, get_type_hints

from domain.fields import wire_name
from domain.members import MemberProperties
from domain.profiles import NOTIFICATIONS, PROFILE

# Fields of a member that are no column: objects that have columns of their own, and one that only the API sets.
_NO_COLUMNS = frozenset({"profile", "notifications", "on_chain"})
_ATTRIBUTES = "customAttributes"
# The tier that was set by hand, and when the member joined, have no place in the body of `createMember`.
_BESIDE = ("joinedAt", "tier", "tierExpiresAt")

# The types in JSON of the fields that are columns; there are none of other types yet.
_FORMS: Mapping[Any, type[Any]] = {bool: bool, str: str, str | None: str}

_Column = tuple[str, tuple[str, ...], type[Any]]


def _columns() -> Iterator[_Column]:
    """The columns with their places in the body of `createMember`, and their types in JSON."""
    for name, hint in get_type_hints(MemberProperties).items():
        if name not in _NO_COLUMNS and wire_name(name) != _ATTRIBUTES:
            yield wire_name(name), (wire_name(name),), _FORMS[hint]
    for name, part in PROFILE.items():
        if part.is_column and not part.parts:
            yield name, ("profile", name), part.form
        yield from ((column, ("profile", name, inner), str) for inner, column in part.parts.items())
    yield from ((column, ("notifications", name), bool) for name, column in NOTIFICATIONS.items())
    yield _ATTRIBUTES, (_ATTRIBUTES,), dict


PLACES: Mapping[str, tuple[str, ...]] = {column: place for column, place, _ in _columns()}
"""The place of each column in the body of `createMember`."""

_OWN = {column: form for column, place, form in _columns() if len(place) == 1 and form is not dict}
MEMBER_COLUMNS: Mapping[str, type[Any]] = {
    **_OWN,
    **dict.fromkeys(_BESIDE, str),
    **{column: form for column, _, form in _columns() if column not in _OWN},
}
"""The columns by name, in the order of exports, with their types in JSON: `str`, `bool`, `list` or `dict`."""
