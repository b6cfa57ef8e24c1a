"""Faults of expressions, and errors of their evaluation."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault in an expression; `start` and `end` are positions in its text, in code points."""

    message: str
    start: int = 0
    end: int = 0
    code: str = "syntax"


class ExpressionError(Exception):
    """An expression that cannot be used, with every fault found."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(fault.message for fault in self.faults))


class EvaluationError(Exception):
    """An evaluation failed and has no value.

    `code` is one of: null, missing, index, type, overflow, division-by-zero, invalid, too-large, function, cost.
    `start` and `end` are positions in the text of the expression; `end` is 0 until the failing part is known.
    """

    def __init__(self, code: str, message: str, start: int = 0, end: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.start = start
        self.end = end


class CostExceeded(EvaluationError):
    """The budget is exhausted; never absorbed by `&&`, `||`, `all` or `exists`."""

    text = "the expression costs more than its budget allows"

    def __init__(self, start: int = 0, end: int = 0) -> None:
        super().__init__("cost", self.text, start, end)


class TimeExceeded(CostExceeded):
    """The deadline of the evaluation has passed; handled like an exhausted budget."""

    text = "the expressions of the event take more time than its evaluation may"
