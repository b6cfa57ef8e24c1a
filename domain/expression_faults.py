"""Faults of expressions, as faults of the request that brought them."""

from __future__ import annotations

from domain.expressions import ExpressionError
from domain.problems import FieldFault, InvalidRequest


def invalid_expression(error: ExpressionError, pointer: str) -> InvalidRequest:
    """The refusal of an expression at `pointer`, with the position of every fault in its text."""
    return InvalidRequest(
        [
            FieldFault(fault.message, pointer=pointer, code=fault.code, start=fault.start, end=fault.end)
            for fault in error.faults
        ]
    )
