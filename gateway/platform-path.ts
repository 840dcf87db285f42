/** Rounds of percent-decoding that are looked through; no server decodes that often. */
const maxDecodingRounds = 8;

/**
 * Whether a request target leads to the agent's `/platform/…`, which only the platform may call, in whatever way a
 * server could come to read it so: nested percent-encoding, `.` and `..`, doubled or back slashes, matrix parameters,
 * control characters, other cases, and compatibility forms of letters. Rather refuses a path too many.
 */
export function isPlatformPath(target: string): boolean {
  const end = target.search(/[?#]/);
  let path = end < 0 ? target : target.slice(0, end);
  if (!/%|\\|[^\x21-\x7e]/.test(path) && !/platform/i.test(path)) return false;
  for (let round = 0; round < maxDecodingRounds; round++) {
    if (walksThroughPlatform(path)) return true;
    const decoded = percentDecode(path);
    if (decoded === path) return false;
    path = decoded;
  }
  return true;
}

/** Follows the segments as a router would, and as one that does not resolve dots would. */
function walksThroughPlatform(path: string): boolean {
  // An encoded question mark or hash would start a query for a server that decodes first.
  const end = path.search(/[?#]/);
  const segments = (end < 0 ? path : path.slice(0, end)).replaceAll('\\', '/').split('/');
  let depth = 0;
  for (const raw of segments) {
    const segment = plainSegment(raw);
    if (segment === '..') depth = Math.max(0, depth - 1);
    else if (segment !== '' && segment !== '.') {
      if (depth === 0 && segment.replace(/\.+$/, '') === 'platform') return true;
      depth++;
    }
  }
  return false;
}

function plainSegment(segment: string): string {
  return (
    segment
      .normalize('NFKC')
      .toLowerCase()
      // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
      .replace(/;.*$|[\x00-\x20\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202f\u2060\ufeff]/gs, '')
  );
}

function percentDecode(path: string): string {
  return path.replace(/(?:%[0-9a-f]{2})+/gi, (escapes) =>
    Buffer.from(escapes.replaceAll('%', ''), 'hex').toString('utf8'),
  );
}
