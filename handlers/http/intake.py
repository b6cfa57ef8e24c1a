"""The request body: its greatest size, its time limit and its media types."""

import asyncio
import threading
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

from starlette.types import Receive

from domain.problems import FieldFault, InvalidRequest
from handlers.http.exchange import Exchange
from handlers.http.parameters import FormPlan
from handlers.http.problems import HttpProblem
from handlers.messages import json_text
from handlers.messages.uploads import Upload
from handlers.messages.validation import DocumentError, Schemas, Validator, body_faults

FORM = "application/x-www-form-urlencoded"
FILE = "application/octet-stream"
_UTF8 = {"utf-8", "utf8"}

# Longer bodies are read one after the other, since one of a megabyte can need 80 MiB meanwhile.
# It costs no time: reading holds the interpreter's lock anyway.
_LARGE_BYTES = 65_536
_one_large_body = threading.Lock()


class ClientGone(Exception):
    """The client closed the connection before its request was complete."""


async def read_upload(receive: Receive, exchange: Exchange, most: int, seconds: float) -> Upload:
    """A body that is a file, kept on disk while it arrives; refused as by `read_body`, and with 503 on a full disk."""
    upload = Upload()
    try:
        await _read(receive, exchange, most, seconds, upload.append)
    except OSError:
        upload.close()
        raise HttpProblem(
            503, "The server has no disk space left for the body.", headers={"Retry-After": "60"}
        ) from None
    except BaseException:
        upload.close()
        raise
    return upload


async def read_body(receive: Receive, exchange: Exchange, most: int, seconds: float) -> bytes:
    """The whole body.

    Refuses with 413 as soon as the body is known to be larger than `most` bytes, with 408 when it is late.
    """
    parts: list[bytes] = []
    await _read(receive, exchange, most, seconds, parts.append)
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def _read(receive: Receive, exchange: Exchange, most: int, seconds: float, take: Callable[[bytes], None]) -> None:
    """Hand the body over to `take`, part by part as it arrives."""
    declared = exchange.headers.get("content-length", "")
    if declared.isascii() and declared.isdigit() and (len(declared) > 18 or int(declared) > most):
        raise _too_large(most)
    try:
        async with asyncio.timeout(seconds):
            await _receive(receive, most, take)
    except TimeoutError:
        raise HttpProblem(408, "The request body did not arrive in time.", headers={"Connection": "close"}) from None


async def _receive(receive: Receive, most: int, take: Callable[[bytes], None]) -> None:
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        part = message.get("body", b"")
        size += len(part)
        if size > most:
            raise _too_large(most)
        if part:
            take(part)
        if not message.get("more_body", False):
            return


def _too_large(most: int) -> HttpProblem:
    return HttpProblem(413, f"The body is larger than {most} bytes.")


class BodyPlan:
    """The request body of one operation: a file, or its media types, each with a compiled schema."""

    def __init__(self, request_body: Mapping[str, Any], schemas: Schemas, where: str) -> None:
        self._is_required = bool(request_body.get("required"))
        # The greatest size of a body that is a file; None for one that is a value.
        self.max_file_bytes: int | None = None
        self._validators: dict[str, Validator] = {}
        self._forms: dict[str, FormPlan] = {}
        for media_type, content in request_body["content"].items():
            key = media_type.lower()
            if key == FILE and len(request_body["content"]) == 1:
                self.max_file_bytes = int(schemas.resolved(content["schema"])["x-max-bytes"])
            elif key == FORM:
                self._forms[key] = FormPlan(content["schema"], schemas)
            elif key != "application/json" and not key.endswith("+json"):
                raise DocumentError(f"{where}: a body of {media_type} is not served")
            self._validators[key] = schemas.validator(content["schema"])
        self._accepted = ", ".join(self._validators)

    def refuse_other_types(self, exchange: Exchange) -> str:
        """The media type of the body; raises a 415 for one that is not served, before the body is read."""
        coding = exchange.headers.get("content-encoding", "identity").strip().lower()
        if coding not in ("", "identity"):
            raise HttpProblem(
                415, "The body is compressed, which is not supported.", headers={"Accept-Encoding": "identity"}
            )
        media_type, *parameters = exchange.headers.get("content-type", "").split(";")
        media_type = media_type.strip().lower()
        if media_type not in self._validators:
            media_type_text = media_type[:100] if media_type else "missing"
            raise HttpProblem(
                415,
                f"The Content-Type is {media_type_text}; it can be {self._accepted}.",
                headers={"Accept": self._accepted},
            )
        for parameter in parameters:
            name, _, value = parameter.partition("=")
            if name.strip().lower() == "charset" and value.strip().strip('"').lower() not in _UTF8:
                raise HttpProblem(
                    415,
                    f"The charset of the body is {value.strip()[:50]}, and not UTF-8.",
                    headers={"Accept": self._accepted},
                )
        return media_type

    def read(self, raw: bytes | Upload, media_type: str | None, faults: list[FieldFault]) -> Any:
        """The parsed and validated body, or the file; None without a media type. Its faults are added to `faults`."""
        if media_type is None:
            if self._is_required:
                faults.append(FieldFault("The body is missing.", pointer=""))
            return None
        if isinstance(raw, Upload):
            return raw
        with _one_large_body if len(raw) > _LARGE_BYTES else nullcontext():
            form = self._forms.get(media_type)
            try:
                body = json_text.decode(raw) if form is None else form.read(raw, faults)
            except InvalidRequest as refusal:
                faults.extend(refusal.faults)
                return None
            validator = self._validators[media_type]
            if validator.accepts(body):
                return body
            faults.extend(body_faults(validator, body))
            return None
