// Elements from plain values. Names of groups, clients and topics are chosen by clients: they become text, never markup, and
// characters that are invisible, or change the direction of text, are shown as code points.

const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/gu;

export function visible(text) {
  return String(text).replace(HIDDEN, (found) => (found === "\n" ? found : `\\u{${found.codePointAt(0).toString(16)}}`));
}

// An element. A child that is null, undefined or false is skipped; `on...` attributes are listeners.
export function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value === true ? "" : visible(value));
  }
  append(made, children);
  return made;
}

export function append(parent, children) {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(child instanceof Node ? child : visible(child));
  }
}

export function replace(parent, ...children) {
  parent.replaceChildren();
  append(parent, children);
}

// A table that scrolls by itself, with the keyboard, too. `rows`: arrays of cells; `numbers`: columns on the right. `kind`: a
// class for the widths of its columns.
export function table(about, heads, rows, numbers = [], kind = null) {
  const side = (column) => (numbers.includes(column) ? "n" : null);
  const head = heads.map((each, column) => el("th", { scope: "col", class: side(column) }, each));
  const body = rows.map((row) => el("tr", {}, row.map((cell, column) => el("td", { class: side(column) }, cell))));
  return el("div", { class: "wide", tabindex: 0, role: "region", "aria-label": about },
    el("table", { class: kind }, el("thead", {}, el("tr", {}, head)), el("tbody", {}, body)));
}
