import { createHmac, timingSafeEqual } from 'node:crypto';

/**
 * Tokens that open the stream of one run and nothing else (section 4.1, `?token=`): a browser's event source cannot
 * send headers, and an API key does not belong into an address. Signed, not stored, so every replica knows them.
 */
export class ExecTokens {
  readonly #key: Buffer;

  constructor(key: Buffer) {
    this.#key = key;
  }

  make(sandboxId: string, runId: string, expiresAt: Date): string {
    const claims = `${runId}.${Math.ceil(expiresAt.getTime() / 1000).toString(36)}`;
    return `${claims}.${this.#sign(sandboxId, claims).toString('base64url')}`;
  }

  /** The run that a token opens; null when it is not a token of this sandbox, or has expired. */
  open(sandboxId: string, token: string, now = new Date()): string | null {
    const [runId = '', expires = '', signature = '', ...rest] = token.split('.');
    const given = Buffer.from(signature, 'base64url');
    const expected = this.#sign(sandboxId, `${runId}.${expires}`);
    if (rest.length > 0 || given.length !== expected.length || !timingSafeEqual(given, expected)) return null;
    return Number.parseInt(expires, 36) * 1000 > now.getTime() ? runId : null;
  }

  #sign(sandboxId: string, claims: string): Buffer {
    return createHmac('sha256', this.#key).update(`${sandboxId}.${claims}`).digest();
  }
}
