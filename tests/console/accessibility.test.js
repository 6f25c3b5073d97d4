// Accessibility: keyboard only; every tab in light and dark, on wide and narrow screens, by axe and by own checks.

import assert from "node:assert/strict";
import axe from "axe-core";
import { onThePage } from "./fixture.js";
import { contrasts, cutOff, unnamed } from "./accessibility.js";

const TABS = ["journal", "trial", "users", "sessions", "faults", "time", "state", "requests"];

/** Presses Tab until this element has the focus, which must be visible. */
async function tabTo(page, selector) {
  for (let pressed = 0; pressed < 120; pressed += 1) {
    await page.keyboard.press("Tab");
    const visible = await page.evaluate((wanted) => {
      const focused = document.activeElement;
      if (!focused.matches(wanted)) return null;
      const { outlineStyle, outlineWidth } = getComputedStyle(focused);
      return outlineStyle !== "none" && parseFloat(outlineWidth) >= 2;
    }, selector);
    if (visible === true) return;
    assert.notEqual(visible, false, `${selector} has the focus without a visible outline`);
  }
  assert.fail(`${selector} cannot be reached by Tab`);
}

onThePage("login, exchange and logout need only the keyboard", {}, async ({ page, sees, api }) => {
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to the content");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  const tab = async (id) => {
    await tabTo(page, `nav a[href="#${id}"]`);
    await page.keyboard.press("Enter");
  };
  await tab("trial");
  await tabTo(page, "#login-users button");
  await page.keyboard.press("Enter");
  await sees("#login-result", "is logged in.");
  await tabTo(page, "#exchange-permissions input");
  await page.keyboard.press("Space");
  await tabTo(page, "#exchange-others");
  await page.keyboard.type("urn:shop:catalog:item:read");
  await page.keyboard.press("Enter");
  await sees("#exchange-result", "A token for: urn:shop:orders:order:write");
  await sees("#token-verdict", "Verified");
  await tabTo(page, "#logout");
  await page.keyboard.press("Enter");
  await sees("#login-result", "Logged out");
  assert.equal(await page.evaluate(() => document.activeElement.id), "login-email");

  await tab("users");
  await tabTo(page, "[aria-label='Delete alice@example.test']");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Cancel");
  await page.keyboard.press("Escape");
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute("aria-label")), "Delete alice@example.test");
  assert.equal((await api("GET", "/mock/v1/users")).users.length, 2);
  await tab("faults");
  await tabTo(page, "#fault-operation");
  await page.keyboard.press("ArrowDown");
  await tabTo(page, "#fault-times");
  await page.keyboard.press("Enter");
  await sees("#faults-list", "introspection: connection refused");
});

onThePage("the focus does not move when the page updates", {}, async ({ page, api, sees, open }) => {
  await open("users");
  await page.getByRole("button", { name: "Change bob@example.test" }).focus();
  await api("PATCH", "/mock/v1/users/bob%40example.test", { state: "disabled" });
  await sees("#users-list", "disabled");
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute("aria-label")), "Change bob@example.test");
  await api("DELETE", "/mock/v1/users/bob%40example.test");
  await sees("#users-title", "Users (1)");
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute("aria-label")), "Change alice@example.test");
});

/** What axe, the contrasts, the names and the widths of the visible page have against it. */
async function problems(page) {
  if (!(await page.evaluate(() => "axe" in globalThis))) await page.evaluate(axe.source);
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  const found = violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" ")}`);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  if (wide > 0) found.push(`the page is ${wide} pixels too wide`);
  for (const check of [cutOff, contrasts, unnamed]) found.push(...await page.evaluate(check));
  return found;
}

for (const scheme of ["light", "dark"]) {
  for (const width of [400, 800, 1400]) {
    onThePage(`every tab is legible, not cut off, and without a problem for axe: ${scheme}, ${width} pixels`, { scheme, width }, async ({ page, api, logIn, press, sees, shot, fill, open }) => {
      const check = async (what) => {
        await shot(`${what}-${scheme}-${width}`);
        assert.deepEqual(await problems(page), [], what);
      };
      for (const tab of width === 400 ? TABS : []) {
        await open(tab);
        await check(`empty-${tab}`);
      }
      await api("POST", "/mock/v1/users", {
        email: "a.rather.long.email.address@a-rather-long-domain.example.test",
        password: "long-pass",
        permissions: ["urn:application:module:a-resource-of-some-length:an-action-of-some-length"],
        state: "locked",
      });
      await api("POST", "/mock/v1/faults", { operation: "logout", delay: { uniform: ["1ms", "2ms"] }, answer: { throttled: { retry_after: "3s" } }, times: 2 });
      await api("POST", "/mock/v1/snapshots");
      await logIn("alice@example.test", "alice-pass");
      await fill("#exchange-others", "urn:shop:catalog:item:read");
      await press("trial", "Exchange");
      await sees("#token-verdict", "Verified");
      await press("time", "+ 8 hours");
      await sees("#token-verdict", "Not valid");
      await sees("#users-title", "Users (3)");
      await sees("#faults-title", "Faults (1)");
      await open("requests");
      await page.locator("#requests-list summary").first().click();
      for (const tab of TABS) {
        await open(tab);
        // At most three screens of a phone.
        const height = await page.evaluate(() => document.documentElement.scrollHeight);
        assert.ok(height < 2700, `${tab} is ${height} pixels high`);
        await check(tab);
      }
      await press("users", "Add a user…");
      await check("dialog");
    });
  }
}

onThePage("a link leads to a tab, and the browser goes back to the one before", {}, async ({ page, namespace, section, open }) => {
  assert.ok(await section("journal").isVisible(), "the journal is first");
  await open("users");
  assert.equal(new URL(page.url()).hash, "#users");
  await open("time");
  assert.ok(!(await section("users").isVisible()));
  assert.ok(await section("journal").isVisible(), "a wide page has the journal beside each tab");
  await page.goBack();
  await section("users").waitFor();
  await page.setViewportSize({ width: 400, height: 900 });
  assert.ok(!(await section("journal").isVisible()), "a narrow page has one at a time");
  await page.goto(`/mock/?namespace=${namespace}#state`);
  await page.reload();
  await section("state").waitFor();
  assert.equal(await page.locator("nav [aria-current]").innerText(), "State");
  await page.goto(`/mock/?namespace=${namespace}#unknown`);
  await section("journal").waitFor();
});

onThePage("the selected theme is kept after a reload", {}, async ({ page, select }) => {
  const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await background();
  await select("#theme", "dark");
  const dark = await background();
  assert.notEqual(dark, light);
  await page.reload();
  assert.equal(await background(), dark);
  await select("#theme", "");
  assert.equal(await background(), light);
});
