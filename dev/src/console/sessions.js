// The active sessions.

import { call, query } from "./api.js";
import { ask, attempt, button, byId, count, el, keep, onLeave, onRefresh, refresh, row } from "./page.js";
import { countdown, readable } from "./time.js";

const SESSIONS = "/mock/v1/sessions";
const SHOWN_MAX = 200;

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

function card(session) {
  const end = () => endSessions(`${SESSIONS}/${encodeURIComponent(session.id)}`, `the session of ${session.user}`, byId("sessions-result"));
  const since = readable(Date.parse(session.began_at));
  return row(
    [
      el("span", { class: "title" }, session.user),
      el("div", { class: "mono" }, session.id),
      el("div", { class: "hint" }, `since ${since}, ends `, countdown(session.expires_at)),
    ],
    [button("End…", `session ${session.id} of ${session.user}`, end)],
  );
}

async function show() {
  const user = byId("sessions-user").value.trim();
  const { sessions } = await call("GET", SESSIONS + query({ user }), { quiet: true });
  byId("sessions-title").textContent = `Sessions (${sessions.length})`;
  keep(byId("sessions-list"), sessions.slice(0, SHOWN_MAX), (session) => session.id, card, byId("sessions-title"));
  const rest = sessions.length - SHOWN_MAX;
  const empty = user ? `${user} has no session.` : "None. A login makes one.";
  byId("sessions-empty").textContent = rest > 0 ? `And ${count(rest, "older one")}.` : empty;
  byId("sessions-empty").hidden = sessions.length > 0 && rest <= 0;
  byId("sessions-end-all").disabled = sessions.length === 0 && user === "";
}

export function start() {
  byId("sessions-end-all").addEventListener("click", () => endSessions(SESSIONS, "all sessions of all users", byId("sessions-result")));
  byId("sessions-user").addEventListener("input", () => attempt(byId("sessions-result"), show));
  onLeave(() => (byId("sessions-user").value = ""));
  onRefresh(show);
}
