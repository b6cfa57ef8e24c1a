"""The bounds that keep every expression, and every evaluation, small."""

MAX_TEXT = 4_000
"""Maximum length of an expression text, in code points."""

MAX_TEXTS = 20_000
"""Maximum length of all expressions of one action, or of one call of `parseExpressions` or `formatExpressions`.

In code points.
"""

MAX_DEPTH = 64
"""Maximum depth of a tree; a chain of `&&` or `||` counts as one level however long it is."""

MAX_NODES = 4_000
"""Maximum number of nodes of a tree that a client sends; a text of `MAX_TEXT` cannot have more."""

MAX_STRING = 100_000
"""Maximum length of a string that an evaluation computes, in code points."""

MAX_ITEMS = 10_000
"""Maximum number of elements of a list or map that an evaluation computes or returns."""

MAX_PATTERN = 1_000
"""Maximum length of a regular expression, in code points."""

MAX_PROGRAM = 4_000
"""Maximum number of instructions of a compiled regular expression; repetitions multiply them."""

MAX_MATCHING = 2_000_000
"""Maximum of instructions times bytes of text for one search: about 60 ms at worst, which nothing can interrupt."""

INSTRUCTIONS_PER_UNIT = 8
"""The number of instructions of a regular expression that cost one unit for one byte of the text."""

CHARACTERS_PER_UNIT = 16
"""The number of characters of a text that cost one unit where the text is read or compared."""

CHECK_EVERY = 5_000
"""Cost units after which an evaluation with a deadline looks at the clock: a few milliseconds."""

MAX_FAULTS = 100
"""Maximum number of faults that are reported for one expression."""

DEFAULT_COST = 100_000
"""Cost units of one evaluation without a shared budget; about one unit for each node visited."""

EVENT_COST = 1_000_000
"""Cost units for all expressions of one event together: a fraction of a second, whatever they do."""

MIN_INT = -(2**63)
MAX_INT = 2**63 - 1

PRECISION = 34
"""Significant digits of a decimal (IEEE 754 decimal128)."""
