import { createHash, timingSafeEqual } from 'node:crypto';

/** Compares two secrets in constant time. */
export function sameSecret(given: string, expected: string): boolean {
  const a = Buffer.from(given);
  const b = Buffer.from(expected);
  if (a.length !== b.length) return false;
  return timingSafeEqual(a, b);
}

/** The file operation of a signed URL. */
export interface SignedOperation {
  path: string;
  operation: 'read' | 'write';
  username: string;
  /** Unix seconds. Null: the signature does not expire. */
  expiration: string | null;
}

/**
 * The signature of a file URL: `v1_` and the unpadded base64 of SHA-256 over
 * `{path}:{operation}:{username}:{token}[:{expiration}]`.
 */
export function fileSignature({ path, operation, username, expiration }: SignedOperation, token: string): string {
  const parts = [path, operation, username, token];
  if (expiration !== null) parts.push(expiration);
  return `v1_${createHash('sha256').update(parts.join(':')).digest('base64').replace(/=+$/, '')}`;
}

export type SignatureVerdict = 'valid' | 'invalid' | 'expired';

/** Checks the `signature` of a file URL. `nowSeconds` is the current time. */
export function judgeSignature(
  signature: string,
  signed: SignedOperation,
  token: string,
  nowSeconds = Date.now() / 1000,
): SignatureVerdict {
  // The fields are joined by colons, and only the path may contain colons. Otherwise a signature for reading
  // `/a:write:y` as user `x` could also be one for writing `/a` as user `y:read:x`.
  if (signed.username.includes(':')) return 'invalid';
  if (signed.expiration !== null && !/^[0-9]{1,12}$/.test(signed.expiration)) return 'invalid';
  // The signature is checked first, so that a wrong signature reveals nothing about the expiry.
  if (!sameSecret(signature, fileSignature(signed, token))) return 'invalid';
  if (signed.expiration !== null && !(Number(signed.expiration) >= nowSeconds)) return 'expired';
  return 'valid';
}
