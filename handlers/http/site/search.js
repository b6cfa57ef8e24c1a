import MiniSearch from "./minisearch.js";

const MAX_RESULTS = 30;
const SNIPPET_CHARACTERS = 200;

// Index the sections of all pages; problems, decisions and operations, which are many, come after pages that match.
export const buildIndex = (sections) => {
  const index = new MiniSearch({
    idField: "url",
    fields: ["url", "page", "title", "text"],
    storeFields: ["page", "title", "text"],
    // An underscore belongs to a word: names of settings are found whole.
    tokenize: (text) => text.split(/[^\p{L}\p{N}_]+/u).filter(Boolean),
    searchOptions: {
      combineWith: "AND",
      prefix: true,
      fuzzy: (word) => (word.length > 4 ? 0.2 : false),
      weights: { fuzzy: 0.1, prefix: 0.5 },
      bm25: { k: 1.2, b: 0.3, d: 0.5 },
      boost: { url: 2, page: 2, title: 4 },
      boostDocument: (url) => (/^(decisions|problems#|\.\.)/.test(url) ? 0.4 : 1),
    },
  });
  index.addAll(sections);
  return index;
};

const PROBLEMS = "/problems/";

// A problem that is searched by its type, with or without the path, comes first.
export const findSections = (index, query) => {
  const type = PROBLEMS + query.trim().toLowerCase().replace(PROBLEMS, "");
  const sections = index.search(query);
  const [named, others] = [true, false].map((isNamed) => sections.filter(({ title }) => (title === type) === isNamed));
  return [...named, ...others].slice(0, MAX_RESULTS);
};

// The text around the first of the words, split so that every second part is a word that was found.
export const snippetOf = ({ text, terms }) => {
  const words = terms.map((term) => term.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  const pattern = new RegExp(`(${words.sort((one, other) => other.length - one.length).join("|")})`, "giu");
  const start = Math.max(0, text.search(pattern) - SNIPPET_CHARACTERS / 3);
  const from = start && text.indexOf(" ", start) + 1;
  const snippet = text.slice(from, from + SNIPPET_CHARACTERS);
  const end = from + snippet.length < text.length ? snippet.lastIndexOf(" ") : snippet.length;
  return `${from ? "… " : ""}${snippet.slice(0, end)}${end < snippet.length ? " …" : ""}`.split(pattern);
};

const element = (name, properties, ...children) => {
  const node = Object.assign(document.createElement(name), properties);
  node.append(...children);
  return node;
};

const showResults = (index, query) => {
  const sections = findSections(index, query);
  document.querySelector("#summary").textContent =
    query.trim() && !sections.length ? "Nothing was found. All words have to be in one section." : "";
  document.querySelector("#results").replaceChildren(...sections.map((section) => {
    const title = section.title === section.page ? section.page : `${section.page}: ${section.title}`;
    const link = element("a", { href: `${new URL(".", import.meta.url).pathname}${section.id}` }, title);
    const parts = snippetOf(section).map((part, number) => (number % 2 ? element("mark", {}, part) : part));
    return element("li", {}, link, element("br"), ...parts);
  }));
};

if (globalThis.document?.querySelector("#results")) {
  const field = document.querySelector("input[name=q]");
  field.value = new URLSearchParams(location.search).get("q") ?? "";
  const response = await fetch(new URL("search.json", import.meta.url));
  const index = buildIndex(await response.json());
  showResults(index, field.value);
  field.addEventListener("input", () => {
    history.replaceState(null, "", `?${new URLSearchParams({ q: field.value })}`);
    showResults(index, field.value);
  });
}
