// Accessibility: keyboard only, light and dark, wide and narrow screens.

import assert from "node:assert/strict";
import { onThePage } from "./fixture.js";
import { contrasts, cutOff, unnamed } from "./accessibility.js";

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

  await tabTo(page, "[aria-label='Delete alice@example.test']");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Cancel");
  await page.keyboard.press("Escape");
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute("aria-label")), "Delete alice@example.test");
  assert.equal((await api("GET", "/mock/v1/users")).users.length, 2);
  await tabTo(page, "#fault-operation");
  await page.keyboard.press("ArrowDown");
  await tabTo(page, "#fault-times");
  await page.keyboard.press("Enter");
  await sees("#faults-list", "introspection: connection refused");
});

onThePage("the focus does not move when the page updates", {}, async ({ page, api, sees }) => {
  await page.getByRole("button", { name: "Change bob@example.test" }).focus();
  await api("PATCH", "/mock/v1/users/bob%40example.test", { state: "disabled" });
  await sees("#users-list", "disabled");
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute("aria-label")), "Change bob@example.test");
  await api("DELETE", "/mock/v1/users/bob%40example.test");
  await sees("#users-title", "Users (1)");
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute("aria-label")), "Change alice@example.test");
});

for (const scheme of ["light", "dark"]) {
  for (const width of [360, 768, 1440]) {
    onThePage(`all text is legible and not cut off: ${scheme}, ${width} pixels`, { scheme, width }, async ({ page, api, logIn, press, sees, shot }) => {
      await shot(`empty-${scheme}-${width}`);
      await api("POST", "/mock/v1/users", {
        email: "a.rather.long.email.address@a-rather-long-domain.example.test",
        password: "long-pass",
        permissions: ["urn:application:module:a-resource-of-some-length:an-action-of-some-length"],
        state: "locked",
      });
      await api("POST", "/mock/v1/faults", { operation: "logout", delay: { uniform: ["1ms", "2ms"] }, answer: { throttled: { retry_after: "3s" } }, times: 2 });
      await api("POST", "/mock/v1/snapshots");
      await logIn("alice@example.test", "alice-pass");
      await page.fill("#exchange-others", "urn:shop:catalog:item:read");
      await press("trial", "Exchange");
      await sees("#token-verdict", "Verified");
      await press("time", "+ 8 hours");
      await sees("#token-verdict", "Not valid");
      await sees("#users-title", "Users (3)");
      await sees("#faults-title", "Faults (1)");
      await page.locator("#requests-list summary").first().click();
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.equal(wide, 0, "the page scrolls sideways");
      assert.deepEqual(await page.evaluate(cutOff), []);
      assert.deepEqual(await page.evaluate(contrasts), []);
      assert.deepEqual(await page.evaluate(unnamed), []);
      await shot(`full-${scheme}-${width}`);
      // A long and narrow page gets one screenshot for each part.
      for (const part of width === 360 ? await page.locator("header, section").all() : []) {
        await part.screenshot({ path: `${process.env.SHOTS}/${(await part.getAttribute("id")) ?? "header"}-${scheme}-${width}.png` });
      }
      await press("users", "Add a user…");
      assert.deepEqual(await page.evaluate(contrasts), []);
      assert.deepEqual(await page.evaluate(unnamed), []);
      await page.screenshot({ path: `${process.env.SHOTS}/dialog-${scheme}-${width}.png` });
    });
  }
}

onThePage("the selected theme is kept after a reload", {}, async ({ page }) => {
  const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await background();
  await page.selectOption("#theme", "dark");
  const dark = await background();
  assert.notEqual(dark, light);
  await page.reload();
  assert.equal(await background(), dark);
  await page.selectOption("#theme", "");
  assert.equal(await background(), light);
});
