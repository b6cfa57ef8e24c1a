// Examples are written for this address; readers see the one by which they reach the server, of which this file is part.
const WRITTEN_ADDRESS = "http://127.0.0.1:8080";
const address = new URL("..", import.meta.url).href.replace(/\/$/, "");

const texts = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
while (texts.nextNode()) {
  const { data } = texts.currentNode;
  if (data.includes(WRITTEN_ADDRESS)) texts.currentNode.data = data.replaceAll(WRITTEN_ADDRESS, address);
}
for (const link of document.querySelectorAll(`main a[href^="${WRITTEN_ADDRESS}"]`)) {
  link.href = link.getAttribute("href").replace(WRITTEN_ADDRESS, address);
}

// Browsers let pages use the clipboard only on https and on this machine.
const copy = async (text) => {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = Object.assign(document.createElement("textarea"), { value: text });
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
};

/** Copy a text, and let the button say so for a moment. */
export const copyBy = async (button, text) => {
  await copy(text);
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
};

for (const block of document.querySelectorAll("main pre")) {
  const frame = Object.assign(document.createElement("div"), { className: "code" });
  const button = Object.assign(document.createElement("button"), { type: "button", className: "copy" });
  button.textContent = "Copy";
  block.replaceWith(frame);
  frame.append(block, button);
  button.addEventListener("click", () => copyBy(button, block.textContent));
}

// The search field covers the beginning of a list.
const COVERED = 120;

/** Scroll the list of pages or operations so that a link of it can be seen. */
export const reveal = (link) => {
  const list = link.closest("nav");
  const { top, bottom } = link.getBoundingClientRect();
  const isVisible = top > list.getBoundingClientRect().top + COVERED && bottom < innerHeight;
  if (!isVisible) list.scrollTop += top - innerHeight / 2;
};

const current = document.querySelector("nav.pages [aria-current]");
if (current) reveal(current);

// What is scrolled sideways has to be reached by the keyboard.
const reach = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
    else target.removeAttribute("tabindex");
  }
});
for (const wide of document.querySelectorAll("main pre, main table")) reach.observe(wide);
