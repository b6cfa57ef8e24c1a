"""The bounds that keep every expression, and every evaluation, small."""

MAX_TEXT = 4_000
"""Longest expression text, in code points."""

MAX_TEXTS = 20_000
"""Most code points of the expressions of one action, or of one call that parses them."""

MAX_DEPTH = 64
"""Deepest nesting of a tree; `&&` and `||` chains count as one level however long they are."""

MAX_NODES = 4_000
"""Most nodes of a tree that a client sends; a text of `MAX_TEXT` cannot hold more."""

MAX_STRING = 100_000
"""Longest string an evaluation may make, in code points."""

MAX_ITEMS = 10_000
"""Most elements of a list or map that an evaluation may make or return."""

MAX_PATTERN = 1_000
"""Longest regular expression, in code points."""

MAX_PROGRAM = 4_000
"""Most instructions that a regular expression may compile to; repetitions multiply them."""

MAX_MATCHING = 2_000_000
"""Most of instructions times bytes of text for one search: some 60 ms at worst, and nothing can interrupt it."""

INSTRUCTIONS_PER_UNIT = 8
"""The number of instructions of a regular expression that cost one unit for one byte of the text."""

CHECK_EVERY = 5_000
"""Cost units after which an evaluation with a deadline looks at the clock: a few milliseconds."""

MAX_FAULTS = 100
"""Most faults that are reported for one expression."""

DEFAULT_COST = 100_000
"""Cost units of one evaluation without a shared budget; about one unit for each node visited."""

EVENT_COST = 1_000_000
"""Cost units for all expressions of one event together: a fraction of a second, whatever they do."""

MIN_INT = -(2**63)
MAX_INT = 2**63 - 1

PRECISION = 34
"""Significant digits of a decimal (IEEE 754 decimal128)."""
