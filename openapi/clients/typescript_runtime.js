// Sends the requests of the generated clients: tokens, keys, retries and pages.

const KEY = "systemUniqueKey";
const JSON_TYPE = "application/json";
// A token is renewed this long before it expires.
const MARGIN = 60_000;
const FIRST_DELAY = 250;
const MAX_DELAY = 30_000;

export class Problem extends Error {
  constructor(status, fields, requestId) {
    const type = fields.type ?? "about:blank";
    const title = fields.title ?? fields.error ?? "";
    const detail = fields.detail ?? fields.error_description ?? "";
    super(`${status} ${type}: ${detail || title}`);
    this.name = "Problem";
    Object.assign(this, { status, type, title, detail, errors: fields.errors ?? [], requestId, fields });
  }
}

export class BaseClient {
  #baseUrl;
  #token;
  #credentials;
  #expiresAt = 0;
  #renewal;
  #apiKey;
  #timeout;
  #maxRetries;
  #fetch;

  constructor(baseUrl, options = {}) {
    this.#baseUrl = baseUrl.replace(/\/+$/, "");
    this.#token = options.token;
    if (options.clientId !== undefined) {
      this.#credentials = { client_id: options.clientId, client_secret: options.clientSecret };
    }
    this.#apiKey = options.apiKey;
    this.#timeout = options.timeout ?? 30_000;
    this.#maxRetries = options.maxRetries ?? 4;
    this.#fetch = options.fetch ?? ((input, init) => fetch(input, init));
  }

  /** Send a request, repeat it where that is safe, and return the result. */
  async call(method, path, { query, body, bodyType, keyPath, isOpen }) {
    const keyed = keyPath === undefined ? body : withKeys(body, keyPath);
    const content = contentOf(keyed, bodyType);
    const isRepeatable = method !== "POST" || keyPath !== undefined;
    for (let attempt = 0; ; attempt += 1) {
      const isLast = attempt >= this.#maxRetries;
      let reply;
      try {
        const headers = isOpen ? {} : await this.#authorization();
        if (content !== undefined) headers["Content-Type"] = bodyType;
        reply = await this.#send(method, path + queryText(query), headers, content);
      } catch (error) {
        if (error instanceof Problem || isLast || !isRepeatable) throw error;
        await sleep(delayOf(attempt, null));
        continue;
      }
      const { response, text } = reply;
      if (response.ok) return resultOf(response, text);
      const delay = delayOf(attempt, response.headers.get("Retry-After"));
      const isWaiting = response.status === 429 || (response.status === 503 && isRepeatable);
      if (isLast || !isWaiting || delay > MAX_DELAY) throw problemOf(response, text);
      await sleep(delay);
    }
  }

  /** The items of all pages; a page is fetched when its first item is needed. */
  async *iterate(path, query, field, hasCursor) {
    let step = {};
    for (let number = 1; ; number += 1) {
      const page = await this.call("GET", path, { query: { ...query, ...step } });
      yield* page[field];
      step = hasCursor ? { cursor: page.nextCursor } : { page: number };
      if (page[field].length === 0 || (hasCursor && page.nextCursor === null)) return;
    }
  }

  async #authorization() {
    if (this.#credentials !== undefined && Date.now() >= this.#expiresAt) {
      // Calls at the same time share one request for a token.
      this.#renewal ??= this.#fetchToken().finally(() => {
        this.#renewal = undefined;
      });
      await this.#renewal;
    }
    const headers = {};
    if (this.#token !== undefined) headers["Authorization"] = `Bearer ${this.#token}`;
    if (this.#apiKey !== undefined) headers["x-api-key"] = this.#apiKey;
    return headers;
  }

  async #fetchToken() {
    const form = { grant_type: "client_credentials", ...this.#credentials };
    const bodyType = "application/x-www-form-urlencoded";
    const token = await this.call("POST", "/oauth/token", { body: form, bodyType, isOpen: true });
    this.#token = token.access_token;
    this.#expiresAt = Date.now() + Math.max(token.expires_in * 1000 - MARGIN, 1000);
  }

  /** Send one request and read its response to the end, within the timeout. */
  async #send(method, path, headers, body) {
    const signal = AbortSignal.timeout(this.#timeout);
    const response = await this.#fetch(this.#baseUrl + path, { method, headers, body, signal });
    return { response, text: await response.text() };
  }
}

function withKeys(body, keyPath) {
  if (keyPath !== "") return { ...body, [keyPath]: (body[keyPath] ?? []).map((item) => withKeys(item, "")) };
  return { ...body, [KEY]: body?.[KEY] ?? crypto.randomUUID() };
}

function contentOf(body, bodyType) {
  if (body === undefined || bodyType === "application/octet-stream") return body;
  return bodyType === JSON_TYPE ? JSON.stringify(body) : new URLSearchParams(body).toString();
}

/** The parameters that have a value; an object is a family of parameters. */
function queryText(query = {}) {
  const texts = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === null) continue;
    if (typeof value === "object" && !Array.isArray(value)) {
      for (const [part, child] of Object.entries(value)) texts.set(`${name}.${part}`, child);
    } else {
      texts.set(name, String(value));
    }
  }
  return texts.size ? `?${texts}` : "";
}

function resultOf(response, text) {
  if ((response.headers.get("Content-Type") ?? "").startsWith(JSON_TYPE)) return JSON.parse(text);
  return text === "" ? undefined : text;
}

function problemOf(response, text) {
  let fields;
  try {
    fields = JSON.parse(text);
  } catch {
    fields = { detail: text.slice(0, 200) };
  }
  if (typeof fields !== "object" || fields === null) fields = { detail: String(fields) };
  return new Problem(response.status, fields, response.headers.get("X-Request-Id"));
}

/** Milliseconds until the next attempt: what the server says, else twice as long each time, with jitter. */
function delayOf(attempt, retryAfter) {
  if (retryAfter !== null && /^\d+$/.test(retryAfter)) return Number(retryAfter) * 1000;
  return Math.min(FIRST_DELAY * 2 ** attempt * (0.5 + Math.random() / 2), MAX_DELAY);
}

function sleep(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
