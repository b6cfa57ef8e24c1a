"""Functions on strings."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import re2

from domain.expressions.errors import EvaluationError
from domain.expressions.limits import MAX_STRING
from domain.expressions.runtime import limited_list

_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_MAX_PATTERN = 1_000

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = 1 << 21


@lru_cache(maxsize=512)
def pattern(text: str) -> Callable[[str], Any]:
    """The search of a regular expression in RE2 syntax, which takes time linear in the text."""
    if len(text) > _MAX_PATTERN:
        raise EvaluationError("invalid", f"a pattern has at most {_MAX_PATTERN} characters")
    try:
        return re2.compile(text, _OPTIONS).search
    except (re2.error, UnicodeError):
        raise EvaluationError("invalid", "not a regular expression in RE2 syntax") from None


def matches(text: str, regular_expression: str) -> bool:
    """Whether the pattern is found anywhere in the text."""
    return pattern(regular_expression)(text) is not None


def concatenate(left: str, right: str) -> str:
    """Both texts in one."""
    _refuse_longer(len(left) + len(right))
    return left + right


def lower_ascii(text: str) -> str:
    """The text with A to Z in lower case."""
    return text.translate(_LOWER)


def upper_ascii(text: str) -> str:
    """The text with a to z in upper case."""
    return text.translate(_UPPER)


def char_at(text: str, index: int) -> str:
    """The character at the index; nothing at the very end."""
    _within(index, text)
    return text[index : index + 1]


def substring(text: str, start: int, end: int) -> str:
    """The text from one index up to another."""
    _within(start, text)
    _within(end, text)
    if end < start:
        raise EvaluationError("index", f"the end {end} is before the start {start}")
    return text[start:end]


def substring_from(text: str, start: int) -> str:
    """The text from an index to its end."""
    return substring(text, start, len(text))


def index_of(text: str, part: str) -> int:
    """Where the part first is, else -1."""
    return text.find(part)


def index_from(text: str, part: str, start: int) -> int:
    """Where the part first is at or after the index, else -1."""
    _within(start, text)
    return text.find(part, start)


def last_index_of(text: str, part: str) -> int:
    """Where the part last is, else -1."""
    return text.rfind(part)


def last_index_from(text: str, part: str, start: int) -> int:
    """Where the part last is at or before the index, else -1."""
    _within(start, text)
    return text.rfind(part, 0, start + len(part))


def replace(text: str, old: str, new: str, count: int = -1) -> str:
    """The text with a part replaced, everywhere or so many times."""
    found = text.count(old) if count < 0 else min(count, text.count(old))
    _refuse_longer(len(text) + found * (len(new) - len(old)))
    return text.replace(old, new, count)


def split(text: str, separator: str, limit: int = -1) -> list[str]:
    """The parts between separators, at most so many; an empty separator splits into characters."""
    if limit == 0:
        return []
    if len(separator) == 0:
        whole = len(text) if limit < 0 else min(limit - 1, len(text))
        rest = text[whole:]
        return limited_list([*text[:whole], rest] if rest else list(text))
    return limited_list(text.split(separator, limit - 1 if limit > 0 else -1))


def join(parts: list[str], separator: str = "") -> str:
    """The texts in one, with a separator between."""
    _refuse_longer(sum(map(len, parts)) + len(separator) * (len(parts) - 1))
    return separator.join(parts)


def _refuse_longer(size: int) -> None:
    if size > MAX_STRING:
        raise EvaluationError("too-large", f"a text of more than {MAX_STRING} characters")


def _within(index: int, text: str) -> None:
    if not 0 <= index <= len(text):
        raise EvaluationError("index", f"the text has no place {index}, it has {len(text)} characters")
