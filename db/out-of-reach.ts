/** Codes of the operating system and of Postgres that mean: it is down, starting, stopping, or takes nobody in. */
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
  '53300',
]);
const texts =
  /connection terminated|timeout exceeded when trying to connect|connection (?:error|ended)|client has encountered a connection error/i;

/** Whether a failure means that Postgres cannot be reached now, rather than that something was asked wrongly. */
export function isDatabaseOutOfReach(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    const code = (cause as { code?: unknown }).code;
    if (typeof code === 'string' && (codes.has(code) || code.startsWith('08'))) return true;
    if (texts.test(cause.message)) return true;
  }
  return false;
}
