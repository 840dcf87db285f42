import type { CustomFetchOptions } from 'openid-client';
import * as oidc from 'openid-client';
import pLimit from 'p-limit';
import type { Logger } from 'pino';
import type { ProvenIdentity } from '../../../../db/accounts/identity-sign-ins.ts';
import { AppError } from '../../../../domain/errors.ts';
import { boundedFetch, UnusableReplyError } from '../../../../platform/config/bounded-fetch.ts';
import type { OidcIssuer } from '../../../../platform/config/oidc-issuers.ts';

/** Discovery documents, key sets, tokens and claims take a few KiB. */
const maxReplyBytes = 256 * 1024;

/** The identity provider is unreachable, or its reply is unusable. */
class ProviderUnreachable extends Error {
  override name = 'ProviderUnreachable';
}

/** `fetch` for calls to an identity provider. @throws {ProviderUnreachable} */
function providerFetch(timeoutMs: number) {
  const bounded = boundedFetch({ timeoutMs, maxReplyBytes });
  return async (url: string, options: CustomFetchOptions): Promise<Response> => {
    try {
      const reply = await bounded(url, options as RequestInit);
      if (reply.status >= 500) throw new ProviderUnreachable(`it answered ${reply.status}`);
      return reply;
    } catch (error) {
      if (error instanceof UnusableReplyError) throw new ProviderUnreachable(error.message);
      throw error;
    }
  };
}

/** The values that the provider's answer must match. */
export interface SignInChecks {
  state: string;
  nonce: string;
  codeVerifier: string;
}

/** The time limit of one call to the provider. A sign-in makes at most four: metadata, tokens, keys, claims. */
const callTimeoutMs = 5000;
/** Older metadata is read again in the background. */
const metadataFreshMs = 3_600_000;
/**
 * The maximum number of sign-ins at one provider that this process finishes at once, and the maximum number of waiting
 * ones.
 */
const maxInProgress = 16;
const waitingAtMost = 32;

/**
 * One configured issuer. Sends people to its sign-in page, and reads their identity from the answer that they bring
 * back.
 */
export class IdentityProvider {
  readonly issuer: OidcIssuer;
  readonly #clientSecret: string | null;
  readonly #redirectUri: string;
  readonly #logger: Logger;
  readonly #timeoutMs: number;
  readonly #finishing = pLimit(maxInProgress);
  #known: { configuration: oidc.Configuration; readAt: number } | null = null;
  #reading: Promise<oidc.Configuration> | null = null;

  /** @param options.timeoutMs the time limit of one call to the provider */
  constructor(options: {
    issuer: OidcIssuer;
    clientSecret: string | null;
    redirectUri: string;
    logger: Logger;
    timeoutMs?: number | undefined;
  }) {
    this.issuer = options.issuer;
    this.#clientSecret = options.clientSecret;
    this.#redirectUri = options.redirectUri;
    this.#logger = options.logger;
    this.#timeoutMs = options.timeoutMs ?? callTimeoutMs;
  }

  /**
   * The address where a person signs in, and the values that the answer must match.
   * @throws {AppError} `identity_provider_unavailable`
   */
  async begin(): Promise<{ url: URL; checks: SignInChecks }> {
    const checks = {
      state: oidc.randomState(),
      nonce: oidc.randomNonce(),
      codeVerifier: oidc.randomPKCECodeVerifier(),
    };
    const codeChallenge = await oidc.calculatePKCECodeChallenge(checks.codeVerifier);
    const url = await this.#calling(async () =>
      oidc.buildAuthorizationUrl(await this.#configuration(), {
        redirect_uri: this.#redirectUri,
        scope: 'openid email profile',
        state: checks.state,
        nonce: checks.nonce,
        code_challenge: codeChallenge,
        code_challenge_method: 'S256',
      }),
    );
    return { url, checks };
  }

  /**
   * Exchanges the code of an answer for the identity that the provider vouches for.
   * @param query the query of the callback address to which the provider sent the person
   * @throws {AppError} `identity_not_proven`, `sign_in_declined`, `identity_provider_unavailable`
   */
  async finish(query: string, checks: SignInChecks): Promise<ProvenIdentity> {
    if (this.#finishing.pendingCount >= waitingAtMost) throw this.#unavailable();
    return this.#finishing(() => this.#calling(() => this.#exchange(query, checks)));
  }

  async #exchange(query: string, checks: SignInChecks): Promise<ProvenIdentity> {
    const configuration = await this.#configuration();
    const tokens = await oidc.authorizationCodeGrant(configuration, new URL(`${this.#redirectUri}?${query}`), {
      expectedState: checks.state,
      expectedNonce: checks.nonce,
      pkceCodeVerifier: checks.codeVerifier,
      idTokenExpected: true,
    });
    const { sub, iss, ...inToken } = tokens.claims()!;
    if (sub.length === 0 || sub.length > 255 || !isStorable(sub)) throw notProven();
    const claims =
      inToken.email !== undefined && inToken.email_verified !== undefined
        ? inToken
        : { ...inToken, ...(await oidc.fetchUserInfo(configuration, tokens.access_token, sub)) };
    const toText = (value: unknown) =>
      typeof value === 'string' && value.length <= 1024 && isStorable(value) ? value : null;
    return {
      issuer: iss,
      subject: sub,
      email: toText(claims.email),
      isEmailVerified: claims.email_verified === true,
      name: toText(claims.name),
      username: toText(claims.preferred_username),
      pictureUrl: httpsUrl(toText(claims.picture)),
    };
  }

  /** The metadata. Concurrent callers share one read. The previous metadata is used during a repeated read. */
  async #configuration(): Promise<oidc.Configuration> {
    const known = this.#known;
    if (known && Date.now() - known.readAt < metadataFreshMs) return known.configuration;
    this.#reading ??= this.#read()
      .catch((error) => {
        // Wrong metadata is a fault of the provider, not of the person.
        throw new ProviderUnreachable(describeError(error));
      })
      .finally(() => {
        this.#reading = null;
      });
    if (!known) return this.#reading;
    this.#reading.catch((error) => {
      this.#logger.warn(
        { issuer: this.issuer.id, reason: describeError(error) },
        'metadata of an issuer could not be read again',
      );
    });
    return known.configuration;
  }

  async #read(): Promise<oidc.Configuration> {
    const { issuer, client_id: clientId } = this.issuer;
    const server = new URL(issuer);
    const configuration = await oidc.discovery(server, clientId, undefined, this.#authentication(), {
      [oidc.customFetch]: providerFetch(this.#timeoutMs),
      // Signatures are checked although the token comes directly from the provider.
      execute: [oidc.enableNonRepudiationChecks, ...(server.protocol === 'http:' ? [oidc.allowInsecureRequests] : [])],
    });
    this.#known = { configuration, readAt: Date.now() };
    return configuration;
  }

  /**
   * The secret is sent in the way that every provider must support (RFC 6749 §2.3.1), unless its metadata only lists
   * the body.
   */
  #authentication(): oidc.ClientAuth {
    const secret = this.#clientSecret;
    if (secret === null) return oidc.None();
    const [inHeader, inBody] = [oidc.ClientSecretBasic(secret), oidc.ClientSecretPost(secret)];
    return (server, client, body, headers) => {
      const methods = server.token_endpoint_auth_methods_supported ?? ['client_secret_basic'];
      const isBodyOnly = methods.includes('client_secret_post') && !methods.includes('client_secret_basic');
      return (isBodyOnly ? inBody : inHeader)(server, client, body, headers);
    };
  }

  /** Throws public errors. The provider's messages go into the log, without codes and tokens. */
  async #calling<T>(call: () => Promise<T>): Promise<T> {
    try {
      return await call();
    } catch (error) {
      if (error instanceof AppError) throw error;
      const { id: issuer } = this.issuer;
      if (isDeclined(error))
        throw new AppError('sign_in_declined', 'The sign-in was cancelled or declined at the identity provider');
      if (isAboutIdentity(error)) {
        this.#logger.info({ issuer, reason: describeError(error) }, 'an identity is not proven');
        throw notProven();
      }
      this.#logger.warn({ issuer, reason: describeError(error) }, 'an identity provider cannot be used');
      throw this.#unavailable();
    }
  }

  #unavailable(): AppError {
    return new AppError(
      'identity_provider_unavailable',
      `${this.issuer.label} cannot be reached now or sends invalid replies; try again in a minute`,
    );
  }
}

/** Postgres stores no NUL, and would replace half of a surrogate pair. */
const isStorable = (text: string) => !text.includes('\0') && text.isWellFormed();

const notProven = () =>
  new AppError('identity_not_proven', 'The reply of the identity provider is not valid; sign in again');

const declined = new Set([
  ...['access_denied', 'login_required', 'consent_required', 'interaction_required', 'account_selection_required'],
]);

function isDeclined(error: unknown): boolean {
  return error instanceof oidc.AuthorizationResponseError && declined.has(error.error);
}

/** Codes of `openid-client` for an answer or token that is wrong, forged, expired or meant for another client. */
const aboutIdentity = new Set([
  'OAUTH_INVALID_RESPONSE',
  'OAUTH_JWT_CLAIM_COMPARISON_FAILED',
  'OAUTH_JWT_TIMESTAMP_CHECK_FAILED',
  'OAUTH_JSON_ATTRIBUTE_COMPARISON_FAILED',
  'OAUTH_KEY_SELECTION_FAILED',
]);

function isAboutIdentity(error: unknown): boolean {
  if (isUnreachable(error)) return false;
  if (error instanceof oidc.ResponseBodyError) return error.error === 'invalid_grant';
  return error instanceof oidc.ClientError && aboutIdentity.has(error.code ?? '');
}

function isUnreachable(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if (cause instanceof ProviderUnreachable) return true;
  }
  return false;
}

/** Texts of libraries and the provider's error code. Causes are left out, because they contain replies with tokens. */
function describeError(error: unknown): string {
  const texts: string[] = [];
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    const { code, error: said } = cause as { code?: unknown; error?: unknown };
    texts.push([cause.message, code, said].filter((part) => typeof part === 'string').join(' '));
  }
  return texts.join(': ').slice(0, 500);
}

/** The address of a picture, which browsers of other users load. Null: it is none, or not https. */
function httpsUrl(text: string | null): string | null {
  return text !== null && URL.canParse(text) && new URL(text).protocol === 'https:' ? new URL(text).href : null;
}
