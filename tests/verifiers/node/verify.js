// Verifies an access token from discovery alone, with jose: verify.js ISSUER AUDIENCE < token
import { readFileSync } from 'node:fs'
import { createRemoteJWKSet, errors, jwtVerify } from 'jose'

const [issuer, audience] = process.argv.slice(2)
const token = readFileSync(0, 'utf8').trim()

const answer = await fetch(`${issuer}/.well-known/oauth-authorization-server`, { signal: AbortSignal.timeout(10_000) })
const metadata = await answer.json()
if (metadata.issuer !== issuer) throw new Error(`the metadata at ${issuer} speaks for ${metadata.issuer}`)
try {
  const { payload } = await jwtVerify(token, createRemoteJWKSet(new URL(metadata.jwks_uri)), {
    issuer,
    audience,
    typ: 'at+jwt',
    algorithms: ['ES256', 'EdDSA', 'RS256'],
    requiredClaims: ['exp', 'iat', 'sub']
  })
  console.log(JSON.stringify(payload))
} catch (refusal) {
  // A key set that cannot be fetched is a fault of the test, not a refusal of the token.
  if (!(refusal instanceof errors.JOSEError) || refusal instanceof errors.JWKSTimeout) throw refusal
  console.error(`refused: ${refusal.code}`)
  process.exitCode = 3
}
