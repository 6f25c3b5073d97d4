// DNS rebinding: a page of a foreign name whose address became that of this machine. Its requests are same-origin for
// the browser; only `Host` tells them from those of the mock's own page.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { chromium } from "playwright-core";
import { ARGUMENTS } from "./fixture.js";

const { CHROMIUM, CONSOLE_URL, WIRE_URL } = process.env;
const NAME = "evil.test";
const EMAIL = "alice@example.test";

let browser;

after(() => browser?.close());

/** A page of this origin, which asks for itself what `calls` names. Returns the status of each answer; 0: none to read. */
async function asks(origin, calls) {
  browser ??= await chromium.launch({
    executablePath: CHROMIUM, args: [...ARGUMENTS, `--host-resolver-rules=MAP ${NAME} 127.0.0.1`],
  });
  const page = await browser.newPage();
  try {
    // Any document of that origin: Chromium knows what came from this machine, and asks nobody before it calls it again.
    await page.goto(`${origin}/health/live`);
    return await page.evaluate(async (calls) => {
      const statuses = [];
      for (const { method, path, headers, body } of calls) {
        const answer = await fetch(path, { method, headers, body: body && JSON.stringify(body) }).catch(() => null);
        statuses.push(answer?.status ?? 0);
      }
      return statuses;
    }, calls);
  } finally {
    await page.close();
  }
}

/** Calls that a rebound page would make, in a namespace of the test's own. */
function attack(namespace) {
  const headers = { "Content-Type": "application/json", "Mock-Namespace": namespace };
  const call = (method, path, body) => ({ method, path, headers: body ? headers : { "Mock-Namespace": namespace }, body });
  return [
    call("PATCH", `/mock/v1/users/${EMAIL}`, { password: "chosen-by-the-page" }),
    call("GET", "/mock/v1/users"),
    call("GET", "/mock/"),
  ];
}

const minting = (namespace) => [
  ["/mock/v1/tokens", { claims: { sub: EMAIL } }],
  ["/api/v1/auth/login", { email: EMAIL, password: "alice-pass" }],
].map(([path, body]) => ({
  method: "POST", path, body, headers: { "Content-Type": "application/json", "Mock-Namespace": namespace },
}));

const named = (url) => url.replace("127.0.0.1", NAME);

async function statusOfLogin(namespace, password) {
  const answer = await fetch(`${CONSOLE_URL}/api/v1/auth/login`, {
    method: "POST",
    headers: { "Content-Type": "application/json", "Mock-Namespace": namespace },
    body: JSON.stringify({ email: EMAIL, password }),
  });
  return answer.status;
}

test("a page of another name neither changes a password nor gets a token", { timeout: 60_000 }, async () => {
  const namespace = `rebinding-${process.pid}`;
  const calls = [...attack(namespace), ...minting(namespace)];
  assert.deepEqual(await asks(named(CONSOLE_URL), calls), calls.map(() => 403));
  assert.equal(await statusOfLogin(namespace, "alice-pass"), 200);
  assert.equal(await statusOfLogin(namespace, "chosen-by-the-page"), 401);
});

test("a page of another name controls no mock-iam", { timeout: 60_000 }, async () => {
  const calls = attack(`rebinding-${process.pid}`);
  assert.deepEqual(await asks(named(WIRE_URL), calls), calls.map(() => 403));
});

test("a page of this machine's own name may do all of this", { timeout: 60_000 }, async () => {
  for (const host of ["127.0.0.1", "localhost"]) {
    const namespace = `rebinding-${process.pid}-${host}`;
    const [minted, login] = minting(namespace);
    const calls = [minted, login, ...attack(namespace)];
    assert.deepEqual(await asks(CONSOLE_URL.replace("127.0.0.1", host), calls), [201, 200, 200, 200, 200], host);
  }
});
