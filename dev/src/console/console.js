// Starts all parts of the page and refreshes them.

import { call } from "./api.js";
import { byId, onRefresh, refresh } from "./page.js";
import * as faults from "./faults.js";
import * as journal from "./journal.js";
import * as requests from "./requests.js";
import * as sessions from "./sessions.js";
import * as state from "./state.js";
import * as tabs from "./tabs.js";
import * as time from "./time.js";
import * as token from "./token.js";
import * as trial from "./trial.js";
import * as users from "./users.js";

// Tests change data while the page is open.
const REFRESH_INTERVAL = 3000;
const THEME = "mock-console-theme";

/** Hides the parts that `mock-iam` does not have: it has no gateway. */
async function status() {
  const { adapter, calls } = await call("GET", "/mock/v1/status", { quiet: true });
  const wire = adapter === "mock-iam";
  document.querySelectorAll("[data-gateway]").forEach((part) => (part.hidden = wire));
  faults.overTheWire(wire);
  tabs.show();
  journal.cleared(calls);
}

async function keepUp() {
  try {
    if (!document.hidden) await refresh();
    byId("connection").textContent = "";
  } catch (error) {
    if (error.name !== "AbortError") byId("connection").textContent = `Not up to date: ${error.message}`;
  }
  setTimeout(keepUp, REFRESH_INTERVAL);
}

function theme() {
  const select = byId("theme");
  select.value = localStorage.getItem(THEME) ?? "";
  const apply = () => (document.documentElement.dataset.theme = select.value);
  select.addEventListener("change", () => {
    localStorage.setItem(THEME, select.value);
    apply();
  });
  apply();
}

theme();
onRefresh(status);
for (const part of [tabs, time, users, trial, token, sessions, faults, state, requests, journal]) part.start();
keepUp();
