// A request as it is written for curl and in programming languages.

const JSON_TYPE = "application/json";
const FORM_TYPE = "application/x-www-form-urlencoded";
const BEARER = { header: "Authorization", prefix: "Bearer ", variable: "TOKEN" };

const quoted = (text) => `'${text.replaceAll("'", String.raw`'\''`)}'`;
const indented = (text, by) => text.replaceAll("\n", `\n${by}`);
const literal = (value) => JSON.stringify(value, null, 2);
const python = (value) => JSON.stringify(value, null, 4)
  .replace(/("(?:[^"\\]|\\.)*")|\b(true|false|null)\b/g, (_, text, word) =>
    text ?? { true: "True", false: "False", null: "None" }[word]);

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

const inPython = ({ base, method, path, pathValues, query, type, body, auth }) => {
  const lines = [`"${base}${addressOf({ path, pathValues })}",`];
  if (auth) lines.push(`headers={"${auth.header}": f"${auth.prefix}{os.environ['${auth.variable}']}"},`);
  if (query && Object.keys(query).length) lines.push(`params=${python(query)},`);
  if (body !== undefined && type === JSON_TYPE) lines.push(`json=${python(body)},`);
  if (body !== undefined && type === FORM_TYPE) lines.push(`data=${python(body)},`);
  if (body !== undefined && ![JSON_TYPE, FORM_TYPE].includes(type)) lines.push('content=open("file", "rb"),');
  return `${auth ? "import os\n\n" : ""}import httpx

response = httpx.${method.toLowerCase()}(
${lines.map((line) => `    ${indented(line, "    ")}`).join("\n")}
)
response.raise_for_status()
print(response.json())`;
};

const inTypeScript = ({ base, surface, method, path, pathValues = {}, query = {}, type, body, auth }) => {
  const params = Object.fromEntries(Object.entries({ path: pathValues, query })
    .filter(([, values]) => Object.keys(values).length));
  const options = [];
  if (Object.keys(params).length) options.push(`params: ${literal(params)},`);
  if (body !== undefined) options.push(`body: ${[JSON_TYPE, FORM_TYPE].includes(type) ? literal(body) : "file"},`);
  if (body !== undefined && type === FORM_TYPE) options.push("bodySerializer: (body) => new URLSearchParams(body),");
  if (body !== undefined && ![JSON_TYPE, FORM_TYPE].includes(type)) options.push("bodySerializer: (body) => body,");
  const lines = options.map((line) => `  ${indented(line, "  ")}\n`).join("");
  const header = auth && (auth.prefix
    ? `\`${auth.prefix}\${process.env.${auth.variable}}\`` : `process.env.${auth.variable}!`);
  const name = /^\w+$/.test(auth?.header ?? "") ? auth.header : `"${auth?.header}"`;
  return `import createClient from "openapi-fetch";
import type { paths } from "./${surface}"; // npx openapi-typescript ${base}/${surface}/openapi.json -o ${surface}.ts

const client = createClient<paths>({
  baseUrl: "${base}",${auth ? `\n  headers: { ${name}: ${header} },` : ""}
});
const { data, error } = await client.${method}("${path}"${lines ? `, {\n${lines}}` : ""});`;
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
 */
export const codeOf = (request) => {
  const complete = { surface: "integration", method: "POST", type: JSON_TYPE, auth: BEARER, ...request };
  const languages = { curl, Python: inPython, TypeScript: inTypeScript, PHP: inPhp, Java: inJava };
  return Object.fromEntries(Object.entries(languages).map(([name, write]) => [name, write(complete)]));
};

/** The language that the reader has chosen, on whichever page. */
export const languageOf = () => localStorage.getItem("language") ?? "curl";

export const keepLanguage = (name) => {
  localStorage.setItem("language", name);
  return name;
};
