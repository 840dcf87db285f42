import { createHash, timingSafeEqual } from 'node:crypto';
import type { SandboxId } from '../domain/ids.ts';

/** The allowed operations: `read` is GET, HEAD and OPTIONS; `write` is all methods and WebSockets. */
export type SignedOperation = 'read' | 'write';

const parameters = new Set(['signature', 'signature_expiration']);

/** Compares in constant time, even if the lengths differ. */
export function secretsEqual(left: string, right: string): boolean {
  const digest = (secret: string) => createHash('sha256').update(secret).digest();
  return timingSafeEqual(digest(left), digest(right));
}

/** The scope of a signature: one port of one sandbox, for one path or, with `/`, for all paths. */
export interface SignedPort {
  sandboxId: SandboxId;
  /** The port in the host name. */
  port: number;
  path: string;
  operation: SignedOperation;
}

/**
 * The signature over `{path}:{port-read|port-write}:{port}-{sandbox id}:{access token}[:{expiry}]`. The agent's signed
 * URLs have the same form with the operations `read` and `write`, so a signature is never valid for both. Only the path
 * may contain colons, so the fields cannot be read in another way.
 */
export function signQuery(
  { sandboxId, port, path, operation }: SignedPort,
  accessToken: string,
  expiresAtSeconds: number | null,
): string {
  const expiry = expiresAtSeconds === null ? '' : `:${expiresAtSeconds}`;
  const signed = `${path}:port-${operation}:${port}-${sandboxId}:${accessToken}${expiry}`;
  return `v1_${createHash('sha256').update(signed).digest('base64').replace(/=+$/, '')}`;
}

/** Whether the query of `target` has a signature for this port that allows the operation `needed`. */
export function isQuerySigned(
  { target, sandboxId, port }: { target: string; sandboxId: SandboxId; port: number },
  needed: SignedOperation,
  accessToken: string,
  nowMs: number,
): boolean {
  const queryStart = target.indexOf('?');
  if (queryStart < 0) return false;
  const query = new URLSearchParams(target.slice(queryStart + 1));
  // Standard base64 contains `+`, which becomes a space in an unescaped query.
  const signature = query.get('signature')?.replaceAll(' ', '+');
  if (!signature) return false;
  const expiration = query.get('signature_expiration');
  if (expiration !== null && !/^(0|[1-9][0-9]{0,11})$/.test(expiration)) return false;
  const expiresAtSeconds = expiration === null ? null : Number(expiration);
  if (expiresAtSeconds !== null && expiresAtSeconds * 1000 <= nowMs) return false;
  const operations: SignedOperation[] = needed === 'read' ? ['read', 'write'] : ['write'];
  const own = signablePath(target.slice(0, queryStart));
  const paths = own === null ? ['/'] : ['/', own];
  let signed = false;
  for (const operation of operations) {
    for (const path of paths) {
      const expected = signQuery({ sandboxId, port, path, operation }, accessToken, expiresAtSeconds);
      if (secretsEqual(signature, expected)) signed = true;
    }
  }
  return signed;
}

/** The target without the signature's parameters. All other bytes are unchanged. */
export function withoutSignature(target: string): string {
  const queryStart = target.indexOf('?');
  if (queryStart < 0) return target;
  const kept = target
    .slice(queryStart + 1)
    .split('&')
    .filter((pair) => !parameters.has(new URLSearchParams(pair).keys().next().value ?? ''));
  const path = target.slice(0, queryStart);
  return kept.length > 0 ? `${path}?${kept.join('&')}` : path;
}

/**
 * The decoded path for a signature. Null when another path decodes to the same text, because an encoded slash is not a
 * separator of segments. Only a signature for `/` opens such a path.
 */
function signablePath(path: string): string | null {
  if (/%(?:2f|5c)/i.test(path)) return null;
  try {
    return decodeURIComponent(path);
  } catch {
    return null;
  }
}
