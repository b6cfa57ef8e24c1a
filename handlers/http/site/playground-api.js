// Calls of the public API with the token that the person entered.

const base = new URL("../v2", import.meta.url).href.replace(/\/$/, "");

/** A refused call; `problem` is the body of the response (RFC 9457). */
export class Refused extends Error {
  constructor(problem) {
    const details = (problem.errors ?? []).map(({ pointer, detail }) => (pointer ? `${pointer}: ${detail}` : detail));
    super(details.length ? details.join(" ") : problem.detail || problem.title);
    this.problem = problem;
  }
}

/** A token without what people copy in front of it. */
export const cleanToken = (text) => text.trim().replace(/^((export\s+)?TOKEN=|(Authorization:\s*)?Bearer\s+)/i, "");

/** The API for the bearer of a token. */
export class Api {
  constructor(token) {
    this.token = token;
    this.base = base;
  }

  /** The organization that the token names. */
  get organizationId() {
    try {
      const text = atob(this.token.split(".")[1].replaceAll("-", "+").replaceAll("_", "/"));
      return JSON.parse(text).organizationId ?? null;
    } catch {
      return null;
    }
  }

  /** The body of the response to a call, as JSON unless another media type is asked for. */
  async call(method, path, { body, query = {}, accept = "application/json" } = {}) {
    const url = new URL(this.base + path);
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
    const headers = { Authorization: `Bearer ${this.token}`, Accept: accept };
    if (body !== undefined) headers["Content-Type"] = "application/json";
    const request = { method, headers, body: body === undefined ? body : JSON.stringify(body) };
    const response = await fetch(url, request).catch(() => null);
    if (response === null) throw new Refused({ title: "The server does not respond." });
    if (!response.ok) throw new Refused(await response.json().catch(() => ({ title: `HTTP ${response.status}` })));
    return accept === "application/json" ? response.json() : response.text();
  }

  get(path, query) {
    return this.call("GET", path, { query });
  }

  post(path, body) {
    return this.call("POST", path, { body });
  }

  administration(path) {
    return `/organizations/${this.organizationId}${path}`;
  }
}

/** What a call returns, or `fallback` where it is refused: for what the page can do without. */
export const orElse = async (call, fallback) => {
  try {
    return await call;
  } catch (error) {
    if (error instanceof Refused) return fallback;
    throw error;
  }
};
