// DNS rebinding: a page with a foreign host name that resolves to this machine. Its requests are same-origin for the
// browser; only `Host` distinguishes them from those of the console.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { chromium } from "playwright-core";
import { ARGUMENTS } from "./fixture.js";

const { CHROMIUM, CONSOLE_URL, WIRE_URL } = process.env;
const NAME = "evil.test";
const EMAIL = "alice@example.test";

let browser;

after(() => browser?.close());

/** Opens a page of this origin that makes the calls. Returns the status of each response; 0: not readable. */
async function statusesFrom(origin, calls) {
  browser ??= await chromium.launch({
    executablePath: CHROMIUM, args: [...ARGUMENTS, `--host-resolver-rules=MAP ${NAME} 127.0.0.1`],
  });
  const page = await browser.newPage();
  try {
    // Any document of that origin. Chromium needs no permission for requests to the machine that served the page.
    await page.goto(`${origin}/health/live`);
    return await page.evaluate(async (calls) => {
      const statuses = [];
      for (const { method, path, headers, body } of calls) {
        const response = await fetch(path, { method, headers, body: body && JSON.stringify(body) }).catch(() => null);
        statuses.push(response?.status ?? 0);
      }
      return statuses;
    }, calls);
  } finally {
    await page.close();
  }
}

/** Calls that a page would make after rebinding, in a namespace of the test. */
function attack(namespace) {
  const headers = { "Content-Type": "application/json", "Mock-Namespace": namespace };
  const call = (method, path, body) => ({ method, path, headers: body ? headers : { "Mock-Namespace": namespace }, body });
  return [
    call("PATCH", `/mock/v1/users/${EMAIL}`, { password: "chosen-by-the-page" }),
    call("GET", "/mock/v1/users"),
    call("GET", "/mock/"),
  ];
}

const issuing = (namespace) => [
  ["/mock/v1/tokens", { claims: { sub: EMAIL } }],
  ["/api/v1/auth/login", { email: EMAIL, password: "alice-pass" }],
].map(([path, body]) => ({
  method: "POST", path, body, headers: { "Content-Type": "application/json", "Mock-Namespace": namespace },
}));

const named = (url) => url.replace("127.0.0.1", NAME);

async function statusOfLogin(namespace, password) {
  const response = await fetch(`${CONSOLE_URL}/api/v1/auth/login`, {
    method: "POST",
    headers: { "Content-Type": "application/json", "Mock-Namespace": namespace },
    body: JSON.stringify({ email: EMAIL, password }),
  });
  return response.status;
}

test("a page with another host name changes no password and gets no token", { timeout: 60_000 }, async () => {
  const namespace = `rebinding-${process.pid}`;
  const calls = [...attack(namespace), ...issuing(namespace)];
  assert.deepEqual(await statusesFrom(named(CONSOLE_URL), calls), calls.map(() => 403));
  assert.equal(await statusOfLogin(namespace, "alice-pass"), 200);
  assert.equal(await statusOfLogin(namespace, "chosen-by-the-page"), 401);
});

test("a page with another host name cannot control mock-iam", { timeout: 60_000 }, async () => {
  const calls = attack(`rebinding-${process.pid}`);
  assert.deepEqual(await statusesFrom(named(WIRE_URL), calls), calls.map(() => 403));
});

test("a page with a host name of this machine may make all calls", { timeout: 60_000 }, async () => {
  for (const host of ["127.0.0.1", "localhost"]) {
    const namespace = `rebinding-${process.pid}-${host}`;
    const [issued, login] = issuing(namespace);
    const calls = [issued, login, ...attack(namespace)];
    assert.deepEqual(await statusesFrom(CONSOLE_URL.replace("127.0.0.1", host), calls), [201, 200, 200, 200, 200], host);
  }
});
