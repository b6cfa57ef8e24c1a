"""Parameters and bodies of requests: plans, one for each operation, by which text strictly becomes typed values."""

import re
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from urllib.parse import unquote_to_bytes

from domain.problems import FieldFault, InvalidRequest, did_you_mean
from domain.scalars import split_list
from handlers.http.exchange import Exchange
from handlers.http.intake import LARGE_BYTES
from handlers.http.problems import HttpProblem
from handlers.messages.faults import MAX_FAULTS
from handlers.messages.json_text import UnreadableNumber, decode, read_number
from handlers.messages.uploads import Upload
from handlers.messages.validation import DocumentError, Schemas, Validator, body_faults

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_MAX_INTEGER_DIGITS = 20
_MAX_PAIRS = 500

FAMILY = "x-parameter-family"
"""On a query parameter: the prefix of the names of further parameters, such as `range.` of `range.price.min`.

Handlers get all these parameters under their prefix, as pairs of name and text in the order of the query.
"""
# The maximum number of parameters of a family, and of characters in the text of one.
MAX_FAMILY, MAX_FAMILY_TEXT = 50, 2000

FORM = "application/x-www-form-urlencoded"
FILE = "application/octet-stream"
_UTF8 = {"utf-8", "utf8"}

# Large bodies are parsed one after the other, since parsing a megabyte can need 80 MiB.
# This costs no time: parsing holds the interpreter's lock anyway.
_one_large_body = threading.Lock()


class UnreadableText(ValueError):
    """A text of a URL or form that is no value of its documented type.

    The message is the end of a sentence that begins with the name of the parameter or field.
    """


def decode_text(raw: bytes) -> str:
    """Undo percent-encoding; raises UnreadableText for bad escapes, invalid UTF-8 and U+0000."""
    if b"%" in raw:
        if _BAD_ESCAPE.search(raw):
            raise UnreadableText("has a percent sign without two hexadecimal digits behind it; a plain one is %25")
        raw = unquote_to_bytes(raw)
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise UnreadableText("is not valid UTF-8") from None
    if "\x00" in text:
        raise UnreadableText("contains the character U+0000")
    return text


def _integer(text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise UnreadableText("is not of type integer")
    if len(text) > _MAX_INTEGER_DIGITS:
        raise UnreadableText(f"has more than {_MAX_INTEGER_DIGITS} characters")
    return int(text)


def _number(text: str) -> Decimal | int:
    if not _NUMBER.fullmatch(text):
        raise UnreadableText("is not of type number")
    try:
        return read_number(text)
    except UnreadableNumber as error:
        raise UnreadableText(str(error)) from None


def _boolean(text: str) -> bool:
    if text == "true":
        return True
    if text == "false":
        return False
    raise UnreadableText("is neither true nor false")


def _split(text: str) -> list[str]:
    return text.split(",")


_READERS: Mapping[str, Callable[[str], Any]] = {
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "string": str,
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """The plan of one parameter; `is_comma_separated` is True for an array that is sent as one text.

    `has_escapes` is True if a backslash makes a comma part of an item, as in the parameters of a family.
    """

    name: str
    read: Callable[[str], Any]
    is_array: bool
    is_comma_separated: bool
    has_escapes: bool

    def value(self, texts: list[str]) -> Any:
        """The typed value of the texts that were sent under the name; raises UnreadableText."""
        if not self.is_array:
            if len(texts) > 1:
                raise UnreadableText("was sent more than once")
            return self.read(texts[0])
        if self.is_comma_separated:
            # Clients write `a,b`, encode the comma, or repeat the key: all mean the same list.
            joined = ",".join(texts)
            split = split_list if self.has_escapes else _split
            texts = split(joined) if joined else []
        return [self.read(text) for text in texts]


class ParameterPlan:
    """The compiled parameters of one operation: the allowed values of its path, query string and headers.

    A family is all query parameters whose names begin with the same prefix, see `FAMILY`.
    """

    def __init__(self, parameters: Iterable[Mapping[str, Any]], schemas: Schemas, operation_name: str) -> None:
        self._by_location: dict[str, dict[str, Parameter]] = {"path": {}, "query": {}, "header": {}}
        self._required: dict[str, list[str]] = {"path": [], "query": [], "header": []}
        self._defaults: dict[str, Any] = {}
        self._family_prefixes: tuple[str, ...] = ()
        checks: dict[str, dict[str, Any]] = {"path": {}, "query": {}, "header": {}}
        for parameter in parameters:
            location, name = parameter["in"], parameter["name"]
            if location not in checks:
                raise DocumentError(f"{operation_name}: the parameter {name} is in {location}, which is not served")
            if "schema" not in parameter:
                raise DocumentError(f"{operation_name}: the parameter {name} has no schema")
            schema = schemas.resolve(parameter["schema"])
            key = name.lower() if location == "header" else name
            self._by_location[location][key] = _parameter(parameter, schema, schemas, operation_name)
            checks[location][key] = schemas.translate(parameter["schema"])
            if parameter.get("required"):
                self._required[location].append(key)
            if location == "query" and FAMILY in parameter:
                self._family_prefixes += (_family_prefix(parameter[FAMILY], operation_name),)
            if location == "query" and "default" in schema:
                self._defaults[name] = schema["default"]
        self._validators = {
            location: schemas.compile({"type": "object", "properties": properties}) if properties else None
            for location, properties in checks.items()
        }

    @property
    def path_names(self) -> frozenset[str]:
        """The names of the path parameters."""
        return frozenset(self._by_location["path"])

    def read_path(self, raw: Iterable[tuple[str, bytes]], faults: list[FieldFault]) -> dict[str, Any]:
        """Read the typed path parameters; adds faults to `faults`."""
        texts: dict[str, list[str]] = {}
        for name, segment in raw:
            try:
                texts[name] = [decode_text(segment)]
            except UnreadableText as error:
                faults.append(FieldFault(f"{name} {error}.", parameter=name))
        return self._read_values("path", texts, faults)

    def read_query(self, raw: bytes, faults: list[FieldFault]) -> tuple[dict[str, Any], Iterable[str]]:
        """Read the typed query parameters with their defaults, and the names of the parameters that were sent.

        The parameters of a family are a list of pairs (name, text) under their prefix. Adds faults to `faults`.
        """
        if not raw and not self._required["query"]:
            return self._defaults.copy(), ()
        parameters = self._by_location["query"]
        texts: dict[str, list[str]] = {}
        pairs_by_prefix: dict[str, list[tuple[str, str]]] = {}
        for name, text in pairs_of(raw, faults):
            if name in parameters:
                texts.setdefault(name, []).append(text)
            elif self._family_prefixes and (prefix := self._prefix_of(name)):
                family_pairs = pairs_by_prefix.setdefault(prefix, [])
                if len(text) > MAX_FAMILY_TEXT:
                    detail = f"The value of {name[:100]} has more than {MAX_FAMILY_TEXT} characters."
                    faults.append(FieldFault(detail, parameter=name[:100]))
                elif len(family_pairs) >= MAX_FAMILY:
                    detail = f"There are more than {MAX_FAMILY} parameters whose names begin with {prefix}"
                    faults.append(FieldFault(detail, parameter=name[:100]))
                else:
                    family_pairs.append((name, text))
            else:
                detail = f"The query parameter {name[:100]} is not known here.{did_you_mean(name, parameters)}"
                faults.append(FieldFault(detail, parameter=name[:100]))
        values = self._read_values("query", texts, faults)
        for name, default in self._defaults.items():
            if name not in texts:
                values[name] = default
        values.update(pairs_by_prefix)
        return values, texts.keys()

    def _prefix_of(self, name: str) -> str | None:
        """The prefix of the family that a parameter belongs to, if any."""
        return next((prefix for prefix in self._family_prefixes if name.startswith(prefix)), None)

    def check_headers(self, headers: Mapping[str, str], faults: list[FieldFault]) -> None:
        """Validate the documented header parameters; the handler gets them as text."""
        parameters = self._by_location["header"]
        if parameters:
            self._read_values("header", {name: [headers[name]] for name in parameters if name in headers}, faults)

    def _read_values(self, location: str, texts: dict[str, list[str]], faults: list[FieldFault]) -> dict[str, Any]:
        """Read the typed values of the parameters in a location, by name, from `texts`, which were sent for each.

        Faults of values, and of required parameters that are missing, are added to `faults`.
        """
        parameters = self._by_location[location]
        values: dict[str, Any] = {}
        for name, name_texts in texts.items():
            try:
                values[name] = parameters[name].value(name_texts)
            except UnreadableText as error:
                faults.append(FieldFault(f"{name} {error}.", parameter=name))
        for name in self._required[location]:
            if name not in texts and not any(fault.parameter == name for fault in faults):
                faults.append(FieldFault(f"{name} is missing.", parameter=name))
        validator = self._validators[location]
        if validator is not None and values and not validator.accepts(values):
            for path, detail in validator.faults(values):
                faults.append(FieldFault(detail, parameter=str(path[0]) if path else None))
        return values


def pairs_of(raw: bytes, faults: list[FieldFault]) -> Iterable[tuple[str, str]]:
    """The decoded pairs of a query string or form; a fault for each undecodable one is added to `faults`."""
    for count, piece in enumerate(raw.replace(b"+", b" ").split(b"&")):
        if count >= _MAX_PAIRS or len(faults) >= MAX_FAULTS:
            faults.append(FieldFault(f"The request has more than {_MAX_PAIRS} parameters, or too many faults."))
            return
        if not piece:
            continue
        encoded_name, _, encoded_text = piece.partition(b"=")
        try:
            name = decode_text(encoded_name)
        except UnreadableText as error:
            faults.append(FieldFault(f"The name of a parameter {error}."))
            continue
        try:
            yield name, decode_text(encoded_text)
        except UnreadableText as error:
            faults.append(FieldFault(f"{name[:100]} {error}.", parameter=name[:100]))


class FormPlan:
    """The plan for a form body (`application/x-www-form-urlencoded`) to become the object of its schema."""

    def __init__(self, schema: Mapping[str, Any], schemas: Schemas) -> None:
        properties = schemas.resolve(schema).get("properties", {})
        types = {name: schemas.resolve(child).get("type", "string") for name, child in properties.items()}
        self._readers = {name: _READERS.get(kind, str) for name, kind in types.items()}

    def read(self, raw: bytes) -> dict[str, Any]:
        """Read the typed fields of the form; raises InvalidRequest, whose faults name the field as a parameter.

        A field without a value counts as left out, since some clients send such fields (RFC 6749, section 3.2).
        """
        body: dict[str, Any] = {}
        faults: list[FieldFault] = []
        for name, text in pairs_of(raw, faults):
            if not text:
                continue
            if name in body:
                faults.append(FieldFault(f"{name[:100]} was sent more than once.", parameter=name[:100]))
                continue
            try:
                body[name] = self._readers.get(name, str)(text)
            except UnreadableText as error:
                faults.append(FieldFault(f"{name[:100]} {error}.", parameter=name[:100]))
        if faults:
            raise InvalidRequest(faults)
        return body


class BodyPlan:
    """The request body of one operation: a file, or its media types, each with a compiled schema."""

    def __init__(self, request_body: Mapping[str, Any], schemas: Schemas, operation_name: str) -> None:
        self._is_required = bool(request_body.get("required"))
        # The maximum size of a body that is a file; None for other bodies.
        self.max_file_bytes: int | None = None
        self._validators: dict[str, Validator] = {}
        self._forms: dict[str, FormPlan] = {}
        for media_type, content in request_body["content"].items():
            key = media_type.lower()
            if key == FILE and len(request_body["content"]) == 1:
                self.max_file_bytes = int(schemas.resolve(content["schema"])["x-max-bytes"])
            elif key == FORM:
                self._forms[key] = FormPlan(content["schema"], schemas)
            elif key != "application/json" and not key.endswith("+json"):
                raise DocumentError(f"{operation_name}: the server cannot read bodies of {media_type}")
            self._validators[key] = schemas.validator(content["schema"])
        self._media_types_text = ", ".join(self._validators)

    def accepted_media_type(self, exchange: Exchange) -> str:
        """The media type of the body; raises a 415 for one that is not served, before the body is read."""
        coding = exchange.headers.get("content-encoding", "identity").strip().lower()
        if coding not in ("", "identity") or exchange.headers.get("transfer-encoding", "chunked").lower() != "chunked":
            raise HttpProblem(
                415, "The body is compressed, which is not supported.", headers={"Accept-Encoding": "identity"}
            )
        media_type, *parameters = exchange.headers.get("content-type", "").split(";")
        media_type = media_type.strip().lower()
        if media_type not in self._validators:
            media_type_text = media_type[:100] if media_type else "missing"
            raise HttpProblem(
                415,
                f"The Content-Type is {media_type_text}; it can be {self._media_types_text}.",
                headers={"Accept": self._media_types_text},
            )
        for parameter in parameters:
            name, _, value = parameter.partition("=")
            if name.strip().lower() == "charset" and value.strip().strip('"').lower() not in _UTF8:
                raise HttpProblem(
                    415,
                    f"The charset of the body is {value.strip()[:50]}, and not UTF-8.",
                    headers={"Accept": self._media_types_text},
                )
        return media_type

    def read(self, raw: bytes | Upload, media_type: str | None, faults: list[FieldFault]) -> Any:
        """Read and validate the body, or return the file; adds faults to `faults`.

        `media_type` is None, and so is the result, if the request has no body.
        """
        if media_type is None:
            if self._is_required:
                faults.append(FieldFault("The body is missing.", pointer=""))
            return None
        if isinstance(raw, Upload):
            return raw
        with _one_large_body if len(raw) > LARGE_BYTES else nullcontext():
            form = self._forms.get(media_type)
            try:
                body = decode(raw) if form is None else form.read(raw)
            except InvalidRequest as refusal:
                faults.extend(refusal.faults)
                return None
            validator = self._validators[media_type]
            if validator.accepts(body):
                return body
            faults.extend(body_faults(validator, body))
            return None


def _family_prefix(prefix: Any, operation_name: str) -> str:
    """The prefix of the names of a family; raises DocumentError unless it is a text that ends in a dot."""
    if not isinstance(prefix, str) or not prefix.endswith("."):
        raise DocumentError(f"{operation_name}: {FAMILY} is {prefix!r}, not a prefix that ends in a dot")
    return prefix


def _parameter(
    parameter: Mapping[str, Any], schema: Mapping[str, Any], schemas: Schemas, operation_name: str
) -> Parameter:
    """The plan of a documented parameter; raises DocumentError for a form that is not served."""
    name, kind = parameter["name"], schema.get("type", "")
    is_array = kind == "array"
    if is_array:
        kind = schemas.resolve(schema.get("items", {})).get("type", "")
    if kind not in _READERS:
        raise DocumentError(
            f"{operation_name}: the parameter {name} needs a schema with a type that a URL can hold, not {kind!r}"
        )
    if is_array and parameter["in"] != "query":
        detail = f"is an array in {parameter['in']}; only query parameters can be arrays"
        raise DocumentError(f"{operation_name}: the parameter {name} {detail}")
    if parameter.get("style", "simple") not in ("form", "simple"):
        detail = f"has the style {parameter['style']}, which the server cannot read"
        raise DocumentError(f"{operation_name}: the parameter {name} {detail}")
    return Parameter(
        name=name,
        read=_READERS[kind],
        is_array=is_array,
        is_comma_separated=is_array and parameter.get("explode") is False,
        has_escapes=FAMILY in parameter,
    )
