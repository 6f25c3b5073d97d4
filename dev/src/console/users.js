// The users: list, create, change, delete.

import { call } from "./api.js";
import { ask, attempt, button, byId, count, counted, el, keep, onClick, onRefresh, onSubmit, options, refresh, row, say } from "./page.js";
import { endSessions } from "./sessions.js";

const USERS = "/mock/v1/users";
const FILE = "/mock/v1/users-file";
const STATES = ["active", "disabled", "locked", "incomplete"];
const TYPES = { json: "application/json", toml: "application/toml", yaml: "application/yaml", yml: "application/yaml" };
const SHOWN_MAX = 200;

let known = [];
let notify = () => {};
let logIn = () => {};
let edited = null;

const path = (email) => `${USERS}/${encodeURIComponent(email)}`;

/** All users of the last refresh. */
export const users = () => known;

/** Calls `listener` after every refresh of the users. */
export function onUsers(listener) {
  notify = listener;
}

/** Calls `listener` with the address of the user who is to log in. */
export function onLogIn(listener) {
  logIn = listener;
}

/** The user with this address, if there is one. */
export const userOf = (email) => known.find((user) => user.email.toLowerCase() === email.trim().toLowerCase());

/** The password of the user, which only the users file has; empty if the users cannot be written to one. */
export async function passwordOf(email) {
  const file = await call("GET", FILE, { quiet: true }).catch(() => ({ users: [] }));
  return file.users.find((user) => user.email === email)?.password ?? "";
}

function show() {
  const wanted = byId("users-find").value.trim().toLowerCase();
  const found = known.filter((user) => `${user.email} ${user.permissions.join(" ")}`.toLowerCase().includes(wanted));
  counted("users", "Users", known.length);
  keep(byId("users-list"), found.slice(0, SHOWN_MAX), (user) => user.subject, card, byId("users-title"));
  const rest = found.length - SHOWN_MAX;
  const empty = known.length ? "No user matches." : "No users. Add a user, or replace all users by a users file.";
  byId("users-empty").textContent = rest > 0 ? `And ${count(rest, "other")}: find them by name.` : empty;
  byId("users-empty").hidden = found.length > 0 && rest <= 0;
  byId("emails").replaceChildren(...known.slice(0, SHOWN_MAX).map(({ email }) => el("option", { value: email })));
}

function card(user) {
  const { email } = user;
  const names = user.permissions.map((name) => el("li", {}, name));
  const actions = [
    button("Log in", `as ${email}`, () => logIn(email)),
    button("Change…", email, () => edit(user)),
    button("End sessions…", `of ${email}`, () => endSessions(`${path(email)}/sessions`, `all sessions of ${email}`, byId("users-result"))),
    button("Delete…", email, () => attempt(byId("users-result"), () => remove(email))),
  ];
  return row(
    [
      el("span", { class: "title" }, email),
      " ",
      el("span", { class: user.state === "active" ? "hint" : "bad" }, user.state),
      el("span", { class: "hint" }, `, ${count(user.sessions, "session")}`),
      user.otp ? el("span", {}, ", one-time password now: ", el("span", { class: "mono" }, user.otp)) : "",
      names.length ? el("ul", { class: "names", "aria-label": `Permissions of ${email}` }, ...names) : el("div", { class: "hint" }, "no permissions"),
    ],
    actions,
  );
}

function edit(user) {
  edited = user;
  const form = byId("user-form");
  form.reset();
  byId("user-result").textContent = "";
  byId("user-title").textContent = user ? `Change ${user.email}` : "Add a user";
  byId("user-email").readOnly = Boolean(user);
  byId("user-password").required = !user;
  byId("user-password-hint").textContent = user ? "(empty: stays as it is)" : "";
  byId("user-totp-hint").textContent = user?.otp ? "(empty: stays as it is)" : "(empty: a login needs none)";
  byId("user-no-totp-choice").hidden = !user?.otp;
  byId("user-subject-field").hidden = Boolean(user);
  byId("user-email").value = user?.email ?? "";
  byId("user-permissions").value = user?.permissions.join("\n") ?? "";
  byId("user-state").value = user?.state ?? "active";
  byId("user").showModal();
  byId(user ? "user-password" : "user-email").focus();
}

async function save({ email, password, permissions, state, totp, no_totp, subject }) {
  const wanted = { password, permissions: permissions.split(/\s+/).filter(Boolean), state, subject: subject.trim() };
  if (totp.trim()) wanted.totp_secret = totp.trim();
  else if (no_totp) wanted.totp_secret = null;
  if (edited) {
    if (wanted.permissions.join(" ") === edited.permissions.join(" ")) delete wanted.permissions;
    if (state === edited.state) delete wanted.state;
  }
  if (!subject.trim()) delete wanted.subject;
  if (!password) delete wanted.password;
  const address = edited?.email ?? email.trim();
  if (!edited) await call("POST", USERS, { body: { email: address, ...wanted } });
  else if (Object.keys(wanted).length) await call("PATCH", path(address), { body: wanted });
  byId("user").close();
  await refresh();
  say(byId("users-result"), `${address} is ${edited ? "changed" : "added"}.`);
}

async function remove(email) {
  const text = `${email} can no longer log in, and all sessions of ${email} end.`;
  if (!(await ask({ title: "Delete the user?", text, act: "Delete" }))) return;
  await call("DELETE", path(email));
  await refresh();
  return `${email} is deleted.`;
}

async function replaceAll() {
  const file = byId("users-file").files[0];
  const type = TYPES[file.name.split(".").pop().toLowerCase()];
  if (!type) throw new Error("the file's name has to end in .toml, .json, .yaml or .yml.");
  const text = `${file.name} takes the place of ${count(known.length, "user")}. Sessions of those who stay live on.`;
  if (!(await ask({ title: "Replace all users?", text, act: "Replace" }))) return;
  const answer = await call("PUT", USERS, { body: await file.text(), type });
  await refresh();
  return `There ${answer.users.length === 1 ? "is" : "are"} ${count(answer.users.length, "user")} now.`;
}

/** Saves all users as a file. */
async function exportAs(format) {
  const file = await call("GET", `${FILE}?format=${format}`, { text: true });
  const url = URL.createObjectURL(new Blob([file]));
  el("a", { href: url, download: `users.${format}` }).click();
  URL.revokeObjectURL(url);
  return `${count(known.length, "user")} exported to users.${format}.`;
}

export function start() {
  options(byId("user-state"), STATES.map((state) => [state, state]));
  byId("users-add").addEventListener("click", () => edit(null));
  byId("users-find").addEventListener("input", show);
  onClick("user-cancel", byId("user-result"), () => byId("user").close());
  onSubmit(byId("user-form"), byId("user-result"), save);
  for (const format of ["json", "toml"]) onClick(`users-export-${format}`, byId("users-result"), () => exportAs(format));
  onSubmit(byId("users-file-form"), byId("users-result"), replaceAll);
  onRefresh(async () => {
    known = (await call("GET", USERS, { quiet: true })).users;
    show();
    notify();
  });
}
