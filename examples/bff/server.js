// A backend for a frontend. It keeps the session and the access token of each user; the browser has a cookie.

import { randomBytes } from "node:crypto";
import { fileURLToPath } from "node:url";
import express from "express";

const {
  GATEWAY_URL = "http://localhost:8080", SERVICE_URL = "http://localhost:8081", SCOPE = "urn:shop:orders:order:read",
  PORT = "3000",
} = process.env;
const COOKIE = "__Host-session";
const COOKIE_OPTIONS = { httpOnly: true, secure: true, sameSite: "strict", path: "/" };
// An access token with less time left is exchanged again.
const MARGIN_MS = 30_000;
const TIMEOUT_MS = 10_000;
// The longest delay of setTimeout.
const TIMER_MAX_MS = 2 ** 31 - 1;

// From the id in the cookie to the session. Several processes need a store that they share.
const sessions = new Map();

/** An error response of the gateway, or 503 if there is none. */
class GatewayError extends Error {
  constructor(operation, status, code, retryAfter) {
    super(code);
    Object.assign(this, { operation, status, code, retryAfter });
  }
}

async function callGateway(operation, body, client) {
  let response, json;
  try {
    response = await fetch(`${GATEWAY_URL}/api/v1/auth/${operation}`, {
      method: "POST",
      // The gateway limits refused logins by this address. Its http.trusted_proxies has the address of this backend.
      headers: { "Content-Type": "application/json", "X-Forwarded-For": client },
      body: JSON.stringify(body),
      // A redirect would send the password or the session token elsewhere.
      redirect: "error",
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    json = await response.json();
  } catch {
    throw new GatewayError(operation, 503, "temporarily_unavailable", "5");
  }
  // A 401 without this code is not of the gateway, so it ends no session. The page takes each 401 for a logout.
  const isOther401 = response.status === 401 && json.error !== "invalid_grant";
  if (isOther401) throw new GatewayError(operation, 502, "gateway_failed");
  if (!response.ok) throw new GatewayError(operation, response.status, json.error, response.headers.get("Retry-After"));
  return json;
}

function logOut({ session_id, session_token }, client) {
  return callGateway("logout", { session_id, session_token }, client);
}

/** The access token of a session. Requests at the same time share one exchange. */
function accessToken(session, client) {
  if (session.token === undefined || Date.now() >= session.tokenEnds) {
    const { session_id, session_token } = session;
    session.tokenEnds = Infinity;
    session.token = callGateway("token", { session_id, session_token, grant_type: "session", scope: SCOPE }, client).then(
      ({ access_token, expires_in }) => {
        session.tokenEnds = Date.now() + Math.max(expires_in * 1000 - MARGIN_MS, 0);
        return access_token;
      },
      (error) => {
        session.token = undefined;
        throw error;
      },
    );
  }
  return session.token;
}

/** Refuses a target that is a whole URL, whose host would become a part of the service's address. */
function refuseAbsoluteTargets(request, response, next) {
  if (request.originalUrl.startsWith("/")) return next();
  response.status(400).json({ error: "invalid_request" });
}

/** Refuses requests that other origins cause, those of the same site included. */
function refuseOtherOrigins(request, response, next) {
  const site = request.get("Sec-Fetch-Site");
  if (site === "same-origin") return next();
  response.status(403).json({ error: site === undefined ? "browser_not_supported" : "other_origin" });
}

function findSession(request, _, next) {
  const id = /(?:^|; )__Host-session=([\w-]{43})(?:;|$)/.exec(request.get("Cookie") ?? "")?.[1];
  const session = sessions.get(id);
  if (session) Object.assign(request, { sessionId: id, session });
  next();
}

function requireSession(request, response, next) {
  if (request.session) return next();
  response.status(401).json({ error: "no_session" });
}

const app = express();
app.disable("x-powered-by");
// The proxy that terminates TLS runs on this machine; X-Forwarded-For of others is ignored.
app.set("trust proxy", "loopback");
app.use((_, response, next) => {
  response.set({
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; " +
      "form-action 'none'; frame-ancestors 'none'; base-uri 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
  });
  next();
});
app.use(express.static(fileURLToPath(new URL("page", import.meta.url))));
app.use(["/bff", "/api"], refuseAbsoluteTargets, refuseOtherOrigins, findSession, (_, response, next) => {
  response.set("Cache-Control", "no-store");
  next();
});

app.post("/bff/login", express.json({ limit: "4kb" }), async (request, response) => {
  const { email, password, otp } = request.body ?? {};
  const session = await callGateway("login", { email, password, otp }, request.ip);
  if (request.session) {
    sessions.delete(request.sessionId);
    // Without this, the earlier session ends when it expires.
    logOut(request.session, request.ip).catch((error) => console.error(`logout: ${error.message}`));
  }
  const id = randomBytes(32).toString("base64url");
  sessions.set(id, session);
  setTimeout(() => sessions.delete(id), Math.min(Date.parse(session.expires_at) - Date.now(), TIMER_MAX_MS)).unref();
  response.cookie(COOKIE, id, { ...COOKIE_OPTIONS, expires: new Date(session.expires_at) });
  response.json({ expires_at: session.expires_at });
});

app.get("/bff/session", requireSession, (request, response) => {
  response.json({ expires_at: request.session.expires_at });
});

app.post("/bff/logout", requireSession, async (request, response) => {
  // First, so that the user is logged out here also if the gateway cannot end the session. No response clears the cookie,
  // whose id is worth nothing now: a late one would clear that of a new login.
  sessions.delete(request.sessionId);
  await logOut(request.session, request.ip);
  response.json({ status: "Ok" });
});

/** Calls the service with this access token, unless the user has logged out while it was exchanged. */
async function callService(request, token) {
  const headers = { Authorization: `Bearer ${await token}`, Accept: "application/json" };
  if (!sessions.has(request.sessionId)) throw new GatewayError("token", 401, "no_session");
  if (request.get("Content-Type")) headers["Content-Type"] = request.get("Content-Type");
  const body = ["GET", "HEAD"].includes(request.method) ? undefined : request.body;
  // Relative, so that the origin is that of the service, whatever the target is.
  const url = new URL(`.${request.originalUrl.slice("/api".length)}`, `${SERVICE_URL}/`);
  return fetch(url, {
    method: request.method, headers, body, redirect: "manual", signal: AbortSignal.timeout(TIMEOUT_MS),
  });
}

// The access token never gets to the browser. The service decides what the user may do.
app.all("/api/{*path}", requireSession, express.raw({ type: () => true, limit: "100kb" }), async (request, response) => {
  const { session, ip } = request;
  const token = accessToken(session, ip);
  let answer = await callService(request, token);
  if (answer.status === 401) {
    // The key that signed the token may have been removed. A request at the same time may have a new token already.
    if (session.token === token) session.token = undefined;
    await answer.body?.cancel();
    answer = await callService(request, accessToken(session, ip));
    // The session goes on, and the page takes each 401 for a logout.
    if (answer.status === 401) throw new Error("the service refuses a new access token");
  }
  response.status(answer.status).type(answer.headers.get("Content-Type") ?? "application/octet-stream");
  response.send(Buffer.from(await answer.arrayBuffer()));
});

app.use((error, request, response, _) => {
  if (error instanceof GatewayError) {
    // The session has ended at the IAM, or an operator has revoked it.
    if (error.status === 401 && error.operation === "token") sessions.delete(request.sessionId);
    if (error.retryAfter) response.set("Retry-After", error.retryAfter);
    return response.status(error.status).json({ error: error.code });
  }
  const status = error.status >= 400 && error.status < 500 ? error.status : 502;
  response.status(status).json({ error: status === 502 ? "service_failed" : "invalid_request" });
});

app.listen(Number(PORT), "127.0.0.1", () => console.log(`http://localhost:${PORT} is ready`));
