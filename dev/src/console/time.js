// The clock of the namespace: display, changes, and countdowns.

import { call } from "./api.js";
import { byId, el, onClick, onRefresh, onSubmit, refresh } from "./page.js";

const STEPS = [["1m", "1 minute"], ["1h", "1 hour"], ["8h", "8 hours"], ["1d", "1 day"]];
const TIME = "/mock/v1/time";

// The namespace's time minus the page's monotonic clock, in milliseconds.
let ahead = Date.now() - performance.now();
let offset = 0;
const tickers = [];

/** The namespace's time in milliseconds since 1970. */
export const now = () => performance.now() + ahead;

/** Calls `work` every second and when the clock changes. */
export const onTick = (work) => tickers.push(work);

export const readable = (milliseconds) =>
  new Date(milliseconds).toISOString().replace("T", " ").replace(/\.\d+Z$/, " UTC");

/** A duration in its two largest units: "1 h 59 min". */
export function span(seconds) {
  const whole = Math.abs(Math.trunc(seconds));
  const units = [["d", 86_400], ["h", 3600], ["min", 60], ["s", 1]];
  const first = units.findIndex(([, size]) => whole >= size);
  if (first < 0) return "0 s";
  const parts = units.slice(first, first + 2).map(([unit, size], at) => {
    const larger = at === 0 ? Infinity : units[first][1];
    return [Math.floor((whole % larger) / size), unit];
  });
  return parts.filter(([amount], at) => at === 0 || amount > 0).map((part) => part.join(" ")).join(" ");
}

/** An element that counts down to a time. */
export function countdown(until) {
  const made = el("time", { datetime: until, "data-until": Date.parse(until) });
  showLeft(made);
  return made;
}

function showLeft(element) {
  const left = (Number(element.dataset.until) - now()) / 1000;
  element.textContent = left > 0 ? `in ${span(left)}` : `${span(left)} ago`;
}

/** Takes the time of an API response. */
function set(time) {
  ahead = Date.parse(time.now) - performance.now();
  offset = time.offset_seconds;
  tick();
}

function tick() {
  const shown = readable(now());
  for (const id of ["clock", "time-now"]) byId(id).textContent = shown;
  // The two clocks were not read at the same moment.
  const whole = Math.round(offset);
  const real = whole === 0;
  byId("clock-offset").textContent = real ? "" : `(${whole > 0 ? "+" : "−"}${span(whole)})`;
  byId("time-offset").textContent = real ? "Real time." : `${span(whole)} ${whole > 0 ? "ahead of" : "behind"} real time.`;
  document.querySelectorAll("[data-until]").forEach(showLeft);
  tickers.forEach((work) => work());
}

async function move(method, path, body) {
  const time = await call(method, path, { body });
  set(time);
  await refresh();
  return `It is ${readable(Date.parse(time.now))}.`;
}

export function start() {
  const result = byId("time-result");
  for (const [by, label] of STEPS) {
    const id = `time-${by}`;
    byId("time-steps").append(el("button", { type: "button", id }, `+ ${label}`));
    onClick(id, result, () => move("POST", `${TIME}/advance`, { by }));
  }
  onSubmit(byId("time-advance"), result, ({ by }) => move("POST", `${TIME}/advance`, { by: by.trim() }));
  onSubmit(byId("time-set"), result, ({ to }) => move("PUT", TIME, { now: new Date(`${to}Z`).toISOString() }));
  onClick("time-real", result, () => move("DELETE", TIME));
  onRefresh(async () => set(await call("GET", TIME, { quiet: true })));
  setInterval(tick, 1000);
}
