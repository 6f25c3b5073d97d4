// The journal, live: one long poll at a time while the page is visible.

import { call, query } from "./api.js";
import { ask, byId, count, el, onClick, onLeave, options, refresh } from "./page.js";
import { onSessions } from "./sessions.js";

const JOURNAL = "/mock/v1/journal";
const OPERATIONS = ["login", "introspection", "logout", "keys", "probe"];
const OUTCOMES = ["ok", "inactive", "refused", "unreachable", "timed_out", "throttled", "failed", "unreadable", "misconfigured"];
const SHOWN_MAX = 200;
// As many as the journal keeps, so that probes can be filtered here.
const ASKED_MAX = 10_000;
// A proxy may time out after a minute.
const WAIT = "25s";
const PAUSE_AFTER_FAILURE = 2000;

let polling = null;
let paused = false;
let last = 0;
let matching = 0;
let before = 0;

function filter() {
  const { operation, user, session, outcome } = Object.fromEntries(new FormData(byId("journal-filter")));
  return { operation, user: user.trim(), session: session.trim(), outcome };
}

/** Loads the existing entries, then follows new ones. */
function restart() {
  polling?.abort();
  polling = new AbortController();
  if (!paused && !document.hidden) follow(polling.signal);
}

async function follow(signal) {
  while (!signal.aborted) {
    try {
      const first = await call("GET", JOURNAL + query({ ...filter(), limit: ASKED_MAX }), { quiet: true, signal });
      byId("journal-list").replaceChildren();
      matching = 0;
      take(first);
      while (!signal.aborted) await more(signal);
    } catch (error) {
      if (error.name === "AbortError") return;
      byId("journal-count").textContent = error.message;
      // An invalid filter is retried when it changes.
      if (error.status === 400) return;
      await new Promise((resolve) => setTimeout(resolve, PAUSE_AFTER_FAILURE));
    }
  }
}

async function more(signal) {
  const filters = { ...filter(), after: last, timeout: WAIT, limit: ASKED_MAX };
  const seen = await call("GET", `${JOURNAL}/wait${query(filters)}`, { quiet: true, signal });
  // Numbers restart only when the namespace was created again.
  if (seen.last < last) return restart();
  take(seen);
  // Sessions or faults may have changed.
  if (seen.entries.some(isMeant)) refresh().catch(() => {});
}

/** The gateway probes its IAM every few seconds; probes are shown on request only. */
function isMeant({ operation }) {
  return operation !== "probe" || byId("journal-probes").checked || byId("journal-operation").value === "probe";
}

function take(seen) {
  last = seen.last;
  const entries = seen.entries.filter(isMeant);
  matching += seen.count - (seen.entries.length - entries.length);
  const list = byId("journal-list");
  list.prepend(...entries.map(row).reverse());
  while (list.children.length > SHOWN_MAX) list.lastElementChild.remove();
  const forgotten = seen.forgotten ? `, ${count(seen.forgotten, "older one")} forgotten` : "";
  const shown = list.children.length < matching ? `, the newest ${list.children.length} shown` : "";
  byId("journal-count").textContent = count(matching, "call") + shown + forgotten;
  byId("journal-empty").hidden = list.children.length > 0;
  const filtered = Object.values(filter()).some(Boolean);
  byId("journal-empty").textContent = filtered ? "No such call so far." : "No calls so far. Log in, and the call appears here.";
}

const sessionId = (id) => `session_id ${id}`;

/** The call of a login is shown before its response has the session id. */
function addSessionIds(sessions) {
  const ids = new Map(sessions.map(({ id, session_id }) => [id, session_id]));
  for (const place of byId("journal-list").querySelectorAll("[data-session]:empty")) {
    const id = ids.get(place.dataset.session);
    if (id) place.textContent = sessionId(id);
  }
}

function row(entry) {
  const reason = entry.reason ? ` (${entry.reason})` : "";
  const ids = [["session at the IAM", entry.session], ["request", entry.request_id], ["from", entry.client_address]];
  const details = ids.filter(([, value]) => value).map(([name, value]) => el("small", {}, `${name} ${value}`));
  if (entry.session) details.unshift(el("small", { "data-session": entry.session }, entry.session_id ? sessionId(entry.session_id) : null));
  const fraction = el("span", { class: "fraction" }, entry.at.slice(19, 23));
  const at = el("time", { datetime: entry.at, title: entry.at }, entry.at.slice(11, 19), fraction);
  return el(
    "tr",
    {},
    el("td", {}, String(entry.number)),
    el("td", {}, at),
    el("td", {}, entry.operation, entry.user ? ` ${entry.user}` : null, ...details),
    el(
      "td",
      {},
      el("span", { class: entry.outcome === "ok" ? "good" : "bad" }, entry.outcome + reason),
      entry.fault == null ? null : el("small", {}, `by fault ${entry.fault}`),
    ),
    el("td", {}, String(Math.round(entry.took_ms * 10) / 10)),
  );
}

function pause() {
  paused = !paused;
  byId("journal-pause").setAttribute("aria-pressed", paused);
  restart();
  return paused ? "Paused: new calls are shown when you continue." : "";
}

async function clear() {
  if (!(await ask({ title: "Clear the journal?", text: "All entries are deleted, also for tests that wait for them.", act: "Clear" }))) return;
  await call("DELETE", JOURNAL);
  await refresh();
  restart();
  return "The journal is empty.";
}

/** Takes the number of calls. A lower number means that another client cleared the journal. */
export function cleared(calls) {
  if (calls < before) restart();
  before = calls;
}

export function start() {
  const any = (names) => [["", "any"], ...names.map((name) => [name, name])];
  options(byId("journal-operation"), any(OPERATIONS));
  options(byId("journal-outcome"), any(OUTCOMES));
  byId("journal-filter").addEventListener("input", restart);
  byId("journal-filter").addEventListener("submit", (event) => event.preventDefault());
  onClick("journal-pause", byId("journal-result"), pause);
  onClick("journal-clear", byId("journal-result"), clear);
  document.addEventListener("visibilitychange", restart);
  onSessions(addSessionIds);
  onLeave(() => {
    before = 0;
    byId("journal-list").replaceChildren();
    byId("journal-filter").reset();
    restart();
  });
  restart();
}
