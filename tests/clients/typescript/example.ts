// Logs in, exchanges the session, reads discovery and logs out, with the generated client: node example.js GATEWAY_URL
import {
  AuthenticationApi,
  Configuration,
  DiscoveryApi,
  InvalidGrantFromJSON,
  ResponseError,
  type InvalidGrant,
} from './client/index.js';

const configuration = new Configuration({ basePath: process.argv[2] });
const authentication = new AuthenticationApi(configuration);
const discovery = new DiscoveryApi(configuration);

/** The body of a 401. Other errors are rethrown. */
async function refusal(call: Promise<unknown>): Promise<InvalidGrant | undefined> {
  try {
    await call;
  } catch (error) {
    if (error instanceof ResponseError && error.response.status === 401) {
      return InvalidGrantFromJSON(await error.response.json());
    }
    throw error;
  }
}

const wrong = { email: 'alice@example.test', password: 'not her password' };
console.log('wrong password:', (await refusal(authentication.login({ credentials: wrong })))?.error);

const credentials = { email: 'alice@example.test', password: 'alice-pass' };
const { sessionId, sessionToken } = await authentication.login({ credentials });
const scope = 'urn:shop:orders:order:read urn:shop:vault:key:read';
const exchange = { sessionId, sessionToken, grantType: 'session', scope } as const;
const token = await authentication.exchange({ exchange });
console.log('granted:', token.scope);
console.log('lifetime:', token.expiresIn);

console.log('issuer:', (await discovery.metadata()).issuer);
const { keys } = await discovery.jwks();
console.log('keys:', ...keys.map((key) => `${key.alg}=${key.kid}`).sort());

console.log('logout:', (await authentication.logout({ sessionPair: { sessionId, sessionToken } })).status);
console.log('ended session:', (await refusal(authentication.exchange({ exchange })))?.error);
