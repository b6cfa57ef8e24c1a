// A request as it is written for curl and in programming languages.

const JSON_TYPE = "application/json";
const FORM_TYPE = "application/x-www-form-urlencoded";
const BEARER = { header: "Authorization", prefix: "Bearer ", variable: "TOKEN" };

const quoted = (text) => `'${text.replaceAll("'", String.raw`'\''`)}'`;
const indented = (text, by) => text.replaceAll("\n", `\n${by}`);
const literal = (value) => JSON.stringify(value, null, 2);
/** A value as Python writes it; amounts with decimals are exact. */
const python = (value) => JSON.stringify(value, null, 4)
  .replace(/("(?:[^"\\]|\\.)*")|\b(true|false|null)\b|-?\d+[.e][\d.e+-]*/g, (found, text, word) => text
    ?? { true: "True", false: "False", null: "None" }[word] ?? `Decimal("${found}")`);
const snakeCase = (name) => name.replace(/(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])/g, "_").toLowerCase();

/** The value of a parameter in the type that it is declared with; the unchanged text where it is none of it. */
const typed = (text, type) => {
  if (type === "array") return text.split(",");
  if (type === "boolean" && ["true", "false"].includes(text)) return text === "true";
  if (["integer", "number"].includes(type) && text.trim() && !Number.isNaN(Number(text))) return Number(text);
  return text;
};

/** A call of a ready-made client: the values of its path, in their order, and those of its query, by name. */
const callOf = ({ path, pathValues = {}, query = {}, types = {} }) => {
  const valueOf = (name) => ((pathValues[name] ?? "") === "" ? `{${name}}` : typed(String(pathValues[name]), types[name]));
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name).filter((name) => name !== "organizationId");
  return {
    organization: valueOf("organizationId"), values: names.map(valueOf),
    query: Object.entries(query).map(([name, value]) => [name, typed(value, types[name])]),
  };
};

/** The path with its parameters, and the query. */
export const addressOf = ({ path, pathValues = {}, query = {} }) => {
  const filled = path.replace(/\{(\w+)\}/g, (hole, name) =>
    (pathValues[name] ?? "") === "" ? hole : encodeURIComponent(pathValues[name]));
  const text = new URLSearchParams(query).toString();
  return text ? `${filled}?${text}` : filled;
};

const curl = ({ base, method, type, body, auth, ...request }) => {
  const lines = [`curl -sS${method === "GET" ? "" : ` -X ${method}`} ${quoted(base + addressOf(request)).replace(
    /^'([\w/:.,-]+)'$/, "$1")}`];
  if (auth) lines.push(`-H "${auth.header}: ${auth.prefix}$${auth.variable}"`);
  if (body === undefined) return lines.join(" \\\n  ");
  if (type === FORM_TYPE) {
    lines.push(...Object.entries(body).map(([name, value]) => `--data-urlencode ${quoted(`${name}=${value}`)}`));
  } else if (type === JSON_TYPE) {
    lines.push(`-H 'Content-Type: ${type}'`, `-d ${quoted(literal(body))}`);
  } else {
    lines.push(`-H 'Content-Type: ${type}'`, "--data-binary @file");
  }
  return lines.join(" \\\n  ");
};

const inPython = ({ base, surface, name, body, type, auth, hasResult, ...request }) => {
  const { organization, values, query } = callOf(request);
  const client = surface === "administration" ? "AdministrationClient" : "IntegrationClient";
  const isFile = body !== undefined && ![JSON_TYPE, FORM_TYPE].includes(type);
  const settings = [`"${base}"`];
  if (surface === "administration") settings.push(python(organization));
  if (auth) settings.push(`${auth.prefix ? "token" : "api_key"}=os.environ["${auth.variable}"]`);
  const given = values.map(python);
  if (body !== undefined) given.push(isFile ? 'Path("file").read_bytes()' : python(body));
  given.push(...query.map(([key, value]) => `${snakeCase(key)}=${python(value)}`));
  const call = `client.${snakeCase(name)}(${indented(given.join(", "), "    ")})`;
  const imports = [
    auth && "import os", call.includes("Decimal(") && "from decimal import Decimal", isFile && "from pathlib import Path",
  ].filter(Boolean);
  return `${imports.length ? `${imports.join("\n")}\n\n` : ""}from loyalty_client import ${client}

with ${client}(${settings.join(", ")}) as client:
    ${hasResult ? `print(${call})` : call}`;
};

const inTypeScript = ({ base, surface, name, body, type, auth, hasResult, ...request }) => {
  const { organization, values, query } = callOf(request);
  const client = surface === "administration" ? "AdministrationClient" : "IntegrationClient";
  const isFile = body !== undefined && ![JSON_TYPE, FORM_TYPE].includes(type);
  const settings = [`"${base}"`];
  if (surface === "administration") settings.push(literal(organization));
  if (auth) settings.push(`{ ${auth.prefix ? "token" : "apiKey"}: process.env.${auth.variable} ?? "" }`);
  const given = values.map(literal);
  if (body !== undefined) given.push(isFile ? 'await openAsBlob("file")' : literal(body));
  if (query.length) given.push(literal(Object.fromEntries(query)));
  const call = `await client.${name}(${given.join(", ")})`;
  return `${isFile ? 'import { openAsBlob } from "node:fs";\n' : ""}import { ${client} } from "loyalty-client";

const client = new ${client}(${settings.join(", ")});
${hasResult ? `console.log(${call})` : call};`;
};

const inPhp = ({ base, method, type, body, auth, ...request }) => {
  const url = base + addressOf(request);
  const options = [];
  const headers = auth ? [`'${auth.header}' => ${auth.prefix ? `'${auth.prefix}' . ` : ""}getenv('${auth.variable}')`] : [];
  if (body !== undefined && ![JSON_TYPE, FORM_TYPE].includes(type)) headers.push(`'Content-Type' => '${type}'`);
  if (headers.length) options.push(`    'headers' => [${headers.join(", ")}],\n`);
  if (body !== undefined && type === JSON_TYPE) {
    options.push(`    'json' => json_decode(<<<'JSON'\n${literal(body)}\nJSON, true),\n`);
  } else if (body !== undefined && type === FORM_TYPE) {
    const fields = Object.entries(body).map(([name, value]) => `        '${name}' => ${quoted(value)},\n`).join("");
    options.push(`    'form_params' => [\n${fields}    ],\n`);
  } else if (body !== undefined) {
    options.push("    'body' => fopen('file', 'r'),\n");
  }
  return `$client = new GuzzleHttp\\Client();
$response = $client->${method.toLowerCase()}('${url}'${options.length ? `, [\n${options.join("")}]` : ""});
echo $response->getBody();`;
};

const inJava = ({ base, method, type, body, auth, ...request }) => {
  const lines = [];
  if (auth) lines.push(`.header("${auth.header}", ${auth.prefix ? `"${auth.prefix}" + ` : ""}System.getenv("${auth.variable}"))`);
  if (body === undefined) {
    const publisher = ["GET", "DELETE"].includes(method) ? "" : "HttpRequest.BodyPublishers.noBody()";
    lines.push(method === "PATCH" ? `.method("PATCH", ${publisher})` : `.${method}(${publisher})`);
  } else {
    const text = type === FORM_TYPE ? `"${new URLSearchParams(body)}"`
      : `"""\n        ${indented(literal(body).replaceAll("\\", "\\\\"), "        ")}\n        """`;
    const publisher = [JSON_TYPE, FORM_TYPE].includes(type) ? `ofString(${text})` : 'ofFile(Path.of("file"))';
    const call = ["POST", "PUT"].includes(method) ? `.${method}(` : `.method("${method}", `;
    lines.push(`.header("Content-Type", "${type}")`, `${call}HttpRequest.BodyPublishers.${publisher})`);
  }
  return `var request = HttpRequest.newBuilder(URI.create("${base}${addressOf(request)}"))
${lines.map((line) => `    ${line}`).join("\n")}
    .build();
var response = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
System.out.println(response.body());`;
};

/**
 * A request in each language, `{name: text}`. It has `base`, `surface`, `method`, `path` with `pathValues` for its
 * parameters, `query`, `body` with its media type as `type`, and `auth`: the header and the variable of the credentials.
 * For the ready-made clients it also has the `name` of the operation, the `types` of its parameters, and `hasResult`.
 */
export const codeOf = (request) => {
  const defaults = { surface: "integration", method: "POST", type: JSON_TYPE, auth: BEARER, hasResult: true };
  const complete = { ...defaults, ...request };
  const languages = { curl, Python: inPython, TypeScript: inTypeScript, PHP: inPhp, Java: inJava };
  return Object.fromEntries(Object.entries(languages).map(([name, write]) => [name, write(complete)]));
};

/** The language that the reader has chosen, on whichever page. */
export const languageOf = () => localStorage.getItem("language") ?? "curl";

export const keepLanguage = (name) => {
  localStorage.setItem("language", name);
  return name;
};
