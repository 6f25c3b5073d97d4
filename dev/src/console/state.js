// A namespace as a whole: snapshots, reset, and the list and selection of namespaces.

import { DEFAULT, call, choose, namespace } from "./api.js";
import { ask, attempt, button, byId, count, el, keep, leave, onClick, onRefresh, onSubmit, options, refresh, row } from "./page.js";
import { readable } from "./time.js";

const SNAPSHOTS = "/mock/v1/snapshots";
const NAMESPACES = "/mock/v1/namespaces";
const SHOWN_MAX = 50;

function snapshot({ id, taken_at }) {
  const act = (method, path, title, text, verb, done) => () =>
    attempt(byId("state-result"), async () => {
      if (!(await ask({ title, text, act: verb }))) return;
      await call(method, path);
      await refresh();
      return done;
    });
  const path = `${SNAPSHOTS}/${encodeURIComponent(id)}`;
  const restore = act("POST", `${path}/restore`, `Restore snapshot ${id}?`, "Users, sessions, faults and the time become as they were then.", "Restore", `Snapshot ${id} is restored.`);
  const remove = act("DELETE", path, `Delete snapshot ${id}?`, "It cannot be restored afterwards.", "Delete", `Snapshot ${id} is deleted.`);
  return row(
    [el("span", { class: "title" }, `Snapshot ${id}`), el("div", { class: "hint" }, `of ${readable(Date.parse(taken_at))}`)],
    [button("Restore…", `snapshot ${id}`, restore), button("Delete…", `snapshot ${id}`, remove)],
  );
}

async function take() {
  const { id } = await call("POST", SNAPSHOTS);
  await refresh();
  return `Snapshot ${id} is taken.`;
}

async function reset(all) {
  const title = all ? "Reset everything?" : `Reset the namespace ${namespace()}?`;
  const text = all
    ? "The default namespace is reset and all others are deleted. Tests that run now fail."
    : "The initial users are restored. Sessions, faults and the journal are deleted, and the time is real.";
  if (!(await ask({ title, text, act: "Reset" }))) return;
  await call("POST", `/mock/v1/reset${all ? "?all=true" : ""}`);
  if (all) open(DEFAULT);
  else leave();
  await refresh();
  return all ? "Everything is reset." : `${namespace()} is reset.`;
}

async function probe() {
  const { outcome } = await call("POST", "/mock/v1/probe");
  return `The IAM's answer: ${outcome}.`;
}

async function unlearn() {
  await call("POST", "/mock/v1/forget");
  return "The next exchange of each session calls the IAM.";
}

/** Selects another namespace; the first call creates it. */
function open(name) {
  choose(name);
  leave();
}

async function visit(name) {
  open(name);
  await call("GET", "/mock/v1/status", { quiet: true });
  await refresh();
  return `This is the namespace ${name}.`;
}

async function deleteNamespace(name) {
  const text = "Its users, sessions, faults and journal are deleted. Tests that run in it fail.";
  if (!(await ask({ title: `Delete the namespace ${name}?`, text, act: "Delete" }))) return;
  await call("DELETE", `${NAMESPACES}/${encodeURIComponent(name)}`);
  if (name === namespace()) open(DEFAULT);
  await refresh();
  return `The namespace ${name} is deleted.`;
}

function room({ name, users, sessions, faults, calls, here }) {
  const result = byId("namespaces-result");
  const holds = [count(users, "user"), count(sessions, "session"), count(faults, "fault"), count(calls, "call")].join(", ");
  const actions = [
    here ? null : button("Open", `namespace ${name}`, () => attempt(result, () => visit(name))),
    name === DEFAULT ? null : button("Delete…", `namespace ${name}`, () => attempt(result, () => deleteNamespace(name))),
  ].filter(Boolean);
  return row(
    [el("span", { class: "title" }, name), here ? " (this one)" : "", el("div", { class: "hint" }, holds)],
    actions,
  );
}

async function show() {
  const [{ snapshots }, { namespaces }] = await Promise.all([SNAPSHOTS, NAMESPACES].map((path) => call("GET", path, { quiet: true })));
  keep(byId("snapshots-list"), snapshots, ({ id }) => id, snapshot, byId("state-title"));
  byId("snapshots-empty").hidden = snapshots.length > 0;
  const rooms = namespaces.map((room) => ({ ...room, here: room.name === namespace() }));
  rooms.sort((one, other) => Number(other.here) - Number(one.here));
  byId("namespaces-rest").textContent = rooms.length > SHOWN_MAX ? `And ${count(rooms.length - SHOWN_MAX, "other")}, to be chosen at the top of the page.` : "";
  keep(byId("namespaces-list"), rooms.slice(0, SHOWN_MAX), ({ name }) => name, room, byId("namespaces-title"));
  const names = namespaces.map(({ name }) => name);
  const select = byId("namespace");
  if (names.join(" ") !== [...select.options].map(({ value }) => value).join(" ")) options(select, names.map((name) => [name, name]));
  select.value = namespace();
}

export function start() {
  const result = byId("state-result");
  onClick("snapshots-take", result, take);
  onClick("reset", result, () => reset(false));
  onClick("reset-all", result, () => reset(true));
  onClick("probe", result, probe);
  onClick("unlearn", result, unlearn);
  onSubmit(byId("namespace-create"), byId("namespaces-result"), async ({ name }) => {
    const done = await visit(name);
    byId("namespace-create").reset();
    return done;
  });
  byId("namespace").addEventListener("change", ({ target }) => attempt(byId("namespaces-result"), () => visit(target.value)));
  onRefresh(show);
}
