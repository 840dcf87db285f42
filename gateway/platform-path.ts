/** Rounds of percent-decoding that are checked; no server decodes more often. */
const maxDecodingRounds = 8;

/**
 * Whether a request target could reach the agent's `/platform/…`, which only the platform may call, in any way that a
 * server might read it: nested percent-encoding, `.` and `..`, repeated slashes or backslashes, matrix parameters,
 * control characters, other cases, and compatibility forms of letters. In doubt it refuses.
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

/** Resolves the segments both as a router with dot segments would and as one without. */
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
      // biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern looks for them
      .replace(/;.*$|[\x00-\x20\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202f\u2060\ufeff]/gs, '')
  );
}

function percentDecode(path: string): string {
  return path.replace(/(?:%[0-9a-f]{2})+/gi, (escapes) =>
    Buffer.from(escapes.replaceAll('%', ''), 'hex').toString('utf8'),
  );
}
