"""Reading and checking the rows of an import from its stored file, in bounded memory."""

import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection

from domain.imports.cells import MAX_COLUMNS, Columns, cells_of, delimiter_of, object_values
from domain.imports.records import CSV, FailedRow, FileFault, ImportJob, ImportPart, RowFault
from domain.imports.splitting import RawRow, decompress, is_gzip, raw_rows, skip_bytes
from domain.problems import InvalidRequest
from handlers.messages import json_text
from persistence import imports

# The bytes of the unpacked file that are read ahead, up to the end of a row. In memory, rows need a multiple of that.
_BYTES_AT_ONCE = 2 * 1024 * 1024
_MEMBER = "loyaltyMemberId"


@dataclass(frozen=True, slots=True)
class ImportRow:
    """A row of a file: its values by field or its fault, and as `content` its unchanged cells or text.

    The next row begins at `next_byte` of the unpacked file, which is line `next_line`. `member_name` is the
    loyaltyMemberId of a row with a fault, if it can be read.
    """

    line: int
    content: Sequence[str] | str
    next_byte: int
    next_line: int
    values: Mapping[str, Any] = field(default_factory=dict)
    fault: RowFault | None = None
    member_name: Any = None
    # True for empty lines, which are not imported.
    is_empty: bool = False

    def to_failed_row(self, reason: str, column: str | None = None) -> FailedRow:
        """The record of the row as a failed one."""
        name = self.values.get(_MEMBER, self.member_name)
        return FailedRow(
            line=self.line,
            column_name=column,
            reason=reason,
            row=self.content,
            loyalty_member_id=name.strip() if isinstance(name, str) else None,
        )


class RowReader:
    """Reads the rows of an import, beginning where the last step ended; each step sets its own connection as `db`.

    A compressed file may have at most `max_unpacked_bytes` when decompressed.
    """

    def __init__(self, db: Connection, job: ImportJob, parts: Sequence[ImportPart], max_unpacked_bytes: int) -> None:
        self.db = db
        self._job = job
        self._parts = parts
        self._max_unpacked_bytes = max_unpacked_bytes
        self._rows_ahead: list[ImportRow] = []
        # The position after the rows that were read ahead, and after the empty lines that follow them.
        self._read_byte, self._read_line = job.next_byte, job.next_line
        self._is_complete = False
        self._fault: FileFault | None = None
        self._bytes_read = 0
        self._is_compressed = False
        self.next_byte, self.next_line = job.next_byte, job.next_line
        self.header: Sequence[str] | None = job.header
        self.delimiter = job.delimiter
        self._columns: Columns | None = None
        self._rows = self._read()

    @property
    def is_at_end(self) -> bool:
        """True if all rows were taken."""
        return self._is_complete and not self._rows_ahead

    def bytes_read_at(self, next_byte: int) -> int:
        """The bytes of the uploaded file that were read up to a position in the unpacked file."""
        return self._bytes_read if self._is_compressed else next_byte

    def peek(self, limit: int) -> list[ImportRow]:
        """The next rows, limited in number and by `_BYTES_AT_ONCE`; may be empty after a long run of empty lines.

        It is also empty at the end of the file. Raises FileFault after the rows before the fault were taken.
        """
        while (
            len(self._rows_ahead) < limit
            and self._read_byte - self.next_byte < _BYTES_AT_ONCE
            and not self._is_complete
            and self._fault is None
        ):
            self._read_ahead()
        if not self._rows_ahead and self._fault is not None:
            raise self._fault
        return self._rows_ahead[:limit]

    def _read_ahead(self) -> None:
        """Read one row ahead; note the end of the file, or the fault that ends the reading."""
        try:
            row = next(self._rows, None)
        except FileFault as fault:
            self._fault = fault
            return
        if row is None:
            self._is_complete = True
            return
        self._read_byte, self._read_line = row.next_byte, row.next_line
        if not row.is_empty:
            self._rows_ahead.append(row)

    def position_after(self, count: int) -> tuple[int, int]:
        """The byte and line after the next `count` rows; `count` is 0 only if no row was read ahead.

        After the last row read ahead, this is also after the empty lines that follow it.
        """
        if count < len(self._rows_ahead):
            row = self._rows_ahead[count - 1]
            return row.next_byte, row.next_line
        return self._read_byte, self._read_line

    def take(self, count: int) -> None:
        """Remove the next `count` rows, and continue after them."""
        self.next_byte, self.next_line = self.position_after(count)
        del self._rows_ahead[:count]

    def close(self) -> None:
        """Free the rows that were read ahead: generator, fault and this reader reference each other."""
        self._rows.close()
        self._rows_ahead.clear()
        self._fault = None

    def name_of(self, field_name: str) -> str:
        """The name of a field in the file."""
        if self._columns is not None:
            return self._columns.name_of(field_name)
        return self._job.column_names.get(field_name, field_name)

    def _read(self) -> Generator[ImportRow]:
        """Yield the rows from the position of the import on, and empty lines as empty rows; raises FileFault."""
        job = self._job
        fields_by_column: dict[str, str] = {}
        for field_name, column in sorted(job.column_names.items()):
            other_field = fields_by_column.setdefault(column, field_name)
            if other_field != field_name:
                raise FileFault(f"columnNames has the column {column} for both {other_field} and {field_name}.")
        self._is_compressed = bool(self._parts) and is_gzip(
            imports.read_block(self.db, job, self._parts[0].part_number, 0)
        )
        if self._is_compressed:
            blocks = skip_bytes(decompress(self._blocks(0), self._max_unpacked_bytes), job.next_byte)
        else:
            blocks = self._blocks(job.next_byte)
        rows = raw_rows(blocks, job.format, job.next_byte, job.next_line)
        if job.format == CSV:
            yield from self._read_csv(rows)
        else:
            for raw in rows:
                yield _empty_row(raw) if raw.is_empty else self._json_row(raw)

    def _blocks(self, first_byte: int) -> Iterator[bytes]:
        """The content of the uploaded file, from a byte on."""
        bytes_read = first_byte
        # In the loop, `first_byte` is relative to the part.
        for part in self._parts:
            if first_byte >= part.size:
                first_byte -= part.size
                continue
            # All blocks of the part from this byte on; the last one may be shorter.
            for number in range(first_byte // imports.BLOCK_BYTES, math.ceil(part.size / imports.BLOCK_BYTES)):
                content = imports.read_block(self.db, self._job, part.part_number, number)
                content = content[first_byte % imports.BLOCK_BYTES :]
                first_byte = 0
                bytes_read += len(content)
                self._bytes_read = bytes_read
                yield content
            first_byte = 0

    def _read_csv(self, rows: Iterator[RawRow]) -> Iterator[ImportRow]:
        """Yield rows of CSV; reads the line of headings first, unless an earlier step has stored it."""
        job = self._job
        if self.header is None:
            first_row = next(rows, None)
            while first_row is not None and first_row.is_empty:
                yield _empty_row(first_row)
                first_row = next(rows, None)
            if first_row is None:
                raise FileFault("The file is empty.")
            text = _decode_header(first_row, job.encoding)
            try:
                cells = cells_of(text, job.delimiter or delimiter_of(text))
            except RowFault as fault:
                raise FileFault(f"The first line has no names of columns. {fault.reason}") from None
            self.header = [cell.strip() for cell in cells]
            self.delimiter = job.delimiter or delimiter_of(text)
        self._columns = Columns(job.kind, self.header, job.column_names, job.ignore_unknown_columns, _object_of_cell)
        for raw in rows:
            yield _empty_row(raw) if raw.is_empty else self._csv_row(raw, self._columns)

    def _csv_row(self, raw: RawRow, columns: Columns) -> ImportRow:
        """The row with its values; if it is not valid, with a fault and with as much content as can be shown."""
        cells: Sequence[str] | None = None
        try:
            cells = cells_of(_decode(raw, self._job.encoding), self.delimiter or delimiter_of(""))
            return ImportRow(raw.line, cells, raw.next_byte, raw.next_line, columns.values(cells))
        except RowFault as fault:
            content = _readable_text(raw) if cells is None or len(cells) > MAX_COLUMNS else cells
            name = None if cells is None else columns.cell_of(_MEMBER, cells)
            return _faulty_row(raw, content, fault, name)

    def _json_row(self, raw: RawRow) -> ImportRow:
        """The row of a line of JSON; a row with a fault if the line is not valid."""
        job, text = self._job, None
        row: Mapping[str, Any] = {}
        try:
            text = _decode(raw, job.encoding)
            row = _json_object(text)
            values = object_values(job.kind, row, job.column_names, job.ignore_unknown_columns)
        except RowFault as fault:
            content = _readable_text(raw) if text is None else text
            member_column = job.column_names.get(_MEMBER, _MEMBER)
            return _faulty_row(raw, content, fault, row.get(member_column))
        return ImportRow(raw.line, text, raw.next_byte, raw.next_line, values)


def _faulty_row(raw: RawRow, content: Sequence[str] | str, fault: RowFault, member_name: Any) -> ImportRow:
    """A row that cannot be read, with a copy of its fault.

    The copy has no traceback, so that fault, frames and row form no reference cycle.
    """
    fault = RowFault(fault.reason, fault.column)
    return ImportRow(raw.line, content, raw.next_byte, raw.next_line, fault=fault, member_name=member_name)


def _empty_row(raw: RawRow) -> ImportRow:
    return ImportRow(raw.line, "", raw.next_byte, raw.next_line, is_empty=True)


def _readable_text(raw: RawRow) -> str:
    """The text of a row, with U+FFFD in place of wrong bytes and of U+0000."""
    return raw.content.decode("utf-8", "replace").replace("\x00", "\ufffd")


def _decode(raw: RawRow, encoding: str) -> str:
    """The text of a row; raises RowFault."""
    if raw.fault is not None:
        raise RowFault(raw.fault)
    if b"\x00" in raw.content:
        raise RowFault("The row contains the character U+0000, which cannot be stored.")
    try:
        return raw.content.decode(encoding)
    except UnicodeDecodeError as error:
        wrong = raw.content[error.start]
        raise RowFault(f"Byte {error.start + 1} of the row, {wrong:#04x}, is not {encoding}.") from None


def _decode_header(raw: RawRow, encoding: str) -> str:
    try:
        return _decode(raw, encoding)
    except RowFault as fault:
        raise FileFault(f"The first line has no names of columns. {fault.reason}") from None


def _json_object(text: str) -> Mapping[str, Any]:
    """The object of a line of JSON, read by the rules for request bodies; raises RowFault."""
    try:
        row = json_text.decode(text.encode())
    except InvalidRequest as refusal:
        raise RowFault(refusal.detail.replace("The body", "The row")) from None
    if not isinstance(row, dict):
        raise RowFault("The row is not a JSON object.")
    return row


def _object_of_cell(name: str, cell: str) -> Mapping[str, Any]:
    try:
        return _json_object(cell)
    except RowFault:
        raise RowFault(f"{name} is not a JSON object.", name) from None
