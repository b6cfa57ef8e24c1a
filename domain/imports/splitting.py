"""Splitting a file into rows, in bounded memory, from the beginning of any row on."""

import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from domain.imports.records import CSV, FileFault

# A longer row is an error. It is more than any body of a request may be.
MAX_ROW_BYTES = 1024 * 1024
# The number of bytes of an overlong row that its fault is reported with.
KEPT_OF_LONG_ROW = 1000
# A longer line is skipped only to here: one step reads all of it.
MAX_LINE_BYTES = 64 * 1024 * 1024
_UNPACKED_AT_ONCE = 1024 * 1024
# zlib copies what follows the end of a gzip file, so it gets little at once.
_PACKED_AT_ONCE = 16 * 1024
# The bytes by which the packed file may exceed twice its content anywhere; a step reads at most so many without rows.
MAX_PACKED_SURPLUS = 16 * 1024 * 1024
# Each of the concatenated gzip files counts as so many bytes more, as each needs an unpacker of its own.
BYTES_PER_GZIP_FILE = 1024
_TOO_LITTLE_CONTENT = (
    "The gzip file is much larger than its content, or consists of too many small gzip files. "
    "Unpack it, and compress it again as one file."
)
_EMPTY_LINES = re.compile(rb"[\r\n]*\n")
_GZIP = b"\x1f\x8b"
_UTF8_MARK = b"\xef\xbb\xbf"
_OTHER_MARKS = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class RawRow:
    """A row of the file: its first line, its bytes, where the next row begins, and its fault, None if it has none."""

    line: int
    content: bytes
    next_byte: int
    next_line: int
    fault: str | None = None

    @property
    def is_empty(self) -> bool:
        """True for empty lines instead of a row."""
        return not self.content and self.fault is None


def is_gzip(beginning: bytes) -> bool:
    """True for a file that gzip has packed."""
    return beginning.startswith(_GZIP)


def decompress(blocks: Iterable[bytes], limit: int) -> Iterator[bytes]:
    """The decompressed content of a gzip file, which may consist of several concatenated members.

    Raises FileFault for a file that is damaged, for more than `limit` bytes, and for a file with too little content.
    """
    size = 0
    for content in _decompress_members(blocks):
        size += len(content)
        if size > limit:
            raise FileFault(f"The unpacked file has more than {limit} bytes, the maximum.")
        yield content


def _decompress_members(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The decompressed content, in pieces of bounded size."""
    unpacker = zlib.decompressobj(wbits=31)
    is_begun = False
    # By how many bytes the packed file exceeds twice its content, counted from the place where this number was last 0.
    surplus = BYTES_PER_GZIP_FILE
    for block in _divide(blocks, _PACKED_AT_ONCE):
        surplus += len(block)
        remaining = block
        while remaining:
            if unpacker.eof:
                unpacker = zlib.decompressobj(wbits=31)
                surplus += BYTES_PER_GZIP_FILE
            try:
                content = unpacker.decompress(remaining, _UNPACKED_AT_ONCE)
            except zlib.error:
                raise FileFault("The gzip file is damaged.") from None
            is_begun = True
            remaining = unpacker.unused_data if unpacker.eof else unpacker.unconsumed_tail
            surplus = max(0, surplus - 2 * len(content))
            if surplus > MAX_PACKED_SURPLUS:
                raise FileFault(_TOO_LITTLE_CONTENT)
            if content:
                yield content
    while is_begun and not unpacker.eof and (content := unpacker.decompress(b"", _UNPACKED_AT_ONCE)):
        yield content
    if is_begun and not unpacker.eof:
        raise FileFault("The gzip file is truncated: its end is missing.")


def _divide(blocks: Iterable[bytes], size: int) -> Iterator[bytes]:
    """The blocks in pieces of at most `size` bytes."""
    for block in blocks:
        for begin in range(0, len(block), size):
            yield block[begin : begin + size]


def skip_bytes(blocks: Iterable[bytes], count: int) -> Iterator[bytes]:
    """The blocks without their first `count` bytes."""
    for block in blocks:
        if count >= len(block):
            count -= len(block)
        else:
            yield block[count:]
            count = 0


def raw_rows(blocks: Iterable[bytes], file_format: str, next_byte: int, next_line: int) -> Iterator[RawRow]:
    """The rows of a file from `next_byte` on, which is in line `next_line`; consecutive empty lines are one empty row.

    A row of a CSV file continues in the next line if a quote is open. Raises FileFault for a file in UTF-16, and for an
    endless line.
    """
    splitter = _Splitter(blocks, file_format == CSV, next_byte, next_line)
    while (row := splitter.take_next()) is not None:
        yield row


class _Splitter:
    """Reads blocks into a buffer and finds the rows in it; the buffer has at most one row and one block."""

    def __init__(self, blocks: Iterable[bytes], has_quotes: bool, offset: int, line: int) -> None:
        self._blocks = iter(blocks)
        self._has_quotes = has_quotes
        self._buffer = b""
        # The place of the next row in the buffer, the file, and its line.
        self._start = 0
        self._offset = offset
        self._line = line
        self._is_complete = False
        if offset == 0:
            self._skip_mark()

    def take_next(self) -> RawRow | None:
        """Take the next row, or the empty lines before it that are in memory; None at the end of the file."""
        if empty := _EMPTY_LINES.match(self._buffer, self._start):
            return self._take_row(self._start, empty.end(), empty[0].count(b"\n"))
        scan, is_quoted, lines = self._start, False, 0
        while True:
            end = self._buffer.find(b"\n", scan)
            if end < 0:
                if len(self._buffer) - self._start > MAX_ROW_BYTES:
                    return self._take_overlong_row(self._has_quotes and lines > 0)
                if self._is_complete:
                    return self._take_last_row(scan, is_quoted, lines)
                scan -= self._start
                self._read()
                continue
            if self._has_quotes:
                # An odd number of quotes opens or closes a quoted cell.
                is_quoted ^= self._buffer.count(b'"', scan, end) % 2 == 1
            lines += 1
            scan = end + 1
            if end - self._start > MAX_ROW_BYTES:
                return self._take_overlong_row(lines > 1)
            if not is_quoted:
                return self._take_row(end, scan, lines)

    def _take_row(self, end: int, following: int, lines: int, fault: str | None = None) -> RawRow:
        """Take the row that ends before `end`; the next one begins at `following`, `lines` lines further."""
        content = self._buffer[self._start : end]
        self._offset += following - self._start
        self._start = following
        line, self._line = self._line, self._line + lines
        return RawRow(line, content.removesuffix(b"\r"), self._offset, self._line, fault)

    def _take_last_row(self, scan: int, is_quoted: bool, lines: int) -> RawRow | None:
        """Take the last row of a file that does not end with a line break; quotes are counted from `scan` on."""
        size = len(self._buffer)
        if self._start == size:
            return None
        if self._has_quotes and is_quoted ^ (self._buffer.count(b'"', scan) % 2 == 1):
            return self._take_row_of_unclosed_quote()
        return self._take_row(size, size, lines + 1)

    def _take_overlong_row(self, has_several_lines: bool) -> RawRow:
        """Take a row that is too long: a quote that is not closed, or one endless line."""
        if has_several_lines:
            return self._take_row_of_unclosed_quote()
        return self._skip_endless_line()

    def _take_row_of_unclosed_quote(self) -> RawRow:
        """Take the line in which a quote begins that does not end; the next row begins in the line after it."""
        end = self._buffer.find(b"\n", self._start)
        end, following = (len(self._buffer), len(self._buffer)) if end < 0 else (end, end + 1)
        return self._take_row(end, following, 1, "The quote that opens in this row is not closed.")

    def _skip_endless_line(self) -> RawRow:
        """Skip a line that is too long, in bounded memory; return its beginning as a row with a fault.

        Raises FileFault for a line of more than `MAX_LINE_BYTES`.
        """
        begin = self._offset
        excerpt = self._buffer[self._start : self._start + KEPT_OF_LONG_ROW]
        while (end := self._buffer.find(b"\n", self._start)) < 0 and not self._is_complete:
            if self._offset - begin > MAX_LINE_BYTES:
                raise FileFault(f"Line {self._line} is longer than {MAX_LINE_BYTES} bytes, the maximum.")
            self._offset += len(self._buffer) - self._start
            self._start = len(self._buffer)
            self._read()
        following = len(self._buffer) if end < 0 else end + 1
        row = self._take_row(following, following, 1, f"The row is longer than {MAX_ROW_BYTES} bytes.")
        return RawRow(row.line, excerpt, row.next_byte, row.next_line, row.fault)

    def _read(self) -> None:
        """Read the next block, and drop what is before the next row from the buffer."""
        block = next(self._blocks, None)
        if block is None:
            self._is_complete = True
            block = b""
        self._buffer = self._buffer[self._start :] + block
        self._start = 0

    def _skip_mark(self) -> None:
        """Skip the byte order mark of UTF-8; raise FileFault for the one of UTF-16."""
        while len(self._buffer) < len(_UTF8_MARK) and not self._is_complete:
            self._read()
        if self._buffer.startswith(_OTHER_MARKS):
            raise FileFault("The file is in UTF-16; it has to be in UTF-8.")
        if self._buffer.startswith(_UTF8_MARK):
            self._start = self._offset = len(_UTF8_MARK)
