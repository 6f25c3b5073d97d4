/**
 * A client of the authentication gateway. Copy this file: it needs `fetch` (Node 20 or later, or a browser) and nothing else.
 *
 *     const gateway = new AuthGateway('https://auth.example.com');
 *     const session = await gateway.logIn('alice@example.test', 'alice-pass');
 *     const token = await session.accessToken('urn:shop:orders:order:read'); // before each request to a service; it is cached
 *     await session.logOut();
 *
 * Every failure of a call is an `AuthGatewayError`.
 */

// A token is renewed after 70 to 85 % of its lifetime, at random, so that clients do not renew together. It is not used
// in the last 5 %, so that it does not expire on the way to a service.
const RENEW_AFTER = 0.7;
const RENEW_JITTER = 0.15;
const USABLE_FOR = 0.95;
// After a failed renewal, while the old token can be used.
const RENEWAL_PAUSE_SECONDS = 5;
// Before repetition n: half of BACKOFF_SECONDS * 2 ** n to all of it, in addition to `Retry-After`.
const BACKOFF_SECONDS = 0.25;
const BACKOFF_MAX_SECONDS = 4;

/** The gateway's log has the `requestId`. */
export class AuthGatewayError extends Error {
  constructor(message: string, readonly requestId?: string) {
    super(requestId === undefined ? message : `${message} (request ${requestId})`);
    this.name = new.target.name;
  }
}

/** The login was refused: ask the user again. */
export class InvalidCredentials extends AuthGatewayError {}

/** The session has ended: the user must log in again. */
export class SessionOver extends AuthGatewayError {}

/** The gateway or its IAM has a fault that a repetition does not remove: report it with the `requestId`. */
export class GatewayFault extends AuthGatewayError {}

/** The program or its configuration is wrong: a repetition is useless. */
export class RequestRefused extends AuthGatewayError {
  constructor(readonly status: number, readonly error?: string, description?: string, requestId?: string) {
    super(`status ${status}, ${error ?? 'not of the gateway'}: ${description}`, requestId);
  }
}

/** All repetitions failed, or the call may not be repeated: try later, after `retryAfter` seconds if it is known. */
export class Unavailable extends AuthGatewayError {
  constructor(message: string, readonly risk: number, readonly retryAfter?: number, requestId?: string) {
    super(message, requestId);
  }
}

/** Whether a failed call may have had an effect. A call is repeated up to the risk that it can take. */
const Risk = {
  /** It was not processed. */
  NONE: 1,
  /** Perhaps; the gateway says that it may be repeated. */
  ACCEPTED: 2,
  /** Perhaps; the gateway did not respond. */
  UNKNOWN: 3,
};
// A one-time password is used up once it reached the IAM. Exchanges and logouts have the same effect when repeated.
const LOGIN_RISK = Risk.ACCEPTED;
const OTP_LOGIN_RISK = Risk.NONE;
const IDEMPOTENT_RISK = Risk.UNKNOWN;
const NEVER = 0;

export interface Options {
  /** Bounds each request. */
  attemptSeconds?: number;
  /** Bounds a call with all repetitions. */
  deadlineSeconds?: number;
  /** For tests. */
  timing?: Timing;
}

export interface Timing {
  /** The time in seconds, from any origin. */
  now(): number;
  sleep(seconds: number): Promise<void>;
  /** A number from 0 to 1. */
  random(): number;
}

const TIMING: Timing = {
  now: () => performance.now() / 1000,
  sleep: (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000)),
  random: Math.random,
};

/** Private members are in no output of `console.log` or `JSON.stringify`. */
export class AccessToken {
  readonly #value: string;
  /** What was granted, which can be less than what was requested. */
  readonly scope: string;

  constructor(value: string, scope: string) {
    this.#value = value;
    this.scope = scope;
  }

  get value(): string {
    return this.#value;
  }
}

export class AuthGateway {
  readonly #calls: Calls;

  constructor(readonly url: string, options: Options = {}) {
    this.#calls = new Calls(url, options);
  }

  /** A server passes the user's address, by which the gateway limits logins. */
  async logIn(email: string, password: string, otp?: string, clientAddress?: string): Promise<Session> {
    const credentials = otp ? { email, password, otp } : { email, password };
    const headers: Headers = clientAddress ? { 'X-Forwarded-For': clientAddress } : {};
    const content = await this.#calls.call('login', credentials, otp ? OTP_LOGIN_RISK : LOGIN_RISK, { headers });
    const [sessionId, sessionToken, expiresAt] = texts(content, 'session_id', 'session_token', 'expires_at');
    return new Session(this.#calls, sessionId!, sessionToken!, expiresAt);
  }

  /** A session that was stored. */
  resume(sessionId: string, sessionToken: string, expiresAt?: string): Session {
    return new Session(this.#calls, sessionId, sessionToken, expiresAt);
  }
}

interface Cached {
  token: AccessToken;
  renewAt: number;
  usableUntil: number;
}

/** Store `sessionId` and `sessionToken` to continue with `resume`. The token is a secret like a password. */
export class Session {
  readonly #calls: Calls;
  readonly #sessionToken: string;
  #over = false;
  readonly #tokens = new Map<string, Cached>();
  /** Those in progress. */
  readonly #exchanges = new Map<string, Promise<AccessToken>>();

  constructor(calls: Calls, readonly sessionId: string, sessionToken: string, readonly expiresAt?: string) {
    this.#calls = calls;
    this.#sessionToken = sessionToken;
  }

  get sessionToken(): string {
    return this.#sessionToken;
  }

  /** A token from the cache or of a new exchange. Concurrent calls with the same scope share one exchange. */
  async accessToken(scope: string): Promise<AccessToken> {
    this.#requireActive();
    const cached = this.#tokens.get(scope);
    const running = this.#exchanges.get(scope);
    const now = this.#calls.timing.now();
    const usable = cached !== undefined && now < cached.usableUntil;
    if (usable && (running || now < cached.renewAt)) {
      return cached.token;
    }
    if (running) {
      return running;
    }
    const exchange = usable ? this.#renew(scope, cached) : this.#exchange(scope, IDEMPOTENT_RISK);
    this.#exchanges.set(scope, exchange);
    try {
      return await exchange;
    } finally {
      this.#exchanges.delete(scope);
    }
  }

  /** Removes a token that a service refused with 401, so that the next call makes a new one. */
  discard(token: AccessToken): void {
    for (const [scope, cached] of this.#tokens) {
      if (cached.token === token) {
        this.#tokens.delete(scope);
      }
    }
  }

  /** Ends the session here at once, also if the call fails. It can be repeated. */
  async logOut(): Promise<void> {
    this.#end();
    await this.#calls.call('logout', this.#pair(), IDEMPOTENT_RISK);
  }

  /** One attempt only, because the old token can still be used. */
  async #renew(scope: string, cached: Cached): Promise<AccessToken> {
    try {
      return await this.#exchange(scope, NEVER);
    } catch (failure) {
      if (failure instanceof SessionOver || !(failure instanceof AuthGatewayError)) {
        throw failure;
      }
      const retryAfter = failure instanceof Unavailable ? failure.retryAfter : undefined;
      cached.renewAt = this.#calls.timing.now() + Math.max(RENEWAL_PAUSE_SECONDS, retryAfter ?? 0);
      this.#requireActive(); // A logout during the renewal.
      // A service has refused the old token.
      if (this.#tokens.get(scope) !== cached) {
        throw failure;
      }
      return cached.token;
    }
  }

  async #exchange(scope: string, risk: number): Promise<AccessToken> {
    const timing = this.#calls.timing;
    const sentAt = timing.now();
    const body = { ...this.#pair(), grant_type: 'session', scope };
    let content: Content;
    try {
      content = await this.#calls.call('token', body, risk, { beforeRepetition: () => this.#requireActive() });
    } catch (failure) {
      if (failure instanceof SessionOver) {
        this.#end();
      }
      throw failure;
    }
    this.#requireActive(); // A logout during the exchange.
    const [value, granted] = texts(content, 'access_token', 'scope');
    const lifetime = content['expires_in'];
    if (!Number.isInteger(lifetime)) {
      throw new GatewayFault('the response has no lifetime');
    }
    const token = new AccessToken(value!, granted!);
    this.#tokens.set(scope, {
      token,
      renewAt: sentAt + (lifetime as number) * (RENEW_AFTER + RENEW_JITTER * timing.random()),
      usableUntil: sentAt + (lifetime as number) * USABLE_FOR,
    });
    return token;
  }

  #pair() {
    return { session_id: this.sessionId, session_token: this.#sessionToken };
  }

  #requireActive(): void {
    if (this.#over) {
      throw new SessionOver('the session has ended');
    }
  }

  #end(): void {
    this.#over = true;
    this.#tokens.clear();
  }
}

type Content = Record<string, unknown>;
type Headers = Record<string, string>;
type Operation = 'login' | 'token' | 'logout';

class Calls {
  readonly #base: string;
  readonly #attemptSeconds: number;
  readonly #deadlineSeconds: number;
  readonly timing: Timing;

  constructor(url: string, { attemptSeconds = 10, deadlineSeconds = 20, timing = TIMING }: Options) {
    this.#base = `${url.replace(/\/$/, '')}/api/v1/auth/`;
    this.#attemptSeconds = attemptSeconds;
    this.#deadlineSeconds = deadlineSeconds;
    this.timing = timing;
  }

  /** The response, after repetitions as far as the risk allows them. */
  async call(
    operation: Operation,
    body: object,
    risk: number,
    { headers = {}, beforeRepetition = () => {} }: { headers?: Headers; beforeRepetition?: () => void } = {},
  ): Promise<Content> {
    const deadline = this.timing.now() + this.#deadlineSeconds;
    for (let attempt = 0; ; attempt += 1) {
      try {
        const seconds = Math.min(this.#attemptSeconds, deadline - this.timing.now());
        return await this.#attempt(operation, body, headers, seconds);
      } catch (failure) {
        if (!(failure instanceof Unavailable) || failure.risk > risk) {
          throw failure;
        }
        const backoff = Math.min(BACKOFF_MAX_SECONDS, BACKOFF_SECONDS * 2 ** attempt);
        const pause = (failure.retryAfter ?? 0) + (backoff * (1 + this.timing.random())) / 2;
        if (this.timing.now() + pause >= deadline) {
          throw failure;
        }
        await this.timing.sleep(pause);
        beforeRepetition();
        if (this.timing.now() >= deadline) {
          throw failure;
        }
      }
    }
  }

  async #attempt(operation: Operation, body: object, headers: Headers, seconds: number): Promise<Content> {
    let response: Response;
    let text: string;
    try {
      response = await fetch(this.#base + operation, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json', Accept: 'application/json', ...headers },
        body: JSON.stringify(body),
        redirect: 'manual', // A redirect would send the password or the session elsewhere.
        signal: AbortSignal.timeout(Math.ceil(seconds * 1000)), // Also for the body of the response.
      });
      text = await response.text();
    } catch (error) {
      const name = error instanceof Error ? error.name : 'unknown error';
      throw new Unavailable(`no response to ${operation}: ${name}`, Risk.UNKNOWN);
    }
    const content = parse(text);
    if (response.status === 200) {
      return content;
    }
    const retryAfter = response.headers.get('Retry-After') ?? '';
    throw failureOf(operation, response.status, content, /^\d+$/.test(retryAfter) ? Number(retryAfter) : undefined);
  }
}

/** Empty unless it is a JSON object. The error of the parser would quote the text, which can have secrets. */
function parse(text: string): Content {
  try {
    const content: unknown = JSON.parse(text);
    return typeof content === 'object' && content !== null ? (content as Content) : {};
  } catch {
    return {};
  }
}

function failureOf(operation: Operation, status: number, content: Content, retryAfter?: number): AuthGatewayError {
  const [error, description, requestId] = ['error', 'error_description', 'request_id'].map((name) => {
    const value = content[name];
    return typeof value === 'string' ? value : undefined;
  });
  const message = `${operation}: status ${status}`;
  if (status === 408 || status === 429) {
    return new Unavailable(message, Risk.NONE, retryAfter, requestId);
  }
  if (error === 'temporarily_unavailable') {
    return new Unavailable(message, Risk.ACCEPTED, retryAfter, requestId);
  }
  if ([502, 503, 504].includes(status) && error === undefined) {
    return new Unavailable(`${message} of a proxy`, Risk.UNKNOWN, retryAfter);
  }
  if (status === 401 && error === 'invalid_grant') {
    return operation === 'login'
      ? new InvalidCredentials('the credentials are not accepted', requestId)
      : new SessionOver('the session is not accepted', requestId);
  }
  if (status >= 400 && status < 500) {
    return new RequestRefused(status, error, description, requestId);
  }
  return new GatewayFault(message, requestId);
}

function texts(content: Content, ...names: string[]): string[] {
  return names.map((name) => {
    const value = content[name];
    if (typeof value !== 'string') {
      throw new GatewayFault(`the response has no ${name}`);
    }
    return value;
  });
}
