// An access token: decoded, verified, and its life running down by the namespace's clock.

import { call } from "./api.js";
import { byId, copy, el, facts, onSubmit } from "./page.js";
import { now, onTick, readable, span } from "./time.js";

const TIMES = new Set(["exp", "iat", "nbf", "auth_time"]);

let token = null;

/** Asks what is in the token and whether it is good; `lifetime` in seconds, where it is known. */
export async function inspect(text, lifetime = null) {
  const told = await call("POST", "/mock/v1/tokens/inspect", { body: { token: text }, quiet: lifetime !== null });
  const exp = told.claims.exp;
  const since = told.claims.iat ?? now() / 1000;
  token = typeof exp === "number" ? { text, exp, lifetime: lifetime ?? exp - since, valid: told.valid, asking: false } : null;
  byId("token-verdict").textContent = told.valid
    ? "Verified: signed by this gateway, and good now."
    : "Not valid. A service would refuse it:";
  byId("token-verdict").className = told.valid ? "good" : "bad";
  byId("token-problems").replaceChildren(...told.problems.map((problem) => el("li", {}, problem)));
  byId("token-life").hidden = token === null;
  facts(byId("token-header"), Object.entries(told.header).map(([name, value]) => [name, written(value)]));
  facts(byId("token-claims"), Object.entries(told.claims).map(claim));
  byId("token").hidden = false;
  tick();
}

const written = (value) => (typeof value === "string" ? value : JSON.stringify(value));

function claim([name, value]) {
  const isTime = TIMES.has(name) && typeof value === "number" && Math.abs(value) < 8e12;
  return [name, isTime ? `${value} = ${readable(value * 1000)}` : written(value)];
}

/** What is shown of the last token belongs to nobody any more. */
export function forgetToken() {
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
  // The verdict changes with the time: ask once more when it does.
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
