// A namespace for each test that uses the fixture `mock`.
import { randomUUID } from 'node:crypto'
import { test as base, inject } from 'vitest'

export const test = base.extend({
  mock: async ({}, use) => {
    const namespace = randomUUID()
    const mock = new Mock(namespace)
    await use(mock)
    await mock.control('DELETE', `/namespaces/${namespace}`)
  }
})

// A client of the gateway and of the mock's control API. The header selects the namespace.
class Mock {
  constructor(namespace) {
    this.headers = { 'mock-namespace': namespace, 'content-type': 'application/json' }
  }

  async call(method, url, body) {
    const answer = await fetch(url, { method, headers: this.headers, body: JSON.stringify(body) })
    const text = await answer.text()
    return { status: answer.status, body: text && JSON.parse(text) }
  }

  // Fails unless the control API accepts the request.
  async control(method, path, body) {
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
