// Verifies an access token from discovery alone, with jose: verify.js ISSUER AUDIENCE < token
import { readFileSync } from 'node:fs'
import { createRemoteJWKSet, errors, jwtVerify } from 'jose'

const [issuer, audience] = process.argv.slice(2)
const token = readFileSync(0, 'utf8').trim()

const response = await fetch(`${issuer}/.well-known/oauth-authorization-server`, { signal: AbortSignal.timeout(10_000) })
const metadata = await response.json()
if (metadata.issuer !== issuer) throw new Error(`the metadata at ${issuer} has the issuer ${metadata.issuer}`)
try {
  const { payload } = await jwtVerify(token, createRemoteJWKSet(new URL(metadata.jwks_uri)), {
    issuer,
    audience,
    typ: 'at+jwt',
    algorithms: ['ES256', 'EdDSA', 'RS256'],
    requiredClaims: ['exp', 'iat', 'sub']
  })
  console.log(JSON.stringify(payload))
} catch (error) {
  // A failed download of the key set is an error of the test, not a refusal of the token.
  if (!(error instanceof errors.JOSEError) || error instanceof errors.JWKSTimeout) throw error
  console.error(`refused: ${error.code}`)
  process.exitCode = 3
}
