// The right side of an operation: its request in several languages, its responses, and a form that sends it.

import { copyBy } from "./page.js";
import { html, nothing } from "../playground/lit-html.js";
import { Api, cleanToken } from "../playground/playground-api.js";
import { addressOf, codeOf, keepLanguage, languageOf } from "../playground/playground-code.js";
import { coloured } from "./reference-text.js";

const MAX_SHOWN = 100_000;
// What nearly every operation may be refused with is shown on demand.
export const COMMON_ERRORS = ["400", "401", "403", "404", "406", "408", "413", "414", "415", "429", "500", "503"];

const asText = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2));
const asField = (value) => (Array.isArray(value) ? value.join(",") : String(value ?? ""));

/** The credentials of an operation: the header that has them, and the variable that examples take them from. */
const authOf = (operation, { securitySchemes = {} }) => {
  const names = operation.security.flatMap((scheme) => Object.keys(scheme));
  if (!names.length) return null;
  const key = names.map((name) => securitySchemes[name]).find((scheme) => scheme?.type === "apiKey");
  return key ? { header: key.name, prefix: "", variable: "API_KEY" }
    : { header: "Authorization", prefix: "Bearer ", variable: "TOKEN" };
};

/** A request to begin with: the examples of the document, and the organization of the reader's token. */
export const exampleRequest = ({ operation, parameters, responses, method, path }, { schemas, surface, base }) => {
  const token = sessionStorage.getItem("token") ?? "";
  const filled = parameters.map((parameter) => {
    const known = parameter.name === "organizationId" ? new Api(token).organizationId : null;
    return { ...parameter, value: known ?? asField(parameter.example ?? schemas.flat(parameter.schema).example) };
  });
  const valuesIn = (place) => Object.fromEntries(filled
    .filter(({ in: where, value, required }) => where === place && value !== "" && (required || place === "path"))
    .map(({ name, value }) => [name, String(value)]));
  const [[type, { example } = {}] = []] = Object.entries(operation.requestBody?.content ?? {});
  return {
    base, surface, name: operation["x-operation-name"] ?? operation.operationId, method: method.toUpperCase(), path, type, token,
    types: Object.fromEntries(parameters.map(({ name, schema }) => [name, schemas.flat(schema).type])),
    hasResult: responses.some(({ status, type: media }) => status.startsWith("2") && media !== undefined),
    pathValues: valuesIn("path"), query: valuesIn("query"), auth: authOf(operation, schemas.document.components),
    text: example === undefined ? "" : asText(example), language: languageOf(), status: null, areErrorsOpen: false, result: null, isBusy: false,
  };
};

/** The body as a value; undefined if there is none, and a text where it is no JSON. */
const bodyOf = ({ text, type }) => {
  if (!type || !text.trim()) return undefined;
  try {
    return type === "application/octet-stream" ? text : JSON.parse(text);
  } catch {
    return text;
  }
};

const contentOf = ({ text, type }) => {
  if (!type) return undefined;
  return type.endsWith("urlencoded") ? new URLSearchParams(JSON.parse(text)).toString() : text;
};

const send = async (request) => {
  const { base, method, type, auth, token } = request;
  const headers = auth ? { [auth.header]: auth.prefix + token } : {};
  if (type) headers["Content-Type"] = type;
  const started = performance.now();
  const body = contentOf(request);
  const response = await fetch(base + addressOf(request), { method, headers, body, cache: "no-store" });
  const text = await response.text();
  const milliseconds = Math.round(performance.now() - started);
  const isJson = /json/.test(response.headers.get("Content-Type") ?? "") && text;
  return {
    status: response.status, milliseconds, id: response.headers.get("X-Request-Id"),
    text: (isJson ? asText(JSON.parse(text)) : text).slice(0, MAX_SHOWN) || "The response has no body.",
  };
};

const tabs = (label, names, selected, select) => html`<div class="choices" role="group" aria-label=${label}>${names.map(
  (name) => html`<button type="button" aria-pressed=${String(name === selected)} @click=${() => select(name)}>${name}</button>`)}</div>`;

const code = (label, text) => html`<div class="code"><pre tabindex="0" aria-label=${label}><code>${coloured(text)}</code></pre>
  <button type="button" class="copy" @click=${(event) => copyBy(event.target, text)}>Copy</button></div>`;

/** The panel of an operation; `change` stores changes of the request and shows them. */
export const requestView = ({ operation, parameters, responses }, request, change) => {
  const codes = codeOf({ ...request, type: request.type ?? undefined, body: bodyOf(request) });
  const language = codes[request.language] ? request.language : "curl";
  const statuses = responses.map(({ status }) => status)
    .filter((status) => request.areErrorsOpen || !COMMON_ERRORS.includes(status));
  const shown = responses.find(({ status }) => status === request.status) ?? responses[0];
  return html`<section class="panel request"><h2>Request</h2>
    ${tabs("Language", Object.keys(codes), language, (name) => change({ language: keepLanguage(name) }))}
    ${code("Request", codes[language])}
    ${tryView(operation, parameters, request, change)}</section>
  <section class="panel response"><h2>Response</h2>
    ${request.result ? html`<p role="status"><b class=${request.result.status < 400 ? "yes" : "no"}>${request.result.status || "Not sent"}</b>
      ${request.result.status ? html`in ${request.result.milliseconds} ms` : nothing}
      <button type="button" @click=${() => change({ result: null })}>Show the example</button></p>
      ${code("Response", request.result.text)}`
    : html`<div class="choices">${tabs("Status of the response", statuses, shown.status, (status) => change({ status }))}
      ${request.areErrorsOpen ? nothing : html`<button type="button" aria-label="Show the common errors"
        @click=${() => change({ areErrorsOpen: true })}>…</button>`}</div>
      <p class="quiet">${shown.title}</p>
      ${shown.example === undefined ? html`<p class="quiet">The response has no body.</p>` : code("Response", asText(shown.example))}`}
  </section>`;
};

const tryView = (operation, parameters, request, change) => {
  const submit = async (event) => {
    event.preventDefault();
    change({ isBusy: true });
    const failed = (error) => ({ status: 0, text: error instanceof SyntaxError
      ? `The body is not JSON: ${error.message}` : "The server does not respond." });
    change({ isBusy: false, result: await send(request).catch(failed) });
  };
  const useToken = (event) => {
    const token = cleanToken(event.target.value);
    if (request.auth?.variable === "TOKEN") sessionStorage.setItem("token", token);
    change({ token });
  };
  const setValue = ({ name, in: place }, value) => {
    const key = place === "path" ? "pathValues" : "query";
    const { [name]: _, ...others } = request[key];
    change({ [key]: value === "" ? others : { ...others, [name]: value } });
  };
  const field = (parameter) => {
    const id = `try-${parameter.name}`;
    const value = (parameter.in === "path" ? request.pathValues : request.query)[parameter.name] ?? "";
    return html`<label for=${id}>${parameter.name}</label><input id=${id} autocomplete="off" ?required=${parameter.required}
      .value=${value} @input=${(event) => setValue(parameter, event.target.value.trim())}>`;
  };
  return html`<details class="try"><summary>Try it</summary><form @submit=${submit}>
    ${request.auth ? html`<label for="token">${request.auth.variable === "TOKEN" ? "Token" : "API key"}</label>
      <input id="token" type="password" autocomplete="off" placeholder="such as the one that the server printed"
        .value=${request.token} @change=${useToken}>` : nothing}
    ${parameters.filter((parameter) => parameter.in !== "header").map(field)}
    ${request.type ? html`<label for="body">Body</label><textarea id="body" rows="10" spellcheck="false" .value=${request.text}
      @input=${(event) => change({ text: event.target.value })}></textarea>` : nothing}
    <button class="main" ?disabled=${request.isBusy}>Send</button>
    ${request.method === "GET" ? nothing : html`<small class="quiet">It changes the data of the token's organization.</small>`}
  </form></details>`;
};
