"""The number of instructions that a regular expression of a JSON Schema compiles to."""

import re
from functools import lru_cache

import re2

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.never_capture = True
_OPTIONS.max_mem = 1024 * 1024  # bytes
# In Latin-1 a class of characters is a few ranges of bytes, so the number of instructions is about the number that can
# be active at the same time.
_OPTIONS.encoding = re2.Options.Encoding.LATIN1
_TOO_LARGE = 100_000
# Escapes that RE2 does not know in this form; the last alternative matches any other escape, which stays unchanged.
_ESCAPES = re.compile(
    r"\\(?:(?P<character>u[0-9A-Fa-f]{4}|u\{[0-9A-Fa-f]+\}|c[A-Za-z])|(?P<property>[pP]\{[^}]*\})|.)", re.DOTALL
)


@lru_cache(1_024)
def pattern_size(pattern: str) -> int:
    """The number of instructions; `_TOO_LARGE` if RE2 cannot compile the pattern, for example for large repetitions."""
    readable = _ESCAPES.sub(_as_re2, pattern)
    in_latin1 = "".join(character if character <= "\xff" else "\xff" for character in readable)
    try:
        compiled = re2.compile(in_latin1.encode("latin-1"), _OPTIONS)
    except re2.error:
        return _TOO_LARGE
    sizes: tuple[int, int] = (compiled.programsize, compiled.reverseprogramsize)
    # RE2 reports the size -1 if it could not compile the pattern for one of the two directions.
    return max(sizes) if min(sizes) > 0 else _TOO_LARGE


def _as_re2(escape: re.Match[str]) -> str:
    """An escape of the same size in the syntax of RE2."""
    if escape["character"]:
        return "x"
    return r"\pL" if escape["property"] else escape[0]
