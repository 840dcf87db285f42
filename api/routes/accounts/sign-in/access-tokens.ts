import { createSecretKey, type KeyObject } from 'node:crypto';
import { errors, jwtVerify, SignJWT } from 'jose';
import type { StartedSession } from '../../../../db/accounts/sign-ins.ts';
import { isId, type SessionId, type UserId } from '../../../../domain/ids.ts';
import type { PlatformSecrets } from '../../../../platform/config/secrets.ts';

/** RFC 9068. A token of another type is refused, even if it is signed with one of our keys. */
const type = 'at+jwt';
const issuer = 'sandbox-platform';
const audience = 'sandbox-platform-api';
const maxLength = 1024;
const maxKeys = 100;

/** The claims of a genuine token. The database knows whether its session still exists. */
interface AccessClaims {
  sessionId: SessionId;
  userId: UserId;
  keyId: string;
}

/**
 * Access tokens: JWTs signed with keys that are derived from the keys' ids, so that all replicas have the same keys
 * without storing any.
 */
export class AccessTokens {
  readonly #secrets: Pick<PlatformSecrets, 'acceptedKeyNumbers' | 'accessTokenKey'>;
  readonly #derived = new Map<string, KeyObject>();

  constructor(secrets: Pick<PlatformSecrets, 'acceptedKeyNumbers' | 'accessTokenKey'>) {
    this.#secrets = secrets;
  }

  make(session: StartedSession, userId: UserId): Promise<string> {
    return new SignJWT({ sid: session.sessionId })
      .setProtectedHeader({ alg: 'HS256', typ: type, kid: session.keyId })
      .setIssuer(issuer)
      .setAudience(audience)
      .setSubject(userId)
      .setIssuedAt(session.startedAt)
      .setExpirationTime(session.expiresAt)
      .sign(this.#deriveKey(session.keyId, this.#secrets.acceptedKeyNumbers[0]!));
  }

  /** The claims of a token; null when it is not genuine or has expired. */
  async open(token: string): Promise<AccessClaims | null> {
    if (token.length > maxLength) return null;
    for (const number of this.#secrets.acceptedKeyNumbers) {
      const claims = await this.#openWith(token, number);
      if (claims) return claims;
    }
    return null;
  }

  async #openWith(token: string, secretKeyNumber: number): Promise<AccessClaims | null> {
    let keyId = '';
    try {
      const { payload } = await jwtVerify(
        token,
        ({ kid = '' }) => {
          keyId = /^[a-z0-9-]{1,40}$/.test(kid) ? kid : '';
          return this.#deriveKey(keyId, secretKeyNumber);
        },
        { algorithms: ['HS256'], typ: type, issuer, audience, requiredClaims: ['sub', 'sid', 'exp'] },
      );
      const { sid: sessionId, sub: userId = '' } = payload;
      if (keyId === '' || typeof sessionId !== 'string' || !isId('session', sessionId) || !isId('user', userId))
        return null;
      return { sessionId, userId, keyId };
    } catch (error) {
      if (error instanceof errors.JOSEError) return null;
      throw error;
    }
  }

  /** The keys are kept as KeyObjects, because the library caches its imported form of each object. */
  #deriveKey(keyId: string, secretKeyNumber: number): KeyObject {
    const name = `${keyId} ${secretKeyNumber}`;
    const known = this.#derived.get(name);
    if (known) return known;
    // The cache is bounded, because callers choose the key ids in their tokens.
    if (this.#derived.size >= maxKeys) this.#derived.clear();
    const key = createSecretKey(this.#secrets.accessTokenKey(keyId, secretKeyNumber));
    this.#derived.set(name, key);
    return key;
  }
}

/** Whether a text has the format of an access token. The token may still be forged. */
export function isAccessTokenShape(text: string): boolean {
  return text.startsWith('eyJ') && text.split('.').length === 3;
}
