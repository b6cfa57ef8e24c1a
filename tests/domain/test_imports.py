"""Splitting files into rows and cells, in blocks of any size and from any row on."""

from __future__ import annotations

import csv
import gzip
import io
import random
import zlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.imports.cells import cells_of, csv_line, delimiter_of, escape_formula, unescape_formula
from domain.imports.records import CSV, NDJSON, FileFault, ImportJob, RowFault
from domain.imports.splitting import (
    BYTES_PER_GZIP_FILE,
    MAX_LINE_BYTES,
    MAX_PACKED_SURPLUS,
    MAX_ROW_BYTES,
    decompress,
    is_gzip,
    raw_rows,
    skip_bytes,
)

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
CELLS = st.text(st.sampled_from("ab\xe9\",;\n\r\t =+-@'"), max_size=6)
TABLES = st.lists(st.lists(CELLS, min_size=2, max_size=2).filter(any), min_size=1, max_size=6)


def blocks_of(content, size):
    """The content in blocks of `size` bytes."""
    return [content[begin : begin + size] for begin in range(0, len(content), size)]


def rows_of(blocks, file_format):
    """All rows of a file, also empty ones."""
    return list(raw_rows(blocks, file_format, next_byte=0, next_line=1))


@given(TABLES, st.integers(1, 40), st.data())
def test_blocks_of_any_size_give_the_same_rows_and_reading_can_resume_after_any_row(table, size, data):
    content = "".join(csv_line(cells) for cells in table).encode()
    rows = [row for row in rows_of(blocks_of(content, size), CSV) if not row.is_empty]
    assert [row.fault for row in rows] == [None] * len(table)
    assert [next(csv.reader(io.StringIO(row.content.decode(), newline=""))) for row in rows] == table
    assert rows[-1].next_byte == len(content)
    # Reading resumes after one of the rows.
    position = data.draw(st.integers(0, len(rows) - 1))
    row = rows[position]
    blocks_after_row = skip_bytes(blocks_of(content, size), row.next_byte)
    later_rows = raw_rows(blocks_after_row, CSV, row.next_byte, row.next_line)
    assert [later_row for later_row in later_rows if not later_row.is_empty] == rows[position + 1 :]


@given(st.binary(max_size=300), st.integers(1, 50))
def test_any_bytes_but_utf_16_are_split_into_rows(content, size):
    for file_format in (CSV, NDJSON):
        try:
            rows = rows_of(blocks_of(content, size), file_format)
        except FileFault:
            # The content begins like a file in UTF-16.
            assert content[:2] in (b"\xff\xfe", b"\xfe\xff")
            continue
        # The numbers of the lines ascend.
        lines = [row.line for row in rows]
        assert lines == sorted(set(lines))
        assert all(row.next_byte <= len(content) for row in rows)


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=4), st.integers(1, 50))
def test_one_or_several_packed_files_are_unpacked(contents, size):
    packed_file = b"".join(gzip.compress(content) for content in contents)
    assert b"".join(decompress(blocks_of(packed_file, size), limit=4 * 200)) == b"".join(contents)


def test_a_packed_file_that_repeats_distant_content_is_unpacked():
    content = random.Random(1).randbytes(20_000) * 2
    assert b"".join(decompress([gzip.compress(content)], limit=40_000)) == content
    assert b"".join(decompress([gzip.compress(b"a") + gzip.compress(content)], limit=40_001)) == b"a" + content


def test_an_empty_file_has_no_unpacked_pieces():
    assert list(decompress([], limit=10)) == []
    assert list(decompress([b""], limit=10)) == []


def test_a_file_is_unpacked_in_pieces_of_at_most_a_mebibyte():
    packed_file = gzip.compress(bytes(5 * 1024 * 1024))
    assert [len(piece) for piece in decompress([packed_file], limit=5 * 1024 * 1024)] == [1024 * 1024] * 5


@pytest.mark.parametrize("cut_bytes", [1, 5, 12])
def test_a_truncated_file_is_reported(cut_bytes):
    with pytest.raises(FileFault, match="truncated"):
        list(decompress([gzip.compress(b"row\n" * 100)[:-cut_bytes]], limit=400))


def test_bytes_after_a_gzip_file_that_are_no_gzip_file_are_refused():
    with pytest.raises(FileFault):
        list(decompress([gzip.compress(b"row\n") + zlib.compress(b"row\n")], limit=400))


def endless_blocks(block, limit):
    """The block again and again; fails the test if it is read more than `limit` times."""
    for _ in range(limit):
        yield block
    pytest.fail("The file was read further than its limit.")


def test_a_gzip_file_of_empty_gzip_files_is_refused_at_its_maximum():
    empty_file = gzip.compress(b"")
    max_count = MAX_PACKED_SURPLUS // (BYTES_PER_GZIP_FILE + len(empty_file))
    assert list(decompress([empty_file * max_count], limit=10)) == []
    with pytest.raises(FileFault, match="too many small gzip files"):
        list(decompress(endless_blocks(empty_file, max_count + 1), limit=10))


@pytest.mark.parametrize("content", [b"", b"row\n" * 1_000_000])
def test_a_gzip_file_that_goes_on_without_content_is_refused(content):
    packer = zlib.compressobj(wbits=31)
    beginning = packer.compress(content) + packer.flush(zlib.Z_FULL_FLUSH)
    empty_blocks = b"\x00\x00\x00\xff\xff" * 100_000
    blocks = endless_blocks(empty_blocks, MAX_PACKED_SURPLUS // len(empty_blocks) + 1)
    with pytest.raises(FileFault, match="much larger than its content"):
        list(decompress(chain([beginning], blocks), limit=len(content)))


@pytest.mark.parametrize(
    ("content", "count"),
    [(b"a\n", 15_000), (random.Random(1).randbytes(1200), 20_000), (random.Random(1).randbytes(65_280), 400)],
    ids=["single_rows", "small_files", "blocks_of_bgzip"],
)
def test_concatenated_gzip_files_are_unpacked(content, count):
    packed_file = gzip.compress(content) * count
    blocks = blocks_of(packed_file, 1024 * 1024)
    assert sum(len(piece) for piece in decompress(blocks, limit=len(content) * count)) == len(content) * count


def test_a_gzip_file_that_is_flushed_after_each_row_is_unpacked():
    packer = zlib.compressobj(wbits=31)
    flushed_row = packer.compress(b"a,b\n") + packer.flush(zlib.Z_FULL_FLUSH)
    packed_file = flushed_row + (packer.compress(b"a,b\n") + packer.flush(zlib.Z_FULL_FLUSH)) + packer.flush()
    assert b"".join(decompress([packed_file], limit=8)) == b"a,b\n" * 2


def test_a_line_without_end_is_refused():
    blocks = endless_blocks(b"x" * MAX_ROW_BYTES, MAX_LINE_BYTES // MAX_ROW_BYTES + 3)
    with pytest.raises(FileFault, match=rf"Line 1 is longer than {MAX_LINE_BYTES} bytes, the maximum\."):
        rows_of(blocks, NDJSON)


def test_a_long_line_is_skipped_in_bounded_memory():
    def blocks():
        yield b"a\n"
        for _ in range(40):
            yield b"x" * MAX_ROW_BYTES
        yield b"x\nb\n"

    row_before, long_row, row_after = (row for row in rows_of(blocks(), NDJSON) if not row.is_empty)
    assert row_before.content == b"a"
    assert (row_after.content, row_after.line) == (b"b", 3)
    # A long row is reported with its first 1000 bytes.
    assert (len(long_row.content), long_row.line) == (1000, 2)
    assert long_row.fault.startswith("The row is longer than ")
    assert (long_row.next_line, long_row.next_byte) == (3, len(b"a\n") + 40 * MAX_ROW_BYTES + len(b"x\n"))


def test_a_quote_that_is_not_closed_is_a_fault_of_only_its_line():
    rows = rows_of([b'a,"b\n' + b"c\n" * 3], CSV)
    assert [(row.line, row.content, row.fault) for row in rows] == [
        (1, b'a,"b', "The quote that opens in this row is not closed."),
        (2, b"c", None),
        (3, b"c", None),
        (4, b"c", None),
    ]


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_an_empty_line_may_begin_a_block(size):
    rows = rows_of([b"a\n", *blocks_of(b"\nb\n", size)], CSV)
    assert [(row.content, row.line) for row in rows] == [(b"a", 1), (b"", 2), (b"b", 3)]


@pytest.mark.parametrize(
    ("last_row", "file_format", "fault"),
    [
        (b'b,"c', CSV, "The quote that opens in this row is not closed."),
        (b'"b",c', CSV, None),
        (b'"b",",c"', CSV, None),
        (b'{"b', NDJSON, None),
    ],
)
def test_a_quote_that_the_last_row_of_a_csv_file_does_not_close_is_a_fault(last_row, file_format, fault):
    row_before, row = rows_of([b"a\n" + last_row], file_format)
    assert (row_before.content, row_before.next_line) == (b"a", 2)
    assert (row.content, row.fault) == (last_row, fault)
    assert (row.next_line, row.next_byte) == (3, len(b"a\n") + len(last_row))


@given(CELLS)
def test_an_escaped_cell_does_not_begin_like_a_formula_and_is_restored_unchanged(cell):
    exported_cell = escape_formula(cell)
    assert unescape_formula(exported_cell) == cell
    assert not exported_cell.startswith(tuple("=+-@＝＋－＠\t\r\n"))


def test_formulas_get_an_apostrophe():
    exported_cells = {"\n=1+1": "'\n=1+1", "＝1+1": "'＝1+1", "＠SUM(1)": "'＠SUM(1)"}
    exported_cells |= {"=1+1": "'=1+1", "-5.20": "-5.20", "+54 11": "'+54 11", "'a": "''a", "a=1": "a=1"}
    for cell, exported_cell in exported_cells.items():
        assert escape_formula(cell) == exported_cell


@pytest.mark.parametrize("cell", ["'abc", "'!x", "'-5.20", "'", ""])
def test_an_apostrophe_that_precedes_no_formula_is_kept(cell):
    assert unescape_formula(cell) == cell


def test_the_delimiter_is_that_of_the_first_line():
    assert delimiter_of("a,b") == "comma"
    assert delimiter_of("a;b") == "semicolon"
    assert delimiter_of("a\tb") == "tab"
    # The most frequent character.
    assert delimiter_of("a|b|c,d") == "pipe"
    assert delimiter_of("a") == "comma"


def test_a_delimiter_in_quotes_is_a_part_of_its_cell():
    assert cells_of('a;"b;c"', "semicolon") == ["a", "b;c"]


def test_a_row_with_a_carriage_return_outside_of_quotes_is_refused():
    with pytest.raises(RowFault):
        cells_of("a\rb", "comma")


def test_a_packed_file_has_a_maximum_size():
    packed_file = gzip.compress(b"x" * 100)
    assert b"".join(decompress([packed_file], limit=100)) == b"x" * 100
    with pytest.raises(FileFault, match=r"The unpacked file has more than 99 bytes, the maximum\."):
        list(decompress([packed_file], limit=99))


def test_a_damaged_file_is_refused():
    with pytest.raises(FileFault, match=r"The gzip file is damaged\."):
        list(decompress([b"\x1f\x8b" + b"x" * 50], limit=1000))


def test_a_gzip_file_is_recognized_by_its_first_bytes():
    assert is_gzip(gzip.compress(b"x"))
    assert not is_gzip(b"loyaltyMemberId")


@pytest.mark.parametrize("mark", [b"\xff\xfe", b"\xfe\xff"])
def test_a_file_in_utf_16_is_refused(mark):
    with pytest.raises(FileFault, match=r"The file is in UTF-16; it has to be in UTF-8\."):
        rows_of([mark + b"a\0"], CSV)


@pytest.mark.parametrize("size", [1, 2, 100])
def test_the_byte_order_mark_of_utf_8_is_no_part_of_the_first_cell(size):
    content = b"\xef\xbb\xbfa,b\r\n"
    [row] = rows_of(blocks_of(content, size), CSV)
    assert row.content == b"a,b"
    assert row.next_byte == len(content)
    assert (row.line, row.next_line) == (1, 2)


def test_a_quote_that_never_closes_ends_with_its_line():
    rows = rows_of([b'a,"b\nc\n', b"y" * MAX_ROW_BYTES + b"\nx\n"], CSV)
    assert (rows[0].content, rows[0].fault) == (b'a,"b', "The quote that opens in this row is not closed.")
    assert (rows[-1].content, rows[-1].fault, rows[-1].line) == (b"x", None, 4)


def test_a_row_that_is_too_long_after_an_open_quote_ends_with_its_first_line():
    row_with_quote, long_row, last_row = rows_of([b'a,"b\n', b"y" * (MAX_ROW_BYTES + 1), b"\nx\n"], CSV)
    assert row_with_quote.content == b'a,"b'
    assert row_with_quote.fault == "The quote that opens in this row is not closed."
    assert long_row.line == 2
    assert long_row.fault.startswith("The row is longer than ")
    assert (last_row.content, last_row.line) == (b"x", 3)


def test_the_last_row_needs_no_line_break():
    rows = rows_of([b"a\n\n\nb"], NDJSON)
    # Two empty lines are one empty row.
    assert [(row.content, row.line, row.is_empty) for row in rows] == [
        (b"a", 1, False),
        (b"", 2, True),
        (b"b", 4, False),
    ]


JOB = ImportJob(
    **{
        **dict.fromkeys(ImportJob.__slots__),
        "status": "running",
        "rows_read": 100,
        "worked_ms": 400,
        "bytes_read": 25,
        "bytes_total": 100,
        "started_at": NOON,
    }
)


def test_the_end_of_an_import_is_estimated_from_its_speed():
    # 100 rows in 0.4 seconds.
    assert replace(JOB, rows_read=100, worked_ms=400).rows_per_second == 250
    assert replace(JOB, rows_read=10_000, worked_ms=4_000).rows_per_second == 2_500
    # A quarter of the bytes was read in 10 minutes.
    job_at_a_quarter = replace(JOB, bytes_read=25, bytes_total=100)
    assert job_at_a_quarter.estimated_end(NOON + timedelta(minutes=10)) == NOON + timedelta(minutes=40)
    # An unpacked file may have more bytes than the file that was sent: the import ends now.
    assert replace(JOB, bytes_read=120, bytes_total=100).estimated_end(NOON) == NOON


@pytest.mark.parametrize(
    "changes", [{"status": "done"}, {"started_at": None}, {"bytes_read": 0}, {"bytes_total": None}]
)
def test_an_import_that_does_not_run_has_no_estimated_end(changes):
    assert replace(JOB, **changes).estimated_end(NOON) is None


def test_an_import_that_has_not_worked_yet_has_no_speed():
    assert replace(JOB, worked_ms=0).rows_per_second is None


@pytest.mark.parametrize("file_format", [CSV, NDJSON])
@pytest.mark.parametrize(("end", "next_rows"), [(b"", []), (b"\n", []), (b"\nb\n", [b"b"])])
def test_a_single_line_that_is_too_long_is_reported_and_skipped(file_format, end, next_rows):
    long_line = b"x" * (1024 * 1024 + 1)
    long_row, *later_rows = rows_of([long_line + end], file_format)
    assert (long_row.fault, long_row.content) == ("The row is longer than 1048576 bytes.", b"x" * 1_000)
    # The row includes its line break.
    assert long_row.next_byte == len(long_line + end[:1])
    assert [row.content for row in later_rows] == next_rows


def test_a_line_of_the_maximum_length_is_a_row():
    [row] = rows_of([b"x" * (1024 * 1024) + b"\n"], CSV)
    assert (row.fault, len(row.content)) == (None, 1024 * 1024)
