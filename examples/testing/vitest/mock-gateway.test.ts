// What a test can do with the mock IAM. All tests run in parallel, with one gateway.
import { createRemoteJWKSet, jwtVerify } from 'jose'
import { MockGateway, start, test } from './mock-gateway'

const read = 'urn:shop:orders:order:read'
const write = 'urn:shop:orders:order:write'
const alice = 'alice@example.test'

const logIn = (mockGateway: MockGateway) => mockGateway.logIn(alice, 'alice-pass')

test('a locked account is refused', async ({ mockGateway, expect }) => {
  await mockGateway.users.change(alice, { state: 'locked' })
  await expect(logIn(mockGateway)).rejects.toMatchObject({ status: 401, error: 'invalid_grant' })
  // The client does not receive the reason.
  expect(await mockGateway.journal.calls({ operation: 'login' })).toMatchObject([{ reason: 'locked' }])
})

test('users are created and deleted', async ({ mockGateway, expect }) => {
  const carol = await mockGateway.users.create('carol@example.test', 'carol-pass', { permissions: [read] })
  expect(carol).toMatchObject({ state: 'active', permissions: [read] })
  await mockGateway.logIn('carol@example.test', 'carol-pass')
  expect((await mockGateway.users.get('carol@example.test')).sessions).toBe(1)
  await mockGateway.users.delete('carol@example.test')
  expect((await mockGateway.users.all()).map(({ email }) => email)).toEqual([alice, 'bob@example.test'])
})

test('a removed permission is missing in the next token', async ({ mockGateway, expect }) => {
  const session = await logIn(mockGateway)
  await mockGateway.users.change(alice, { permissions: [read] })
  // The gateway uses the cached permissions for session.freshness.
  expect((await mockGateway.exchange(session, read, write)).scope).toBe(`${read} ${write}`)
  await mockGateway.forget()
  expect((await mockGateway.exchange(session, read, write)).scope).toBe(read)
})

test('the IAM is unreachable for the next login', async ({ mockGateway, expect }) => {
  await mockGateway.faults.add({ operation: 'login', answer: 'unreachable', times: 1 })
  await expect(logIn(mockGateway)).rejects.toMatchObject({ status: 500, error: 'temporarily_unavailable' })
  expect(await mockGateway.faults.all()).toEqual([])
  await logIn(mockGateway)
})

test('the IAM fails for the next exchange', async ({ mockGateway, expect }) => {
  const session = await logIn(mockGateway)
  // Otherwise the exchange does not call the IAM.
  await mockGateway.forget()
  await mockGateway.faults.add({ operation: 'introspection', answer: 'server_error', times: 1 })
  await expect(mockGateway.exchange(session, read)).rejects.toMatchObject({ status: 500 })
  // Until then the gateway holds the fault.
  await mockGateway.clock.advance('1s')
  await mockGateway.exchange(session, read)
})

test('a fault with a delay is removed', async ({ mockGateway, expect }) => {
  const fault = await mockGateway.faults.add({ operation: 'login', delay: { fixed: '1ms' }, user: alice })
  await logIn(mockGateway)
  expect(await mockGateway.faults.all()).toMatchObject([{ id: fault.id, applied: 1 }])
  await mockGateway.faults.remove(fault)
  expect(await mockGateway.faults.all()).toEqual([])
})

test('a session expires without waiting', async ({ mockGateway, expect }) => {
  const session = await logIn(mockGateway)
  await mockGateway.clock.advance('8h')
  await expect(mockGateway.exchange(session, read)).rejects.toMatchObject({ status: 401 })
})

test('the clock is set', async ({ mockGateway, expect }) => {
  await mockGateway.clock.set(new Date('2030-01-01T00:00:00Z'))
  expect((await mockGateway.clock.now()).toISOString()).toMatch(/^2030-01-01T00:00:/)
})

test('a session that ends at the IAM is refused at once', async ({ mockGateway, expect }) => {
  const [session, other] = [await logIn(mockGateway), await logIn(mockGateway)]
  expect(await mockGateway.endSessions({ session: session.session_id, notify: true })).toBe(1)
  await expect(mockGateway.exchange(session, read)).rejects.toMatchObject({ status: 401 })
  await mockGateway.exchange(other, read)
  expect(await mockGateway.endSessions()).toBe(1)
})

test('a hundred parallel exchanges call the IAM once', async ({ mockGateway, expect }) => {
  const session = await logIn(mockGateway)
  await mockGateway.forget()
  await Promise.all(Array.from({ length: 100 }, () => mockGateway.exchange(session, read)))
  const calls = await mockGateway.journal.wait(1, { operation: 'introspection', session: session.session_id })
  expect(calls).toMatchObject([{ user: alice, outcome: 'ok', session_id: session.session_id }])
})

test('a signed token is verified by the published keys', async ({ mockGateway, gateway, expect }) => {
  const token = await mockGateway.sign({ sub: 'carol', scope: read })
  const published = createRemoteJWKSet(new URL(`${gateway.url}/.well-known/jwks.json`))
  const { issuer } = gateway
  const { payload } = await jwtVerify(token, published, { issuer, audience: issuer, typ: 'at+jwt' })
  expect(payload.sub).toBe('carol')
})

test('another namespace is not affected', async ({ mockGateway, gateway, expect }) => {
  const other = new MockGateway(gateway, `${mockGateway.namespace}-other`)
  await mockGateway.users.change(alice, { state: 'locked' })
  await mockGateway.logOut(await mockGateway.logIn('bob@example.test', 'bob-pass'))
  await logIn(other)
  expect(await other.journal.calls()).toMatchObject([{ user: alice }])
  await other.control('DELETE', `/namespaces/${other.namespace}`)
})

test.skipIf(process.env.GATEWAY_URL)('a gateway that has ended can be stopped', async () => {
  const { stop } = await start()
  await stop()
  await stop()
})
