// One gateway for all tests. They get its addresses.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'

const issuer = 'http://auth.test'

export default async function start(project) {
  const settings = {
    AUTH_GATEWAY__HTTP__LISTEN: '127.0.0.1:0',
    AUTH_GATEWAY__HTTP__PUBLIC_URL: issuer,
    AUTH_GATEWAY__MANAGEMENT__LISTEN: '127.0.0.1:0',
    AUTH_GATEWAY__IAM__MOCK__FIXED_SIGNING_KEY: 'true',
    AUTH_GATEWAY__LOG__FORMAT: 'json'
  }
  const gateway = spawn(process.env.GATEWAY_BIN ?? 'auth-gateway-dev', {
    env: { ...process.env, ...settings },
    stdio: ['ignore', 'pipe', 'inherit']
  })
  // Port 0 selects a free port. The log has it as soon as both listeners accept connections.
  const listening = await new Promise((resolve, reject) => {
    createInterface(gateway.stdout).on('line', (line) => {
      if (line.includes('"message":"listening"')) resolve(JSON.parse(line))
    })
    gateway.on('error', reject).on('exit', (code) => reject(new Error(`the gateway exited with ${code}`)))
  })
  project.provide('issuer', issuer)
  project.provide('public', `http://${listening['http.address']}`)
  project.provide('management', `http://${listening['management.address']}`)
  return async () => {
    gateway.kill()
    await once(gateway, 'exit')
  }
}
