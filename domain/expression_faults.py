"""Faults of expressions, as faults of the request that contains them."""

from domain.expressions import ExpressionError
from domain.problems import FieldFault, InvalidRequest, name_at


def invalid_expression(error: ExpressionError, pointer: str) -> InvalidRequest:
    """The refusal of an expression at `pointer`, with the position of every fault in its text."""
    name = name_at(pointer)
    return InvalidRequest(
        [
            FieldFault(
                f"{name} is not a valid expression: {fault.message}",
                pointer=pointer,
                code=fault.code,
                start=fault.start,
                end=fault.end,
            )
            for fault in error.faults
        ]
    )
