// Login, exchange and logout of a demo user.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { onThePage } from "./fixture.js";

const REFUSED = /Failed to load resource: the server responded with a status of 4\d\d/;
const READ = "urn:shop:orders:order:read";
const WRITE = "urn:shop:orders:order:write";
const FOREIGN = "urn:shop:catalog:item:read";

onThePage("a user logs in with one click, exchanges with chosen scopes and sees the token", {}, async ({ page, api, press, sees, shot, section, fill, open }) => {
  await press("trial", "alice@example.test");
  await sees("#login-result", "alice@example.test is logged in.");
  await sees("#sessions-title", "Sessions (1)");
  assert.equal((await api("GET", "/mock/v1/sessions")).sessions[0].user, "alice@example.test");

  await open("trial");
  await section("trial").getByLabel(WRITE).uncheck();
  await fill("#exchange-others", `${FOREIGN} ${READ}`);
  await press("trial", "Exchange");
  await sees("#exchange-result", `A token for: ${READ}`);
  const names = await page.locator("#scope-names li").allInnerTexts();
  assert.deepEqual(names, [
    `${READ} granted`,
    `${FOREIGN} not granted: the user does not have this permission`,
    `${READ} named before: counted once`,
  ]);
  await sees("#token-verdict", "Verified");
  await sees("#token-header", "at+jwt");
  await sees("#token-claims", READ);
  const claims = await page.locator("#token-claims").innerText();
  assert.match(claims, /exp\s+\d+ = \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC/);
  assert.ok(!claims.includes(WRITE));
  await shot("trial");
});

onThePage("the remaining lifetime of a token follows the clock of the namespace", {}, async ({ page, logIn, press, sees, api }) => {
  await logIn("alice@example.test", "alice-pass");
  await press("trial", "Exchange");
  await sees("#token-left", "59 min");
  const left = await page.innerText("#token-left");
  await page.waitForFunction((before) => document.querySelector("#token-left").textContent !== before, left);
  await press("time", "+ 1 hour");
  await sees("#token-left", "expired");
  await sees("#token-verdict", "Not valid");
  assert.notEqual(await page.locator("#token-problems li").count(), 0);
  assert.equal(Math.round((await api("GET", "/mock/v1/time")).offset_seconds), 3600);
});

onThePage("a logout is shown, and the session has ended", { expected: REFUSED }, async ({ page, logIn, press, sees, api }) => {
  await logIn("bob@example.test", "bob-pass");
  await press("trial", "Log out");
  await sees("#login-result", "Logged out");
  assert.equal(await page.locator("#session").isVisible(), false);
  assert.deepEqual((await api("GET", "/mock/v1/sessions")).sessions, []);
  await sees("#sessions-empty", "None. A login makes one.");
});

onThePage("an error of the API is shown, and the input is kept", { expected: REFUSED }, async ({ page, press, sees, shot, fill }) => {
  await fill("#login-email", "alice@example.test");
  await fill("#login-password", "wrong");
  await press("trial", "Log in");
  await sees("#login-result.failed", "The credentials or the session are not valid. (401 invalid_grant, request ");
  assert.equal(await page.inputValue("#login-email"), "alice@example.test");
  assert.equal(await page.locator("#session").isVisible(), false);
  await sees("#journal-list", "refused (invalid_credentials)");

  await fill("#inspect-token", "no token");
  await press("trial", "Inspect");
  await sees("#inspect-result.failed", "invalid_request");
  await shot("refused");
});

onThePage("a session ended by the API is refused, and a removed permission disappears", { expected: REFUSED }, async ({ page, api, logIn, press, sees, fill }) => {
  await logIn("alice@example.test", "alice-pass");
  await press("trial", "Exchange");
  await sees("#exchange-result", "A token for");
  await api("PATCH", "/mock/v1/users/alice%40example.test", { permissions: [READ] });
  await page.locator("#exchange-permissions input").nth(1).waitFor({ state: "detached" });
  await fill("#exchange-others", WRITE);
  await press("trial", "Exchange");
  await sees("#scope-names", "not granted: the user does not have this permission");
  await sees("#scopes-note", "the gateway signed with cached permissions from before");
  await api("DELETE", "/mock/v1/users/alice%40example.test/sessions?notify=true");
  await press("trial", "Exchange");
  await sees("#exchange-result.failed", "invalid_grant");
});

onThePage("a token with custom claims is created and inspected", { expected: REFUSED }, async ({ page, press, sees, fill, open }) => {
  await open("trial");
  await page.getByText("Make a token with claims of your own").click();
  await fill("#make-claims", `{"scope": "urn:test:made", "exp": 1000000000, "aud": null}`);
  await press("trial", "Make the token");
  await sees("#token-claims", "urn:test:made");
  await sees("#token-claims", "1000000000 = 2001-09-09 01:46:40 UTC");
  await sees("#token-verdict", "Not valid");
  await sees("#token-left", "none, it expired");
  await fill("#make-claims", "no JSON");
  await press("trial", "Make the token");
  await sees("#make-result.failed", "invalid_request");
});

onThePage("a time of a token that is not a number is shown as it is", {}, async ({ page, press, sees, fill, open }) => {
  await open("trial");
  await page.getByText("Make a token with claims of your own").click();
  for (const [iat, shown] of [[`"yesterday"`, "yesterday"], [`{"seconds":1}`, `{"seconds":1}`]]) {
    await fill("#make-claims", `{"iat": ${iat}, "exp": 4000000000}`);
    await press("trial", "Make the token");
    await sees("#token-claims", shown);
    await sees("#make-result", "The token is above.");
    await sees("#token-left", /^\d+ d/);
  }
  await fill("#make-claims", `{"exp": "tomorrow"}`);
  await press("trial", "Make the token");
  await sees("#token-claims", "tomorrow");
  assert.equal(await page.locator("#token-life").isVisible(), false);
});

onThePage("every request can be copied as a working command", {}, async ({ page, context, logIn, press, sees, namespace, api, section, fill, open }) => {
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await logIn("alice@example.test", "alice-pass");
  await press("users", "Add a user…");
  await fill("#user-email", "o'brien@example.test");
  await fill("#user-password", "it's a `secret`");
  await page.getByRole("button", { name: "Save" }).click();
  await sees("#users-result", "o'brien@example.test is added.");
  await api("DELETE", "/mock/v1/users/o'brien%40example.test");

  await open("requests");
  const first = section("requests").locator("li").first();
  await first.locator("summary").click();
  await first.getByRole("button", { name: "Copy the command for POST /mock/v1/users" }).click();
  await sees("#requests-result", "Copied.");
  const command = await page.evaluate(() => navigator.clipboard.readText());
  assert.ok(command.includes(`Mock-Namespace: ${namespace}`), command);
  const created = JSON.parse(execFileSync("sh", ["-c", command], { encoding: "utf8" }));
  assert.equal(created.email, "o'brien@example.test");
  await sees("#users-list", "o'brien@example.test");
});
