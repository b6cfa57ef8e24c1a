"""Functions on strings."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import re2

from domain.expressions.errors import EvaluationError
from domain.expressions.limits import (
    CHARACTERS_PER_UNIT,
    INSTRUCTIONS_PER_UNIT,
    MAX_MATCHING,
    MAX_PATTERN,
    MAX_PROGRAM,
    MAX_STRING,
)
from domain.expressions.runtime import Budget, limited_list, refuse_long_list

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
# Groups are never read, and an automaton without them is faster.
_OPTIONS.never_capture = True
# In bytes, for each pattern.
_OPTIONS.max_mem = 1 << 18

# The cost units of any search by a pattern, and how many comparisons of two characters cost one unit.
_PATTERN_SEARCH_COST = 32
_COMPARISONS_PER_UNIT = 64


@lru_cache(maxsize=256)
def compile_pattern(text: str) -> tuple[Callable[[str], Any], int]:
    """Compile a regular expression in RE2 syntax to its search function; return it and its number of instructions.

    At worst, the time of a search is proportional to this number times the length of the text. Repetitions multiply
    the instructions.
    """
    if len(text) > MAX_PATTERN:
        raise EvaluationError("invalid", f"the pattern is longer than {MAX_PATTERN} characters")
    try:
        compiled = re2.compile(text, _OPTIONS)
    except (re2.error, UnicodeError) as error:
        if "too large" in str(error):
            raise _too_large() from None
        raise EvaluationError("invalid", "the pattern is not a regular expression in RE2 syntax") from None
    size = max(compiled.programsize, compiled.reverseprogramsize)
    # RE2 reports -1 for a reverse program that does not fit its memory.
    if size > MAX_PROGRAM or compiled.reverseprogramsize < 0:
        raise _too_large()
    return compiled.search, size


def _too_large() -> EvaluationError:
    message = "the pattern is too large: repetitions and classes of characters multiply, make them shorter or fewer"
    return EvaluationError("invalid", message)


def matches(budget: Budget, text: str, regular_expression: str) -> bool:
    """True if the pattern is found anywhere in the text; costs the pattern's instructions times the text's length."""
    # A pattern that is not cached is compiled: charge for this before, and check the clock after.
    budget.charge(_PATTERN_SEARCH_COST + len(regular_expression))
    search, size = compile_pattern(regular_expression)
    length = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    work = size * length
    if work > MAX_MATCHING:
        message = f"the text has {length} bytes; this pattern can search at most {MAX_MATCHING // size}"
        raise EvaluationError("too-large", message)
    budget.charge(work // INSTRUCTIONS_PER_UNIT)
    budget.check_clock()
    return search(text) is not None


def _charge_characters(budget: Budget, characters: int) -> None:
    budget.charge(characters // CHARACTERS_PER_UNIT)


def _charge_search(budget: Budget, text: str, part: str) -> None:
    """Charge for a search at its worst: the product of both lengths, or the text's where Python's is linear."""
    size, part_size = len(text), len(part)
    # From these lengths on, the search of Python is linear.
    is_linear = size >= 30_000 or (size >= 2_500 and part_size >= 100)
    budget.charge(size // 4 if is_linear else size * (part_size + 4) // _COMPARISONS_PER_UNIT)


def contains(budget: Budget, text: str, part: str) -> bool:
    """True if the text contains the part."""
    _charge_search(budget, text, part)
    return part in text


def starts_with(budget: Budget, text: str, part: str) -> bool:
    """True if the text starts with the part."""
    _charge_characters(budget, len(part))
    return text.startswith(part)


def ends_with(budget: Budget, text: str, part: str) -> bool:
    """True if the text ends with the part."""
    _charge_characters(budget, len(part))
    return text.endswith(part)


def concatenate(budget: Budget, left: str, right: str) -> str:
    """The concatenation of both texts."""
    _refuse_too_long(len(left) + len(right))
    _charge_characters(budget, len(left) + len(right))
    return left + right


def lower_ascii(text: str) -> str:
    """The text with A to Z in lower case."""
    # `bytes.lower` changes only ASCII letters, and is fast.
    return text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")


def upper_ascii(text: str) -> str:
    """The text with a to z in upper case."""
    return text.encode("utf-8", "surrogatepass").upper().decode("utf-8", "surrogatepass")


def char_at(text: str, index: int) -> str:
    """The character at the index; an empty text if the index is the length of the text."""
    _require_index(index, text)
    return text[index : index + 1]


def substring(text: str, start: int, end: int) -> str:
    """The text from one index up to another."""
    _require_index(start, text)
    _require_index(end, text)
    if end < start:
        raise EvaluationError("index", f"the end {end} is before the start {start}")
    return text[start:end]


def index_of(budget: Budget, text: str, part: str, start: int = 0) -> int:
    """The index of the first occurrence of the part at or after `start`, else -1."""
    _require_index(start, text)
    _charge_search(budget, text, part)
    return text.find(part, start)


def last_index_of(budget: Budget, text: str, part: str) -> int:
    """The index of the last occurrence of the part, else -1."""
    return last_index_from(budget, text, part, len(text))


def last_index_from(budget: Budget, text: str, part: str, start: int) -> int:
    """The index of the last occurrence of the part at or before `start`, else -1."""
    _require_index(start, text)
    _charge_search(budget, text, part)
    return _find_last(text[: start + len(part)], part)


def _find_last(text: str, part: str) -> int:
    """The index of the last occurrence of the part, else -1.

    At worst, the time of `rfind` is the product of both lengths; that of `find` on reversed long texts is linear.
    """
    if len(part) <= 16:
        return text.rfind(part)
    reversed_index = text[::-1].find(part[::-1])
    return reversed_index if reversed_index < 0 else len(text) - len(part) - reversed_index


def replace(budget: Budget, text: str, old: str, new: str, count: int = -1) -> str:
    """The text with `old` replaced by `new`, the first `count` times; a negative count replaces all."""
    _charge_search(budget, text, old)
    replacements = text.count(old) if count < 0 else min(count, text.count(old))
    size = len(text) + replacements * (len(new) - len(old))
    _refuse_too_long(size)
    _charge_characters(budget, size)
    return text.replace(old, new, count)


def split(budget: Budget, text: str, separator: str, limit: int = -1) -> list[str]:
    """The parts of a text: at most `limit`, or all if it is negative. An empty separator splits it into characters."""
    if limit == 0:
        return []
    _charge_search(budget, text, separator)
    if len(separator) == 0:
        # The number of parts of one character; a last part has the rest of the text.
        single_count = len(text) if limit < 0 else min(limit - 1, len(text))
        refuse_long_list(single_count)
        budget.charge(single_count)
        last_part = text[single_count:]
        return limited_list([*text[:single_count], last_part] if last_part else list(text))
    part_count = text.count(separator) + 1 if limit < 0 else min(limit, text.count(separator) + 1)
    refuse_long_list(part_count)
    budget.charge(part_count)
    return text.split(separator, limit - 1 if limit > 0 else -1)


def join(budget: Budget, parts: list[str], separator: str = "") -> str:
    """The texts joined with a separator."""
    budget.charge(len(parts))
    size = sum(map(len, parts)) + len(separator) * (len(parts) - 1)
    _refuse_too_long(size)
    _charge_characters(budget, size)
    return separator.join(parts)


def _refuse_too_long(size: int) -> None:
    if size > MAX_STRING:
        raise EvaluationError("too-large", f"the resulting text has {size} characters; the maximum is {MAX_STRING}")


def _require_index(index: int, text: str) -> None:
    """Raise EvaluationError unless the index is a place of the text, or its end."""
    if not 0 <= index <= len(text):
        raise EvaluationError("index", f"the text has no place {index}, it has {len(text)} characters")
