const words = (operation) => ["path", "method"].map((name) => operation.get(name))
  .concat(["operationId", "summary"].map((name) => operation.getIn(["operation", name])))
  .join(" ").toLowerCase();
const searchOperations = () => ({ fn: { opsFilter: (tags, phrase) => {
  const parts = phrase.toLowerCase().split(/\s+/).filter(Boolean);
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
  const told = example === undefined ? "" : ` For example \`${example}\`.`;
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
  const value = token.value.trim().replace(/^((export\s+)?TOKEN=|(Authorization:\s*)?Bearer\s+)/i, "");
  if (value) window.ui.preauthorizeApiKey("bearerAuth", value);
  else window.ui.authActions.logout(["bearerAuth"]);
  token.classList.toggle("is-used", Boolean(value));
  window.sessionStorage.setItem("token", value);
};
token.value = window.sessionStorage.getItem("token") ?? "";
token.addEventListener("change", use);
token.form.addEventListener("submit", (event) => { event.preventDefault(); token.blur(); });
