// Speaks to the control API and to the API itself, both of this origin, in the chosen namespace.

export const DEFAULT = "default";
const REMEMBERED = 10;

/** What was refused, in the API's own words; or why there is no answer. */
export class Refused extends Error {
  constructor(message, status = null) {
    super(message);
    this.status = status;
  }
}

const asked = new URLSearchParams(location.search).get("namespace") ?? DEFAULT;
let current = /^[A-Za-z0-9._-]{1,64}$/.test(asked) ? asked : DEFAULT;
let staying = new AbortController();
let requests = [];
let tell = () => {};

export const namespace = () => current;

/** From now on everything is of this namespace; what was asked of another is given up. */
export function choose(name) {
  staying.abort();
  staying = new AbortController();
  current = name;
  const query = name === DEFAULT ? "" : `?namespace=${encodeURIComponent(name)}`;
  history.replaceState(null, "", location.pathname + query + location.hash);
}

/** Calls `listener` with the last requests that a person caused, newest first. */
export function onRequest(listener) {
  tell = listener;
}

/**
 * One call. `quiet` ones are the page's own, and not shown.
 * Returns the answer, or null where it is empty; throws Refused, or an AbortError where nobody waits any more.
 */
export async function call(method, path, { body, type = "application/json", quiet = false, signal } = {}) {
  const headers = {};
  if (current !== DEFAULT) headers["Mock-Namespace"] = current;
  if (body !== undefined) headers["Content-Type"] = type;
  const text = body === undefined || typeof body === "string" ? body : JSON.stringify(body);
  const request = { method, url: new URL(path, location.origin).href, headers, body: text };
  const began = performance.now();
  let response;
  let answer;
  try {
    response = await fetch(path, {
      method,
      headers,
      body: text,
      cache: "no-store",
      redirect: "error",
      signal: signal ? AbortSignal.any([signal, staying.signal]) : staying.signal,
    });
    answer = await response.text();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused("there is no answer. Is the gateway still running?");
  }
  if (!quiet) {
    const took = Math.round(performance.now() - began);
    requests = [{ ...request, status: response.status, answer, took, at: began }, ...requests].slice(0, REMEMBERED);
    tell(requests);
  }
  const read = parsed(answer);
  if (!response.ok) throw new Refused(words(read, response.status), response.status);
  return read;
}

function parsed(text) {
  try {
    return text === "" ? null : JSON.parse(text);
  } catch {
    return null;
  }
}

function words(read, status) {
  if (typeof read?.error !== "string") return `status ${status}, without a reason`;
  const request = read.request_id ? `, request ${read.request_id}` : "";
  return `${read.error_description ?? "no description"} (${status} ${read.error}${request})`;
}

/** The command for a shell that makes the same request. */
export function curl({ method, url, headers, body }) {
  const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  const parts = ["curl -sS"];
  if (method !== "GET" && !(method === "POST" && body !== undefined)) parts.push(`-X ${method}`);
  parts.push(quoted(url));
  for (const [name, value] of Object.entries(headers)) parts.push(`-H ${quoted(`${name}: ${value}`)}`);
  if (body !== undefined) parts.push(`--data-raw ${quoted(body)}`);
  return parts.join(" \\\n  ");
}

/** A query of those members that are not empty, with its question mark. */
export function query(members) {
  const kept = Object.entries(members).filter(([, value]) => value !== "" && value != null);
  return kept.length ? `?${new URLSearchParams(kept)}` : "";
}
