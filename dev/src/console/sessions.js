// The active sessions.

import { call, query } from "./api.js";
import { ask, attempt, button, byId, count, counted, el, facts, keep, onLeave, onRefresh, refresh, row } from "./page.js";
import { countdown, readable } from "./time.js";

const SESSIONS = "/mock/v1/sessions";
const SHOWN_MAX = 200;

let known = [];
let notify = () => {};

/** Calls `listener` with the sessions after every refresh. */
export function onSessions(listener) {
  notify = listener;
}

/** Asks for confirmation, with or without logout tokens, and ends the sessions of the path. */
export function endSessions(path, what, output) {
  return attempt(output, async () => {
    const text = "Without a notification the gateway accepts the session until its cached data is no longer fresh.";
    const agreed = await ask({ title: `End ${what}?`, text, act: "End", notify: true });
    if (!agreed) return;
    const { ended, notified } = await call("DELETE", path + query({ notify: agreed.notify ? "true" : "" }));
    await refresh();
    return `${count(ended, "session")} ended; logout tokens accepted: ${notified}.`;
  });
}

/** The ids of a session. A session of `mock-iam` has none of the gateway. */
function ids({ session_id, id }) {
  const list = el("dl");
  facts(list, [...(session_id ? [["session_id of the gateway", session_id]] : []), ["id at the IAM", id]]);
  return list;
}

function card(session) {
  const end = () => endSessions(`${SESSIONS}/${encodeURIComponent(session.id)}`, `the session of ${session.user}`, byId("sessions-result"));
  const since = readable(Date.parse(session.began_at));
  return row(
    [
      el("span", { class: "title" }, session.user),
      ids(session),
      el("div", { class: "hint" }, `since ${since}, ends `, countdown(session.expires_at)),
    ],
    [button("End…", `session ${session.id} of ${session.user}`, end)],
  );
}

async function load() {
  known = (await call("GET", SESSIONS, { quiet: true })).sessions;
  show();
  notify(known);
}

function show() {
  const wanted = byId("sessions-find").value.trim();
  const matches = ({ user, id, session_id }) => user.toLowerCase().includes(wanted.toLowerCase()) || [id, session_id].includes(wanted);
  const found = known.filter(matches);
  counted("sessions", "Sessions", found.length, known.length);
  keep(byId("sessions-list"), found.slice(0, SHOWN_MAX), (session) => session.id, card, byId("sessions-title"));
  const rest = found.length - SHOWN_MAX;
  const empty = known.length ? "No such session." : "None. A login makes one.";
  byId("sessions-empty").textContent = rest > 0 ? `And ${count(rest, "older one")}.` : empty;
  byId("sessions-empty").hidden = found.length > 0 && rest <= 0;
  byId("sessions-end-all").disabled = known.length === 0;
}

export function start() {
  byId("sessions-end-all").addEventListener("click", () => endSessions(SESSIONS, "all sessions of all users", byId("sessions-result")));
  byId("sessions-find").addEventListener("input", show);
  onLeave(() => (byId("sessions-find").value = ""));
  onRefresh(load);
}
