// The faults: a list, and a form that offers valid combinations only.

import { call } from "./api.js";
import { ask, attempt, button, byId, count, counted, el, keep, onClick, onRefresh, onSubmit, options, refresh, row } from "./page.js";

const FAULTS = "/mock/v1/faults";
const OPERATIONS = ["login", "introspection", "logout", "keys", "probe"];
// These operations have no user.
const WITHOUT_USER = ["keys", "probe"];
const DELAYS = [
  ["", "none"],
  ["fixed", "fixed"],
  ["uniform", "uniform, between two"],
  ["lognormal", "lognormal, with a long tail"],
];
const REFUSALS = [
  ["invalid_credentials", "invalid credentials"],
  ["disabled", "disabled"],
  ["locked", "locked"],
  ["incomplete", "incomplete"],
];
// Each answer with its label and operations.
const ANSWERS = [
  ["unreachable", "connection refused"],
  ["timeout", "timeout"],
  ["throttled", "429, too many requests"],
  ["server_error", "server error"],
  ["unreadable", "an answer that cannot be read"],
  ["misconfigured", "the gateway's own secret is refused"],
  ["refused", "the login is refused", { operations: ["login"] }],
  ["inactive", "the session is inactive", { operations: ["introspection"] }],
  ["another_session", "an answer about another session", { operations: ["introspection"] }],
  ["reset", "connection reset", { wire: true }],
  ["truncated", "an answer cut short", { wire: true }],
  ["html", "an HTML page with status 200", { wire: true }],
  ["redirect", "a redirect", { wire: true }],
  ["huge_body", "a body of 10 MiB", { wire: true }],
  ["slow_body", "a body that drips in", { wire: true }],
];

let wire = false;

/** Whether this mock answers over the wire, which some answers need. */
export function overTheWire(is) {
  wire = is;
  fit();
}

/** Shows the options that match the current choices; others are not sent. */
function fit() {
  const form = byId("fault");
  const { operation, answer, delay } = form.elements;
  const fitting = ANSWERS.filter(([, , where]) =>
    (!where?.wire || wire) && (!where?.operations || where.operations.includes(operation.value)));
  const wanted = answer.value;
  const asUsual = delay.value ? [["", "as usual, only late"]] : [];
  options(answer, [...fitting, ...asUsual]);
  answer.value = [...fitting, ...asUsual].some(([value]) => value === wanted) ? wanted : fitting[0][0];
  const shown = new Set([delay.value, answer.value, WITHOUT_USER.includes(operation.value) ? "" : "user"]);
  for (const field of form.querySelectorAll("[data-if]")) {
    field.hidden = !shown.has(field.dataset.if);
    field.querySelector("input, select").disabled = field.hidden;
  }
}

function rule(form) {
  const made = { operation: form.operation };
  if (form.user?.trim()) made.user = form.user.trim();
  if (form.times) made.times = Number(form.times);
  if (Number(form.share) !== 100) made.share = Number(form.share) / 100;
  if (form.delay === "fixed") made.delay = { fixed: form.fixed.trim() };
  if (form.delay === "uniform") made.delay = { uniform: [form.shortest.trim(), form.longest.trim()] };
  if (form.delay === "lognormal") made.delay = { lognormal: { median: form.median.trim(), sigma: Number(form.sigma) } };
  if (form.answer === "refused") made.answer = { refused: form.refused };
  else if (form.answer === "throttled" && form.retry_after.trim()) made.answer = { throttled: { retry_after: form.retry_after.trim() } };
  else if (form.answer) made.answer = form.answer;
  return made;
}

function named(answer) {
  if (answer == null) return "as usual";
  const kind = typeof answer === "string" ? answer : Object.keys(answer)[0];
  const label = ANSWERS.find(([value]) => value === kind)?.[1] ?? kind;
  const reason = answer.refused ?? (answer.throttled?.retry_after && `Retry-After ${answer.throttled.retry_after}`);
  return reason ? `${label} (${reason})` : label;
}

function late(delay) {
  if (!delay) return null;
  if (delay.fixed) return `after ${delay.fixed}`;
  if (delay.uniform) return `after ${delay.uniform.join(" to ")}`;
  return `after ${delay.lognormal.median} (lognormal, sigma ${delay.lognormal.sigma})`;
}

function card(fault) {
  const share = fault.share == null ? null : `${Number((fault.share * 100).toPrecision(4))} % of the calls`;
  const left = fault.remaining == null ? "until removed" : `for ${count(fault.remaining, "more call")}`;
  const facts = [fault.user ?? "all users", late(fault.delay), share, left, `applied ${count(fault.applied, "time")}`];
  const gone = () => attempt(byId("faults-result"), async () => {
    await call("DELETE", `${FAULTS}/${fault.id}`);
    await refresh();
    return `Fault ${fault.id} is removed.`;
  });
  return row(
    [
      el("span", { class: "title" }, `${fault.operation}: ${named(fault.answer)}`),
      el("div", { class: "hint" }, `No. ${fault.id}, ${facts.filter(Boolean).join(", ")}`),
    ],
    [button("Remove", `fault ${fault.id}`, gone)],
  );
}

async function add(form) {
  const fault = await call("POST", FAULTS, { body: rule(form) });
  await refresh();
  return `Fault ${fault.id} is added: ${fault.operation}, ${named(fault.answer)}.`;
}

async function removeAll() {
  const text = "After that the IAM works normally.";
  if (!(await ask({ title: "Remove all faults?", text, act: "Remove" }))) return;
  await call("DELETE", FAULTS);
  await refresh();
  return "All faults are removed.";
}

async function show() {
  const { faults } = await call("GET", FAULTS, { quiet: true });
  counted("faults", "Faults", faults.length);
  keep(byId("faults-list"), faults, (fault) => fault.id, card, byId("faults-title"));
  byId("faults-empty").hidden = faults.length > 0;
  byId("faults-remove-all").disabled = faults.length === 0;
}

export function start() {
  options(byId("fault-operation"), OPERATIONS.map((name) => [name, name]));
  options(byId("fault-delay"), DELAYS);
  options(byId("fault-refused"), REFUSALS);
  for (const id of ["fault-operation", "fault-delay", "fault-answer"]) byId(id).addEventListener("change", fit);
  fit();
  onSubmit(byId("fault"), byId("faults-result"), add);
  onClick("faults-remove-all", byId("faults-result"), removeAll);
  onRefresh(show);
}
