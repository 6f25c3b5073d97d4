// The parts of the page, one at a time: the fragment of the URL selects it. On a wide page the journal stays beside it.

import { byId } from "./page.js";

const FIRST = "journal";

/** Shows the part that the URL selects, or the first one. */
export function show() {
  const selected = document.querySelector(`main > section[id="${CSS.escape(location.hash.slice(1))}"]:not([hidden])`);
  const current = selected?.id ?? FIRST;
  byId("main").dataset.tab = current;
  for (const section of document.querySelectorAll("main > section")) section.classList.toggle("current", section.id === current);
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${current}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

/** Selects a part, and moves the focus to its title. */
export function open(id) {
  if (byId("main").dataset.tab === id) return;
  location.hash = id;
  show();
  byId(`${id}-title`).focus();
}

export function start() {
  addEventListener("hashchange", () => {
    show();
    scrollTo(0, 0);
  });
  byId("skip").addEventListener("click", (event) => {
    // Its fragment would select another part.
    event.preventDefault();
    byId("main").focus();
  });
  show();
}
