import { createHash, timingSafeEqual } from 'node:crypto';

/** What a signature allows: `read` is GET, HEAD and OPTIONS; `write` is everything, WebSockets included. */
export type SignedOperation = 'read' | 'write';

const PARAMETERS = new Set(['signature', 'signature_expiration']);

/** Compares in constant time, whatever the lengths. */
export function secretsEqual(left: string, right: string): boolean {
  const digest = (secret: string) => createHash('sha256').update(secret).digest();
  return timingSafeEqual(digest(left), digest(right));
}

/**
 * The signature of the agent's signed URLs over `{path}:{read|write}:root:{access token}[:{expiry}]`.
 * For a port the path is `/`, which opens all of it, or one exact path of it.
 */
export function signQuery(
  path: string,
  operation: SignedOperation,
  accessToken: string,
  expiresAtSeconds: number | null,
): string {
  const expiry = expiresAtSeconds === null ? '' : `:${expiresAtSeconds}`;
  const hash = createHash('sha256').update(`${path}:${operation}:root:${accessToken}${expiry}`);
  return `v1_${hash.digest('base64').replace(/=+$/, '')}`;
}

/** Whether the query of `target` carries a signature that allows a request which needs `needed`. */
export function isQuerySigned(target: string, needed: SignedOperation, accessToken: string, nowMs: number): boolean {
  const queryStart = target.indexOf('?');
  if (queryStart < 0) return false;
  const query = new URLSearchParams(target.slice(queryStart + 1));
  // Standard base64 has `+`, which an unescaped query turns into a space.
  const signature = query.get('signature')?.replaceAll(' ', '+');
  if (!signature) return false;
  const expiration = query.get('signature_expiration');
  if (expiration !== null && !/^[0-9]{1,12}$/.test(expiration)) return false;
  const expiresAtSeconds = expiration === null ? null : Number(expiration);
  if (expiresAtSeconds !== null && expiresAtSeconds * 1000 <= nowMs) return false;
  const operations: SignedOperation[] = needed === 'read' ? ['read', 'write'] : ['write'];
  const paths = ['/', decodePath(target.slice(0, queryStart))];
  let signed = false;
  for (const operation of operations) {
    for (const path of paths) {
      if (secretsEqual(signature, signQuery(path, operation, accessToken, expiresAtSeconds))) signed = true;
    }
  }
  return signed;
}

/** The target without the signature's parameters; every other byte stays as it was. */
export function withoutSignature(target: string): string {
  const queryStart = target.indexOf('?');
  if (queryStart < 0) return target;
  const kept = target
    .slice(queryStart + 1)
    .split('&')
    .filter((pair) => !PARAMETERS.has(new URLSearchParams(pair).keys().next().value ?? ''));
  const path = target.slice(0, queryStart);
  return kept.length > 0 ? `${path}?${kept.join('&')}` : path;
}

function decodePath(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}
