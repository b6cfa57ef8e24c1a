"""The documents and their pages for people: Swagger UI from its package, with a field for the token."""

import functools
import html
from collections.abc import Mapping
from importlib import resources
from typing import Any

import flask

from handlers.http.page_answers import DAY, address_of, cached_page, root_of
from handlers.messages.json_text import encode

_ASSETS = {
    "swagger-ui.css": "text/css; charset=utf-8",
    "swagger-ui-bundle.js": "text/javascript; charset=utf-8",
    "favicon-32x32.png": "image/png",
}
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="stylesheet" href="docs/swagger-ui.css"><link rel="icon" href="docs/favicon-32x32.png">
<link rel="stylesheet" href="docs/page.css">
</head>
<body>
<nav><a href="{root}/">Loyalty server</a> <a href="{root}/docs">Documentation</a> {links}
<form><input id="token" type="password" autocomplete="off" aria-label="Token"
placeholder="Paste a token, such as the one that the server printed"></form></nav>
<main id="swagger-ui"></main>
<script src="docs/swagger-ui-bundle.js"></script><script src="docs/page.js"></script>
</body>
</html>
"""
_STYLE = """body { margin: 0 }
nav { display: flex; flex-wrap: wrap; gap: 8px 24px; align-items: center; padding: 10px 24px; font-family: sans-serif;
  background: #1b1f26 }
nav a, nav b { color: #fff }
nav form { margin-left: auto; flex: 0 1 26rem; min-width: 0 }
nav input { width: 100%; box-sizing: border-box; padding: 6px 10px; border: 1px solid #565c66; border-radius: 6px;
  background: #2a2f38; color: #fff }
nav input.is-used { border-color: #49cc90 }
html.dark-mode body { background: #1c2022 }
html.dark-mode .swagger-ui table.headers td { color: #e4e6e6 }
.swagger-ui .operation-filter-input { min-width: 20rem }
.swagger-ui .opblock-description-wrapper, .swagger-ui .markdown { max-width: 60rem }
.is-folded tr.response:is([data-code="400"], [data-code="401"], [data-code="403"], [data-code="404"], [data-code="406"],
  [data-code="408"], [data-code="413"], [data-code="414"], [data-code="415"], [data-code="429"], [data-code="500"],
  [data-code="503"]) { display: none }
.swagger-ui .response-col_links pre { white-space: pre-wrap; overflow-wrap: anywhere }
.swagger-ui button.fold { margin: 0 20px 20px }
@media (max-width: 800px) {
  .swagger-ui .wrapper { padding: 0 10px; overflow-wrap: anywhere }
  .swagger-ui .opblock .opblock-summary-operation-id,
  .swagger-ui :is(table.parameters, table.responses-table) > thead { display: none }
  .swagger-ui .opblock-tag { flex-wrap: wrap; font-size: 20px }
  .swagger-ui .opblock-tag > small { flex: 1 1 100%; order: 1; padding: 0 }
  .swagger-ui .opblock-tag .info__externaldocs { margin-left: auto }
  .swagger-ui :is(.parameters, .responses-table, .headers):is(table),
  .swagger-ui table:is(.parameters, .responses-table, .headers) :is(tbody, tr, td) { display: block; width: auto }
  .swagger-ui :is(.opblock-body, .model-container, .model-box) { max-width: 100%; overflow-x: auto }
  .swagger-ui .operation-filter-input { min-width: 0 }
  .swagger-ui :is(input, select, textarea) { max-width: 100%; min-width: 0 }
}
"""
# Finds operations by words of their names, paths and summaries, and opens the tags that have some. Fields of optional
# parameters begin empty: filled with their examples, lists would be filtered by what nobody has. A tab keeps its token.
_SCRIPT = """const words = (operation) => ["path", "method"].map((name) => operation.get(name))
  .concat(["operationId", "summary"].map((name) => operation.getIn(["operation", name])))
  .join(" ").toLowerCase();
const searchOperations = () => ({ fn: { opsFilter: (tags, phrase) => {
  const parts = phrase.toLowerCase().split(/\\s+/).filter(Boolean);
  return tags
    .map((tag, name) => tag.set("operations", tag.get("operations").filter((operation) =>
      parts.every((word) => `${name.toLowerCase()} ${words(operation)}`.includes(word)))))
    .filter((tag) => tag.get("operations").size > 0);
}, }, statePlugins: { layout: { wrapSelectors: { isShown: (original, system) => (state, thing, byDefault) => {
  const isTag = Array.isArray(thing) && thing.length === 2 && thing[0] === "operations-tag";
  const phrase = system.layoutSelectors.currentFilter();
  return (isTag && typeof phrase === "string" && phrase.trim() !== "") || original(thing, byDefault);
} } } } });
// What nearly every operation may be refused with is shown on demand.
const common = ["400", "401", "403", "404", "406", "408", "413", "414", "415", "429", "500", "503"];
const foldErrors = (system) => ({ wrapComponents: { responses: (Responses) => (properties) => {
  const { createElement, useState } = system.React;
  const [isOpen, setOpen] = useState(false);
  const codes = properties.responses.keySeq().filter((code) => common.includes(code)).join(", ");
  const text = isOpen ? "Hide the common errors" : `Show the common errors: ${codes}`;
  const button = { type: "button", className: "btn fold", "aria-expanded": isOpen, onClick: () => setOpen(!isOpen) };
  return createElement("div", { className: isOpen ? "" : "is-folded" },
    createElement(Responses, properties), codes && createElement("button", button, text));
} } });
const withoutExample = (parameter, schemas) => {
  if (parameter.in !== "query" || parameter.required) return;
  const reference = parameter.schema?.$ref?.split("/").pop();
  const { example: usual, ...schema } = reference ? schemas[reference] : parameter.schema ?? {};
  const { example = usual, examples, ...rest } = parameter;
  const told = example === undefined ? "" : ` For example \\`${example}\\`.`;
  for (const name of Object.keys(parameter)) delete parameter[name];
  Object.assign(parameter, rest, { schema, description: `${rest.description ?? ""}${told}`.trim() });
};
const withoutExamples = (response) => {
  if (!response.url.endsWith("openapi.json")) return response;
  const definition = JSON.parse(response.text);
  const { parameters = {}, schemas = {} } = definition.components ?? {};
  const owners = Object.values(definition.paths).flatMap((path) => [path, ...Object.values(path)]);
  const all = Object.values(parameters).concat(owners.flatMap((owner) => owner.parameters ?? []));
  all.forEach((parameter) => withoutExample(parameter, schemas));
  return Object.assign(response, { text: JSON.stringify(definition), body: definition, obj: definition });
};
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const paint = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", paint);
paint();
window.ui = SwaggerUIBundle({
  url: "openapi.json", dom_id: "#swagger-ui", deepLinking: true, validatorUrl: null, docExpansion: "none",
  filter: true, displayOperationId: true, displayRequestDuration: true,
  presets: [SwaggerUIBundle.presets.apis], plugins: [searchOperations, foldErrors],
  responseInterceptor: withoutExamples, onComplete: () => { if (token.value) use(); }
});
const token = document.getElementById("token");
const use = () => {
  const value = token.value.trim().replace(/^((export\\s+)?TOKEN=|(Authorization:\\s*)?Bearer\\s+)/i, "");
  if (value) window.ui.preauthorizeApiKey("bearerAuth", value);
  else window.ui.authActions.logout(["bearerAuth"]);
  token.classList.toggle("is-used", Boolean(value));
  window.sessionStorage.setItem("token", value);
};
token.value = window.sessionStorage.getItem("token") ?? "";
token.addEventListener("change", use);
token.form.addEventListener("submit", (event) => { event.preventDefault(); token.blur(); });
"""
# Swagger UI writes style attributes and embeds its icons as data.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def add_reference(
    app: flask.Flask, prefix: str, surface: str, document: Mapping[str, Any], surfaces: list[str], base_url: str
) -> None:
    """Add the document of a surface, its page, and the files of that; `base_url` is the public one, if configured."""
    text = encode(_with_address(document, base_url) if base_url else document)
    title = f"{document['info']['title']} {document['info']['version']}"
    links = " ".join(
        f"<b>{name}</b>" if name == surface else f'<a href="../{name}/docs">{name}</a>' for name in surfaces
    )
    root = root_of(base_url)
    page = _PAGE.format(title=html.escape(title), links=links, root=html.escape(root)).encode()

    def docs() -> flask.Response:
        response = cached_page(page, "text/html; charset=utf-8", 0)
        response.headers["Content-Security-Policy"] = _POLICY
        return response

    app.add_url_rule(f"{prefix}/openapi.json", f"{surface}_document", lambda: cached_page(text, "application/json", 0))
    app.add_url_rule(f"{prefix}/docs", f"{surface}_docs", docs)
    app.add_url_rule(f"{prefix}/docs/", f"{surface}_docs_folder", lambda: flask.redirect(f"{root}{prefix}/docs", 301))
    app.add_url_rule(f"{prefix}/docs/<name>", f"{surface}_asset", _asset)


def _asset(name: str) -> flask.Response:
    file = _file(name)
    if file is None:
        flask.abort(404)
    # The page's own files change with it.
    return cached_page(*file, DAY if name in _ASSETS else 0)


@functools.cache
def _file(name: str) -> tuple[bytes, str] | None:
    """A file of the page with its media type; None if there is no such file."""
    if name == "page.css":
        return _STYLE.encode(), "text/css; charset=utf-8"
    if name == "page.js":
        return _SCRIPT.encode(), "text/javascript; charset=utf-8"
    if name not in _ASSETS:
        return None
    return resources.files("flask_swagger_ui").joinpath("dist", name).read_bytes(), _ASSETS[name]


def _with_address(document: Mapping[str, Any], base_url: str) -> dict[str, Any]:
    """The document with the public address, also in its links to the documentation."""
    address = f"{address_of(base_url)}{root_of(base_url)}"

    def absolute(node: Any) -> Any:
        if isinstance(node, dict):
            return {name: absolute(child) for name, child in node.items()}
        if isinstance(node, list):
            return [absolute(child) for child in node]
        if isinstance(node, str):
            return f"{address}{node}" if node.startswith("/docs/") else node.replace("](/docs/", f"]({address}/docs/")
        return node

    return {**absolute(document), "servers": [{"url": base_url}]}
