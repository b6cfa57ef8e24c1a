"""Content negotiation: the choice of one of the media types that an operation produces (RFC 9110, 12.5.1)."""

from collections.abc import Mapping, Sequence
from typing import Any

from handlers.call import JSON
from handlers.http.problems import HttpProblem


class ResponseTypes:
    """The media types of an operation's successful response, in the order of the OpenAPI document.

    An operation with one media type sends it even if the client does not accept it, as most servers do.
    """

    def __init__(self, success: Mapping[str, Any]) -> None:
        self._media_types: tuple[str, ...] = tuple(success.get("content", {})) or (JSON,)
        self.is_negotiated = len(self._media_types) > 1
        self.first = self._media_types[0]

    def choose(self, accept: str | None) -> str:
        """The offered media type that the client prefers, the first of equal ones; raises a 406 if it accepts none."""
        if not self.is_negotiated or not accept or not accept.strip():
            return self.first
        ranges = [_media_range(part) for part in accept.split(",")]
        qualities = {media_type: _quality(media_type, ranges) for media_type in self._media_types}
        best = max(self._media_types, key=lambda media_type: qualities[media_type])
        if qualities[best] > 0:
            return best
        raise HttpProblem(406, f"The header Accept allows none of {', '.join(self._media_types)}.")


def _media_range(text: str) -> tuple[str, float]:
    """A range such as `text/*` with its quality; the quality of an unreadable one is 0."""
    name, *parameters = text.split(";")
    quality = 1.0
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip().lower() == "q":
            try:
                quality = float(value)
            except ValueError:
                quality = 0.0
    # Also catches NaN, which compares with no number.
    return name.strip().lower(), quality if 0 <= quality <= 1 else 0.0


def _quality(media_type: str, ranges: Sequence[tuple[str, float]]) -> float:
    """The quality of the most specific range that contains the media type."""
    main_type, _, _ = media_type.partition("/")
    for media_range in (media_type, f"{main_type}/*", "*/*"):
        qualities = [quality for name, quality in ranges if name == media_range]
        if qualities:
            return max(qualities)
    return 0.0
