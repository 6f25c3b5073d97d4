// The example of a backend for the frontend (examples/bff), with its page, and attacked from other origins.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, request as send } from "node:http";
import { after, before, beforeEach, test } from "node:test";
import { chromium } from "playwright-core";
import { ARGUMENTS } from "./fixture.js";

const { API_URL, CHROMIUM, BFF_URL, CONSOLE_URL, PAGE_PORT, PROXY_PORT, SERVICE_PORT } = process.env;
const [EMAIL, PASSWORD] = ["alice@example.test", "alice-pass"];
const SCOPE = "urn:shop:orders:order:read";
const BOUND = { timeout: 60_000 };

let browser, service, pages, proxy, context, page;
// What the service receives, how many of these requests it refuses, and what it waits for before it responds.
let served, refusals, released;
// Whether the proxy before the gateway refuses the next exchange.
let isRefusing;

const listen = (server, port) => new Promise((listening) => server.listen(port, listening));

before(async () => {
  service = createServer(async (request, response) => {
    served.push({ path: request.url, authorization: request.headers.authorization, cookie: request.headers.cookie });
    await released;
    if (refusals > 0) response.statusCode = 401;
    refusals -= 1;
    response.setHeader("Content-Type", "application/json").end('["order 1"]');
  });
  const attack = `<!doctype html><title>page</title><form method="post" action="${BFF_URL}/bff/logout"><button>Win</button></form>`;
  pages = createServer((_, response) => response.setHeader("Content-Type", "text/html").end(attack));
  proxy = createServer((request, response) => {
    if (isRefusing && request.url.endsWith("/token")) {
      isRefusing = false;
      request.resume();
      response.writeHead(401, { "Content-Type": "application/json" }).end('{"message":"Unauthorized"}');
      return;
    }
    const { method, headers } = request;
    request.pipe(send(new URL(request.url, API_URL), { method, headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    }));
  });
  await Promise.all([listen(service, SERVICE_PORT), listen(pages, PAGE_PORT), listen(proxy, PROXY_PORT)]);
  browser = await chromium.launch({ executablePath: CHROMIUM, args: ARGUMENTS });
});

after(async () => {
  await browser?.close();
  service?.close();
  pages?.close();
  proxy?.close();
});

beforeEach(async () => {
  await context?.close();
  served = [];
  refusals = 0;
  released = undefined;
  isRefusing = false;
  context = await browser.newContext();
  context.setDefaultTimeout(15_000);
  page = await context.newPage();
  await page.goto(BFF_URL);
  await page.locator("#login:not([hidden])").waitFor();
});

const sees = (text) => page.locator("#status", { hasText: text }).waitFor();

async function logIn(password = PASSWORD) {
  await page.locator("[name=email]").fill(EMAIL);
  await page.locator("[name=password]").fill(password);
  await page.getByRole("button", { name: "Log in" }).click();
}

/** Calls the control API of the mock. */
async function mock(method, path, json) {
  const headers = json && { "Content-Type": "application/json" };
  const response = await fetch(`${CONSOLE_URL}/mock/v1/${path}`, { method, headers, body: json && JSON.stringify(json) });
  assert.ok(response.ok, `${method} ${path}: ${response.status}`);
}

/** The headers and the body of the response. */
async function contentOf(request) {
  const response = await request.response();
  return JSON.stringify([await response.allHeaders(), response.ok() ? await response.text() : ""]);
}

/** The status of a call of the page. */
const status = (method, path, json) => page.evaluate(async ([method, path, json]) => {
  const options = json && { headers: { "Content-Type": "application/json" }, body: JSON.stringify(json) };
  return (await fetch(path, { method, ...options })).status;
}, [method, path, json]);

const logInAgain = () => status("POST", "/bff/login", { email: EMAIL, password: PASSWORD });

test("the page logs in, calls the service and logs out, and gets no token", BOUND, async () => {
  const received = [];
  page.on("requestfinished", (request) => received.push(contentOf(request)));
  await logIn();
  await sees("Logged in.");
  await page.getByRole("button", { name: "Load the orders" }).click();
  await page.locator("#result", { hasText: "order 1" }).waitFor();
  await page.reload();
  await page.locator("#orders:not([hidden])").waitFor();

  const [{ path, authorization, cookie }] = served;
  assert.deepEqual([path, cookie], ["/orders", undefined]);
  const claims = JSON.parse(Buffer.from(/^Bearer [\w-]+\.([\w-]+)\./.exec(authorization)[1], "base64url"));
  assert.equal(claims.scope, SCOPE);

  await page.getByRole("button", { name: "Log out" }).click();
  await sees("Logged out.");
  assert.equal(await status("GET", "/api/orders"), 401);
  assert.equal(served.length, 1);

  const stored = await page.evaluate(() => [document.cookie, localStorage.length, sessionStorage.length]);
  assert.deepEqual(stored, ["", 0, 0]);
  const contents = await Promise.all(received);
  assert.ok(contents.some((text) => text.includes("order 1")), `${contents.length} responses`);
  for (const text of contents) assert.doesNotMatch(text, /eyJ|session_token|session_id/);
});

test("the cookie is for this host, for TLS, for no script and for no other site", BOUND, async () => {
  await logIn();
  await sees("Logged in.");
  const [cookie, ...others] = await context.cookies();
  assert.deepEqual(others, []);
  const { name, domain, path, httpOnly, secure, sameSite } = cookie;
  assert.deepEqual([name, domain, path], ["__Host-session", "localhost", "/"]);
  assert.deepEqual({ httpOnly, secure, sameSite }, { httpOnly: true, secure: true, sameSite: "Strict" });
});

test("a login gives a new cookie, and the one before is worth nothing", BOUND, async () => {
  await logIn();
  await sees("Logged in.");
  const [before] = await context.cookies();
  assert.equal(await logInAgain(), 200);
  const [now] = await context.cookies();
  assert.notEqual(now.value, before.value);
  assert.equal(await status("GET", "/bff/session"), 200);
  await context.addCookies([before]);
  assert.equal(await status("GET", "/bff/session"), 401);
});

test("a late response for an earlier session leaves the cookie of the new one", BOUND, async () => {
  await logIn();
  await sees("Logged in.");
  // The service holds its response to the earlier session, which has ended when a new token for it is needed.
  let release;
  released = new Promise((resolve) => { release = resolve; });
  refusals = 1;
  const isCalled = once(service, "request");
  const refused = status("GET", "/api/orders");
  await isCalled;
  assert.equal(await logInAgain(), 200);
  release();
  assert.equal(await refused, 401);
  assert.equal(await status("GET", "/bff/session"), 200);
  // The response to the logout comes after that to the login.
  await mock("POST", "faults", { operation: "logout", times: 1, delay: { fixed: "1s" } });
  const loggedOut = status("POST", "/bff/logout");
  assert.equal(await logInAgain(), 200);
  await loggedOut;
  assert.equal(await status("GET", "/bff/session"), 200);
});

test("requests at the same time share one exchange", BOUND, async () => {
  await logIn();
  await sees("Logged in.");
  // The first exchange takes longer than the requests need to arrive.
  await mock("POST", "forget");
  await mock("POST", "faults", { operation: "introspection", times: 1, delay: { fixed: "500ms" } });
  await page.evaluate(() => Promise.all([1, 2, 3].map((order) => fetch(`/api/orders/${order}`))));
  assert.deepEqual(served.map(({ path }) => path).sort(), ["/orders/1", "/orders/2", "/orders/3"]);
  assert.equal(new Set(served.map(({ authorization }) => authorization)).size, 1);
});

test("a refused login and an ended session are shown", BOUND, async () => {
  await logIn("wrong");
  await sees("invalid_grant");
  await logIn();
  await sees("Logged in.");
  await mock("DELETE", `users/${EMAIL}/sessions?notify=true`);
  await page.getByRole("button", { name: "Load the orders" }).click();
  await sees("invalid_grant");
  await page.locator("#login:not([hidden])").waitFor();
  assert.equal(await status("GET", "/bff/session"), 401);
  assert.deepEqual(served, []);
});

test("a 401 that is not of the gateway ends no session", BOUND, async () => {
  await logIn();
  await sees("Logged in.");
  isRefusing = true;
  await page.getByRole("button", { name: "Load the orders" }).click();
  await sees("gateway_failed");
  assert.equal(await status("GET", "/bff/session"), 200);
  assert.equal(await status("GET", "/api/orders"), 200);
});

test("a logout that the gateway cannot carry out logs the user out here", BOUND, async () => {
  await logIn();
  await sees("Logged in.");
  await mock("POST", "faults", { operation: "logout", answer: "unreachable" });
  await page.getByRole("button", { name: "Log out" }).click();
  await sees("temporarily_unavailable");
  await page.locator("#login:not([hidden])").waitFor();
  const [cookie] = await context.cookies();
  assert.match(cookie.value, /^[\w-]{43}$/);
  assert.equal(await status("GET", "/api/orders"), 401);
  assert.deepEqual(served, []);
  await mock("DELETE", "faults");
});

test("a service that refuses a token gets another one, once", BOUND, async () => {
  await logIn();
  await sees("Logged in.");
  assert.equal(await status("GET", "/api/orders"), 200);
  refusals = 1;
  assert.equal(await status("GET", "/api/orders"), 200);
  const tokens = served.map(({ authorization }) => authorization);
  assert.deepEqual([tokens.length, tokens[0] === tokens[1], tokens[1] === tokens[2]], [3, true, false]);
  refusals = 2;
  assert.equal(await status("GET", "/api/orders"), 502);
  assert.equal(served.length, 5);
  assert.equal(await status("GET", "/bff/session"), 200);
});

/**
 * Makes requests from a page at this address: by a script, and by a form. Returns whether the browser adds the cookie, which
 * the service sees: cookies are for all ports of a host.
 */
async function attack(origin) {
  const attacker = await context.newPage();
  await attacker.goto(origin);
  await attacker.evaluate(async (bff) => {
    for (const [method, path] of [["POST", "/bff/logout"], ["POST", "/api/orders"], ["GET", "/api/orders"]]) {
      // It is sent, and the browser withholds the response.
      await fetch(bff + path, { method, mode: "no-cors", credentials: "include" }).catch(() => {});
    }
  }, BFF_URL);
  await attacker.evaluate((url) => fetch(url, { mode: "no-cors", credentials: "include" }), `http://localhost:${SERVICE_PORT}/`);
  const [{ cookie }, ...others] = served.splice(0);
  assert.deepEqual(others, []);
  const readable = await attacker.evaluate((bff) => fetch(`${bff}/bff/session`, { credentials: "include" }).then(() => true, () => false), BFF_URL);
  assert.equal(readable, false);
  await attacker.getByRole("button").click();
  await attacker.getByText("other_origin").waitFor();
  await attacker.close();
  return /^__Host-session=/.test(cookie);
}

test("pages of other origins cause nothing, with and without the cookie", BOUND, async () => {
  await logIn();
  await sees("Logged in.");
  // Another port of the same host is the same site, so the browser sends the cookie.
  assert.equal(await attack(`http://localhost:${PAGE_PORT}`), true);
  assert.equal(await attack(`http://127.0.0.1:${PAGE_PORT}`), false);
  assert.deepEqual(served, []);
  assert.equal(await status("GET", "/bff/session"), 200);
});

test("a program without a browser's headers is refused", BOUND, async () => {
  for (const [headers, error] of [
    [{}, "browser_not_supported"],
    [{ Origin: BFF_URL }, "browser_not_supported"],
    [{ Origin: BFF_URL, "Sec-Fetch-Site": "same-site" }, "other_origin"],
    [{ Origin: BFF_URL, "Sec-Fetch-Site": "none" }, "other_origin"],
  ]) {
    const response = await fetch(`${BFF_URL}/bff/login`, { method: "POST", headers });
    assert.deepEqual([response.status, await response.json()], [403, { error }], JSON.stringify(headers));
  }
  const response = await fetch(`${BFF_URL}/bff/session`, { headers: { "Sec-Fetch-Site": "same-origin" } });
  assert.equal(response.status, 401);
});

test("a target that is a whole URL is refused, also if it would change the host of the service", BOUND, async () => {
  await logIn();
  await sees("Logged in.");
  const [{ name, value }] = await context.cookies();
  const { port } = new URL(BFF_URL);
  for (const path of ["a://.evil.test/api/orders", `${BFF_URL}/api/orders`]) {
    const headers = { Cookie: `${name}=${value}`, "Sec-Fetch-Site": "same-origin" };
    const [response] = await once(send({ host: "127.0.0.1", port, path, headers }).end(), "response");
    response.resume();
    assert.equal(response.statusCode, 400, path);
  }
  assert.deepEqual(served, []);
});
