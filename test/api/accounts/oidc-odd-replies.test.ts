import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT } from 'jose';
import { pino } from 'pino';
import { IdentityProvider } from '../../../api/routes/accounts/oidc/identity-provider.ts';

// The provider follows the standard, and sends unusual values.

let server: http.Server;
let issuer: string;
/** Bodies of replies, by path. */
let replies: Record<string, object>;

beforeEach(async () => {
  server = http.createServer((request, reply) => {
    reply.setHeader('content-type', 'application/json').end(JSON.stringify(replies[request.url!]));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterEach(() => {
  server.closeAllConnections();
  server.close();
});

function providerWith(metadata: Record<string, unknown> = {}): IdentityProvider {
  const places = { authorization_endpoint: `${issuer}/auth`, token_endpoint: `${issuer}/token` };
  replies = { '/.well-known/openid-configuration': { issuer, ...places, jwks_uri: `${issuer}/jwks`, ...metadata } };
  return new IdentityProvider({
    issuer: {
      ...{ id: 'odd', issuer, client_id: 'platform', label: 'Odd' },
      ...{ account_id: 'acc-0123456789abcdefghij' as never, domains: ['example.com'], create_users: false },
    },
    clientSecret: 'a-long-secret',
    redirectUri: 'http://127.0.0.1/callback',
    logger: pino({ level: 'silent' }),
  });
}

async function signIn(claims: JWTPayload) {
  const provider = providerWith();
  const { publicKey, privateKey } = await generateKeyPair('RS256');
  const { checks } = await provider.begin();
  const person = { sub: 'ada', email: 'ada@example.com', email_verified: true };
  const idToken = await new SignJWT({ ...person, nonce: checks.nonce, ...claims })
    .setProtectedHeader({ alg: 'RS256' })
    .setIssuer(issuer)
    .setAudience('platform')
    .setIssuedAt()
    .setExpirationTime('5m')
    .sign(privateKey);
  replies['/jwks'] = { keys: [{ ...(await exportJWK(publicKey)), use: 'sig' }] };
  replies['/token'] = { access_token: 'token', token_type: 'Bearer', id_token: idToken };
  return provider.finish(`code=one&state=${checks.state}`, checks);
}

test.each(['javascript:alert(1)', 'data:text/html,x', 'nothing'])(
  'metadata with the sign-in page %s make the provider unavailable',
  async (page) => {
    const provider = providerWith({ authorization_endpoint: page });
    await expect(provider.begin()).rejects.toMatchObject({ code: 'identity_provider_unavailable' });
  },
);

test('texts that Postgres cannot store are not taken', async () => {
  expect(await signIn({ name: 'Ada' })).toMatchObject({ subject: 'ada', email: 'ada@example.com', name: 'Ada' });
  const odd = await signIn({ email: 'ada\0@example.com', name: 'A\ud800', preferred_username: 'a\0' });
  expect(odd).toMatchObject({ subject: 'ada', email: null, name: null, username: null });
  for (const sub of ['ada\0', 'ada\udfff']) {
    await expect(signIn({ sub })).rejects.toMatchObject({ code: 'identity_not_proven' });
  }
});
