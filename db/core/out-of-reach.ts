import type { EntityManager } from '@mikro-orm/postgresql';
import { query } from './query.ts';

/**
 * Codes of the operating system and of Postgres for a database that is down, starting, stopping or full, or that ended
 * a session which waited too long (`SessionLimits`).
 */
const codes = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENOTFOUND',
  'ENOENT',
  '57P01',
  '57P02',
  '57P03',
  '53100',
  '53200',
  '53300',
  '25P03',
  '55P03',
  '57014',
]);
const texts =
  /connection terminated|timeout exceeded when trying to connect|connection (?:error|ended)|client has encountered a connection error/i;

/** @throws when the database does not answer */
export async function reachDatabase(em: EntityManager): Promise<void> {
  await query(em, 'select 1');
}

/** Whether a failure is caused by the database's state and not by the statement, so that a later try may succeed. */
export function isDatabaseOutOfReach(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    const code = (cause as { code?: unknown }).code;
    if (typeof code === 'string' && (codes.has(code) || code.startsWith('08'))) return true;
    if (texts.test(cause.message)) return true;
  }
  return false;
}
