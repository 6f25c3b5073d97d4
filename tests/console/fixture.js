// One browser for all tests; each test gets a new page in a new namespace.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { chromium } from "playwright-core";

export const ARGUMENTS = [
  "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync",
];
const { CHROMIUM, CONSOLE_URL, SHOTS } = process.env;
const TEST_BOUND = 60_000;
const STEP_BOUND = 15_000;

let browser;
let namespaces = 0;

after(() => browser?.close());

async function launchedBrowser() {
  browser ??= await chromium.launch({ executablePath: CHROMIUM, args: ARGUMENTS });
  return browser;
}

/** Calls the control API directly, as a test client would. */
function apiClient(base, namespace) {
  return async (method, path, body) => {
    const headers = { "Mock-Namespace": namespace };
    if (body !== undefined) headers["Content-Type"] = "application/json";
    const response = await fetch(base + path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
    const text = await response.text();
    assert.ok(response.ok, `${method} ${path}: ${response.status} ${text}`);
    return text === "" ? null : JSON.parse(text);
  };
}

/**
 * A test with the page open. `expected` matches console errors that the test causes: a browser reports each refused request.
 * The test fails on a request to another origin and on any other error.
 */
export function onThePage(name, { base = CONSOLE_URL, scheme = "light", width = 1280, expected = /^$/ } = {}, act) {
  test(name, { timeout: TEST_BOUND }, async () => {
    const namespace = `console-${process.pid}-${(namespaces += 1)}`;
    const context = await (await launchedBrowser()).newContext({
      baseURL: base, colorScheme: scheme, viewport: { width, height: 900 }, reducedMotion: "reduce",
    });
    context.setDefaultTimeout(STEP_BOUND);
    const problems = [];
    context.on("request", (request) => {
      const { origin, protocol } = new URL(request.url());
      if (origin !== new URL(base).origin && protocol !== "data:") problems.push(`request to ${request.url()}`);
    });
    const page = await context.newPage();
    page.on("pageerror", (error) => problems.push(`page error: ${error.message} ${error.stack}`));
    page.on("console", (message) => {
      const text = message.text();
      if (["error", "warning"].includes(message.type()) && !expected.test(text)) problems.push(`console: ${text}`);
    });
    page.on("dialog", (dialog) => {
      problems.push(`dialog: ${dialog.message()}`);
      dialog.dismiss();
    });
    const shot = (what) => page.screenshot({ path: `${SHOTS}/${what}.png`, fullPage: true });
    try {
      await page.goto(`/mock/?namespace=${namespace}`);
      await page.locator("#users-title", { hasText: "(" }).waitFor({ state: "attached" });
      await act({ page, context, namespace, api: apiClient(base, namespace), shot, ...actions(page) });
      assert.deepEqual(problems, []);
    } catch (error) {
      await shot(`failed-${name.replaceAll(/[^a-z0-9]+/gi, "-")}`);
      throw problems.length ? new Error(problems.join("\n"), { cause: error }) : error;
    } finally {
      await context.close();
      await fetch(`${base}/mock/v1/namespaces/${namespace}`, { method: "DELETE" });
    }
  });
}

/** Actions and checks on the page. Each opens the tab of what it needs, as a user would. */
function actions(page) {
  const section = (id) => page.locator(`section#${id}`);
  const open = async (id) => {
    if (await section(id).isVisible()) return;
    await page.locator(`nav a[href="#${id}"]`).click();
    await section(id).waitFor();
  };
  const openTabOf = async (place) => {
    const id = await page.locator(place.split(" ")[0]).first().evaluate((element) => element.closest("main > section")?.id);
    if (id) await open(id);
  };
  return {
    section,
    open,
    /** Waits until the element with this text is visible. */
    sees: async (place, text) => {
      await openTabOf(place);
      await page.locator(place, { hasText: text }).first().waitFor();
    },
    fill: async (place, text) => {
      await openTabOf(place);
      await page.fill(place, text);
    },
    select: async (place, value) => {
      await openTabOf(place);
      await page.selectOption(place, value);
    },
    press: async (id, name) => {
      await open(id);
      await section(id).getByRole("button", { name, exact: true }).click();
    },
    /** Presses a button of the open confirmation dialog. */
    answer: async (name) => {
      await page.locator("dialog#ask[open]").getByRole("button", { name, exact: true }).click();
      await page.locator("dialog#ask").waitFor({ state: "hidden" });
    },
    logIn: async (email, password) => {
      await open("trial");
      await page.locator("#login-email").fill(email);
      await page.locator("#login-password").fill(password);
      await section("trial").getByRole("button", { name: "Log in", exact: true }).click();
      await page.locator("#session-facts", { hasText: email }).waitFor();
    },
  };
}
