// An access token: decoded, verified, and with a countdown by the namespace's clock.

import { call } from "./api.js";
import { byId, copy, el, facts, onSubmit } from "./page.js";
import { now, onTick, readable, span } from "./time.js";

const TIMES = new Set(["exp", "iat", "nbf", "auth_time"]);

let token = null;

/** Inspects a token; `lifetime` in seconds, if known. */
export async function inspect(text, lifetime = null) {
  const inspection = await call("POST", "/mock/v1/tokens/inspect", { body: { token: text }, quiet: lifetime !== null });
  const { exp, iat } = inspection.claims;
  const since = isTime(iat) ? iat : now() / 1000;
  token = isTime(exp) ? { text, exp, lifetime: lifetime ?? exp - since, valid: inspection.valid, asking: false } : null;
  byId("token-verdict").textContent = inspection.valid
    ? "Verified: signed by this gateway, and valid now."
    : "Not valid. A service would refuse it:";
  byId("token-verdict").className = inspection.valid ? "good" : "bad";
  byId("token-problems").replaceChildren(...inspection.problems.map((problem) => el("li", {}, problem)));
  byId("token-life").hidden = token === null;
  facts(byId("token-header"), Object.entries(inspection.header).map(([name, value]) => [name, written(value)]));
  facts(byId("token-claims"), Object.entries(inspection.claims).map(claim));
  byId("token").hidden = false;
  tick();
}

const written = (value) => (typeof value === "string" ? value : JSON.stringify(value));

/** Whether it is a number of seconds that a date can have. */
const isTime = (value) => typeof value === "number" && Math.abs(value) < 8e12;

const claim = ([name, value]) => [name, TIMES.has(name) && isTime(value) ? `${value} = ${readable(value * 1000)}` : written(value)];

/** Clears the last token. */
export function clearToken() {
  token = null;
  byId("token").hidden = true;
  byId("inspect").reset();
  byId("make-result").textContent = "";
  byId("inspect-result").textContent = "";
}

function tick() {
  if (!token) return;
  const left = token.exp - now() / 1000;
  byId("token-left").textContent = left > 0 ? span(left) : `none, it expired ${span(left)} ago`;
  const bar = byId("token-life-bar");
  bar.max = Math.max(token.lifetime, 1);
  bar.value = Math.max(left, 0);
  // The result changes with the time: inspect again then.
  if (token.valid && left <= 0 && !token.asking) {
    token.asking = true;
    inspect(token.text, token.lifetime).catch(() => {});
  }
}

export function start() {
  const result = byId("inspect-result");
  onSubmit(byId("inspect"), result, async ({ token: text }) => {
    byId("token").hidden = true;
    token = null;
    await inspect(text.trim());
  });
  byId("inspect-copy").addEventListener("click", () => copy(byId("inspect-token").value, result));
  onSubmit(byId("make"), byId("make-result"), async ({ claims }) => {
    const { access_token } = await call("POST", "/mock/v1/tokens", { body: `{"claims": ${claims}}` });
    byId("inspect-token").value = access_token;
    await inspect(access_token);
    return "The token is above.";
  });
  onTick(tick);
}
