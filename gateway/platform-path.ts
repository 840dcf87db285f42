/** The number of checked rounds of percent-decoding. No server decodes more often. */
const maxDecodingRounds = 8;

/**
 * Whether a request target could reach the agent's `/platform/…`, which is only for the platform. Covers all ways in
 * which a server might interpret a target: nested percent-encoding, `.` and `..`, repeated slashes or backslashes,
 * matrix parameters, control characters, letter case, and compatibility forms of letters. If in doubt, the answer is
 * true.
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

/** Resolves the segments both with and without dot segments, because routers differ. */
function walksThroughPlatform(path: string): boolean {
  // For a server that decodes first, an encoded question mark or hash would start a query or a fragment.
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
