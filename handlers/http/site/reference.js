// The reference: the operation that the address names, and the search. The list of operations is in the page itself.

import { copyBy, reveal } from "./page.js";
import { html, nothing, render } from "../playground/lit-html.js";
import { COMMON_ERRORS, exampleRequest, requestView } from "./reference-request.js";
import { fieldsView, fieldView, Schemas } from "./reference-schema.js";
import { inline, markdown, root } from "./reference-text.js";

const METHODS = ["get", "put", "post", "patch", "delete"];
const COMMON_PARAMETERS = ["organizationId", "page", "limit", "order", "cursor"];
const MAX_PAGES = 6;

const article = document.getElementById("operation");
const overview = document.getElementById("overview");
const links = new Map([...document.querySelectorAll("#list a[href^='#']:not(.overview)")]
  .map((link) => [link.hash.slice(1), link]));
const home = document.title;
const definition = await (await fetch("openapi.json")).json();
const schemas = new Schemas(definition);
const [surface] = location.pathname.split("/").slice(-2);
const base = new URL(definition.servers?.[0]?.url ?? "/v2", location.href).href.replace(/\/$/, "");

const roles = definition.components.securitySchemes?.oauth2?.flows.clientCredentials.scopes ?? {};

const readResponses = (operation) => Object.entries(operation.responses).map(([status, node]) => {
  const response = schemas.resolve(node);
  const [[type, content] = []] = Object.entries(response.content ?? {});
  const headers = Object.entries(response.headers ?? {}).map(([name, header]) => [name, schemas.resolve(header)]);
  return { status, title: response.description, type, headers, links: response.links ?? {}, ...content };
}).sort((one, other) => one.status - other.status);

const operations = new Map(Object.entries(definition.paths).flatMap(([path, item]) =>
  METHODS.filter((method) => item[method]).map((method) => {
    const operation = item[method];
    const parameters = [...item.parameters ?? [], ...operation.parameters ?? []].map((node) => schemas.resolve(node));
    return [operation.operationId, { path, method, operation, parameters, responses: readResponses(operation) }];
  })));
const order = [...links.keys()].filter((id) => operations.has(id));

const state = { id: "", request: null, open: new Map() };
const view = {
  schemas, operations,
  isOpen: (path) => state.open.get(path) ?? false,
  open: (path, isOpen) => {
    if (view.isOpen(path) === isOpen) return;
    state.open.set(path, isOpen);
    show();
  },
};

/** A part that is folded at first; `content` makes what is in it when it is opened. */
const folded = (path, title, content) => html`<details .open=${view.isOpen(path)}
  @toggle=${(event) => event.target === event.currentTarget && view.open(path, event.target.open)}>
  <summary>${title}</summary>${view.isOpen(path) ? content() : nothing}</details>`;

const parameterView = (parameter) => fieldView(view, {
  name: parameter.name, schema: parameter.schema, isRequired: parameter.required,
  about: Object.fromEntries(["description", "example", "deprecated", "x-extension", "x-deprecated-at"]
    .filter((name) => parameter[name] !== undefined).map((name) => [name, parameter[name]])),
}, `parameter.${parameter.name}`);

const parametersView = ({ parameters }) => {
  const common = parameters.filter(({ name }) => COMMON_PARAMETERS.includes(name));
  const groups = [["path", "Parameters of the path"], ["query", "Parameters of the query"], ["header", "Headers"]];
  return html`${groups.map(([place, title]) => {
    const own = parameters.filter((parameter) => parameter.in === place && !common.includes(parameter));
    return own.length ? html`<h2>${title}</h2><ul class="fields">${own.map(parameterView)}</ul>` : nothing;
  })}
  ${common.length ? folded("common", html`Common parameters: ${common.map(({ name }) => html` <code>${name}</code>`)}`,
    () => html`<ul class="fields">${common.map(parameterView)}</ul>`) : nothing}`;
};

const bodyView = ({ operation: { requestBody } }) => {
  if (!requestBody) return nothing;
  const [[type, { schema }]] = Object.entries(schemas.resolve(requestBody).content);
  return html`<h2>Body <small>${type}</small></h2>${schemaView(schema, "body")}`;
};

/** The fields of a schema; what is required in a body, or only wraps another schema, is opened. */
const schemaView = (schema, path) => {
  const flat = schemas.flat(schema);
  const children = schemas.children(schema);
  const main = children.length === 1 ? children : children.filter(({ isRequired }) => isRequired && path === "body");
  for (const { name } of main) if (!state.open.has(`${path}.${name}`)) state.open.set(`${path}.${name}`, true);
  return html`${flat.description ? html`<div class="about">${markdown(flat.description, operations)}</div>` : nothing}
    ${children.length ? fieldsView(view, children, path) : html`<p class="type">${schemas.type(schema)}</p>`}`;
};

const responseView = (response) => html`<h2>Response ${response.status} <small>${response.type ?? ""}</small></h2>
  <p>${inline(response.title, operations)}</p>
  ${response.schema ? schemaView(response.schema, `response.${response.status}`) : nothing}
  ${headersView(response)}
  ${Object.keys(response.links).length ? html`<p class="next">What it returns is taken by ${Object.values(response.links)
    .map(({ operationId }, number) => html`${number ? ", " : nothing}<a href="#${operationId}"><code>${operationId}</code></a>`)}.</p>` : nothing}`;

const headersView = ({ status, headers }) => (headers.length ? folded(`headers.${status}`,
  html`Headers: ${headers.map(([name]) => html` <code>${name}</code>`)}`,
  () => html`<ul class="fields">${headers.map(([name, { schema, ...about }]) =>
    fieldView(view, { name, schema, about }, `header.${status}.${name}`))}</ul>`) : nothing);

const errorView = ({ status, title, headers }) => html`<li><b class="no">${status}</b> ${inline(title, operations)}
  ${headersView({ status, headers: headers.filter(([name]) => name !== "X-Request-Id") })}</li>`;

const errorsView = ({ responses }) => {
  const errors = responses.filter(({ status }) => status >= "400");
  const [common, own] = [true, false].map((isCommon) => errors.filter(({ status }) => COMMON_ERRORS.includes(status) === isCommon));
  return html`<h2>Errors</h2>
    <ul class="errors">${own.map(errorView)}</ul>
    ${folded("errors", `Common errors: ${common.map(({ status }) => status).join(", ")}`,
      () => html`<ul class="errors">${common.map(errorView)}</ul>`)}
    ${folded("problem", html`The body of an error, a problem with a stable <code>type</code>`,
      () => schemaView({ $ref: "#/components/schemas/Problem" }, "problem"))}
    <p>Each type has a page: <a href="${root}/docs/problems">Problems</a>.</p>`;
};

const callbacksView = ({ operation: { callbacks = {} } }) => {
  const calls = Object.values(callbacks).flatMap((paths) => Object.values(paths)).flatMap((item) => Object.values(item));
  return calls.map((call) => html`<h2>The server calls: ${call.summary}</h2>
    ${markdown(call.description, operations)}
    ${Object.values(call.requestBody?.content ?? {}).slice(0, 1).map(({ schema }) =>
      folded(`callback.${call.operationId}`, "Fields of the message", () => schemaView(schema, `callback.${call.operationId}`)))}`);
};

const permissionView = ({ security }) => {
  const scopes = security.flatMap(({ oauth2 = [] }) => oauth2);
  if (!security.length) return html`<p class="permission">No token is needed.</p>`;
  if (!scopes.length) {
    const [name] = Object.keys(security[0]);
    return html`<p class="permission"><b>Credentials</b> ${inline(definition.components.securitySchemes[name].description, operations)}</p>`;
  }
  return html`<p class="permission"><b>Permission</b> ${scopes.map((scope, number) => html`${number ? " or " : nothing}<code>${
    scope}</code> <span class="quiet">${roles[scope]?.replace(/\.$/, "")}</span>`)}</p>`;
};

const around = (id) => {
  const place = order.indexOf(id);
  const link = (other, rel) => (other ? html`<a rel=${rel} href="#${other}">${rel === "prev" ? "← " : nothing}${
    operations.get(other).operation.summary}${rel === "next" ? " →" : nothing}</a>` : nothing);
  return html`<nav class="around" aria-label="Previous and next operation">${link(order[place - 1], "prev")}${
    link(order[place + 1], "next")}</nav>`;
};

const operationView = (entry) => {
  const { operation, method, path, responses } = entry;
  const [tag] = operation.tags ?? [];
  const change = (changes) => {
    Object.assign(state.request, changes);
    show();
  };
  const page = definition.tags?.find(({ name }) => name === tag)?.externalDocs?.url;
  return html`<div class="about-operation">
    <p class="crumbs"><a href="#tag-${tag}">${tag}</a>${page ? html` · <a href=${page.startsWith("/") ? root + page : page}>Guide</a>` : nothing}
      · <code>${operation.operationId}</code></p>
    <h1 tabindex="-1">${operation.summary}</h1>
    <p class="endpoint"><i class="verb ${method}">${method.toUpperCase()}</i> <code>${path.split("/").map((part, number) =>
      html`${number ? html`/<wbr>` : nothing}${part}`)}</code>
      <button type="button" @click=${(event) => copyBy(event.target, base + path)}>Copy</button></p>
    ${operation["x-extension"] ? html`<p><i class="tag new">extension</i>
      <span class="quiet">Beyond the interface that this server is compatible with.</span></p>` : nothing}
    ${operation.deprecated ? html`<p><i class="tag warn">deprecated</i></p>` : nothing}
    ${permissionView(operation)}
    ${markdown(operation.description, operations)}</div>
  <aside class="panels" aria-label="Request and response">${requestView(entry, state.request, change)}</aside>
  <div class="parts">${parametersView(entry)}${bodyView(entry)}
    ${responses.filter(({ status }) => status < "400").map(responseView)}
    ${errorsView(entry)}${callbacksView(entry)}${around(operation.operationId)}</div>`;
};

const show = () => render(operationView(operations.get(state.id)), article);

/** Show what the address names: an operation, also in the form `#/tag/operationId`, or the overview. */
const route = () => {
  const id = decodeURIComponent(location.hash.slice(1)).split("/").pop();
  const entry = operations.get(id);
  article.hidden = !entry;
  overview.hidden = Boolean(entry);
  for (const [name, link] of links) {
    if (name === id) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  navigation.classList.remove("is-open");
  document.title = entry ? `${entry.operation.summary} - ${home}` : home;
  if (!entry) {
    if (id) document.getElementById(id)?.scrollIntoView();
    else scrollTo(0, 0);
    return;
  }
  const isFirst = !state.id;
  Object.assign(state, { id, open: new Map(), request: exampleRequest(entry, { schemas, surface, base }) });
  render(nothing, article);
  show();
  scrollTo(0, 0);
  reveal(links.get(id));
  if (!isFirst) article.querySelector("h1").focus({ preventScroll: true });
};

const navigation = document.getElementById("operations");
const field = document.getElementById("find");
const foundPages = document.getElementById("found-pages");

const fieldNames = new Map();
/** The names of the parameters and fields of an operation. */
const namesOf = (id) => {
  if (!fieldNames.has(id)) {
    const { operation, parameters, responses } = operations.get(id);
    const bodies = [...Object.values(operation.requestBody?.content ?? {}), ...responses.filter(({ status }) => status < "400")];
    const names = new Set(parameters.map(({ name }) => name));
    for (const { schema } of bodies) if (schema) schemas.names(schema, names);
    fieldNames.set(id, [...names]);
  }
  return fieldNames.get(id);
};

/** Why an operation matches all words: null if it does not, else the names of fields that have them. */
const matchOf = (id, words) => {
  const { operation, method, path } = operations.get(id);
  const text = [id, operation.summary, method, path, ...operation.tags ?? []].join(" ").toLowerCase();
  const missing = words.filter((word) => !text.includes(word));
  const names = missing.map((word) => namesOf(id).find((name) => name.toLowerCase().includes(word)));
  return names.every(Boolean) ? names : null;
};

let pages = null;
const findPages = async (query) => {
  pages ??= Promise.all([import("./search.js"), fetch(new URL("search.json", import.meta.url)).then((response) => response.json())])
    .then(([search, sections]) => ({
      ...search, index: search.buildIndex(sections.filter(({ url }) => !url.startsWith("../"))),
    }));
  const { findSections, index } = await pages;
  if (query !== field.value) return;
  const found = query.trim() ? findSections(index, query).slice(0, MAX_PAGES) : [];
  foundPages.hidden = !found.length;
  render(html`${found.map(({ id, page, title }) => html`<li><a href="${root}/docs/${id}">${
    title === page ? page : `${page}: ${title}`}</a></li>`)}`, foundPages.querySelector("ul"));
};

const search = () => {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  for (const [id, link] of links) {
    const match = operations.has(id) ? matchOf(id, words) : null;
    link.parentElement.hidden = !match;
    count += match ? 1 : 0;
    render(match?.length ? html`<small>${match.join(", ")}</small>` : nothing, reasonOf(link));
  }
  for (const section of document.querySelectorAll("#list > section:not(#found-pages)")) {
    section.hidden = !section.querySelector("li:not([hidden])");
  }
  navigation.classList.toggle("is-open", words.length > 0);
  document.getElementById("summary").textContent = words.length ? `${count} ${count === 1 ? "operation" : "operations"}` : "";
  findPages(field.value);
};

const reasonOf = (link) => link.querySelector(".reason")
  ?? link.appendChild(Object.assign(document.createElement("span"), { className: "reason" }));

field.addEventListener("input", search);
field.addEventListener("keydown", (event) => {
  const found = [...document.querySelectorAll("#list section:not([hidden]) li:not([hidden]) a")];
  const first = found.find((link) => link.hash.slice(1).toLowerCase() === field.value.trim().toLowerCase())
    ?? found.find((link) => !link.querySelector("small")) ?? found[0];
  if (event.key === "Enter" && first && field.value.trim()) location.href = first.href;
  if (event.key === "Escape") {
    field.value = "";
    search();
  }
});
addEventListener("keydown", (event) => {
  const isTyping = event.target.closest?.("input, textarea, select");
  if (event.key !== "/" || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  field.focus();
});
addEventListener("hashchange", route);
route();
// What was typed while the document was loading.
if (field.value) search();
