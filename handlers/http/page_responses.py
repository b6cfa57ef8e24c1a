"""Responses with plain pages: JSON, HTML, and files that clients cache, compressed if the client accepts it."""

import functools
import gzip
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import flask

from handlers.http.documentation import WRITTEN_ADDRESS
from handlers.messages.json_text import encode

SITE = "site"
_FOLDER = Path(__file__).with_name(SITE)
_MEDIA_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}
# For smaller bodies, the headers are longer than what compression saves.
_MIN_COMPRESSED_BYTES = 1_000
_HOST = re.compile(r"[A-Za-z0-9.\-]{1,253}(:\d{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](:\d{1,5})?")
# Scripts are this server's own files; forms lead to this server.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


def prefers_html() -> bool:
    """True for the request of a browser, which names HTML in `Accept` before JSON."""
    offered = ["application/json", "text/html"]
    return flask.request.accept_mimetypes.best_match(offered) == "text/html"


def root_of(base_url: str) -> str:
    """The path in front of all pages; empty, unless a proxy serves the API below a path, which `base_url` then has."""
    return urlsplit(base_url).path.rstrip("/").removesuffix("/v2")


def address_of(base_url: str) -> str:
    """The address of the server as clients see it: scheme, host, and the path in front of all pages.

    It comes from `base_url` or, if that is empty, from the Host header. For an unusable header it is the address in the
    written documents.
    """
    if base_url:
        parts = urlsplit(base_url)
        return f"{parts.scheme}://{parts.netloc}{root_of(base_url)}"
    host = flask.request.headers.get("Host", "")
    return f"{flask.request.scheme}://{host}" if _HOST.fullmatch(host) else WRITTEN_ADDRESS


def json_page(body: Any, status: int = 200) -> flask.Response:
    """A response in JSON that is never cached."""
    response = flask.Response(encode(body), status, mimetype="application/json")
    response.headers["Cache-Control"] = "no-store"
    return response


def html_page(template: str, values: Mapping[str, Any], status: int = 200) -> flask.Response:
    """A page of HTML from a template of the folder `site` and the values of its variables.

    The page is the same for all readers, so that caches may share it.
    """
    body = flask.render_template(template, **values).encode()
    media_type = "text/html; charset=utf-8"
    if status == 200:
        response = cached_page(body, media_type)
    else:
        response = flask.Response(body, status, content_type=media_type)
        response.headers["Cache-Control"] = "no-store"
    response.headers["Content-Security-Policy"] = _POLICY
    return response


def text_page(text: str, media_type: str) -> flask.Response:
    """A page of plain text, which only the client may cache: its examples have the address that the client uses."""
    response = cached_page(text.encode(), f"{media_type}; charset=utf-8")
    response.headers["Cache-Control"] = "private, no-cache"
    return response


def site_file(name: str) -> flask.Response:
    """A style sheet or a script of the folder `site`, which changes with the server."""
    return cached_page(_read(name), _MEDIA_TYPES[Path(name).suffix])


def cached_page(body: bytes, media_type: str) -> flask.Response:
    """A response that clients check by its entity tag at each use; a 304 without the body if it is unchanged."""
    is_compressed = len(body) >= _MIN_COMPRESSED_BYTES and flask.request.accept_encodings["gzip"] > 0
    response = flask.Response(_compress(body) if is_compressed else body, content_type=media_type)
    response.set_etag(_digest(body) + ("-gzip" if is_compressed else ""))
    response.headers["Vary"] = "Accept-Encoding"
    response.headers["Cache-Control"] = "public, no-cache"
    if is_compressed:
        response.headers["Content-Encoding"] = "gzip"
    response.make_conditional(flask.request)
    return response


@functools.cache
def _read(name: str) -> bytes:
    return (_FOLDER / name).read_bytes()


@functools.lru_cache(maxsize=128)
def _compress(body: bytes) -> bytes:
    return gzip.compress(body, 6, mtime=0)


@functools.lru_cache(maxsize=128)
def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:32]
