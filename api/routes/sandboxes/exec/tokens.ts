import { createHmac, timingSafeEqual } from 'node:crypto';
import type { SandboxId } from '../../../../domain/ids.ts';

/** A run, and the key or session that opens its stream. */
export interface StreamedRun {
  runId: string;
  credentialId: string;
}

/**
 * Tokens that open only the stream of one run. A browser's event source cannot send headers, and an API key must not be
 * in an address. Tokens are signed and not stored, so every replica can verify them.
 */
export class ExecTokens {
  readonly #keys: () => Buffer[];

  /** @param keys the first signs, all verify */
  constructor(keys: () => Buffer[]) {
    this.#keys = keys;
  }

  /** @param run.credentialId the token works while this key or session exists */
  make(sandboxId: SandboxId, run: StreamedRun, expiresAt: Date): string {
    const claims = `${run.runId}.${run.credentialId}.${Math.ceil(expiresAt.getTime() / 1000).toString(36)}`;
    return `${claims}.${sign(this.#keys()[0]!, sandboxId, claims).toString('base64url')}`;
  }

  /** The run of a token. Null when the token is not one of this sandbox, or has expired. */
  open(sandboxId: SandboxId, token: string, now = new Date()): StreamedRun | null {
    const [runId = '', credentialId = '', expires = '', signature = '', ...rest] = token.split('.');
    const given = Buffer.from(signature, 'base64url');
    const isSignedWith = (key: Buffer) => {
      const expected = sign(key, sandboxId, `${runId}.${credentialId}.${expires}`);
      return given.length === expected.length && timingSafeEqual(given, expected);
    };
    if (rest.length > 0 || !this.#keys().some(isSignedWith)) return null;
    return Number.parseInt(expires, 36) * 1000 > now.getTime() ? { runId, credentialId } : null;
  }
}

function sign(key: Buffer, sandboxId: SandboxId, claims: string): Buffer {
  return createHmac('sha256', key).update(`${sandboxId}.${claims}`).digest();
}
