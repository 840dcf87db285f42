import { createHash } from 'node:crypto';

/**
 * The query that gives access to one file of the agent without the token. @param expiresAt Unix seconds; null: it does
 * not expire
 */
export function fileSignature(
  { path, operation }: { path: string; operation: 'read' | 'write' },
  token: string,
  expiresAt: number | null,
): URLSearchParams {
  return query(`${path}:${operation}:root:${token}`, expiresAt);
}

/** The query that gives access to a protected port. `path` is one exact path, or `/` for the whole port. */
export function portSignature(
  { domain, path, operation }: { domain: string; path: string; operation: 'read' | 'write' },
  token: string,
  expiresAt: number | null,
): URLSearchParams {
  const portAndSandbox = domain.split('.', 1)[0];
  return query(`${path}:port-${operation}:${portAndSandbox}:${token}`, expiresAt);
}

function query(signed: string, expiresAt: number | null): URLSearchParams {
  const text = expiresAt === null ? signed : `${signed}:${expiresAt}`;
  const hash = createHash('sha256').update(text).digest('base64').replace(/=+$/, '');
  const parameters = new URLSearchParams({ signature: `v1_${hash}` });
  if (expiresAt !== null) parameters.set('signature_expiration', String(expiresAt));
  return parameters;
}

/** Unix seconds, this many seconds from now. */
export function expiryIn(seconds: number | undefined): number | null {
  return seconds === undefined ? null : Math.floor(Date.now() / 1000) + seconds;
}
