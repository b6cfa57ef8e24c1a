"""The cells of rows: CSV and JSON become values of fields, and cells that spreadsheets take for formulas are marked."""

import csv
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from io import StringIO
from typing import Any

from domain.imports.records import (
    AUDIENCE_MEMBERS,
    BADGES,
    BALANCES,
    COUPON_CODES,
    COUPONS,
    EVENTS,
    MEMBER_COLUMNS,
    MEMBERS,
    MISSION_PROGRESS,
    FileFault,
    RowFault,
)

MAX_COLUMNS = 1000
# Additional columns of a file of errors. An import skips them, so that the file can be sent again.
ERROR_COLUMNS = ("importLine", "importColumn", "importReason")
DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}
CUSTOM = "customAttributes."
_LIST_SEPARATOR = "|"
# Spreadsheets trim white space, and take full-width signs for the usual ones.
_FORMULA = re.compile(r"['=+\-@＝＋－＠\t\r\n]")
_NUMBER = re.compile(r"[+-]?[0-9]+([.][0-9]+)?")
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,18}")
_WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}

CellReader = Callable[[str], Any]
# Reads the JSON object of a cell, given the name of its column.
ParseObject = Callable[[str, str], Mapping[str, Any]]


def escape_formula(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula: an apostrophe is put before a cell that looks like one."""
    return f"'{cell}" if _FORMULA.match(cell) and not _NUMBER.fullmatch(cell) else cell


def unescape_formula(cell: str) -> str:
    """The cell before `escape_formula`."""
    return cell[1:] if cell.startswith("'") and escape_formula(cell[1:]) == cell else cell


def csv_line(cells: Iterable[str]) -> str:
    """A line of a CSV file, with its end."""
    line = StringIO()
    csv.writer(line, lineterminator="\r\n").writerow(cells)
    return line.getvalue()


def list_cell(texts: Sequence[str]) -> str:
    """A cell with a list: the texts with `|` between them, or a JSON array if that would be read as another list."""
    cell = _LIST_SEPARATOR.join(texts)
    return cell if _texts(cell) == list(texts) else json.dumps(texts, ensure_ascii=False)


def _text(cell: str) -> str:
    return cell


def _boolean(cell: str) -> bool:
    if cell.lower() not in _WORDS:
        raise ValueError("is neither true nor false")
    return _WORDS[cell.lower()]


def _texts(cell: str) -> list[str]:
    """The texts of a JSON array, or else the parts between the separators."""
    texts = _array_of_texts(cell)
    if texts is not None:
        return texts
    parts = [part.strip() for part in cell.split(_LIST_SEPARATOR)]
    return [part for part in parts if part]


def _array_of_texts(cell: str) -> list[str] | None:
    """The texts of a JSON array; None for other cells, also for an array with text that cannot be stored."""
    with suppress(ValueError, RecursionError):
        texts = json.loads(cell) if cell.startswith("[") else None
        if isinstance(texts, list) and all(isinstance(text, str) for text in texts):
            # Half of a surrogate pair cannot be encoded.
            return None if b"\0" in "".join(texts).encode() else texts
    return None


def _object(cell: str) -> str:
    """The unchanged cell; `Columns` parses it as JSON."""
    return cell


def _number(cell: str) -> Decimal:
    if not _NUMBER.fullmatch(cell):
        raise ValueError("is not a number such as 12.5")
    return Decimal(cell)


def _whole_number(cell: str) -> int:
    if not _WHOLE_NUMBER.fullmatch(cell):
        raise ValueError("is not a whole number")
    return int(cell)


# The type of JSON and its name in texts, by the function that reads a cell of that type.
_FORMS: Mapping[CellReader, tuple[type[Any], str]] = {
    _text: (str, "a text"),
    _boolean: (bool, "true or false"),
    _texts: (list, "an array"),
    _object: (dict, "an object"),
}

_READERS = {form: read for read, (form, _) in _FORMS.items()}

# The fields of a row by kind, and how a cell of a CSV file is read.
FIELDS: Mapping[str, Mapping[str, CellReader]] = {
    MEMBERS: {name: _READERS[form] for name, form in MEMBER_COLUMNS.items()},
    BALANCES: {
        "loyaltyMemberId": _text,
        "amount": _number,
        "account": _text,
        "expiresAt": _text,
        "pending": _boolean,
        "earnedAt": _text,
        "qualifyingAmount": _number,
        "availableAt": _text,
        "externalId": _text,
        "description": _text,
        "tags": _texts,
        "systemUniqueKey": _text,
    },
    COUPON_CODES: {"couponBook": _text, "code": _text},
    COUPONS: {
        "loyaltyMemberId": _text,
        "couponBook": _text,
        "code": _text,
        "amount": _whole_number,
        "remainingValue": _number,
        "expiresAt": _text,
        "pointsOverride": _number,
        "couponData": _object,
        "customAttributes": _object,
        "externalId": _text,
        "description": _text,
        "tags": _texts,
        "systemUniqueKey": _text,
    },
    BADGES: {
        "loyaltyMemberId": _text,
        "badge": _text,
        "amount": _whole_number,
        "customAttributes": _object,
        "externalId": _text,
        "systemUniqueKey": _text,
    },
    AUDIENCE_MEMBERS: {"audience": _text, "loyaltyMemberId": _text, "remove": _boolean},
    EVENTS: {
        "loyaltyMemberId": _text,
        "eventType": _text,
        "payload": _object,
        "externalEventDate": _text,
        "sponsorLoyaltyMemberId": _text,
        "externalId": _text,
        "description": _text,
        "tags": _texts,
        "systemUniqueKey": _text,
    },
    MISSION_PROGRESS: {
        "loyaltyMemberId": _text,
        "mission": _text,
        "count": _whole_number,
        "timesAchieved": _whole_number,
    },
}
REQUIRED: Mapping[str, tuple[str, ...]] = {
    MEMBERS: ("loyaltyMemberId",),
    BALANCES: ("loyaltyMemberId", "amount"),
    COUPON_CODES: ("couponBook", "code"),
    COUPONS: ("loyaltyMemberId", "couponBook"),
    BADGES: ("loyaltyMemberId", "badge"),
    AUDIENCE_MEMBERS: ("audience", "loyaltyMemberId"),
    EVENTS: ("loyaltyMemberId", "eventType"),
    MISSION_PROGRESS: ("loyaltyMemberId", "mission"),
}


def delimiter_of(header: str) -> str:
    """The name of the delimiter of a CSV file: the one that separates most columns of its first line."""
    return max(DELIMITERS, key=lambda name: header.count(DELIMITERS[name]))


def cells_of(text: str, delimiter: str) -> list[str]:
    """The cells of a CSV row, by the name of its delimiter; raises RowFault."""
    try:
        [cells] = csv.reader([text], delimiter=DELIMITERS[delimiter], strict=True)
    except csv.Error as error:
        # For a line break, the csv module advises programmers to open the file in another mode.
        if str(error).startswith("new-line"):
            raise RowFault("The row contains a line break outside of quotes.") from None
        raise RowFault(f"The row is not valid CSV: {error}.") from None
    return cells


class Columns:
    """The columns of a file, as fields of its kind.

    `column_names` are the names in the file by field, `parse` reads cells of JSON. Raises FileFault for columns that
    are unknown, missing or repeated, and for too many columns.
    """

    def __init__(
        self,
        kind: str,
        header: Sequence[str],
        column_names: Mapping[str, str],
        ignores_unknown: bool,
        parse: ParseObject,
    ) -> None:
        fields_by_name = {name: field for field, name in column_names.items()}
        readers = FIELDS[kind]
        self.header = list(header)
        self._parse = parse
        self._fields: list[tuple[str, CellReader] | None] = []
        self._names: dict[str, str] = {}
        unknown: list[str] = []
        if len(self.header) > MAX_COLUMNS:
            raise FileFault(f"The first line has {len(self.header)} columns; a file has at most {MAX_COLUMNS}.")
        for name in self.header:
            # If columnNames renames the column of a field, a column with the field's own name is unknown.
            field = fields_by_name.get(name, "" if name in column_names else name)
            if field in readers or (kind == MEMBERS and field.startswith(CUSTOM)):
                if field in self._names:
                    raise FileFault(f"The column {name} is in the first line twice.")
                self._fields.append((field, readers.get(field, _text)))
                self._names[field] = name
            else:
                self._fields.append(None)
                if name not in ERROR_COLUMNS and not ignores_unknown:
                    unknown.append(name)
        for field in (*REQUIRED[kind], *column_names):
            if field not in self._names:
                names = ", ".join(self.header)[:500]
                raise FileFault(f"The column {column_names.get(field, field)} is missing. The first line has {names}.")
        if unknown:
            raise FileFault(
                f"The column {unknown[0][:100]!r} is unknown. Map a field to it in columnNames, or set "
                f"ignoreUnknownColumns. The fields are {', '.join(readers)}."
            )

    def name_of(self, field: str) -> str:
        """The name of a field in the file."""
        return self._names.get(field, field)

    def cell_of(self, field: str, cells: Sequence[str]) -> str | None:
        """The cell of a field in a row; None if the row has another number of columns or the file lacks the field."""
        if len(cells) != len(self._fields) or field not in self._names:
            return None
        return unescape_formula(cells[self.header.index(self._names[field])])

    def values(self, cells: Sequence[str]) -> dict[str, Any]:
        """The values of a row by field, without those of empty cells; raises RowFault."""
        if len(cells) != len(self._fields):
            raise RowFault(f"The row has {len(cells)} columns, the first line of the file has {len(self._fields)}.")
        values: dict[str, Any] = {}
        for column, cell in zip(self._fields, cells, strict=True):
            if column is None or not cell:
                continue
            field, read = column
            try:
                # Files of errors and exports have escaped cells.
                value = read(unescape_formula(cell) if cell[0] == "'" else cell)
            except ValueError as error:
                name = self.name_of(field)
                raise RowFault(f"{name} {error}.", name) from None
            values[field] = self._parse(self.name_of(field), value) if read is _object else value
        return values


def object_values(
    kind: str, row: Mapping[str, Any], column_names: Mapping[str, str], ignores_unknown: bool
) -> dict[str, Any]:
    """The values of a JSON object by field, without fields that are null; raises RowFault."""
    fields_by_name = {name: field for field, name in column_names.items()}
    readers = FIELDS[kind]
    values: dict[str, Any] = {}
    for name, value in row.items():
        field = fields_by_name.get(name, name)
        if field not in readers and not (kind == MEMBERS and field.startswith(CUSTOM)):
            if not ignores_unknown:
                raise RowFault(f"The field {name[:100]!r} is unknown.", name[:100])
        elif value is not None:
            values[field] = _of_json(name, readers.get(field, _text), value)
    for field in REQUIRED[kind]:
        if field not in values:
            raise RowFault(f"{column_names.get(field, field)} is missing.", column_names.get(field, field))
    return values


def _of_json(name: str, read: CellReader, value: Any) -> Any:
    """The value of the field `name`, which must have the type that `read` returns; a number may also be a text."""
    if read in (_number, _whole_number):
        if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
            raise RowFault(f"{name} is not a number.", name)
        is_valid = isinstance(value, int) or (isinstance(value, Decimal) and read is _number)
        try:
            return value if is_valid else read(str(value))
        except ValueError as error:
            raise RowFault(f"{name} {error}.", name) from None
    json_types, words = _FORMS[read]
    if not isinstance(value, json_types) and not (read is _text and name.startswith(CUSTOM)):
        raise RowFault(f"{name} is not {words}.", name)
    return value
