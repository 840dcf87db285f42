import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { exportJWK, generateKeyPair, type JWK } from 'jose';
import { type Configuration, Provider } from 'oidc-provider';

/** The claims of an identity provider about a person. */
export interface PersonThere {
  sub: string;
  email?: string;
  email_verified?: boolean;
  name?: string;
  preferred_username?: string;
  picture?: string;
}

/** A client of the provider, which is an installation of the platform. */
export interface ClientThere {
  clientId: string;
  clientSecret: string;
  redirectUri: string;
}

interface Serving {
  clients: ClientThere[];
  /** If false, only its userinfo endpoint returns the e-mail. */
  idTokenHasClaims?: boolean;
}

/** A real identity provider on loopback, whose people sign in with one click. */
export class IdentityProviderServer {
  readonly issuer: string;
  /** The person who uses the browser. */
  person: PersonThere = { sub: 'nobody' };
  /** Set it to answer some paths in place of the provider. */
  instead: ((path: string, reply: http.ServerResponse) => boolean) | null = null;
  /** Paths of requests, the oldest first. */
  readonly asked: string[] = [];
  readonly #server: http.Server;
  readonly #sockets = new Set<Socket>();

  private constructor(server: http.Server, issuer: string) {
    this.#server = server;
    this.issuer = issuer;
    server.on('connection', (socket) => {
      this.#sockets.add(socket);
      socket.once('close', () => this.#sockets.delete(socket));
    });
  }

  /** Starts to listen, so that the address is known. It answers requests after `serve`. */
  static async listen(): Promise<IdentityProviderServer> {
    // Longer than any test keeps a connection idle: a sign-in would fail if its connection were closed at that moment.
    const server = http.createServer({ keepAliveTimeout: 60_000 });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new IdentityProviderServer(server, `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  }

  static async start(options: Serving): Promise<IdentityProviderServer> {
    const there = await IdentityProviderServer.listen();
    await there.serve(options);
    return there;
  }

  async serve(options: Serving): Promise<void> {
    const provider = new Provider(this.issuer, await this.#configuration(options));
    const answer = provider.callback();
    this.#server.on('request', async (request, reply) => {
      const path = new URL(request.url!, this.issuer).pathname;
      this.asked.push(path);
      if (this.instead?.(path, reply)) return;
      // A person never stays signed in at the provider.
      if (path === '/auth') delete request.headers.cookie;
      if (!path.startsWith('/interaction/')) return void answer(request, reply);
      if (request.method === 'GET') {
        reply.writeHead(200, { 'content-type': 'text/html' });
        reply.end('<!doctype html><title>Who are you?</title><form method="post"><button>It is me</button></form>');
        return;
      }
      await provider.interactionFinished(request, reply, { login: { accountId: this.person.sub, remember: false } });
    });
  }

  async #configuration({ clients, idTokenHasClaims = false }: Serving) {
    return {
      clients: clients.map(({ clientId, clientSecret, redirectUri }) => ({
        client_id: clientId,
        client_secret: clientSecret,
        redirect_uris: [redirectUri],
      })),
      jwks: { keys: [await newKey()] },
      claims: {
        openid: ['sub'],
        email: ['email', 'email_verified'],
        profile: ['name', 'preferred_username', 'picture'],
      },
      conformIdTokenClaims: !idTokenHasClaims,
      cookies: { keys: ['of the provider'] },
      pkce: { required: () => true },
      ttl: { Interaction: 600, Grant: 600, Session: 600, AccessToken: 600, IdToken: 600, AuthorizationCode: 60 },
      features: { devInteractions: { enabled: false } },
      interactions: { url: (_context, { uid }) => `/interaction/${uid}` },
      findAccount: (_context, sub) => ({
        accountId: sub,
        claims: async () => ({ ...this.person, sub }),
      }),
      // Grants every consent without a question.
      async loadExistingGrant({ oidc }) {
        const grant = new oidc.provider.Grant({
          clientId: oidc.client!.clientId,
          accountId: oidc.session!.accountId!,
        });
        grant.addOIDCScope('openid email profile');
        await grant.save();
        return grant;
      },
    } satisfies Configuration;
  }

  /**
   * A person signs in at the provider, in a separate browser.
   * @param address to which the platform redirected them
   * @returns the address to which the provider redirects them
   */
  async signIn(address: string, person: PersonThere): Promise<URL> {
    this.person = person;
    const cookies = new Map<string, string>();
    let url = new URL(address);
    let method = 'GET';
    for (let steps = 0; steps < 10; steps++) {
      const headers = { cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join('; ') };
      const reply = await fetch(url, { method, headers, redirect: 'manual' });
      for (const set of reply.headers.getSetCookie()) {
        const [, name, value] = /^([^=]+)=([^;]*)/.exec(set)!;
        cookies.set(name!, value!);
      }
      const location = reply.headers.get('location');
      if (location === null) {
        if (!url.pathname.startsWith('/interaction/')) throw new Error(`${reply.status}: ${await reply.text()}`);
        method = 'POST';
        continue;
      }
      method = 'GET';
      url = new URL(location, url);
      if (url.origin !== this.issuer) return url;
    }
    throw new Error('the sign-in there has no end');
  }

  /** A key set with the key id of the real one and another key. */
  static async otherKeys(): Promise<string> {
    const { kty, n, e, kid, use, alg } = await newKey();
    return JSON.stringify({ keys: [{ kty, n, e, kid, use, alg }] });
  }

  async stop(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }
}

async function newKey(): Promise<JWK> {
  const { privateKey } = await generateKeyPair('RS256', { extractable: true });
  return { ...(await exportJWK(privateKey)), kid: 'signs', use: 'sig', alg: 'RS256' };
}
