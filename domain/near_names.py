"""Known names that a client may have meant by an unknown one."""

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice

LONGEST_NAME = 100
"""Characters of a name that are looked at, and shown."""

_MOST_KNOWN = 1000
_LONGEST_WORD = 30


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that comes close to the given one, in letters of any case; None if there is none."""
    written = {word.casefold(): word for word in islice(known, _MOST_KNOWN)}
    # Any two keys have much in common.
    least = 0.8 if len(name) > _LONGEST_WORD else 0.6
    close = get_close_matches(name[:LONGEST_NAME].casefold(), written, n=1, cutoff=least)
    return written[close[0]] if close else None


def unknown_key(what: str, key: str, known: Iterable[str]) -> str:
    """The sentence about a key that is not known, and the known one that comes close."""
    return f"There is no {what} with the key {key[:LONGEST_NAME]}.{did_you_mean(key, known)}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The sentence that follows one about an unknown name, a blank before it; empty if no known name comes close."""
    close = nearest(name, known)
    return f" Did you mean {close}?" if close is not None else ""
