// Faults: each member of a rule can be set, and only valid combinations are offered.

import assert from "node:assert/strict";
import { onThePage } from "./fixture.js";

const REFUSED = /Failed to load resource: the server responded with a status of [45]\d\d/;
const WIRE = ["reset", "truncated", "html", "redirect", "huge_body", "slow_body"];
const ALWAYS = ["unreachable", "timeout", "throttled", "server_error", "unreadable", "misconfigured"];

const values = (page, id) => page.locator(`#${id} option`).evaluateAll((all) => all.map(({ value }) => value));
const rule = ({ operation, user, times, share, delay, answer }) =>
  Object.fromEntries(Object.entries({ operation, user, times, share, delay, answer }).filter(([, value]) => value != null));

/** Fills in the form and sends it; returns the rules that the API then has. */
async function add({ page, press, sees, open, api }, fields) {
  await open("faults");
  const before = (await api("GET", "/mock/v1/faults")).faults.length;
  for (const [id, value] of Object.entries({ times: "", share: "100", delay: "", ...fields })) {
    const field = page.locator(`#fault-${id}`);
    if (["operation", "answer", "delay", "refused"].includes(id)) await field.selectOption(value);
    else await field.fill(value);
  }
  await press("faults", "Add the fault");
  await sees("#faults-title", `Faults (${before + 1})`);
  return rule((await api("GET", "/mock/v1/faults")).faults.at(-1));
}

onThePage("every member of a rule can be set in the form", {}, async (fixture) => {
  const added = (fields) => add(fixture, fields);
  assert.deepEqual(await added({ operation: "login", answer: "unreachable", times: "1" }), { operation: "login", times: 1, answer: "unreachable" });
  assert.deepEqual(
    await added({ operation: "login", answer: "refused", refused: "locked", user: "bob@example.test" }),
    { operation: "login", user: "bob@example.test", answer: { refused: "locked" } },
  );
  assert.deepEqual(
    await added({ operation: "logout", answer: "throttled", retry: "3s", user: "" }),
    { operation: "logout", answer: { throttled: { retry_after: "3s" } } },
  );
  assert.deepEqual(await added({ operation: "introspection", answer: "throttled", retry: "" }), { operation: "introspection", answer: { throttled: {} } });
  assert.deepEqual(
    await added({ operation: "introspection", delay: "fixed", fixed: "150ms", answer: "", share: "50", times: "3" }),
    { operation: "introspection", times: 3, share: 0.5, delay: { fixed: "150ms" } },
  );
  assert.deepEqual(
    await added({ operation: "keys", delay: "uniform", shortest: "10ms", longest: "20ms", answer: "server_error" }),
    { operation: "keys", delay: { uniform: ["10ms", "20ms"] }, answer: "server_error" },
  );
  assert.deepEqual(
    await added({ operation: "probe", delay: "lognormal", median: "80ms", sigma: "0.5", answer: "timeout" }),
    { operation: "probe", delay: { lognormal: { median: "80ms", sigma: 0.5 } }, answer: "timeout" },
  );
  for (const answer of ["inactive", "another_session", "unreadable", "misconfigured"]) {
    assert.deepEqual(await added({ operation: "introspection", answer }), { operation: "introspection", answer });
  }
  await fixture.sees("#faults-list", "after 80ms (lognormal, sigma 0.5)");
  await fixture.sees("#faults-list", "50 % of the calls");
  await fixture.shot("faults");
});

onThePage("the form offers only valid combinations", {}, async ({ page, select }) => {
  const choose = (id, value) => select(`#fault-${id}`, value);
  const shown = (id) => page.locator(`#fault-${id}`).isVisible();
  await choose("operation", "login");
  assert.deepEqual(await values(page, "fault-answer"), [...ALWAYS, "refused"]);
  assert.ok(await shown("user"));
  await choose("operation", "introspection");
  assert.deepEqual(await values(page, "fault-answer"), [...ALWAYS, "inactive", "another_session"]);
  for (const operation of ["keys", "probe"]) {
    await choose("operation", operation);
    assert.deepEqual(await values(page, "fault-answer"), ALWAYS);
    assert.equal(await shown("user"), false);
  }
  await choose("delay", "fixed");
  assert.deepEqual(await values(page, "fault-answer"), [...ALWAYS, ""]);
  assert.deepEqual([await shown("fixed"), await shown("median"), await shown("shortest")], [true, false, false]);
  await choose("delay", "");
  assert.deepEqual([await shown("fixed"), await shown("retry")], [false, false]);
  await choose("answer", "throttled");
  assert.equal(await shown("retry"), true);
});

onThePage("the mock over the wire also offers network faults", { base: process.env.WIRE_URL }, async ({ page, api, press, sees, shot, select }) => {
  await page.locator("#trial").waitFor({ state: "hidden" });
  assert.equal(await page.getByRole("link", { name: "Try it" }).count(), 0);
  const offered = await values(page, "fault-answer");
  assert.deepEqual(offered.filter((value) => WIRE.includes(value)), WIRE);
  await select("#fault-answer", "html");
  await press("faults", "Add the fault");
  await sees("#faults-list", "login: an HTML page with status 200");
  assert.equal((await api("GET", "/mock/v1/faults")).faults[0].answer, "html");
  await shot("wire");
});

onThePage("a fault takes effect, is used up, and is shown in the journal", { expected: REFUSED }, async (fixture) => {
  const { page, press, sees } = fixture;
  await add(fixture, { operation: "login", answer: "refused", refused: "disabled", times: "1", user: "alice@example.test" });
  await press("trial", "alice@example.test");
  await sees("#login-result.failed", "401 invalid_grant");
  await sees("#journal-list", "refused (disabled)");
  await sees("#journal-list", "by fault 1");
  await press("trial", "Log in");
  await sees("#login-result", "is logged in");
  assert.equal(await page.locator("#journal-list tr").count(), 2);
});

onThePage("faults are removed one by one, and all at once after a confirmation", {}, async (fixture) => {
  const { api, press, sees, answer } = fixture;
  const remaining = async () => (await api("GET", "/mock/v1/faults")).faults.map(({ operation }) => operation);
  for (const operation of ["login", "logout", "keys"]) await add(fixture, { operation, answer: "server_error" });
  const { faults } = await api("GET", "/mock/v1/faults");
  await press("faults", `Remove fault ${faults[1].id}`);
  await sees("#faults-result", `Fault ${faults[1].id} is removed.`);
  assert.deepEqual(await remaining(), ["login", "keys"]);
  await press("faults", "Remove all faults…");
  await answer("Remove");
  await sees("#faults-empty", "None: the IAM works normally.");
  assert.deepEqual(await remaining(), []);
});

onThePage("the error of an invalid fault is shown", { expected: REFUSED }, async ({ page, press, sees, fill, select }) => {
  await select("#fault-delay", "fixed");
  await fill("#fault-fixed", "soon");
  await press("faults", "Add the fault");
  await sees("#faults-result.failed", "400 invalid_request");
  assert.equal(await page.inputValue("#fault-fixed"), "soon");
});
