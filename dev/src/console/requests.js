// The last requests of the user: as a command, with the response.

import { curl, onRequest } from "./api.js";
import { button, byId, copy, el, keep } from "./page.js";

function card(request) {
  const { method, url, status, answer, took } = request;
  const path = new URL(url).pathname;
  const what = `${method} ${path}`;
  return el(
    "li",
    {},
    el(
      "details",
      {},
      el("summary", {}, el("span", { class: "mono" }, what), " ", el("span", { class: status < 400 ? "good" : "bad" }, String(status)), el("span", { class: "hint" }, ` ${took} ms`)),
      el("pre", { tabindex: "0", "aria-label": "Command" }, curl(request)),
      button("Copy", `the command for ${what}`, () => copy(curl(request), byId("requests-result"))),
      el("pre", { tabindex: "0", "aria-label": "Answer" }, answer === "" ? "(no body)" : indented(answer)),
    ),
  );
}

function indented(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

export function start() {
  onRequest((requests) => {
    keep(byId("requests-list"), requests, ({ at }) => at, card, byId("requests-title"));
    byId("requests-empty").hidden = true;
  });
}
