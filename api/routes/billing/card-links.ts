import { errors, jwtVerify, SignJWT } from 'jose';

/** The account and the creator of a link. */
export interface CardLink {
  setupIntentId: string;
  /** The link works while this key or session exists. */
  credentialId: string;
}

const type = 'card-link+jwt';
const issuer = 'sandbox-platform';
const maxLength = 1024;

/**
 * Tokens of the links to the page that adds a card. A token can only open one setup intent, so a link adds at most one
 * card. Tokens are signed and not stored, so every replica can verify them.
 */
export class CardLinks {
  readonly #keys: () => Buffer[];

  /** @param keys 32 bytes each; the first signs, all verify */
  constructor(keys: () => Buffer[]) {
    this.#keys = keys;
  }

  make({ setupIntentId, credentialId }: CardLink, expiresAt: Date): Promise<string> {
    return new SignJWT({ credential: credentialId })
      .setProtectedHeader({ alg: 'HS256', typ: type })
      .setIssuer(issuer)
      .setSubject(setupIntentId)
      .setExpirationTime(expiresAt)
      .sign(this.#keys()[0]!);
  }

  /** Null: the token is not genuine, or has expired. */
  async open(token: string): Promise<CardLink | null> {
    if (token.length > maxLength) return null;
    for (const key of this.#keys()) {
      try {
        const { payload } = await jwtVerify(token, key, {
          ...{ algorithms: ['HS256'], typ: type, issuer },
          requiredClaims: ['sub', 'credential', 'exp'],
        });
        return { setupIntentId: payload.sub!, credentialId: String(payload.credential) };
      } catch (error) {
        if (!(error instanceof errors.JOSEError)) throw error;
      }
    }
    return null;
  }
}
