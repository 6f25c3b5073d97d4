// Examples of what a test can do with the mock IAM. All tests run in parallel, with one gateway.
import { createRemoteJWKSet, importJWK, jwtVerify, SignJWT } from 'jose'
import { inject } from 'vitest'
import { test } from './mock.js'

const read = 'urn:shop:orders:order:read'
const write = 'urn:shop:orders:order:write'
const alice = '/users/alice@example.test'

test('a locked account is refused', async ({ mock, expect }) => {
  await mock.control('PATCH', alice, { state: 'locked' })
  expect((await mock.logIn()).status).toBe(401)
  const { entries } = await mock.control('GET', '/journal?operation=login')
  // The client does not receive the reason.
  expect(entries).toMatchObject([{ reason: 'locked' }])
})

test('the next login is refused', async ({ mock, expect }) => {
  await mock.control('POST', '/faults', { operation: 'login', times: 1, answer: { refused: 'disabled' } })
  expect((await mock.logIn()).status).toBe(401)
  expect((await mock.logIn()).status).toBe(200)
})

test('a removed permission is missing in the next token', async ({ mock, expect }) => {
  const { body: session } = await mock.logIn()
  await mock.control('PATCH', alice, { permissions: [read] })
  // The gateway uses the cached permissions for session.freshness.
  expect((await mock.exchange(session, `${read} ${write}`)).body.scope).toBe(`${read} ${write}`)
  await mock.control('POST', '/forget')
  expect((await mock.exchange(session, `${read} ${write}`)).body.scope).toBe(read)
})

test('the IAM is unreachable for the next login', async ({ mock, expect }) => {
  await mock.control('POST', '/faults', { operation: 'login', times: 1, answer: 'unreachable' })
  expect(await mock.logIn()).toMatchObject({ status: 500, body: { error: 'temporarily_unavailable' } })
  expect((await mock.logIn()).status).toBe(200)
})

test('the IAM fails for the next exchange', async ({ mock, expect }) => {
  const { body: session } = await mock.logIn()
  // Otherwise the exchange does not call the IAM.
  await mock.control('POST', '/forget')
  await mock.control('POST', '/faults', { operation: 'introspection', times: 1, answer: 'server_error' })
  expect((await mock.exchange(session, read)).status).toBe(500)
  // Until then the gateway holds the fault.
  await mock.control('POST', '/time/advance', { by: '1s' })
  expect((await mock.exchange(session, read)).status).toBe(200)
})

test('a session expires without waiting', async ({ mock, expect }) => {
  const { body: session } = await mock.logIn()
  await mock.control('POST', '/time/advance', { by: '8h' })
  expect((await mock.exchange(session, read)).status).toBe(401)
})

test('a hundred parallel exchanges call the IAM once', async ({ mock, expect }) => {
  const { body: session } = await mock.logIn()
  await mock.control('POST', '/forget')
  const responses = await Promise.all(Array.from({ length: 100 }, () => mock.exchange(session, read)))
  expect(responses.map(({ status }) => status)).toEqual(Array(100).fill(200))
  expect((await mock.control('GET', '/journal?operation=introspection')).count).toBe(1)
})

test("a token signed by the test is verified by the published keys", async ({ mock, expect }) => {
  const key = await mock.control('GET', '/signing-key')
  const issuer = inject('issuer')
  const token = await new SignJWT({ scope: read })
    .setProtectedHeader({ alg: key.alg, kid: key.kid, typ: 'at+jwt' })
    .setIssuer(issuer).setAudience(issuer).setSubject('carol').setIssuedAt().setExpirationTime('1 minute')
    .sign(await importJWK(key))

  const published = createRemoteJWKSet(new URL(`${inject('public')}/.well-known/jwks.json`))
  const { payload } = await jwtVerify(token, published, { issuer, audience: issuer, typ: 'at+jwt' })
  expect(payload.sub).toBe('carol')
})
