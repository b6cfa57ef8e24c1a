"""Refusals: every reason for which a request fails, as classes with a stable slug and a kind (RFC 9457).

A refusal is raised by any layer and turned into a response in one place, `handlers.http.problems`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from itertools import islice
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class FieldFault:
    """A fault of a request: `pointer` (RFC 6901, into the body) or `parameter` is its place, `detail` its text.

    A fault inside an expression has a `code` and its place in the text, `start` to `end` (exclusive) in characters.
    """

    detail: str
    pointer: str | None = None
    parameter: str | None = None
    code: str | None = None
    start: int | None = None
    end: int | None = None

    def __post_init__(self) -> None:
        """Add the full stop, which texts composed of parts lack."""
        if not self.detail.endswith((".", "?")):
            object.__setattr__(self, "detail", f"{self.detail}.")

    def as_element(self) -> dict[str, Any]:
        """The fault as an element of a problem's `errors`, without unset fields."""
        return {name: value for name in self.__slots__ if (value := getattr(self, name)) is not None}


class Refusal(Exception):
    """The base of all refusals; `kind` decides the HTTP status, `slug` the problem type `/problems/<slug>`.

    A subclass sets its `title`. Its slug is derived from its name, `member-exists` for `MemberExists`, if not set.
    """

    kind: ClassVar[str] = "conflict"
    slug: ClassVar[str] = "conflict"
    title: ClassVar[str] = "The request conflicts with the current state"

    def __init_subclass__(cls, title: str | None = None, slug: str | None = None) -> None:
        if title is not None:
            cls.title, cls.slug = title, slug or re.sub(r"\B[A-Z]", r"-\g<0>", cls.__name__).lower()

    def __init__(self, detail: str, **extension_fields: Any) -> None:
        super().__init__(detail)
        self.detail = detail
        self.extension_fields: Mapping[str, Any] = extension_fields
        # The time that the organization's test clock shows, None if it has none.
        self.test_clock: datetime | None = None

    def as_problem(self) -> dict[str, Any]:
        """The problem object of this refusal as it appears inside a response, such as a failed event's `error`."""
        status = STATUS_OF_KIND[self.kind]
        return {
            "type": f"/problems/{self.slug}",
            "title": self.title,
            "status": status,
            "detail": self.detail,
            **self.extension_fields,
        }


_MAX_SHOWN_FAULTS = 3


class InvalidRequest(Refusal, title="The request is invalid"):
    """The request is malformed; `faults` has every fault that was found, not only the first."""

    kind = "invalid"

    def __init__(self, faults: Sequence[FieldFault], detail: str | None = None) -> None:
        more = len(faults) - _MAX_SHOWN_FAULTS
        details = [fault.detail for fault in faults[:_MAX_SHOWN_FAULTS]] + ([f"And {more} more."] if more > 0 else [])
        super().__init__(detail or " ".join(details))
        self.faults = tuple(faults)
        self.extension_fields = {"errors": [fault.as_element() for fault in faults]}


class Unauthorized(Refusal, title="Authentication is required"):
    """No valid credentials were sent."""

    kind = "unauthorized"


class Forbidden(Refusal, title="The caller may not do this"):
    """The caller is known, but may not do this."""

    kind = "forbidden"


class NotFound(Refusal, title="The record does not exist"):
    """The caller's organization has no such record."""

    kind = "not_found"


class Conflict(Refusal):
    """The present state forbids the request: the base of the business rules, each with its own slug."""


class KeyReused(Conflict, title="The systemUniqueKey was used for another request"):
    """The `systemUniqueKey` was used before for another request."""


class NameTaken(Conflict, title="The name is taken"):
    """Another record has the key or code that the client has chosen."""


class ExternalKeyTaken(Conflict, title="The externalKey is taken"):
    """Another record of the same kind has the `externalKey`."""


class TooBusy(Refusal, title="The server is too busy now"):
    """The server had no thread until the request's deadline, or no memory for its body; nothing of it was executed."""

    kind = "unavailable"


class DeadlineExceeded(Refusal, title="The request took too long"):
    """The request exceeded a time limit and was ended."""

    kind = "unavailable"


class StorageFull(Refusal, title="The disk of the database is full"):
    """The disk of the database is full; nothing was changed."""

    kind = "unavailable"


class Unavailable(Refusal, title="The server is not available now"):
    """A system that the request needs does not respond; the client may try again after `retry_seconds`."""

    kind = "unavailable"

    def __init__(self, detail: str, retry_seconds: int) -> None:
        super().__init__(detail)
        self.retry_seconds = retry_seconds


class TooManyRequests(Refusal, title="There were too many requests"):
    """The limit of requests per time is reached."""

    kind = "too_many"


STATUS_OF_KIND: Mapping[str, int] = {
    "invalid": 400,
    "unauthorized": 401,
    "forbidden": 403,
    "not_found": 404,
    "conflict": 409,
    "too_many": 429,
    "unavailable": 503,
}

MAX_NAME_LENGTH = 100
"""Characters of a name that are looked at, and shown."""

_MAX_KNOWN_NAMES = 1000
_MAX_WORD_LENGTH = 30


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The one of `names` that is most similar to `name`, regardless of case; None if none is similar."""
    names_by_fold = {word.casefold(): word for word in islice(names, _MAX_KNOWN_NAMES)}
    # A long name is mostly a key, and any two keys have much in common.
    min_similarity = 0.8 if len(name) > _MAX_WORD_LENGTH else 0.6
    close = get_close_matches(name[:MAX_NAME_LENGTH].casefold(), names_by_fold, n=1, cutoff=min_similarity)
    return names_by_fold[close[0]] if close else None


def unknown_key(what: str, key: str, keys: Iterable[str]) -> str:
    """The sentence that a key does not exist, with a suggestion if one of `keys` is similar."""
    return f"There is no {what} with the key {key[:MAX_NAME_LENGTH]}.{did_you_mean(key, keys)}"


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The suggestion to append to a sentence about an unknown name; empty if none of `names` is similar."""
    close = nearest(name, names)
    return f" Did you mean {close}?" if close is not None else ""


_MAX_PART_LENGTH = 100
_MAX_PLACE_LENGTH = 200


def name_of(place: Sequence[str | int]) -> str:
    """The name of a place in a body, such as `rules.items[0].name`, cut to 200 characters; of no parts, "The body"."""
    text = ""
    for part in place:
        dot = "." if text else ""
        text += f"[{part}]" if isinstance(part, int) else f"{dot}{part[:_MAX_PART_LENGTH]}"
    return text[:_MAX_PLACE_LENGTH] or "The body"


def pointer_part(name: str) -> str:
    """A name as a part of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def name_at(pointer: str) -> str:
    """The name, as `name_of` builds it, of the place of a JSON pointer (RFC 6901); all numbers in it are indexes."""
    parts = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
    return name_of([int(part) if part.isdecimal() else part for part in parts])
