// For each test that asks for `mock`, a namespace of its own.
import { randomUUID } from 'node:crypto'
import { test as base, inject } from 'vitest'

// readme: begin fixture
export const test = base.extend({
  mock: async ({}, use) => {
    const namespace = randomUUID()
    const mock = new Mock(namespace)
    await use(mock)
    await mock.tell('DELETE', `/namespaces/${namespace}`)
  }
})

// A client of the public API, and of the mock behind it: whatever has the header stays in that namespace.
class Mock {
  constructor(namespace) {
    this.headers = { 'mock-namespace': namespace, 'content-type': 'application/json' }
  }

  async call(method, url, body) {
    const answer = await fetch(url, { method, headers: this.headers, body: JSON.stringify(body) })
    const text = await answer.text()
    return { status: answer.status, body: text && JSON.parse(text) }
  }

  // What the mock is told, it must have understood.
  async tell(method, path, body) {
    const answer = await this.call(method, `${inject('management')}/mock/v1${path}`, body)
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${JSON.stringify(answer)}`)
    return answer.body
  }

  logIn(email = 'alice@example.test', password = 'alice-pass') {
    return this.call('POST', `${inject('public')}/api/v1/auth/login`, { email, password })
  }

  exchange(session, scope) {
    const wanted = { ...session, grant_type: 'session', scope }
    return this.call('POST', `${inject('public')}/api/v1/auth/token`, wanted)
  }
}
// readme: end
