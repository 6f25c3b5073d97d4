// Calls the control API and the API, both of this origin, in the selected namespace.

export const DEFAULT = "default";
const REQUESTS_MAX = 10;

/** An error response of the API, or no response. */
export class ApiError extends Error {
  constructor(message, status = null) {
    super(message);
    this.status = status;
  }
}

const requested = new URLSearchParams(location.search).get("namespace") ?? DEFAULT;
let current = /^[A-Za-z0-9._-]{1,64}$/.test(requested) ? requested : DEFAULT;
let aborter = new AbortController();
let requests = [];
let notify = () => {};

export const namespace = () => current;

/** Selects a namespace and aborts calls for the previous one. */
export function choose(name) {
  aborter.abort();
  aborter = new AbortController();
  current = name;
  const query = name === DEFAULT ? "" : `?namespace=${encodeURIComponent(name)}`;
  history.replaceState(null, "", location.pathname + query + location.hash);
}

/** Calls `listener` with the last requests that the user caused, newest first. */
export function onRequest(listener) {
  notify = listener;
}

/**
 * One call. `quiet` calls are the page's own and are not shown.
 * Returns the response (as text on request), or null if it is empty; throws ApiError, or AbortError if the call was aborted.
 */
export async function call(method, path, { body, type = "application/json", quiet = false, text: asText = false, signal } = {}) {
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
      signal: signal ? AbortSignal.any([signal, aborter.signal]) : aborter.signal,
    });
    answer = await response.text();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("there is no answer. Is the gateway still running?");
  }
  if (!quiet) {
    const took = Math.round(performance.now() - began);
    requests = [{ ...request, status: response.status, answer, took, at: began }, ...requests].slice(0, REQUESTS_MAX);
    notify(requests);
  }
  const read = parsed(answer);
  if (!response.ok) throw new ApiError(message(read, response.status), response.status);
  return asText ? answer : read;
}

function parsed(text) {
  try {
    return text === "" ? null : JSON.parse(text);
  } catch {
    return null;
  }
}

function message(read, status) {
  if (typeof read?.error !== "string") return `status ${status}, without a reason`;
  const request = read.request_id ? `, request ${read.request_id}` : "";
  return `${read.error_description ?? "no description"} (${status} ${read.error}${request})`;
}

/** A shell command that sends the same request. */
export function curl({ method, url, headers, body }) {
  const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  const parts = ["curl -sS"];
  if (method !== "GET" && !(method === "POST" && body !== undefined)) parts.push(`-X ${method}`);
  parts.push(quoted(url));
  for (const [name, value] of Object.entries(headers)) parts.push(`-H ${quoted(`${name}: ${value}`)}`);
  if (body !== undefined) parts.push(`--data-raw ${quoted(body)}`);
  return parts.join(" \\\n  ");
}

/** A query with the members that are not empty, including the question mark. */
export function query(members) {
  const kept = Object.entries(members).filter(([, value]) => value !== "" && value != null);
  return kept.length ? `?${new URLSearchParams(kept)}` : "";
}
