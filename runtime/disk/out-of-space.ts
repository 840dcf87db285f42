/**
 * Whether an error means that a file system had no blocks, inodes or quota left, for us or for a program that we ran.
 */
export function isOutOfSpace(error: unknown): boolean {
  const { code, stderr } = (error ?? {}) as { code?: unknown; stderr?: unknown };
  if (code === 'ENOSPC' || code === 'EDQUOT') return true;
  return typeof stderr === 'string' && /no space left|quota exceeded/i.test(stderr);
}
