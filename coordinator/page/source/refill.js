// Replaces what an element shows without taking the focus, or a click that is under way, from whoever uses it.

import { replace } from "./dom.js";

const FOCUSABLE = "a, button, input, select, summary, [tabindex]";
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
  replace(parent, ...children);
  if (name !== null) [...parent.querySelectorAll(FOCUSABLE)].find((each) => nameOf(each) === name)?.focus();
}

const nameOf = (element) => element.getAttribute("aria-label") ?? element.textContent;
