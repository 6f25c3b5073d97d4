// A service with Express and jose. ISSUER is the URL of the gateway, AUDIENCE this service in the claim `aud`.
import express from 'express'
import { createRemoteJWKSet, errors, jwtVerify } from 'jose'

// KEYS_MAX_AGE is in seconds, and at most `keys.jwks_max_age` of the gateway.
const { ISSUER: issuer, AUDIENCE: audience, PORT = '8080', KEYS_MAX_AGE = '300' } = process.env
// Without an issuer or an audience, jose accepts a token with every one.
if (!issuer || !audience) throw new Error('ISSUER and AUDIENCE must be set')

const response = await fetch(`${issuer}/.well-known/oauth-authorization-server`, { signal: AbortSignal.timeout(10_000) })
const metadata = await response.json()
if (metadata.issuer !== issuer) throw new Error(`the issuer of ${issuer} is ${metadata.issuer}`)
const keys = createRemoteJWKSet(new URL(metadata.jwks_uri), { cacheMaxAge: 1000 * KEYS_MAX_AGE })

const expected = {
  issuer,
  audience,
  typ: 'at+jwt',
  algorithms: ['ES256', 'EdDSA', 'RS256'],
  requiredClaims: ['exp', 'iat', 'sub']
}
// Faults of jose that are not faults of the token: the keys cannot be read.
const faults = ['ERR_JOSE_GENERIC', 'ERR_JWKS_INVALID', 'ERR_JWKS_TIMEOUT']

function require(scope) {
  return async (request, response, next) => {
    const [, token] = request.get('authorization')?.match(/^bearer +(\S+)$/i) ?? []
    if (!token) return response.set('WWW-Authenticate', 'Bearer').sendStatus(401)
    try {
      request.claims = (await jwtVerify(token, keys, expected)).payload
    } catch (error) {
      if (!(error instanceof errors.JOSEError) || faults.includes(error.code)) throw error
      return response.set('WWW-Authenticate', 'Bearer error="invalid_token"').sendStatus(401)
    }
    if (!(request.claims.scope ?? '').split(' ').includes(scope)) {
      return response.set('WWW-Authenticate', `Bearer error="insufficient_scope", scope="${scope}"`).sendStatus(403)
    }
    next()
  }
}

const app = express()
app.get('/orders', require('urn:shop:orders:order:read'), (request, response) => {
  response.json(request.claims)
})
app.listen(PORT, '127.0.0.1')
