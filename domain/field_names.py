"""The places of a request body in words, as texts about faults name them."""

from collections.abc import Sequence

_LONGEST_PART = 100
_LONGEST_NAME = 200


def name_of(place: Sequence[str | int], whole: str = "The body") -> str:
    """A place in a body, such as `rules.items[0].name`, shortened to 200 characters; `whole` is the body itself."""
    text = ""
    for part in place:
        dot = "." if text else ""
        text += f"[{part}]" if isinstance(part, int) else f"{dot}{part[:_LONGEST_PART]}"
    return text[:_LONGEST_NAME] or whole


def pointer_part(name: str) -> str:
    """A name as a part of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def name_at(pointer: str) -> str:
    """As `name_of`, of a JSON pointer (RFC 6901) whose numbers are all indexes."""
    parts = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
    return name_of([int(part) if part.isdecimal() else part for part in parts])
