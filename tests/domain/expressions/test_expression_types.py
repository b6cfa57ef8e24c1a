"""Types of expressions: which argument may be passed for which parameter."""

from __future__ import annotations

import pytest

from domain.expressions import BOOL, DECIMAL, DYN, INT, STRING, ListOf, MapOf
from domain.expressions.functions import Overload
from domain.expressions.types import fits, join


@pytest.mark.parametrize(
    ("argument", "parameter", "is_fitting"),
    [
        (INT, INT, True),
        (INT, DECIMAL, True),
        (DECIMAL, INT, False),
        (STRING, DECIMAL, False),
        (DYN, BOOL, True),
        (BOOL, DYN, True),
        (ListOf(INT), ListOf(DECIMAL), True),
        (ListOf(DECIMAL), ListOf(INT), False),
        (ListOf(INT), INT, False),
        (INT, ListOf(INT), False),
        (MapOf(INT, STRING), MapOf(DECIMAL, STRING), True),
        (MapOf(STRING, INT), MapOf(DECIMAL, INT), False),
        (MapOf(INT, INT), MapOf(INT, STRING), False),
        (MapOf(INT, STRING), MapOf(STRING, STRING), False),
        (MapOf(INT, STRING), ListOf(INT), False),
    ],
)
def test_an_argument_fits_a_parameter_of_its_type_or_a_wider_one(argument, parameter, is_fitting):
    assert fits(argument, parameter) is is_fitting


@pytest.mark.parametrize(
    ("left", "right", "common_type"),
    [
        (MapOf(INT, STRING), MapOf(DECIMAL, STRING), MapOf(DECIMAL, STRING)),
        (MapOf(INT, STRING), MapOf(BOOL, STRING), None),
        (MapOf(INT, STRING), MapOf(INT, BOOL), None),
        (ListOf(INT), ListOf(DECIMAL), ListOf(DECIMAL)),
        (ListOf(INT), ListOf(STRING), None),
        (ListOf(INT), MapOf(INT, STRING), None),
    ],
)
def test_lists_and_maps_have_a_common_type_if_their_parts_have_one(left, right, common_type):
    assert join(left, right) == common_type


@pytest.mark.parametrize(
    ("variadic", "values", "is_taken"),
    [
        (False, (1, "a"), True),
        (False, (1,), False),
        (False, (1, "a", "b"), False),
        (False, ("a", "a"), False),
        (True, (1, "a"), True),
        (True, (1, "a", "b"), True),
        (True, (1, "a", 2), False),
        (True, (1,), False),
    ],
)
def test_a_function_takes_its_number_of_values_and_more_if_it_is_variadic(variadic, values, is_taken):
    overload = Overload((INT, STRING), BOOL, lambda *values: True, variadic=variadic)
    types = tuple({int: INT, str: STRING}[type(value)] for value in values)
    assert (overload.takes_values(values), overload.takes(types)) == (is_taken, is_taken)
