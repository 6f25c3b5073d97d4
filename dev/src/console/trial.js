// Try the API: log in, exchange, see which scopes are granted and why, log out.

import { call, query } from "./api.js";
import { attempt, byId, el, facts, onClick, onLeave, onSubmit, say } from "./page.js";
import { open } from "./tabs.js";
import { inspect, clearToken } from "./token.js";
import { countdown, readable } from "./time.js";
import { onLogIn, onUsers, passwordOf, userOf, users } from "./users.js";

const AUTH = "/api/v1/auth";
const QUICK_MAX = 6;
// The text and style of each reason.
const REASONS = {
  granted: ["granted", "good"],
  not_permitted: ["not granted: the user does not have this permission", "bad"],
  not_allowed: ["not granted: not among the allowed_scopes of the IAM", "bad"],
  repeated: ["named before: counted once", "hint"],
};

let session = null;
let offered = null;

const pair = () => ({ session_id: session.session_id, session_token: session.session_token });

/** Logs the user in. If the password is not known, it is the only thing left to type. */
async function logInAs(email) {
  const password = await passwordOf(email);
  open("trial");
  byId("login-email").value = email;
  byId("login-password").value = password;
  byId("login-otp").value = userOf(email)?.otp ?? "";
  if (password) byId("login").requestSubmit();
  else byId("login-password").focus();
}

async function logIn({ email, password, otp }) {
  const body = { email, password, ...(otp.trim() && { otp: otp.trim() }) };
  const answer = await call("POST", `${AUTH}/login`, { body });
  const { sessions } = await call("GET", `/mock/v1/sessions${query({ user: email })}`, { quiet: true });
  session = { ...answer, email };
  clearToken();
  byId("scopes").hidden = true;
  byId("exchange-result").textContent = "";
  facts(byId("session-facts"), [
    ["user", email],
    ["session_id", session.session_id],
    ["the IAM's own id", sessions.find(({ session_id }) => session_id === session.session_id)?.id ?? "it has ended already"],
    ["verified_at", readable(Date.parse(session.verified_at))],
    ["expires_at", el("span", {}, `${readable(Date.parse(session.expires_at))}, `, countdown(session.expires_at))],
  ]);
  offered = null;
  offer();
  byId("session").hidden = false;
  return `${email} is logged in.`;
}

/** A checkbox for each permission of the user; keeps the checked ones. */
function offer() {
  const permissions = userOf(session?.email ?? "")?.permissions ?? [];
  const wanted = JSON.stringify([session?.session_id, permissions]);
  if (wanted === offered) return;
  const box = byId("exchange-permissions");
  const unticked = new Set([...box.querySelectorAll("input:not(:checked)")].map(({ value }) => value));
  const focused = box.contains(document.activeElement) ? document.activeElement.value : null;
  const choice = (value) => el("label", { class: "choice mono" }, el("input", { type: "checkbox", value, checked: offered === null || !unticked.has(value) }), value);
  const choices = permissions.map((name) => el("div", {}, choice(name)));
  box.replaceChildren(...(choices.length ? choices : [el("p", { class: "hint" }, "The user has no permissions: nothing can be granted.")]));
  offered = wanted;
  if (focused !== null) (box.querySelector(`input[value="${CSS.escape(focused)}"]`) ?? byId("exchange-others")).focus();
}

async function exchange({ others }) {
  const ticked = [...byId("exchange-permissions").querySelectorAll("input:checked")].map(({ value }) => value);
  const scope = [...ticked, ...others.split(/\s+/).filter(Boolean)].join(" ");
  byId("scopes").hidden = true;
  byId("scope-names").replaceChildren();
  const answer = await call("POST", `${AUTH}/token`, { body: { ...pair(), grant_type: "session", scope } });
  byId("inspect-token").value = answer.access_token;
  await attempt(byId("inspect-result"), () => inspect(answer.access_token, answer.expires_in));
  // It fails if the mock does not have the permissions. The token is valid all the same.
  await attempt(byId("scopes-note"), () => explain(scope, answer.scope));
  byId("scopes").hidden = false;
  return answer.scope === "" ? "A token, but with no scope." : `A token for: ${answer.scope}`;
}

async function explain(scope, granted) {
  const body = { user: userOf(session.email)?.email ?? session.email, scope };
  const explanation = await call("POST", "/mock/v1/scopes/explain", { body, quiet: true });
  const names = explanation.names.map(({ name, reason }) => {
    const [text, kind] = REASONS[reason] ?? [reason, "bad"];
    return el("li", {}, el("span", { class: "mono" }, name), " ", el("span", { class: kind }, text));
  });
  byId("scope-names").replaceChildren(...names);
  const same = new Set(explanation.granted.split(" ")).symmetricDifference(new Set(granted.split(" "))).size === 0;
  if (!same) return "The token has other scopes: the gateway signed with cached permissions from before the change.";
  return names.length ? "" : "No scope was requested.";
}

async function logOut() {
  await call("POST", `${AUTH}/logout`, { body: pair() });
  forgetSession();
  byId("login-email").focus();
  say(byId("login-result"), "Logged out. Tokens already issued stay valid until they expire.");
}

function forgetSession() {
  session = null;
  byId("session").hidden = true;
}

function quick() {
  const shown = users().slice(0, QUICK_MAX).map(({ email }) => email);
  const box = byId("login-users");
  if (shown.join(" ") === [...box.children].map(({ textContent }) => textContent).join(" ")) return;
  box.replaceChildren(...shown.map((email) => el("button", { type: "button", onclick: () => logInAs(email) }, email)));
}

export function start() {
  const result = byId("exchange-result");
  onSubmit(byId("login"), byId("login-result"), logIn);
  onSubmit(byId("exchange"), result, exchange);
  onClick("logout", result, logOut);
  byId("login-show").addEventListener("change", ({ target }) => (byId("login-password").type = target.checked ? "text" : "password"));
  onLeave(() => {
    forgetSession();
    clearToken();
    byId("login").reset();
    byId("login-password").type = "password";
    byId("login-result").textContent = "";
  });
  onLogIn(logInAs);
  onUsers(() => {
    quick();
    if (session) offer();
  });
}
