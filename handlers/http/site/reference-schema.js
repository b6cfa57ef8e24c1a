// The fields of requests and responses: each with its type, limits and description; nested ones are opened on demand.

import { html, nothing } from "../playground/lit-html.js";
import { inline, markdown } from "./reference-text.js";

const RANGES = [
  ["minimum", "maximum", ""], ["minLength", "maxLength", " characters"], ["minItems", "maxItems", " items"],
  ["minProperties", "maxProperties", " fields"], [null, "x-max-bytes", " bytes"],
];

/** Reads the parts of a document. */
export class Schemas {
  constructor(document) {
    this.document = document;
  }

  /** What a reference leads to; anything else is itself. */
  resolve(node) {
    if (!node?.$ref) return node;
    return this.resolve(node.$ref.slice(2).split("/").reduce((parent, name) => parent[name], this.document));
  }

  /** A schema with what it refers to and is made of in one; `name` is that of the named schema. */
  flat(schema) {
    if (schema?.$ref) return { name: schema.$ref.split("/").pop(), ...this.flat(this.resolve(schema)) };
    if (!schema?.allOf) return schema ?? {};
    const { allOf, ...own } = schema;
    const parts = allOf.map((part) => this.flat(part));
    const merged = Object.assign({}, ...parts, own);
    const fields = Object.assign({}, ...parts.map((part) => part.properties), own.properties);
    const required = [...parts, own].flatMap((part) => part.required ?? []);
    return { ...merged, ...(Object.keys(fields).length && { properties: fields }), ...(required.length && { required }) };
  }

  /** What is nested in a schema: its fields, the values of a map, or the alternatives; empty for a plain value. */
  children(schema) {
    const flat = this.flat(schema);
    if (flat.type === "array") return this.children(flat.items);
    if (flat.oneOf) return flat.oneOf.map((part) => ({ name: this.alternative(flat, part), schema: part, isAlternative: true }));
    const required = new Set(flat.required);
    const fields = Object.entries(flat.properties ?? {})
      .map(([name, part]) => ({ name, schema: part, isRequired: required.has(name) }));
    return typeof flat.additionalProperties === "object" && this.children(flat.additionalProperties).length
      ? [...fields, { name: "any name", schema: flat.additionalProperties }] : fields;
  }

  alternative({ discriminator }, part) {
    const [value] = Object.entries(discriminator?.mapping ?? {}).find(([, target]) => target === part.$ref) ?? [];
    return value ? `${discriminator.propertyName}: ${value}` : this.type(part);
  }

  type(schema) {
    const flat = this.flat(schema);
    if (flat.type === "array") return `array of ${this.type(flat.items)}`;
    if (flat.oneOf) return flat.oneOf.length > 3 ? "one of several" : flat.oneOf.map((part) => this.type(part)).join(" or ");
    if (typeof flat.additionalProperties === "object" && !flat.properties) return `map of ${this.type(flat.additionalProperties)}`;
    return flat.format && flat.type === "string" ? flat.format : flat.format ? `${flat.type} (${flat.format})` : flat.type ?? "any value";
  }

  /** The names of all fields below a schema, for the search. */
  names(schema, found = new Set(), visited = new Set()) {
    for (const child of this.children(schema)) {
      if (!child.isAlternative) found.add(child.name);
      const { name } = this.flat(child.schema.items ?? child.schema);
      if (name && visited.has(name)) continue;
      this.names(child.schema, found, new Set(visited).add(name));
    }
    return found;
  }
}

const list = (values) => values.map((value) => html` <code>${
  typeof value === "string" ? value : JSON.stringify(value)}</code>`);

const number = (value) => Number(value).toLocaleString("en", { maximumFractionDigits: 20 });

/** The limits of a value as people say them, such as "1 to 100 items". */
const limits = (flat) => RANGES.flatMap(([low, high, units]) => {
  const [least, most] = [flat[low] || (units ? undefined : flat[low]), flat[high]];
  const [above, below] = [flat.exclusiveMinimum === true, flat.exclusiveMaximum === true];
  const count = (value) => `${number(value)}${value === 1 ? units.replace(/s$/, "") : units}`;
  if (least !== undefined && most !== undefined && !above && !below) {
    return [least === most ? `exactly ${count(least)}` : `${number(least)} to ${count(most)}`];
  }
  return [
    ...(least === undefined ? [] : [`${above ? "more than" : "at least"} ${count(least)}`]),
    ...(most === undefined ? [] : [`${below ? "less than" : "at most"} ${count(most)}`]),
  ];
}).concat(flat.multipleOf === undefined ? [] : [`a multiple of ${flat.multipleOf}`], flat.uniqueItems ? ["each once"] : []);

const marks = (flat, isRequired) => html`${isRequired ? html`<i class="tag must">required</i>` : nothing}
  ${flat.nullable ? html`<i class="tag">or null</i>` : nothing}
  ${flat.readOnly ? html`<i class="tag">read only</i>` : nothing}
  ${flat["x-extension"] ? html`<i class="tag new" title="Beyond the interface that this server is compatible with">extension</i>` : nothing}
  ${flat.deprecated ? html`<i class="tag warn">deprecated${flat["x-deprecated-at"] ? ` since ${flat["x-deprecated-at"]}` : ""}</i>` : nothing}`;

/** Shows fields; `view` has the schemas, the ids of operations, the open paths, and how to open one. */
export const fieldsView = (view, children, path) => html`<ul class="fields">${children.map(
  (child) => fieldView(view, child, `${path}.${child.name}`))}</ul>`;

const values = (flat) => html`${flat.enum
    ? html`<p class="values">One of${list(flat.enum.filter((value) => value !== null))}</p>` : nothing}
  ${flat["x-extensible-enum"] ? html`<p class="values">Such as${list(flat["x-extensible-enum"])}; more may be added.</p>` : nothing}
  ${flat.default !== undefined ? html`<p class="values">Default${list([flat.default])}</p>` : nothing}
  ${flat.example !== undefined && !flat.enum ? html`<p class="values">Example${list([flat.example])}</p>` : nothing}
  ${flat.pattern ? html`<p class="values">Pattern${list([flat.pattern])}</p>` : nothing}`;

/** One field, parameter or header. */
export const fieldView = (view, { name, schema, isRequired, isAlternative, about = {} }, path) => {
  const { schemas, operations } = view;
  const flat = { ...schemas.flat(schema), ...about };
  const inner = flat.type === "array" ? { ...schemas.flat(flat.items), description: undefined } : {};
  const nested = schemas.children(schema);
  const bounds = [...limits(flat), ...limits(inner).map((part) => `each ${part}`)];
  return html`<li>
    <div class="head">${isAlternative ? html`<b>${name}</b>` : html`<b class="name">${name}</b>
      <span class="type">${schemas.type(schema)}</span>`} ${marks(flat, isRequired)}</div>
    ${bounds.length ? html`<p class="limits">${bounds.join(", ")}</p>` : nothing}
    ${flat.description ? html`<div class="about">${flat.description.includes("\n\n") || flat.description.includes("\n- ")
      ? markdown(flat.description, operations) : html`<p>${inline(flat.description.replaceAll("\n", " "), operations)}</p>`}</div>` : nothing}
    ${values({ ...inner, ...flat })}
    ${nested.length ? foldView(view, nested, path, isAlternative ? "Fields" : `Fields of ${name}`) : nothing}</li>`;
};

/** Nested fields, which are rendered only when they are opened: schemas may be nested in themselves. */
const foldView = (view, children, path, title) => html`<details .open=${view.isOpen(path)}
  @toggle=${(event) => view.open(path, event.target.open)}><summary>${title} <small>${children.length}</small></summary>
  ${view.isOpen(path) ? fieldsView(view, children, path) : nothing}</details>`;
