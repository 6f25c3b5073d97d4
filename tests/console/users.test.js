// Users and their sessions.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { onThePage } from "./fixture.js";

const CONFLICT = /Failed to load resource: the server responded with a status of 4\d\d/;
const emails = async (api) => (await api("GET", "/mock/v1/users")).users.map(({ email }) => email);

onThePage("a user is added, changed and deleted", {}, async ({ page, api, press, answer, sees, shot, fill, select }) => {
  await sees("#users-title", "Users (2)");
  await press("users", "Add a user…");
  await fill("#user-email", "carol@example.test");
  await fill("#user-password", "carol-pass");
  await fill("#user-permissions", "urn:shop:a\nurn:shop:b");
  await shot("user-dialog");
  await page.getByRole("button", { name: "Save" }).click();
  await sees("#users-result", "carol@example.test is added.");
  await sees("#users-title", "Users (3)");
  let carol = await api("GET", "/mock/v1/users/carol%40example.test");
  assert.deepEqual([carol.permissions, carol.state], [["urn:shop:a", "urn:shop:b"], "active"]);

  await press("users", "Change carol@example.test");
  await fill("#user-permissions", "urn:shop:b");
  await select("#user-state", "locked");
  await fill("#user-password", "other-pass");
  await page.getByRole("button", { name: "Save" }).click();
  await sees("#users-result", "carol@example.test is changed.");
  await sees("#users-list li", "locked");
  carol = await api("GET", "/mock/v1/users/carol%40example.test");
  assert.deepEqual([carol.permissions, carol.state], [["urn:shop:b"], "locked"]);
  await api("PATCH", "/mock/v1/users/carol%40example.test", { state: "active" });
  await press("users", "Log in as carol@example.test");
  await sees("#login-result", "carol@example.test is logged in.");

  await press("users", "Delete carol@example.test");
  await answer("Cancel");
  assert.equal((await emails(api)).length, 3);
  await press("users", "Delete carol@example.test");
  await shot("question");
  await answer("Delete");
  await sees("#users-result", "carol@example.test is deleted.");
  assert.deepEqual(await emails(api), ["alice@example.test", "bob@example.test"]);
  // The focus moves to the next control and not to the top of the page.
  const focused = await page.evaluate(() => document.activeElement.getAttribute("aria-label"));
  assert.equal(focused, "Delete bob@example.test");
  await fill("#users-find", "bob");
  await page.locator("#users-list li", { hasText: "alice@example.test" }).waitFor({ state: "detached" });
});

onThePage("any user logs in with one click, also one that another client created", {}, async ({ page, api, press, sees }) => {
  await api("POST", "/mock/v1/users", { email: "dora@example.test", password: "dora-pass" });
  await press("trial", "dora@example.test");
  await sees("#login-result", "dora@example.test is logged in.");
  await press("users", "Log in as dora@example.test");
  await sees("#login-result", "dora@example.test is logged in.");
  assert.equal(new URL(page.url()).hash, "#trial");
  assert.equal((await api("GET", "/mock/v1/users/dora%40example.test")).sessions, 2);
});

onThePage("a user whose password is not known is asked for it", { expected: CONFLICT }, async ({ page, api, press, sees, fill }) => {
  // No users file can have this user, so none has the passwords.
  await api("POST", "/mock/v1/users", { email: "dora@example.test", password: "dora-pass", attributes: { level: null } });
  await press("trial", "dora@example.test");
  await page.waitForFunction(() => document.activeElement.id === "login-password");
  assert.equal(await page.inputValue("#login-email"), "dora@example.test");
  await fill("#login-password", "dora-pass");
  await press("trial", "Log in");
  await sees("#login-result", "dora@example.test is logged in.");
});

onThePage("users are exported, and imported in another namespace", {}, async ({ page, namespace, api, press, answer, sees, open, fill }) => {
  await api("POST", "/mock/v1/users", {
    email: "erin@example.test", password: "erin-pass", state: "locked", attributes: { level: 3 }, totp_secret: "GEZDGNBVGY3TQOJQ",
  });
  await sees("#users-title", "Users (3)");
  const files = [];
  for (const format of ["JSON", "TOML"]) {
    const [download] = await Promise.all([page.waitForEvent("download"), press("users", `Export as ${format}`)]);
    assert.equal(download.suggestedFilename(), `users.${format.toLowerCase()}`);
    await sees("#users-result", `3 users exported to users.${format.toLowerCase()}.`);
    files.push(await download.path());
  }
  for (const [at, name] of ["users.json", "users.toml"].entries()) {
    const exported = readFileSync(files[at], "utf8");
    await fill("#namespace-name", `${namespace}-${at}`);
    await press("state", "Create and open");
    await sees("#namespaces-result", "This is the namespace");
    await open("users");
    await page.setInputFiles("#users-file", { name, mimeType: "text/plain", buffer: Buffer.from(exported) });
    await press("users", "Replace all users…");
    await answer("Replace");
    await sees("#users-result", "There are 3 users now.");
    const [again] = await Promise.all([page.waitForEvent("download"), press("users", `Export as ${name.slice(6).toUpperCase()}`)]);
    assert.equal(readFileSync(await again.path(), "utf8"), exported);
    await press("users", "Log in as bob@example.test");
    await sees("#login-result", "bob@example.test is logged in.");
  }
});

onThePage("a user with one-time passwords shows the current one and logs in with it once", { expected: CONFLICT }, async ({ page, api, press, sees, shot, fill }) => {
  const erin = "/mock/v1/users/erin%40example.test";
  await press("users", "Add a user…");
  await fill("#user-email", "erin@example.test");
  await fill("#user-password", "erin-pass");
  await fill("#user-totp", "GEZDGNBVGY3TQOJQ");
  await shot("user-dialog-otp");
  await page.getByRole("button", { name: "Save" }).click();
  await sees("#users-list", "one-time password now: ");
  // At a time in the middle of the 30 s.
  await api("PUT", "/mock/v1/time", { now: "2030-01-01T00:00:15Z" });
  const { otp } = await api("GET", erin);
  await sees("#users-list", `one-time password now: ${otp}`);
  await press("users", "Log in as erin@example.test");
  await sees("#login-result", "erin@example.test is logged in.");
  assert.equal(await page.inputValue("#login-otp"), otp);
  await press("users", "Log in as erin@example.test");
  await sees("#login-result.failed", "401 invalid_grant");
  await press("users", "Change erin@example.test");
  await page.locator("#user-no-totp").check();
  await page.getByRole("button", { name: "Save" }).click();
  await sees("#users-result", "erin@example.test is changed.");
  assert.equal((await api("GET", erin)).otp, undefined);
  await press("users", "Log in as erin@example.test");
  await sees("#login-result", "erin@example.test is logged in.");
});

onThePage("a refused user stays in the form with the reason", { expected: CONFLICT }, async ({ page, press, sees, fill }) => {
  await press("users", "Add a user…");
  await fill("#user-email", "alice@example.test");
  await fill("#user-password", "some-pass");
  await page.getByRole("button", { name: "Save" }).click();
  await sees("#user-result.failed", "conflict");
  assert.equal(await page.inputValue("#user-password"), "some-pass");
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.locator("dialog#user").waitFor({ state: "hidden" });
});

onThePage("markup in users and permissions is shown as text", {}, async ({ page, api, sees, press, shot, fill, open }) => {
  const email = `"><img/src=x/onerror=alert(1)>@example.test`;
  const permission = "<script>alert(2)</script>";
  await api("POST", "/mock/v1/users", { email, password: "p<b>", permissions: [permission, "<img/src=y/onerror=alert(3)>"] });
  await sees("#users-list", email);
  await fill("#login-email", email);
  await fill("#login-password", "p<b>");
  await press("trial", "Log in");
  await sees("#session-facts", email);
  await sees("#sessions-list", email);
  await sees("#journal-list", email);
  await press("trial", "Exchange");
  await sees("#scope-names", permission);
  await sees("#token-claims", permission);
  await open("requests");
  await page.locator("#requests-list summary").first().click();
  assert.equal(await page.locator("body script, body img, body b").count(), 0);
  await shot("markup");
  await press("users", `Delete ${email}`);
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await sees("#users-title", "Users (2)");
});

onThePage("a users file replaces all users", { expected: CONFLICT }, async ({ page, api, answer, sees, open }) => {
  await open("users");
  const upload = async (name, text) => {
    await page.setInputFiles("#users-file", { name, mimeType: "text/plain", buffer: Buffer.from(text) });
    await page.getByRole("button", { name: "Replace all users…" }).click();
    await answer("Replace");
  };
  await upload("users.yaml", "users:\n- email: dora@example.test\n  password: dora-pass\n");
  await sees("#users-result", "There is 1 user now.");
  assert.deepEqual(await emails(api), ["dora@example.test"]);
  await upload("users.json", `{"users": [{"email": "e@example.test", "password": "e-pass", "colour": "red"}]}`);
  await sees("#users-result.failed", "key colour is unknown");
  assert.deepEqual(await emails(api), ["dora@example.test"]);
  await api("DELETE", "/mock/v1/users/dora%40example.test");
  await sees("#users-empty", "No users. Add a user, or replace all users by a users file.");
  assert.deepEqual(await emails(api), []);
});

onThePage("sessions are ended one by one, by user or all, with and without logout tokens", {}, async ({ page, api, logIn, press, answer, sees, fill }) => {
  await logIn("alice@example.test", "alice-pass");
  await logIn("alice@example.test", "alice-pass");
  await logIn("bob@example.test", "bob-pass");
  await logIn("bob@example.test", "bob-pass");
  await sees("#sessions-title", "Sessions (4)");

  await fill("#sessions-find", "alice@example.test");
  await sees("#sessions-title", "Sessions (2)");
  const { sessions: [{ id, session_id }] } = await api("GET", "/mock/v1/sessions?user=alice%40example.test");
  for (const either of [id, session_id]) {
    await fill("#sessions-find", either);
    await sees("#sessions-title", "Sessions (1)");
    await sees("#sessions-list", id);
    await sees("#sessions-list", session_id);
    await fill("#journal-session", either);
    await sees("#journal-count", "1 call");
    await sees("#journal-list", `session_id ${session_id}`);
    await sees("#journal-list", `session at the IAM ${id}`);
  }
  await fill("#journal-session", "");
  await press("sessions", `End session ${id} of alice@example.test`);
  await answer("End");
  await sees("#sessions-result", "1 session ended; logout tokens accepted: 0.");
  await fill("#sessions-find", "");

  await press("users", "End sessions of bob@example.test");
  await page.locator("#ask-notify").check();
  await answer("End");
  await sees("#users-result", "2 sessions ended; logout tokens accepted: 2.");
  await sees("#sessions-title", "Sessions (1)");

  await press("sessions", "End all sessions…");
  await answer("Cancel");
  assert.equal((await api("GET", "/mock/v1/sessions")).sessions.length, 1);
  await press("sessions", "End all sessions…");
  await answer("End");
  await sees("#sessions-result", "1 session ended; logout tokens accepted: 0.");
  assert.equal((await api("GET", "/mock/v1/sessions")).sessions.length, 0);
});
