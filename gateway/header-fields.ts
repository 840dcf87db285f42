import type { OutgoingHttpHeaders } from 'node:http2';

/** Names that never pass in trailers: they would change how the message was read, routed or authorised. */
const FORBIDDEN_TRAILERS = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'content-length',
  'content-encoding',
  'content-type',
  'content-range',
  'host',
  'authorization',
  'proxy-authorization',
  'cookie',
  'set-cookie',
  'expect',
  'x-platform-token',
  'x-access-token',
]);

/** Fields that may be there once only; of more the first counts. */
const SINGLE_FIELDS = new Set([
  'content-type',
  'content-length',
  'content-encoding',
  'location',
  'date',
  'etag',
  'expires',
  'last-modified',
]);

/** Trailer fields that may pass, from a flat list. */
export function forwardableTrailers(raw: string[]): string[] {
  const forward: string[] = [];
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i]!.toLowerCase();
    if (name.startsWith(':') || name.startsWith('x-forwarded-') || FORBIDDEN_TRAILERS.has(name)) continue;
    if (!isDisguisedCredential(name)) forward.push(raw[i]!, raw[i + 1]!);
  }
  return forward;
}

/** Without the fields of those lower-case names. */
export function withoutNames(flat: string[], names: ReadonlySet<string>): string[] {
  const kept: string[] = [];
  for (let i = 0; i < flat.length; i += 2) {
    if (!names.has(flat[i]!.toLowerCase())) kept.push(flat[i]!, flat[i + 1]!);
  }
  return kept;
}

/** Servers that turn names into variables read `_` as `-`. */
export function isDisguisedCredential(name: string): boolean {
  return name.length === 16 && name.includes('_') && name.toLowerCase().replaceAll('_', '-') === 'x-platform-token';
}

/** What a Connection field names beside the usual words; such fields end at this hop (RFC 9110 section 7.6.1). */
export function nominatedNames(value: string, known: Set<string> | null): Set<string> | null {
  let names = known;
  for (const token of value.toLowerCase().split(',')) {
    const name = token.trim();
    if (name === '' || name === 'keep-alive' || name === 'close' || name === 'upgrade') continue;
    names ??= new Set();
    names.add(name);
  }
  return names;
}

/** Fields of a flat list for HTTP/2: lower-case names, doubled ones as lists. */
export function http2Headers(flat: string[]): OutgoingHttpHeaders {
  const headers: Record<string, string | string[]> = Object.create(null);
  for (let i = 0; i < flat.length; i += 2) {
    const name = flat[i]!.toLowerCase();
    const known = headers[name];
    if (known === undefined) headers[name] = flat[i + 1]!;
    else if (Array.isArray(known)) known.push(flat[i + 1]!);
    else if (!SINGLE_FIELDS.has(name)) headers[name] = [known, flat[i + 1]!];
  }
  return headers;
}
