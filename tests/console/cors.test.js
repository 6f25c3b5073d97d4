// Pages of other origins: one that http.cors.allowed_origins has, and one that it has not.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";
import { ARGUMENTS } from "./fixture.js";

const { CHROMIUM, API_URL, CONSOLE_URL, PAGE_PORT } = process.env;
// Two origins of one server; the settings of the gateway have the first.
const ALLOWED = `http://localhost:${PAGE_PORT}`;
const OTHER = `http://127.0.0.1:${PAGE_PORT}`;
const ALICE = { email: "alice@example.test", password: "alice-pass" };

let browser;
let pages;

before(async () => {
  pages = createServer((_, response) => response.setHeader("Content-Type", "text/html").end("<!doctype html><title>page</title>"));
  await new Promise((listening) => pages.listen(PAGE_PORT, listening));
  browser = await chromium.launch({ executablePath: CHROMIUM, args: ARGUMENTS });
});

after(async () => {
  await browser?.close();
  pages?.close();
});

/** What a page of this origin reads of the response to each call; `null`: nothing. */
async function reads(origin, calls) {
  const context = await browser.newContext();
  try {
    const page = await context.newPage();
    await page.goto(origin);
    return await page.evaluate(async ([base, calls]) => {
      const read = [];
      for (const { path, json, text, ...options } of calls) {
        const headers = json ? { "Content-Type": "application/json", ...options.headers } : options.headers;
        const body = json ? JSON.stringify(json) : text;
        const method = body === undefined ? "GET" : "POST";
        const response = await fetch(base + path, { method, body, ...options, headers }).catch(() => null);
        read.push(response && {
          status: response.status, body: await response.json(),
          id: response.headers.get("X-Request-Id"), retryAfter: response.headers.get("Retry-After"),
        });
      }
      return read;
    }, [API_URL, calls]);
  } finally {
    await context.close();
  }
}

const call = (operation, json, options) => ({ path: `/api/v1/auth/${operation}`, json, ...options });
const statuses = (read) => read.map((response) => response?.status ?? null);

/** How many requests of other routes the gateway has answered; preflights are among them. */
async function others() {
  const exposition = await (await fetch(`${CONSOLE_URL}/metrics`)).text();
  return Number(/^auth_gateway_requests_total\{route="other",outcome="ok"\} (\d+)$/m.exec(exposition)?.[1] ?? 0);
}

test("a page of an allowed origin logs in, gets a token and logs out", { timeout: 60_000 }, async () => {
  const before = await others();
  const [session] = await reads(ALLOWED, [call("login", ALICE)]);
  assert.equal(session.status, 200);
  const exchange = { ...session.body, grant_type: "session", scope: "urn:shop:orders:order:read" };
  const read = await reads(ALLOWED, [
    call("token", exchange, { headers: { "X-Request-Id": "of-the-page" } }), call("logout", session.body),
    call("token", exchange), call("token", exchange), call("token", exchange),
  ]);
  assert.deepEqual(statuses(read), [200, 200, 401, 401, 401]);
  assert.equal(read[0].body.scope, "urn:shop:orders:order:read");
  assert.equal(read[0].id, "of-the-page");
  assert.equal(read[2].body.error, "invalid_grant");
  // One for login, one for token and one for logout: the browser keeps the response.
  assert.equal(await others() - before, 3);
});

test("a page of an allowed origin reads errors, those of the connection included", { timeout: 60_000 }, async () => {
  const wrong = { email: `${process.pid}@example.test`, password: "wrong" };
  const [form, long, ...logins] = await reads(ALLOWED, [
    call("login", undefined, { text: "email=a" }), call(`login?${"a".repeat(9_000)}`, undefined, { text: "" }),
    ...Array.from({ length: 12 }, () => call("login", wrong)),
  ]);
  assert.equal(form.status, 415);
  assert.equal(long.status, 431);
  const refused = logins.at(-1);
  assert.equal(refused.status, 429);
  assert.ok(Number(refused.retryAfter) > 0, refused.retryAfter);
  assert.match(refused.id, /^[\w.-]+$/);
});

test("a page of an allowed origin reads no response to a request with cookies", { timeout: 60_000 }, async () => {
  const read = await reads(ALLOWED, [call("login", ALICE, { credentials: "include" }), call("login", ALICE)]);
  assert.deepEqual(statuses(read), [null, 200]);
});

test("a page of another origin reads nothing of the endpoints", { timeout: 60_000 }, async () => {
  const read = await reads(OTHER, [call("login", ALICE), call("token", {}), call("logout", {}), call("login", undefined, { text: "a" })]);
  assert.deepEqual(statuses(read), [null, null, null, null]);
});

test("a page of every origin reads the published documents", { timeout: 60_000 }, async () => {
  const documents = ["jwks.json", "oauth-authorization-server", "openid-configuration"];
  for (const origin of [ALLOWED, OTHER]) {
    const [keys, ...metadata] = await reads(origin, documents.map((name) => ({ path: `/.well-known/${name}` })));
    assert.equal(keys.body.keys[0].kty, "EC");
    for (const document of metadata) assert.equal(document.body.issuer, API_URL);
  }
});
