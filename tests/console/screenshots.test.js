// The screenshots of docs/testing-with-the-mock.md: `tests/console/run --write` takes them, and without it they must be there.

import assert from "node:assert/strict";
import { copyFileSync, existsSync, readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";
import { onThePage } from "./fixture.js";

const { DOCS, SHOTS, WRITE } = process.env;
// The login that a fault refuses.
const REFUSED = /Failed to load resource: the server responded with a status of 401/;
const IMAGES = `${DOCS}/images`;
const SCREENSHOTS = ["console-journal.png", "console-try.png", "console-phone.png"];

function take(name, { scheme, width, height }, prepare) {
  onThePage(`screenshot ${name}`, { scheme, width, expected: REFUSED }, async (fixture) => {
    const { page, logIn, press, sees, api } = fixture;
    await page.setViewportSize({ width, height });
    await api("POST", "/mock/v1/faults", { operation: "login", user: "bob@example.test", answer: { refused: "disabled" }, times: 1 });
    await press("trial", "bob@example.test");
    await sees("#login-result.failed", "401 invalid_grant");
    await logIn("alice@example.test", "alice-pass");
    await prepare(fixture);
    await page.evaluate(() => {
      document.activeElement.blur();
      scrollTo(0, 0);
    });
    await page.screenshot({ path: `${SHOTS}/${name}` });
    if (WRITE) copyFileSync(`${SHOTS}/${name}`, `${IMAGES}/${name}`);
  });
}

take("console-journal.png", { scheme: "light", width: 800, height: 560 }, async ({ open, sees }) => {
  await open("journal");
  await sees("#journal-list", "session_id");
});
take("console-try.png", { scheme: "light", width: 1120, height: 800 }, async ({ press, sees, fill }) => {
  await fill("#exchange-others", "urn:shop:catalog:item:read");
  await press("trial", "Exchange");
  await sees("#scope-names", "not granted");
});
take("console-phone.png", { scheme: "dark", width: 400, height: 700 }, ({ open }) => open("sessions"));

test("the documentation has these screenshots, and no others", () => {
  const page = readFileSync(`${DOCS}/testing-with-the-mock.md`, "utf8");
  const shown = [...page.matchAll(/\]\(images\/(console-[a-z-]+\.png)\)/g)].map(([, name]) => name);
  assert.deepEqual(shown, SCREENSHOTS);
  for (const name of shown) assert.ok(existsSync(`${IMAGES}/${name}`), `docs/images/${name} is missing: tests/console/run --write`);
  assert.deepEqual(readdirSync(IMAGES).filter((name) => name.startsWith("console-")).sort(), [...SCREENSHOTS].sort());
});
