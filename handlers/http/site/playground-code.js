// A request as it is written for curl and in programming languages.

const quoted = (text) => `'${text.replaceAll("'", String.raw`'\''`)}'`;
const indented = (text, by) => text.replaceAll("\n", `\n${by}`);
const python = (value) => JSON.stringify(value, null, 4)
  .replace(/("(?:[^"\\]|\\.)*")|\b(true|false|null)\b/g, (_, text, word) =>
    text ?? { true: "True", false: "False", null: "None" }[word]);

/** The request in each language: `{name: text}`. */
export const codeOf = (base, path, body) => {
  const json = JSON.stringify(body, null, 2);
  return {
    curl: `curl -sS -X POST ${base}${path} \\\n  -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' \\\n`
      + `  -d ${quoted(json)}`,
    Python: `import os

import httpx

response = httpx.post(
    "${base}${path}",
    headers={"Authorization": f"Bearer {os.environ['TOKEN']}"},
    json=${indented(python(body), "    ")},
)
response.raise_for_status()
print(response.json())`,
    TypeScript: `import createClient from "openapi-fetch";
import type { paths } from "./integration"; // npx openapi-typescript ${base}/integration/openapi.json -o integration.ts

const client = createClient<paths>({
  baseUrl: "${base}",
  headers: { Authorization: \`Bearer \${process.env.TOKEN}\` },
});
const { data, error } = await client.POST("${path}", {
  body: ${indented(json, "  ")},
});`,
    PHP: `$client = new GuzzleHttp\\Client();
$response = $client->post('${base}${path}', [
    'headers' => ['Authorization' => 'Bearer ' . getenv('TOKEN')],
    'json' => json_decode(<<<'JSON'
${json}
JSON, true),
]);
echo $response->getBody();`,
    Java: `var request = HttpRequest.newBuilder(URI.create("${base}${path}"))
    .header("Authorization", "Bearer " + System.getenv("TOKEN"))
    .header("Content-Type", "application/json")
    .POST(HttpRequest.BodyPublishers.ofString("""
        ${indented(json, "        ")}
        """))
    .build();
var response = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
System.out.println(response.body());`,
  };
};
