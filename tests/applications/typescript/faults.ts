// Makes the calls that `tests/applications/run` requests, all at once: one JSON object a line in both directions.
import { createInterface } from 'node:readline';
import { inspect } from 'node:util';
import { AccessToken, AuthGateway, AuthGatewayError, RequestRefused, Session, Unavailable } from './auth_gateway.js';

let advanced = 0;
let chosen = 0.5;
let pauses: number[] = [];
const timing = {
  now: () => performance.now() / 1000 + advanced,
  sleep: async (seconds: number) => {
    pauses.push(seconds);
    advanced += seconds;
  },
  random: () => chosen,
};
let gateway: AuthGateway;
let session: Session;
let token: AccessToken;

const calls: Record<string, (call: any) => unknown> = {
  new({ url, attempt, deadline }) {
    [advanced, chosen, pauses] = [0, 0.5, []];
    gateway = new AuthGateway(url, { attemptSeconds: attempt, deadlineSeconds: deadline, timing });
  },
  async login({ email, password, otp, address }) {
    session = await gateway.logIn(email, password, otp, address);
    return { session_id: session.sessionId, session_token: session.sessionToken, expires_at: session.expiresAt };
  },
  resume({ session_id, session_token }) {
    session = gateway.resume(session_id, session_token);
  },
  async token({ scope }) {
    token = await session.accessToken(scope);
    return { value: token.value, scope: token.scope };
  },
  discard: () => session.discard(token),
  logout: () => session.logOut(),
  advance: ({ seconds }) => void (advanced += seconds),
  random: ({ value }) => void (chosen = value),
  pauses() {
    const made = pauses;
    pauses = [];
    return made;
  },
  shown: () => [gateway, session, token].map(everyForm).join(' '),
};

function everyForm(value: unknown): string {
  return `${inspect(value, { depth: null, showHidden: true })} ${String(value)} ${JSON.stringify(value)}`;
}

async function handle({ id, do: call, ...input }: any) {
  try {
    return { id, result: (await calls[call]!(input)) ?? null };
  } catch (error) {
    return {
      id,
      error: error instanceof AuthGatewayError ? error.name : 'other',
      retry_after: error instanceof Unavailable ? error.retryAfter : undefined,
      code: error instanceof RequestRefused ? error.error : undefined,
      request_id: error instanceof AuthGatewayError ? error.requestId : undefined,
      shown: everyForm(error),
    };
  }
}

createInterface(process.stdin).on('line', async (line) => {
  process.stdout.write(`${JSON.stringify(await handle(JSON.parse(line)))}\n`);
});
