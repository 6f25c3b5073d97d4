// Snapshots, reset and namespaces.

import assert from "node:assert/strict";
import { onThePage } from "./fixture.js";

const REFUSED = /Failed to load resource: the server responded with a status of 4\d\d/;
const emails = async (api) => (await api("GET", "/mock/v1/users")).users.map(({ email }) => email);

onThePage("a snapshot is taken, restored and deleted", {}, async ({ api, press, answer, sees }) => {
  await press("state", "Take a snapshot");
  await sees("#state-result", "is taken.");
  const { snapshots: [{ id }] } = await api("GET", "/mock/v1/snapshots");
  await api("DELETE", "/mock/v1/users/bob%40example.test");
  await sees("#users-title", "Users (1)");
  await press("state", `Restore snapshot ${id}`);
  await answer("Restore");
  await sees("#state-result", `Snapshot ${id} is restored.`);
  await sees("#users-title", "Users (2)");
  assert.deepEqual(await emails(api), ["alice@example.test", "bob@example.test"]);
  await press("state", `Delete snapshot ${id}`);
  await answer("Delete");
  await sees("#snapshots-empty", "None. Take one");
  assert.deepEqual((await api("GET", "/mock/v1/snapshots")).snapshots, []);
});

onThePage("a reset needs a confirmation and restores the initial state", {}, async ({ page, namespace, api, logIn, press, answer, sees }) => {
  await api("DELETE", "/mock/v1/users/bob%40example.test");
  await api("POST", "/mock/v1/faults", { operation: "logout", answer: "timeout" });
  await logIn("alice@example.test", "alice-pass");
  await press("time", "+ 1 hour");
  await sees("#time-result", "It is ");
  await press("state", "Reset this namespace…");
  await answer("Cancel");
  assert.deepEqual(await emails(api), ["alice@example.test"]);
  await press("state", "Reset this namespace…");
  await answer("Reset");
  await sees("#state-result", `${namespace} is reset.`);
  await sees("#users-title", "Users (2)");
  assert.equal(await page.locator("#session").isVisible(), false);
  const status = await api("GET", "/mock/v1/status");
  assert.deepEqual([status.users, status.sessions, status.faults, status.calls, status.time.offset_seconds], [2, 0, 0, 0, 0]);
});

onThePage("a namespace is created, opened and deleted, and shows nothing of another one", {}, async ({ page, namespace, api, logIn, press, answer, sees, fill, select }) => {
  const names = async () => (await api("GET", "/mock/v1/namespaces")).namespaces.map(({ name }) => name);
  const other = `${namespace}-other`;
  await logIn("alice@example.test", "alice-pass");
  await sees("#journal-list", "alice@example.test");
  await fill("#namespace-name", other);
  await press("state", "Create and open");
  await sees("#namespaces-result", `This is the namespace ${other}.`);
  assert.equal(new URL(page.url()).searchParams.get("namespace"), other);
  assert.equal(await page.inputValue("#namespace"), other);
  await sees("#sessions-title", "Sessions (0)");
  await sees("#journal-empty", "No calls so far.");
  assert.equal(await page.locator("#session").isVisible(), false);
  assert.ok((await names()).includes(other));
  await logIn("bob@example.test", "bob-pass");

  await select("#namespace", namespace);
  await sees("#journal-list", "alice@example.test");
  assert.equal(await page.locator("#journal-list", { hasText: "bob@example.test" }).count(), 0);
  await press("state", `Delete namespace ${other}`);
  await answer("Delete");
  await sees("#namespaces-result", `The namespace ${other} is deleted.`);
  assert.ok(!(await names()).includes(other));

  await page.reload();
  await sees("#sessions-title", "Sessions (1)");
  assert.equal(await page.inputValue("#namespace"), namespace);
  await page.goto("/mock");
  await page.waitForFunction(() => document.querySelector("#namespace").value === "default");
});

onThePage("the IAM is probed at once and its response is shown", {}, async ({ press, sees, api }) => {
  await press("state", "Probe the IAM now");
  await sees("#state-result", "The IAM's answer: ok.");
  await api("POST", "/mock/v1/faults", { operation: "probe", answer: "unreachable" });
  await press("state", "Probe the IAM now");
  await sees("#state-result", "The IAM's answer: unreachable.");
});

onThePage("after the caches are cleared, an exchange calls the IAM", {}, async ({ press, sees, api, namespace }) => {
  const credentials = { email: "alice@example.test", password: "alice-pass" };
  const session = await api("POST", "/api/v1/auth/login", credentials);
  await press("state", "Clear the gateway's caches");
  await sees("#state-result", "The next exchange of each session calls the IAM.");
  await api("POST", "/api/v1/auth/token", { ...session, grant_type: "session" });
  await sees("#journal-list", "introspection");
  assert.notEqual(namespace, "default");
});

onThePage("an invalid namespace name is refused without a request", { expected: REFUSED }, async ({ page, press, namespace, fill }) => {
  await fill("#namespace-name", "no name");
  await press("state", "Create and open");
  assert.equal(await page.locator("#namespace-name:invalid").count(), 1);
  await page.goto("/mock/?namespace=%3Cscript%3E");
  await page.waitForFunction(() => document.querySelector("#namespace").value === "default");
  assert.notEqual(namespace, "default");
});
