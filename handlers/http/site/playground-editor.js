// Completion of the payload of an event: the fields that its schema has at the cursor.

/** The names that lead to the object at the cursor, and the beginning of the name that is being typed there. */
export const placeAt = (text, cursor) => {
  const path = [];
  let name = null;
  let typed = null;
  for (let at = 0; at < cursor; at += 1) {
    const character = text[at];
    if (character === '"') {
      const start = at + 1;
      for (at += 1; at < cursor && text[at] !== '"'; at += 1) if (text[at] === "\\") at += 1;
      typed = text.slice(start, Math.min(at, cursor));
      if (at >= cursor) return { path: path.map((step) => step.name), typed, isName: path.at(-1)?.isObject && name === null };
      if (name === null && path.at(-1)?.isObject) name = typed;
    } else if (character === "{" || character === "[") {
      path.push({ name, isObject: character === "{" });
      name = null;
    } else if (character === "}" || character === "]") {
      name = null;
      path.pop();
    } else if (character === ",") {
      name = null;
    }
  }
  return { path: path.map((step) => step.name), typed: null, isName: false };
};

/** The fields of a schema at a place whose names begin as typed: `[{name, about}]`. */
export const suggestions = (schema, { path, typed, isName }) => {
  if (!isName) return [];
  let here = schema;
  // The first step is the payload itself; a list has no names.
  for (const name of path.slice(1)) here = name === null ? here?.items : here?.properties?.[name];
  const beginning = typed.toLowerCase();
  return Object.entries(here?.properties ?? {})
    .filter(([name]) => name.toLowerCase().startsWith(beginning) && name !== typed)
    .map(([name, field]) => ({ name, about: field.description || field.type || "" }))
    .slice(0, 8);
};

/** The text with the name at the cursor completed, and where the cursor stands then. */
export const completed = (text, cursor, typed, name) => {
  const before = text.slice(0, cursor - typed.length) + name;
  const after = text.slice(cursor).replace(/^[^",:}\]\n]*/, "");
  const rest = after.startsWith('"') ? after : `": ${after}`;
  return { text: before + rest, cursor: before.length + (after.startsWith('"') ? 1 : 3) };
};
