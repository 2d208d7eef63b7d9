// Elements from data. Text is only ever set as text, never as markup: what users name their files cannot become part of the page.

// element("td", {class: "state"}, "text", otherElement, null) — attributes by name; a function value is an event listener.
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") made.addEventListener(key, value);
    else made.setAttribute(key, value === true ? "" : String(value));
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined).map(
    (child) => (child instanceof Node ? child : document.createTextNode(String(child)))));
  return made;
}

// Puts `children` in place of what is there and gives the focus back to the element with the same id, if one had it.
export function replace(parent, ...children) {
  const focused = parent.contains(document.activeElement) ? document.activeElement.id : "";
  parent.replaceChildren(...children);
  if (focused) document.getElementById(focused)?.focus();
}

// Rows under named columns; each cell is a list of children. Says `empty` when there are none.
export function table(caption, columns, rows, empty) {
  if (rows.length === 0) return element("p", { class: "empty" }, empty);
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    element("table", {},
      element("caption", { class: "visually-hidden" }, caption),
      element("thead", {}, element("tr", {}, columns.map((column) => element("th", { scope: "col" }, column)))),
      element("tbody", {}, rows.map((cells) => element("tr", {}, cells.map((cell, i) =>
        i === 0 ? element("th", { scope: "row" }, cell) : element("td", {}, cell)))))));
}
