// Elements of the page, made without HTML texts: what comes from outside is never read as markup.

export const byId = (id) => document.getElementById(id);

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value);
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return made;
}

export const element = (name, attributes = {}, ...children) =>
  fill(document.createElement(name), attributes, children);

export const svg = (name, attributes = {}, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);

// Puts `children` in place of what is there, unless it is the same; keeps the focus where it was, by `data-key`.
export function show(parent, ...children) {
  const made = document.createElement("div");
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  if (parent.hasChildNodes() && made.innerHTML === parent.innerHTML) return;
  const focused = parent.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  const scrolled = [...parent.querySelectorAll(".scroll")].map((part) => part.scrollLeft);
  parent.replaceChildren(...made.childNodes);
  [...parent.querySelectorAll(".scroll")].forEach((part, i) => { part.scrollLeft = scrolled[i] ?? 0; });
  if (focused) parent.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
}

export function say(id, text) {
  const place = byId(id);
  if (place.textContent !== text) place.textContent = text;
  place.hidden = text === "";
}

// Options as [value, text]; what is chosen stays chosen.
export function offer(select, options) {
  const chosen = select.value;
  show(select, options.map(([value, text]) => element("option", { value }, text)));
  if (options.some(([value]) => value === chosen)) select.value = chosen;
}

// The head as texts, right-aligned where they begin with ">"; rows of cells.
export function table(caption, head, rows) {
  const classOf = (column) => (head[column].startsWith(">") ? "number" : null);
  return element("table", {},
    element("caption", {}, caption),
    element("thead", {}, element("tr", {}, head.map((text, i) =>
      element("th", { scope: "col", class: classOf(i) }, text.replace(/^>/, ""))))),
    element("tbody", {}, rows.map((cells) => element("tr", {}, cells.map((cell, i) =>
      element(i === 0 ? "th" : "td", { scope: i === 0 ? "row" : null, class: classOf(i) }, cell ?? "–"))))));
}

// A table with a frame of its own, which arrow keys scroll where it is too large.
export const framed = (caption, head, rows) =>
  element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption }, table(caption, head, rows));

// JSON of this daemon; null where there is none, or no daemon.
export async function ask(path) {
  try {
    const answer = await fetch(path);
    return answer.ok ? await answer.json() : null;
  } catch {
    return null;
  }
}
