"""Reading files of purchases, and the errors of invalid files."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from click.testing import CliRunner

from handlers.server.cli import main
from handlers.server.commands.purchases import FaultyFile, Purchase, read_purchases

HEADINGS = b"customer_id date number_of_cds dollar_value\n"


@pytest.fixture
def path(tmp_path):
    """The path of a file that each test writes."""
    return tmp_path / "purchases.txt"


def test_a_purchase_has_the_fields_of_its_line(path):
    path.write_bytes(HEADINGS + b"00004 19970101 2 29.33\n")
    [purchase] = read_purchases(path)
    assert purchase == Purchase(number=1, customer_id="00004", day=date(1997, 1, 1), quantity=2, total=Decimal("29.33"))
    assert purchase.at == datetime(1997, 1, 1, tzinfo=UTC)


def test_a_byte_order_mark_white_space_and_empty_lines_are_ignored(path):
    byte_order_mark = b"\xef\xbb\xbf"
    path.write_bytes(byte_order_mark + b"  " + HEADINGS + b" 00004 19970101  2   29.33\r\n\n ana@x 19980630 1 0\n")
    rows = [(purchase.number, purchase.customer_id, purchase.total) for purchase in read_purchases(path)]
    assert rows == [(1, "00004", Decimal("29.33")), (3, "ana@x", Decimal(0))]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"00004 19970101 2", "the line has 3 fields; expected 4: `customer_id date number_of_cds dollar_value`"),
        (
            b"00004 19970101 2 29.33 x",
            "the line has 5 fields; expected 4: `customer_id date number_of_cds dollar_value`",
        ),
        (b"00004 19970229 2 29.33", "date must be a day such as 19970131, not '19970229'"),
        (b"00004 1997-1-1 2 29.33", "date must be a day"),
        (b"00004 00000101 2 29.33", "date must be a day"),
        ("00004 １９９７０１０１ 2 29.33".encode(), "date must be a day"),
        (b"00004 19970101 two 29.33", "number_of_cds must be a whole number, not 'two'"),
        (b"00004 19970101 -2 29.33", "number_of_cds must be a whole number"),
        (b"00004 19970101 2 29,33", "dollar_value must be an amount such as 11.77, not '29,33'"),
        (b"00004 19970101 2 -29.33", "dollar_value must be an amount"),
        (b"00004 19970101 2 NaN", "dollar_value must be an amount"),
        (b"00004 19970101 2 1e999999999", "dollar_value must be an amount"),
        (b"00004 19970101 2 9999999999999", "dollar_value must be an amount"),
        (b"a/b 19970101 2 29.33", "customer_id must have at most 255 characters, no slash"),
        (b".. 19970101 2 29.33", "not only dots"),
        (b"x" * 256 + b" 19970101 2 29.33", "at most 255 characters"),
        (b"a\0b 19970101 2 29.33", "customer_id"),
    ],
)
def test_an_invalid_line_is_reported_with_its_number(path, line, message):
    path.write_bytes(HEADINGS + b"00001 19970101 1 11.77\n" + line + b"\n")
    with pytest.raises(FaultyFile, match="^" + str(path) + ", line 3: ") as caught:
        read_purchases(path)
    assert message in caught.value.message


def test_the_first_ten_invalid_lines_are_reported(path):
    path.write_bytes(HEADINGS + b"wrong\n" * 12)
    with pytest.raises(FaultyFile) as caught:
        read_purchases(path)
    *reports, last_line = caught.value.message.splitlines()
    # The headings are line 1, so the first ten invalid lines are 2 to 11.
    assert [report.split(":")[0].rpartition(" ")[2] for report in reports] == [str(n) for n in range(2, 12)]
    assert last_line == "and 2 more"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "line 1: the headings must be `customer_id date number_of_cds dollar_value`"),
        (b"00001 19970101 1 11.77\n", "line 1: the headings must be"),
        (HEADINGS, "contains no purchases"),
        (HEADINGS + b"\n \n", "contains no purchases"),
        (HEADINGS + b"\xff\xfe\n", "is not a text file in UTF-8"),
    ],
)
def test_replay_refuses_an_invalid_file_before_it_calls_the_server(path, content, message):
    path.write_bytes(content)
    result = CliRunner().invoke(main, ["replay", str(path)])
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")
    assert message in result.stderr


@pytest.mark.parametrize("name", ["missing.txt", "."])
def test_a_path_that_is_no_file_is_an_invalid_argument(tmp_path, name):
    result = CliRunner().invoke(main, ["replay", str(tmp_path / name)])
    assert result.exit_code == 2
    assert "FILE" in result.stderr
