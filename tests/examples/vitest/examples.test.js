// What a test can make happen at the IAM. All of them run at once, on one gateway.
import { createRemoteJWKSet, importJWK, jwtVerify, SignJWT } from 'jose'
import { inject } from 'vitest'
import { test } from './mock.js'

const read = 'urn:shop:orders:order:read'
const write = 'urn:shop:orders:order:write'
const alice = '/users/alice@example.test'

// readme: begin tests
test('a locked account is refused', async ({ mock, expect }) => {
  await mock.tell('PATCH', alice, { state: 'locked' })
  expect((await mock.logIn()).status).toBe(401)
  const { entries } = await mock.tell('GET', '/journal?operation=login')
  // Which the client is never told.
  expect(entries).toMatchObject([{ reason: 'locked' }])
})

test('the next login is refused, whoever comes', async ({ mock, expect }) => {
  await mock.tell('POST', '/faults', { operation: 'login', times: 1, answer: { refused: 'disabled' } })
  expect((await mock.logIn()).status).toBe(401)
  expect((await mock.logIn()).status).toBe(200)
})

test('a permission is taken away in the middle of a session', async ({ mock, expect }) => {
  const { body: session } = await mock.logIn()
  await mock.tell('PATCH', alice, { permissions: [read] })
  // The old ones are known, and may be used, for as long as session.freshness.
  expect((await mock.exchange(session, `${read} ${write}`)).body.scope).toBe(`${read} ${write}`)
  await mock.tell('POST', '/forget')
  expect((await mock.exchange(session, `${read} ${write}`)).body.scope).toBe(read)
})

test('the IAM is down for the next login', async ({ mock, expect }) => {
  await mock.tell('POST', '/faults', { operation: 'login', times: 1, answer: 'unreachable' })
  expect(await mock.logIn()).toMatchObject({ status: 500, body: { error: 'temporarily_unavailable' } })
  expect((await mock.logIn()).status).toBe(200)
})

test('the IAM is down for the next exchange', async ({ mock, expect }) => {
  const { body: session } = await mock.logIn()
  // Or the IAM is not asked at all.
  await mock.tell('POST', '/forget')
  await mock.tell('POST', '/faults', { operation: 'introspection', times: 1, answer: 'server_error' })
  expect((await mock.exchange(session, read)).status).toBe(500)
  expect((await mock.exchange(session, read)).status).toBe(200)
})

test('a session expires without anybody waiting', async ({ mock, expect }) => {
  const { body: session } = await mock.logIn()
  await mock.tell('POST', '/time/advance', { by: '8h' })
  expect((await mock.exchange(session, read)).status).toBe(401)
})

test('a hundred exchanges at once ask the IAM once', async ({ mock, expect }) => {
  const { body: session } = await mock.logIn()
  await mock.tell('POST', '/forget')
  const answers = await Promise.all(Array.from({ length: 100 }, () => mock.exchange(session, read)))
  expect(answers.map(({ status }) => status)).toEqual(Array(100).fill(200))
  expect((await mock.tell('GET', '/journal?operation=introspection')).count).toBe(1)
})

test("a token of the test's own is verified by the published keys", async ({ mock, expect }) => {
  const key = await mock.tell('GET', '/signing-key')
  const issuer = inject('issuer')
  const token = await new SignJWT({ scope: read })
    .setProtectedHeader({ alg: key.alg, kid: key.kid, typ: 'at+jwt' })
    .setIssuer(issuer).setAudience(issuer).setSubject('carol').setIssuedAt().setExpirationTime('1 minute')
    .sign(await importJWK(key))

  const published = createRemoteJWKSet(new URL(`${inject('public')}/.well-known/jwks.json`))
  const { payload } = await jwtVerify(token, published, { issuer, audience: issuer, typ: 'at+jwt' })
  expect(payload.sub).toBe('carol')
})
// readme: end
