"""The bounds that keep every expression, and every evaluation, small."""

MAX_TEXT = 4_000
"""Longest expression text, in code points."""

MAX_DEPTH = 64
"""Deepest nesting of a tree; `&&` and `||` chains count as one level however long they are."""

MAX_NODES = 4_000
"""Most nodes of a tree that a client sends; a text of `MAX_TEXT` cannot hold more."""

MAX_STRING = 100_000
"""Longest string an evaluation may make, in code points."""

MAX_ITEMS = 10_000
"""Most elements of a list or map an evaluation may make or answer."""

DEFAULT_COST = 100_000
"""Cost units of one evaluation when the caller shares no budget; about one unit for each node visited."""

EVENT_COST = 1_000_000
"""Cost units for all expressions of one event together: a fraction of a second, whatever they do."""

MIN_INT = -(2**63)
MAX_INT = 2**63 - 1

PRECISION = 34
"""Significant digits of a decimal (IEEE 754 decimal128)."""
