// Texts of the document: Markdown as the descriptions use it, and code in colours.

import { html, nothing } from "../playground/lit-html.js";

/** The path in front of all pages, mostly empty. */
export const root = new URL("..", import.meta.url).pathname.replace(/\/$/, "");

const PIECES = /`([^`]+)`|\[([^\]]+)\]\(([^)\s]+)\)|\*\*([^*]+)\*\*/;
const COLOURS = /("(?:[^"\\\n]|\\.)*")(?=(\s*:)?)|(?<![\w.-])(-?\d+(?:\.\d+)?)(?![\w.-])|\b(true|false|null|None|True|False)\b/;

const codeOf = (text, operations) => {
  if (operations.has(text)) return html`<a href="#${text}"><code>${text}</code></a>`;
  return /^\/problems\/[a-z-]+$/.test(text) ? html`<a href="${root}${text}"><code>${text}</code></a>` : html`<code>${text}</code>`;
};

/** A line of Markdown; names of operations and problems become links. */
export const inline = (text, operations) => {
  const found = PIECES.exec(text);
  if (!found) return text;
  const [all, code, label, target, bold] = found;
  const address = target?.startsWith("/") ? root + target : target;
  const piece = code !== undefined ? codeOf(code, operations)
    : bold !== undefined ? html`<b>${bold}</b>` : html`<a href=${address}>${inline(label, operations)}</a>`;
  return html`${text.slice(0, found.index)}${piece}${inline(text.slice(found.index + all.length), operations)}`;
};

const table = (lines, operations) => {
  const [head, , ...rows] = lines.map((line) => line.replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim()));
  return html`<table><thead><tr>${head.map((cell) => html`<th>${inline(cell, operations)}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`<tr>${row.map((cell) => html`<td>${inline(cell, operations)}</td>`)}</tr>`)}</tbody></table>`;
};

const block = ({ kind, lines }, operations) => {
  if (kind === "table") return table(lines, operations);
  if (kind === "list") return html`<ul>${lines.map((line) => html`<li>${inline(line, operations)}</li>`)}</ul>`;
  return html`<p>${inline(lines.join(" "), operations)}</p>`;
};

/** Paragraphs, lists and tables of Markdown; `operations` are the ids of those that the page has. */
export const markdown = (text, operations) => {
  const blocks = [];
  for (const line of (text ?? "").trim().split("\n")) {
    const last = blocks.at(-1);
    const kind = line.startsWith("|") ? "table" : line.startsWith("- ") ? "list" : "text";
    if (!line.trim()) blocks.push({ kind: "gap", lines: [] });
    else if (kind === "text" && last?.kind === "list") last.lines.push(`${last.lines.pop()} ${line.trim()}`);
    else if (kind === last?.kind) last.lines.push(kind === "list" ? line.slice(2) : line.trim());
    else blocks.push({ kind, lines: [kind === "list" ? line.slice(2) : line.trim()] });
  }
  return blocks.filter(({ kind }) => kind !== "gap").map((each) => block(each, operations));
};

/** Code of any language: its texts, numbers and constants in colours. */
export const coloured = (text) => {
  const parts = [];
  let rest = text;
  for (let found = COLOURS.exec(rest); found; found = COLOURS.exec(rest)) {
    const [all, string, colon, number] = found;
    const kind = string ? (colon ? "name" : "string") : number ? "number" : "word";
    parts.push(rest.slice(0, found.index), html`<i class=${kind}>${all}</i>`);
    rest = rest.slice(found.index + all.length);
  }
  return parts.length ? [...parts, rest] : text || nothing;
};
