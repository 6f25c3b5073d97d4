// Live updates: the journal, the clock, and changes by other clients.

import assert from "node:assert/strict";
import { onThePage } from "./fixture.js";

const BROKEN = /Failed to load resource: /;
const { CONSOLE_URL } = process.env;

/** A login by another client, in the namespace of the page. */
async function otherLogIn(namespace, email, password = `${email.split("@")[0]}-pass`) {
  const response = await fetch(`${CONSOLE_URL}/api/v1/auth/login`, {
    method: "POST",
    headers: { "Content-Type": "application/json", "Mock-Namespace": namespace },
    body: JSON.stringify({ email, password }),
  });
  return response.status;
}

onThePage("the journal shows new calls, can be filtered, and does not change while paused", {}, async ({ page, namespace, api, press, answer, sees, section, shot, fill, select }) => {
  const rows = page.locator("#journal-list tr");
  await sees("#journal-empty", "No calls so far.");
  assert.equal(await otherLogIn(namespace, "alice@example.test"), 200);
  await sees("#journal-list tr", "login alice@example.test");
  assert.equal(await otherLogIn(namespace, "bob@example.test", "wrong"), 401);
  await sees("#journal-list tr", "refused (invalid_credentials)");
  assert.match(await rows.first().innerText(), /bob@example\.test/);
  await sees("#sessions-title", "Sessions (1)");
  await shot("journal");

  await select("#journal-outcome", "refused");
  await sees("#journal-count", "1 call");
  assert.equal(await rows.count(), 1);
  await select("#journal-outcome", "");
  await fill("#journal-user", "ALICE@example.test");
  await sees("#journal-list tr", "alice@example.test");
  await page.waitForFunction(() => document.querySelectorAll("#journal-list tr").length === 1);
  await select("#journal-operation", "logout");
  await sees("#journal-empty", "No such call so far.");
  await fill("#journal-user", "");
  await select("#journal-operation", "login");
  await page.waitForFunction(() => document.querySelectorAll("#journal-list tr").length === 2);

  const pause = section("journal").getByRole("button", { name: "Pause" });
  await pause.click();
  assert.equal(await pause.getAttribute("aria-pressed"), "true");
  await otherLogIn(namespace, "bob@example.test");
  // The page shows the new session, and still the old calls.
  await sees("#sessions-title", "Sessions (2)");
  assert.equal(await rows.count(), 2);
  await pause.click();
  await page.waitForFunction(() => document.querySelectorAll("#journal-list tr").length === 3);

  await press("journal", "Clear…");
  await answer("Clear");
  await sees("#journal-result", "The journal is empty.");
  assert.equal((await api("GET", "/mock/v1/journal")).count, 0);
  await otherLogIn(namespace, "alice@example.test");
  await sees("#journal-count", "1 call");
});

onThePage("a journal cleared by another client is cleared on the page", {}, async ({ page, namespace, api, sees }) => {
  await otherLogIn(namespace, "alice@example.test");
  await otherLogIn(namespace, "alice@example.test");
  await sees("#journal-count", "2 calls");
  await sees("#sessions-title", "Sessions (2)");
  // So that the page has received the count before the reset.
  await page.waitForResponse((response) => response.url().endsWith("/mock/v1/status"));
  await api("POST", "/mock/v1/reset");
  await sees("#journal-empty", "No calls so far.");
  await sees("#sessions-title", "Sessions (0)");
});

onThePage("the clock runs, can be advanced and set, and returns to real time", {}, async ({ page, api, press, sees, fill }) => {
  const offset = async () => (await api("GET", "/mock/v1/time")).offset_seconds;
  const shown = await page.innerText("#clock");
  await page.waitForFunction((before) => document.querySelector("#clock").textContent !== before, shown);
  await sees("#time-offset", "Real time.");
  for (const [name, seconds] of [["+ 1 minute", 60], ["+ 1 hour", 3660], ["+ 8 hours", 32_460], ["+ 1 day", 118_860]]) {
    await press("time", name);
    await sees("#time-result", "It is ");
    assert.ok(Math.abs((await offset()) - seconds) < 1, `${await offset()} for ${seconds}`);
  }
  await fill("#time-by", "90m");
  await press("time", "Advance");
  await sees("#time-offset", "1 d 10 h ahead of real time.");
  await fill("#time-to", "2030-01-01T12:00:30");
  await press("time", "Set");
  await sees("#clock", "2030-01-01 12:00:");
  assert.ok((await api("GET", "/mock/v1/time")).now.startsWith("2030-01-01T12:00:"));
  await press("time", "Back to real time");
  await sees("#time-offset", "Real time.");
  assert.equal(await offset(), 0);
});

onThePage("an unreachable gateway is reported until it responds again", { expected: BROKEN }, async ({ page, context, sees, press }) => {
  await context.setOffline(true);
  await sees("#connection", "Not up to date: there is no answer. Is the gateway still running?");
  await press("state", "Take a snapshot");
  await sees("#state-result.failed", "there is no answer");
  await context.setOffline(false);
  await page.waitForFunction(() => document.querySelector("#connection").textContent === "");
});
