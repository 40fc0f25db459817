// Replaces what an element shows, and leaves alone what is the same: focus, selection, scrolling and clicks stay.

import { append, el } from "./dom.js";

const FOCUSABLE = "a, button, input, select, summary, [tabindex]";
const WHOLE = new Set(["A", "BUTTON", "INPUT", "SELECT", "CANVAS", "svg"]); // they have listeners, or are drawn
const deferred = new Map();
let isPressed = false;

addEventListener("pointerdown", () => (isPressed = true), true);
for (const name of ["pointerup", "pointercancel"]) {
  addEventListener(name, () => {
    isPressed = false;
    setTimeout(() => {
      const waiting = [...deferred.values()];
      deferred.clear();
      for (const each of waiting) each();
    });
  }, true);
}

export function refill(parent, ...children) {
  if (isPressed) {
    deferred.set(parent, () => refill(parent, ...children));
    return;
  }
  const active = document.activeElement;
  const name = parent.contains(active) ? nameOf(active) : null;
  const made = el("div");
  append(made, children);
  become(parent, made);
  if (name !== null && !parent.contains(document.activeElement)) {
    [...parent.querySelectorAll(FOCUSABLE)].find((each) => nameOf(each) === name)?.focus();
  }
}

// Gives `old` the children of `made`.
function become(old, made) {
  const wanted = [...made.childNodes];
  const have = [...old.childNodes];
  wanted.forEach((node, place) => {
    const current = have[place];
    if (!current) old.append(node);
    else if (!current.isEqualNode(node)) {
      if (isContainer(current, node)) become(current, node);
      else current.replaceWith(node);
    }
  });
  for (const node of have.slice(wanted.length)) node.remove();
}

const isContainer = (old, made) => old.nodeType === Node.ELEMENT_NODE && old.cloneNode(false).isEqualNode(made.cloneNode(false)) && !WHOLE.has(old.nodeName);

const nameOf = (element) => element.getAttribute("aria-label") ?? element.textContent;
