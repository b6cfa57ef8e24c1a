"""The columns of imported files and the fields of JSON rows: how they are named, read and refused."""

from __future__ import annotations

from decimal import Decimal

import pytest

from domain.imports.cells import Columns, cells_of, list_cell, object_values
from domain.imports.records import (
    BADGES,
    BALANCES,
    COUPON_CODES,
    COUPONS,
    EVENTS,
    MEMBERS,
    MISSION_PROGRESS,
    FileFault,
    RowFault,
)


def columns(kind, header, ignores_unknown=False, **column_names):
    """The columns of a file with this header; `column_names` maps fields to columns with other names.

    The parser of cells with objects returns {name of the column: text of the cell}.
    """
    return Columns(kind, header.split(","), column_names, ignores_unknown, lambda name, cell: {name: cell})


def row_fault(read, *values):
    """The text and the column of the fault for which a row is refused."""
    with pytest.raises(RowFault) as caught:
        read(*values)
    return str(caught.value), caught.value.column


def test_cells_become_values_of_their_fields():
    header = "loyaltyMemberId,amount,pending,tags,expiresAt"
    cells = ["ana", "12.50", "Yes", "a | b||c", "2026-03-04"]
    assert columns(BALANCES, header).values(cells) == {
        "loyaltyMemberId": "ana",
        "amount": Decimal("12.50"),
        "pending": True,
        "tags": ["a", "b", "c"],
        "expiresAt": "2026-03-04",
    }


@pytest.mark.parametrize(
    ("cell", "value"), [("true", True), ("YES", True), ("1", True), ("false", False), ("no", False), ("0", False)]
)
def test_a_boolean_is_written_in_three_ways(cell, value):
    assert columns(BALANCES, "loyaltyMemberId,amount,pending").values(["ana", "1", cell])["pending"] is value


def test_empty_cells_have_no_value():
    assert columns(BALANCES, "loyaltyMemberId,amount,account").values(["ana", "1", ""]) == {
        "loyaltyMemberId": "ana",
        "amount": 1,
    }


def test_the_parser_of_objects_gets_the_name_of_the_column():
    # The field `payload` is in the column `data`.
    file_columns = columns(EVENTS, "loyaltyMemberId,eventType,data", payload="data")
    # Here the parser does not read the cell: it returns {name of the column: cell}, to show what it was called with.
    assert file_columns.values(["ana", "till-opened", "{}"])["payload"] == {"data": "{}"}


@pytest.mark.parametrize(
    ("kind", "header", "cells", "fault"),
    [
        (BALANCES, "loyaltyMemberId,amount", ["ana", "much"], ("amount is not a number such as 12.5.", "amount")),
        (BALANCES, "loyaltyMemberId,amount", ["ana", "1e3"], ("amount is not a number such as 12.5.", "amount")),
        (BADGES, "loyaltyMemberId,badge,amount", ["ana", "b", "1.5"], ("amount is not a whole number.", "amount")),
        (BADGES, "loyaltyMemberId,badge,amount", ["ana", "b", "1" * 19], ("amount is not a whole number.", "amount")),
        (
            BALANCES,
            "loyaltyMemberId,amount,pending",
            ["ana", "1", "maybe"],
            ("pending is neither true nor false.", "pending"),
        ),
        (COUPON_CODES, "couponBook,code", ["book"], ("The row has 1 columns, the first line of the file has 2.", None)),
        (
            COUPON_CODES,
            "couponBook,code",
            ["book", "A", ""],
            ("The row has 3 columns, the first line of the file has 2.", None),
        ),
    ],
)
def test_a_row_that_cannot_be_read_is_refused(kind, header, cells, fault):
    assert row_fault(columns(kind, header).values, cells) == fault


def test_a_fault_names_the_column_of_the_file():
    file_columns = columns(BALANCES, "loyaltyMemberId,Points", amount="Points")
    assert row_fault(file_columns.values, ["ana", "x"]) == ("Points is not a number such as 12.5.", "Points")
    assert (file_columns.name_of("amount"), file_columns.name_of("tags")) == ("Points", "tags")


def test_a_column_named_like_a_field_is_unknown_if_the_field_is_mapped_to_another_column():
    header = "loyaltyMemberId,Points,amount"
    file_columns = columns(BALANCES, header, ignores_unknown=True, amount="Points")
    assert file_columns.values(["ana", "5", "7"]) == {"loyaltyMemberId": "ana", "amount": 5}
    with pytest.raises(FileFault, match="'amount' is unknown"):
        columns(BALANCES, header, amount="Points")


def test_members_have_columns_of_custom_attributes():
    assert columns(MEMBERS, "loyaltyMemberId,customAttributes.size").values(["ana", "XL"]) == {
        "loyaltyMemberId": "ana",
        "customAttributes.size": "XL",
    }
    with pytest.raises(FileFault, match="unknown"):
        columns(BADGES, "loyaltyMemberId,badge,customAttributes.size")
    with pytest.raises(FileFault, match="unknown"):
        columns(MISSION_PROGRESS, "loyaltyMemberId,mission,customAttributes.size")


@pytest.mark.parametrize(
    ("header", "fault"),
    [
        (
            "couponBook,code,colour",
            "The column 'colour' is unknown. Map a field to it in columnNames, or set ignoreUnknownColumns. "
            "The fields are couponBook, code.",
        ),
        ("couponBook", "The column code is missing. The first line has couponBook."),
        ("couponBook,code,code", "The column code is in the first line twice."),
    ],
)
def test_a_file_with_other_columns_is_refused(header, fault):
    with pytest.raises(FileFault) as caught:
        columns(COUPON_CODES, header)
    assert str(caught.value) == fault


def test_a_mapped_column_must_exist():
    with pytest.raises(FileFault, match="The column Points is missing"):
        columns(BALANCES, "loyaltyMemberId,amount", amount="Points")


def test_a_file_has_at_most_1000_columns():
    header_of_1000_columns = ",".join(["couponBook", "code", *(f"c{number}" for number in range(998))])
    columns(COUPON_CODES, header_of_1000_columns, ignores_unknown=True)
    with pytest.raises(FileFault, match=r"The first line has 1001 columns; a file has at most 1000\."):
        columns(COUPON_CODES, header_of_1000_columns + ",more", ignores_unknown=True)


def test_a_file_of_errors_can_be_sent_again():
    file_columns = columns(COUPON_CODES, "importLine,importColumn,importReason,couponBook,code")
    # The columns about the error are ignored, and the apostrophe before a formula is removed.
    assert file_columns.values(["2", "code", "Taken.", "book", "'=A"]) == {"couponBook": "book", "code": "=A"}


@pytest.mark.parametrize(("cell", "code"), [("'=A", "=A"), ("''=A", "'=A"), ("'A", "'A"), ("'", "'"), ("A'", "A'")])
def test_the_apostrophe_before_a_formula_is_removed(cell, code):
    assert columns(COUPON_CODES, "couponBook,code").values(["book", cell])["code"] == code


def test_a_missing_column_is_reported_with_the_first_500_characters_of_the_line():
    with pytest.raises(FileFault) as caught:
        columns(COUPON_CODES, "c" * 600)
    assert str(caught.value) == f"The column couponBook is missing. The first line has {'c' * 500}."


@pytest.mark.parametrize(
    ("texts", "cell"),
    [
        ([], ""),
        (["a", "b c"], "a|b c"),
        (["a|b", "c"], '["a|b", "c"]'),
        ([" a"], '[" a"]'),
        ([""], '[""]'),
        (['["é"]'], '["[\\"é\\"]"]'),
        (["[a]"], "[a]"),
        (["[1]"], "[1]"),
    ],
)
def test_a_cell_with_a_list_is_read_as_the_same_list(texts, cell):
    assert list_cell(texts) == cell
    row = columns(BALANCES, "loyaltyMemberId,amount,tags").values(["ana", "1", cell])
    assert row.get("tags", []) == texts


@pytest.mark.parametrize("cell", ['["a\\u0000"]', '["\\ud800"]', '["a", 1]', '["a"', "[" * 100_000])
def test_a_cell_that_is_no_array_of_storable_texts_is_read_as_separated_texts(cell):
    assert columns(BALANCES, "loyaltyMemberId,amount,tags").values(["ana", "1", cell])["tags"] == [cell]


def test_a_row_that_is_not_valid_csv_is_refused():
    text, _ = row_fault(cells_of, 'a,"b"c', "comma")
    assert text.startswith("The row is not valid CSV: ")
    text, _ = row_fault(cells_of, "a\nb", "comma")
    assert text == "The row contains a line break outside of quotes."


def json_row(kind, ignores_unknown=False, column_names=(), **row):
    """The values of a row that is a JSON object."""
    return object_values(kind, row, dict(column_names), ignores_unknown)


def test_values_of_json_rows_keep_their_types_and_texts_of_numbers_are_read():
    row = {"loyaltyMemberId": "ana", "couponBook": "free", "couponData": {"a": 1}, "tags": ["x"], "amount": 2}
    # Null is no value.
    assert json_row(COUPONS, **row, code=None) == row
    assert json_row(BALANCES, loyaltyMemberId="ana", amount="12.5")["amount"] == Decimal("12.5")
    assert json_row(BALANCES, loyaltyMemberId="ana", amount=Decimal("12.5"))["amount"] == Decimal("12.5")
    assert json_row(BADGES, loyaltyMemberId="ana", badge="b", amount="3")["amount"] == 3
    assert json_row(MEMBERS, loyaltyMemberId="ana", **{"customAttributes.size": 5})["customAttributes.size"] == 5


def test_fields_of_json_may_have_other_names():
    names = {"amount": "points"}
    row = {"loyaltyMemberId": "ana", "points": 5}
    assert json_row(BALANCES, column_names=names, **row) == {"loyaltyMemberId": "ana", "amount": 5}
    fault = row_fault(lambda: json_row(BALANCES, column_names=names, loyaltyMemberId="ana"))
    assert fault == ("points is missing.", "points")


@pytest.mark.parametrize(
    ("kind", "row", "fault"),
    [
        (COUPON_CODES, {"couponBook": "b"}, ("code is missing.", "code")),
        (COUPON_CODES, {"couponBook": "b", "code": None}, ("code is missing.", "code")),
        (COUPON_CODES, {"couponBook": "b", "code": 5}, ("code is not a text.", "code")),
        (COUPON_CODES, {"colour": 5}, ("The field 'colour' is unknown.", "colour")),
        (BALANCES, {"amount": True}, ("amount is not a number.", "amount")),
        (BALANCES, {"amount": [1]}, ("amount is not a number.", "amount")),
        (BALANCES, {"amount": "much"}, ("amount is not a number such as 12.5.", "amount")),
        (BADGES, {"amount": Decimal("1.5")}, ("amount is not a whole number.", "amount")),
        (BALANCES, {"pending": 1}, ("pending is not true or false.", "pending")),
        (BALANCES, {"tags": "a"}, ("tags is not an array.", "tags")),
        (COUPONS, {"couponData": "{}"}, ("couponData is not an object.", "couponData")),
        (
            MISSION_PROGRESS,
            {"customAttributes.size": 5},
            ("The field 'customAttributes.size' is unknown.", "customAttributes.size"),
        ),
        (
            BADGES,
            {"customAttributes.size": 5},
            ("The field 'customAttributes.size' is unknown.", "customAttributes.size"),
        ),
    ],
)
def test_a_row_of_json_that_cannot_be_read_is_refused(kind, row, fault):
    assert row_fault(lambda: json_row(kind, **row)) == fault


def test_unknown_fields_of_json_may_be_ignored():
    row = {"couponBook": "b", "code": "A"}
    assert json_row(COUPON_CODES, ignores_unknown=True, **row, colour="red") == row


def test_a_long_name_is_reported_up_to_100_characters():
    name = "n" * 150
    with pytest.raises(FileFault, match=f"The column '{name[:100]}' is unknown"):
        columns(COUPON_CODES, f"couponBook,code,{name}")
    assert row_fault(lambda: json_row(COUPON_CODES, **{name: 1})) == (
        f"The field '{name[:100]}' is unknown.",
        name[:100],
    )
