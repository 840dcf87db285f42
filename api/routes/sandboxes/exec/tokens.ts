import { createHmac, timingSafeEqual } from 'node:crypto';
import type { SandboxId } from '../../../../domain/ids.ts';

/** An execution, and the key or session that opens its stream. */
export interface StreamedExecution {
  executionId: string;
  credentialId: string;
}

/**
 * Tokens that open only the stream of one execution. A browser's event source cannot send headers, and an API key must
 * not be in an address. Tokens are signed and not stored, so every replica can verify them.
 */
export class ExecTokens {
  readonly #keys: () => Buffer[];

  /** @param keys the first signs, all verify */
  constructor(keys: () => Buffer[]) {
    this.#keys = keys;
  }

  /** @param execution.credentialId the token works while this key or session exists */
  make(sandboxId: SandboxId, execution: StreamedExecution, expiresAt: Date): string {
    const claims = `${execution.executionId}.${execution.credentialId}.${Math.ceil(expiresAt.getTime() / 1000).toString(36)}`;
    return `${claims}.${sign(this.#keys()[0]!, sandboxId, claims).toString('base64url')}`;
  }

  /** The execution of a token. Null when the token is not one of this sandbox, or has expired. */
  open(sandboxId: SandboxId, token: string, now = new Date()): StreamedExecution | null {
    const [executionId = '', credentialId = '', expires = '', signature = '', ...rest] = token.split('.');
    const given = Buffer.from(signature, 'base64url');
    const isSignedWith = (key: Buffer) => {
      const expected = sign(key, sandboxId, `${executionId}.${credentialId}.${expires}`);
      return given.length === expected.length && timingSafeEqual(given, expected);
    };
    if (rest.length > 0 || !this.#keys().some(isSignedWith)) return null;
    return Number.parseInt(expires, 36) * 1000 > now.getTime() ? { executionId, credentialId } : null;
  }
}

function sign(key: Buffer, sandboxId: SandboxId, claims: string): Buffer {
  return createHmac('sha256', key).update(`${sandboxId}.${claims}`).digest();
}
