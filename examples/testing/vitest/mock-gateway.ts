// Vitest tests against auth-gateway with its mock IAM. Needs Vitest and Node 20, nothing else.
//
// `test` has the fixture `mockGateway`: a namespace of its own for each test, with users, sessions, faults, time and journal.
//
// GATEWAY_BIN is the program that is started once for each worker; without it, `auth-gateway-dev` from the PATH.
// GATEWAY_URL and GATEWAY_MANAGEMENT_URL are the two listeners of one that runs already, if both are set.
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import { createInterface } from 'node:readline'
import { test as base } from 'vitest'

export interface Gateway {
  url: string
  managementUrl: string
  issuer: string
}

export interface Session {
  session_id: string
  session_token: string
  verified_at: string
  expires_at: string
}

export interface AccessToken {
  access_token: string
  scope: string
  expires_in: number
  token_type: string
}

export type AccountState = 'active' | 'disabled' | 'locked' | 'incomplete'

export interface UserMembers {
  password?: string
  permissions?: string[]
  state?: AccountState
  attributes?: Record<string, unknown>
  totp_secret?: string | null
}

export interface User {
  email: string
  subject: string
  permissions: string[]
  attributes: Record<string, unknown>
  state: AccountState
  sessions: number
  otp?: string
}

export type Operation = 'login' | 'introspection' | 'logout' | 'keys' | 'probe'

export interface FaultRule {
  operation: Operation
  answer?:
    | 'unreachable' | 'timeout' | 'throttled' | 'server_error' | 'unreadable' | 'misconfigured' | 'inactive' | 'another_session'
    | { refused: 'invalid_credentials' | 'disabled' | 'locked' | 'incomplete' }
    | { throttled: { retry_after?: string } }
  delay?: { fixed: string } | { uniform: [string, string] } | { lognormal: { median: string; sigma: number } }
  times?: number
  share?: number
  user?: string
}

export interface Fault extends FaultRule {
  id: number
  applied: number
  remaining: number | null
}

export interface JournalFilter {
  operation?: Operation
  user?: string
  outcome?: string
  request_id?: string
  session?: string
}

/** A call that the gateway made to the IAM. */
export interface Call {
  number: number
  at: string
  operation: Operation
  outcome: string
  reason: string | null
  user: string | null
  session: string | null
  session_id: string | null
  request_id: string | null
  fault: number | null
  took_ms: number
}

/** The gateway or the mock refused a call, or failed. */
export class CallFailed extends Error {
  constructor(what: string, readonly status: number, readonly body: unknown) {
    super(`${what}: ${status} ${JSON.stringify(body)}`)
  }

  get error(): string | undefined {
    return (this.body as { error?: string } | null)?.error
  }
}

/** One namespace of a gateway. `headers` select it: the application under test forwards them to the gateway. */
export class MockGateway {
  readonly headers: Record<string, string>

  constructor(readonly gateway: Gateway, readonly namespace: string) {
    this.headers = { 'mock-namespace': namespace }
  }

  readonly users = {
    all: async () => (await this.control<{ users: User[] }>('GET', '/users')).users,
    get: (email: string) => this.control<User>('GET', userPath(email)),
    create: (email: string, password: string, members: Omit<UserMembers, 'password'> & { subject?: string } = {}) =>
      this.control<User>('POST', '/users', { email, password, ...members }),
    change: (email: string, members: UserMembers) => this.control<User>('PATCH', userPath(email), members),
    delete: (email: string) => this.control<void>('DELETE', userPath(email))
  }

  readonly faults = {
    add: (rule: FaultRule) => this.control<Fault>('POST', '/faults', rule),
    /** Those that are not used up. */
    all: async () => (await this.control<{ faults: Fault[] }>('GET', '/faults')).faults,
    remove: (fault: Fault) => this.control<void>('DELETE', `/faults/${fault.id}`)
  }

  /** The time of the mock and of the gateway, in this namespace. */
  readonly clock = {
    now: async () => new Date((await this.control<{ now: string }>('GET', '/time')).now),
    /** By a duration such as "30s", "8h" or "1d". */
    advance: (by: string) => this.control<unknown>('POST', '/time/advance', { by }),
    set: (now: Date) => this.control<unknown>('PUT', '/time', { now: now.toISOString() })
  }

  /** The calls of the gateway to the IAM. */
  readonly journal = {
    calls: (filter: JournalFilter = {}) => this.entries('/journal', { ...filter }),
    /** Waits for this number of calls, at most 60 s. Returns those that there are. */
    wait: (count: number, filter: JournalFilter = {}, timeout = '5s') =>
      this.entries('/journal/wait', { ...filter, count: String(count), timeout })
  }

  logIn(email: string, password: string, otp?: string): Promise<Session> {
    return this.call('POST', `${this.gateway.url}/api/v1/auth/login`, { email, password, otp })
  }

  exchange({ session_id, session_token }: Session, ...scopes: string[]): Promise<AccessToken> {
    const body = { session_id, session_token, grant_type: 'session', scope: scopes.join(' ') }
    return this.call('POST', `${this.gateway.url}/api/v1/auth/token`, body)
  }

  async logOut({ session_id, session_token }: Session): Promise<void> {
    await this.call('POST', `${this.gateway.url}/api/v1/auth/logout`, { session_id, session_token })
  }

  /** Clears the gateway's caches: the next exchange of each session calls the IAM. */
  forget(): Promise<void> {
    return this.control('POST', '/forget')
  }

  /** An access token with these claims in place of those of an ordinary one; null removes one. */
  async sign(claims: Record<string, unknown> = {}, header: Record<string, unknown> = {}): Promise<string> {
    return (await this.control<{ access_token: string }>('POST', '/tokens', { claims, header })).access_token
  }

  /** Ends one session, by either id, or all of them, at the IAM; `notify` sends back-channel logouts. */
  async endSessions({ session, notify = false }: { session?: string; notify?: boolean } = {}): Promise<number> {
    const path = session === undefined ? '/sessions' : `/sessions/${encodeURIComponent(session)}`
    return (await this.control<{ ended: number }>('DELETE', `${path}?notify=${notify}`)).ended
  }

  /** Any call of the control API, which /mock/v1/openapi.yaml describes. */
  control<T>(method: string, path: string, body?: unknown): Promise<T> {
    return this.call(method, `${this.gateway.managementUrl}/mock/v1${path}`, body)
  }

  private async entries(path: string, filter: Record<string, string>): Promise<Call[]> {
    const query = new URLSearchParams({ limit: '10000', ...filter })
    return (await this.control<{ entries: Call[] }>('GET', `${path}?${query}`)).entries
  }

  private async call<T>(method: string, url: string, body?: unknown): Promise<T> {
    const headers = { ...this.headers, ...(body !== undefined && { 'content-type': 'application/json' }) }
    const response = await fetch(url, { method, headers, body: JSON.stringify(body) })
    const text = await response.text()
    const parsed = text === '' ? undefined : JSON.parse(text)
    if (!response.ok) throw new CallFailed(`${method} ${url}`, response.status, parsed)
    return parsed
  }
}

/** Vitest's `test` with a gateway for each worker and a namespace in it for each test. */
export const test = base.extend<{ mockGateway: MockGateway; gateway: Gateway }>({
  gateway: [
    async ({}, use) => {
      const { GATEWAY_URL: url, GATEWAY_MANAGEMENT_URL: managementUrl } = process.env
      if (url && managementUrl) return use({ url, managementUrl, issuer: await issuerOf(url) })
      const { gateway, stop } = await start()
      await use(gateway)
      await stop()
    },
    { scope: 'worker' }
  ],
  mockGateway: async ({ gateway, onTestFailed }, use) => {
    const own = new MockGateway(gateway, randomUUID())
    let calls: Call[] = []
    onTestFailed(() => console.error('calls to the mock IAM:', calls))
    await use(own)
    calls = await own.journal.calls()
    await own.control('DELETE', `/namespaces/${own.namespace}`)
  }
})

/**
 * Starts the program, with settings named as in the configuration file. The issuer is the URL of the listener, so that
 * services find the keys by discovery.
 */
export async function start(settings: Record<string, string> = {}): Promise<{ gateway: Gateway; stop: () => Promise<void> }> {
  const url = `http://127.0.0.1:${await freePort()}`
  const all = {
    'http.listen': new URL(url).host, 'http.public_url': url, 'management.listen': '127.0.0.1:0', 'log.format': 'json', ...settings
  }
  const variables = Object.entries(all).map(([name, value]) => [`AUTH_GATEWAY__${name.toUpperCase().replaceAll('.', '__')}`, value])
  const program = process.env.GATEWAY_BIN ?? 'auth-gateway-dev'
  const child = spawn(program, { env: { ...process.env, ...Object.fromEntries(variables) }, stdio: ['ignore', 'pipe', 'inherit'] })
  // Before the program can end: the event is emitted once.
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const log: string[] = []
  const listening = await new Promise<Record<string, string>>((resolve, reject) => {
    // The log has this line as soon as both listeners accept connections.
    createInterface(child.stdout).on('line', (line) => {
      if (line.includes('"message":"listening"')) resolve(JSON.parse(line))
      else if (log.length < 100) log.push(line)
    })
    child.on('error', reject).on('exit', (code) => reject(new Error(`${program} exited with ${code}:\n${log.join('\n')}`)))
  })
  const stop = async () => {
    child.kill()
    await ended
  }
  return { gateway: { url, managementUrl: `http://${listening['management.address']}`, issuer: url }, stop }
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const { port } = probe.address() as AddressInfo
  probe.close()
  await once(probe, 'close')
  return port
}

async function issuerOf(url: string): Promise<string> {
  const response = await fetch(`${url}/.well-known/oauth-authorization-server`)
  return ((await response.json()) as { issuer: string }).issuer
}

const userPath = (email: string) => `/users/${encodeURIComponent(email)}`
