"""Answers of the plain pages: JSON, HTML, and files that clients cache, compressed where the client takes it."""

import functools
import gzip
import hashlib
import html
import re
from typing import Any
from urllib.parse import urlsplit

import flask

from handlers.http.documentation import WRITTEN_ADDRESS, GuideEntry, contents, neighbours
from handlers.messages.json_text import encode

DAY = 86_400
# Below this, the headers are longer than what compression saves.
_LEAST_COMPRESSED = 1_000
_HOST = re.compile(r"[A-Za-z0-9.\-]{1,253}(:\d{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](:\d{1,5})?")
# Scripts are this server's own files; forms lead to this server.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
STYLE = """:root {
  color-scheme: light dark;
  --line: #d5d9e0; --soft: #f5f6f8; --link: #0b57d0; --text: #1d2330; --back: #fff;
  --comment: #5b6472; --string: #0a6b3d; --number: #9a3b00; --name: #0b4fb3; --word: #8a1c8a
}
@media (prefers-color-scheme: dark) {
  :root { --line: #3a414d; --soft: #1f242c; --link: #8ab4f8; --text: #e3e6eb; --back: #14181d;
    --comment: #9aa4b2; --string: #7fd1a0; --number: #f0a878; --name: #8ab4f8; --word: #dd9bf0 }
}
* { box-sizing: border-box }
body { margin: 0; font: 16px/1.55 system-ui, sans-serif; color: var(--text); background: var(--back) }
a { color: var(--link) }
header { display: flex; gap: 1rem 2rem; flex-wrap: wrap; align-items: center; padding: .7rem 1.5rem;
  border-bottom: 1px solid var(--line) }
header b { font-size: 1.1rem } header a { text-decoration: none }
header form { margin-left: auto }
input { font: inherit; padding: .3rem .6rem; width: 17rem; max-width: 100%; border: 1px solid var(--line);
  border-radius: 6px; background: var(--soft); color: inherit }
.columns { display: flex; align-items: flex-start }
nav.pages { flex: 0 0 17rem; padding: 1rem 1.5rem; position: sticky; top: 0; max-height: 100vh;
  overflow: auto; scrollbar-width: thin; font-size: .92rem }
nav.pages h2 { font-size: .8rem; margin: 1.1rem 0 .3rem; opacity: .7 }
nav.pages ul { list-style: none; margin: 0; padding: 0 }
nav.pages a { text-decoration: none; display: block; padding: .1rem 0 }
nav.pages a[aria-current] { font-weight: 600; color: inherit }
main { flex: 1; min-width: 0; max-width: 56rem; padding: .5rem 2rem 4rem; overflow-wrap: break-word }
mark { background: none; color: inherit; font-weight: 600 }
a.to-pages { display: none }
h1 { font-size: 1.9rem; line-height: 1.2 }
h2 { margin-top: 2.2rem; padding-bottom: .2rem; border-bottom: 1px solid var(--line) }
pre, code { font-family: ui-monospace, monospace; font-size: .88em }
code { background: var(--soft); padding: .1em .3em; border-radius: 4px }
pre { background: var(--soft); border: 1px solid var(--line); border-radius: 6px; padding: .8rem 1rem; overflow: auto }
pre code { padding: 0; background: none; overflow-wrap: normal }
pre i { font-style: normal }
i.comment { color: var(--comment) } i.string { color: var(--string) } i.number { color: var(--number) }
i.name, i.heading { color: var(--name) } i.word, i.method { color: var(--word); font-weight: 600 }
.code { position: relative } .code code { display: inline-block; padding-right: 4rem }
button.copy { position: absolute; top: .4rem; right: .4rem; font: .78rem system-ui, sans-serif; padding: .15rem .5rem;
  border: 1px solid var(--line); border-radius: 6px; background: var(--back); color: var(--link); cursor: pointer }
nav.around { display: flex; justify-content: space-between; gap: 1rem; margin-top: 3rem; padding-top: 1rem;
  border-top: 1px solid var(--line) }
nav.around a { text-decoration: none } nav.around a[rel=next] { margin-left: auto; text-align: right }
table { border-collapse: collapse; display: block; overflow: auto; margin: 1rem 0 }
th, td { border: 1px solid var(--line); padding: .35rem .6rem; text-align: left; vertical-align: top }
th { background: var(--soft) } th:empty { padding: 0 }
blockquote { margin: 1rem 0; padding-left: 1rem; border-left: 3px solid var(--line) }
@media (max-width: 800px) {
  .columns { flex-direction: column } main { width: 100% } a.to-pages { display: inline }
  nav.pages { order: 1; position: static; max-height: none; border-top: 1px solid var(--line) }
  main { padding: .5rem 1rem 3rem } header form { margin-left: 0 }
}
"""
# Code that is to be pasted has a button; browsers copy by themselves only on https and on this machine.
SCRIPT = """const copy = async (text) => {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = Object.assign(document.createElement("textarea"), { value: text });
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
};
for (const block of document.querySelectorAll("main pre")) {
  const frame = Object.assign(document.createElement("div"), { className: "code" });
  const button = Object.assign(document.createElement("button"), { type: "button", className: "copy" });
  button.textContent = "Copy";
  block.replaceWith(frame);
  frame.append(block, button);
  button.addEventListener("click", async () => {
    await copy(block.textContent);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
}
"""
_FRAME = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="stylesheet" href="{root}/docs/page.css"><link rel="icon" href="data:,">
<script src="{root}/docs/page.js" defer></script>
</head>
<body>
<header><b><a href="{root}/">Loyalty server</a></b> <a href="{root}/docs">Documentation</a>
{to_pages}<a href="{root}/v2/integration/docs">Integration API</a>
<a href="{root}/v2/administration/docs">Administration API</a>
<form action="{root}/docs/search"><input type="search" name="q" value="{query}" placeholder="Search the documentation"
aria-label="Search the documentation"></form></header>
<div class="columns">{navigation}<main>
{body}
{around}</main></div>
</body>
</html>
"""
# On narrow screens the list of pages is below the text.
_TO_PAGES = '<a class="to-pages" href="#pages">All pages</a>\n'


def prefers_html() -> bool:
    """True for the request of a browser, which names HTML in `Accept` before JSON."""
    offered = ["application/json", "text/html"]
    return flask.request.accept_mimetypes.best_match(offered) == "text/html"


def root_of(base_url: str) -> str:
    """The path in front of all pages, where a proxy serves the API below one; mostly empty."""
    return urlsplit(base_url).path.rstrip("/").removesuffix("/v2")


def address_of(base_url: str) -> str:
    """Scheme and host by which the client reaches the server."""
    if base_url:
        parts = urlsplit(base_url)
        return f"{parts.scheme}://{parts.netloc}"
    host = flask.request.headers.get("Host", "")
    return f"{flask.request.scheme}://{host}" if _HOST.fullmatch(host) else WRITTEN_ADDRESS


def framed(title: str, body: str, root: str, *, current: str | None = None, query: str = "") -> str:
    """A whole page of HTML around a body; with the navigation if it is one of the documentation."""
    return _FRAME.format(
        title=html.escape(title),
        body=body,
        root=html.escape(root),
        query=html.escape(query),
        navigation="" if current is None else _navigation(root, current),
        to_pages="" if current is None else _TO_PAGES,
        around="" if current is None else _around(root, current),
    )


def _around(root: str, current: str) -> str:
    """Links to the pages before and after the current one."""

    def link(entry: GuideEntry | None, rel: str, text: str) -> str:
        if entry is None:
            return ""
        return (
            f'<a rel="{rel}" href="{html.escape(root)}/docs/{entry.name}">{text.format(html.escape(entry.title))}</a>'
        )

    before, after = neighbours(current)
    links = link(before, "prev", "← {}") + link(after, "next", "{} →")
    return f'<nav class="around" aria-label="Previous and next page">{links}</nav>\n' if links else ""


@functools.lru_cache(maxsize=256)
def _navigation(root: str, current: str) -> str:
    parts = []
    for title, entries in contents():
        links = []
        for entry in entries:
            mark = ' aria-current="page"' if entry.name == current else ""
            links.append(
                f'<li><a href="{html.escape(root)}/docs/{entry.name}"{mark}>{html.escape(entry.title)}</a></li>'
            )
        parts.append(f"<h2>{html.escape(title)}</h2><ul>{''.join(links)}</ul>")
    return f'<nav class="pages" id="pages" aria-label="Pages">{"".join(parts)}</nav>'


def json_page(body: Any, status: int = 200) -> flask.Response:
    """An answer in JSON that is never cached."""
    response = flask.Response(encode(body), status, mimetype="application/json")
    response.headers["Cache-Control"] = "no-store"
    return response


def html_page(text: str, status: int = 200) -> flask.Response:
    """A page of HTML that depends on the client's address, so that only the client caches it."""
    response = _compressible(text.encode(), "text/html; charset=utf-8")
    response.status_code = status
    response.headers["Cache-Control"] = "private, no-cache"
    response.headers["Content-Security-Policy"] = _POLICY
    return response if status >= 400 else _conditional(response)


def text_page(text: str, media_type: str) -> flask.Response:
    """A page of plain text that depends on the client's address."""
    response = _compressible(text.encode(), f"{media_type}; charset=utf-8")
    response.headers["Cache-Control"] = "private, no-cache"
    return _conditional(response)


def cached_page(body: bytes, media_type: str, max_age: int = DAY) -> flask.Response:
    """An answer with an entity tag, which becomes a 304 for a client that has it already."""
    response = _compressible(body, media_type)
    response.headers["Cache-Control"] = f"public, max-age={max_age}" if max_age else "public, no-cache"
    return _conditional(response)


def _compressible(body: bytes, media_type: str) -> flask.Response:
    is_compressed = len(body) >= _LEAST_COMPRESSED and flask.request.accept_encodings["gzip"] > 0
    response = flask.Response(_compressed(body) if is_compressed else body, content_type=media_type)
    response.set_etag(_digest(body) + ("-gzip" if is_compressed else ""))
    response.headers["Vary"] = "Accept-Encoding"
    if is_compressed:
        response.headers["Content-Encoding"] = "gzip"
    return response


def _conditional(response: flask.Response) -> flask.Response:
    response.make_conditional(flask.request)
    return response


@functools.lru_cache(maxsize=128)
def _compressed(body: bytes) -> bytes:
    return gzip.compress(body, 6, mtime=0)


@functools.lru_cache(maxsize=128)
def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:32]
