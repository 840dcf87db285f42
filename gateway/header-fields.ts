import type { OutgoingHttpHeaders } from 'node:http2';

/** Names that never pass in trailers: they would change how the message was read, routed or authorised. */
const forbiddenTrailers = new Set([
  'connection',
  'http2-settings',
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

/** Fields that Node sends once only over HTTP/2, and throws when there are more; the first one counts. */
const singleFields = new Set([
  'access-control-allow-credentials',
  'access-control-max-age',
  'access-control-request-method',
  'age',
  'authorization',
  'content-encoding',
  'content-language',
  'content-length',
  'content-location',
  'content-md5',
  'content-range',
  'content-type',
  'date',
  'dnt',
  'etag',
  'expires',
  'from',
  'host',
  'if-match',
  'if-modified-since',
  'if-none-match',
  'if-range',
  'if-unmodified-since',
  'last-modified',
  'location',
  'max-forwards',
  'proxy-authorization',
  'range',
  'referer',
  'retry-after',
  'tk',
  'upgrade-insecure-requests',
  'user-agent',
  'x-content-type-options',
]);

/** Fields of one connection of HTTP/1.1: HTTP/2 forbids them (RFC 9113 §8.2.2). */
const connectionFields = new Set([
  'connection',
  'http2-settings',
  'keep-alive',
  'proxy-connection',
  'te',
  'transfer-encoding',
  'upgrade',
]);

const fieldName = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const fieldValue = /^[\t\x20-\x7e\x80-\xff]*$/;

/** What nghttp2 counts for a field beside its name and value, and the largest block it sends. */
const http2FieldOverheadBytes = 12;
const maxHttp2BlockBytes = 60 * 1024;

/** Fields that no block of HTTP/2 can hold. */
export class FieldsTooLarge extends Error {
  override name = 'FieldsTooLarge';
}

/** Whether a field can be written in any version of HTTP (RFC 9110 §5). */
export function isFieldValid(name: string, value: string): boolean {
  return fieldName.test(name) && fieldValue.test(value);
}

/** Trailer fields that may pass, from a flat list. */
export function forwardableTrailers(raw: string[]): string[] {
  const forward: string[] = [];
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i]!.toLowerCase();
    if (name.startsWith(':') || name.startsWith('x-forwarded-') || forbiddenTrailers.has(name)) continue;
    if (!isDisguisedCredential(name)) forward.push(raw[i]!, raw[i + 1]!);
  }
  return forward;
}

/**
 * A field's value without the white space around it, which is only spaces and tabs (RFC 9110 §5.5). `trim` would also
 * take out line ends, control characters and no-break spaces, and so accept what others refuse or read differently.
 */
export function trimSpace(text: string): string {
  let from = 0;
  let to = text.length;
  while (from < to && isSpace(text.charCodeAt(from))) from++;
  while (to > from && isSpace(text.charCodeAt(to - 1))) to--;
  return text.slice(from, to);
}

const isSpace = (code: number) => code === 0x20 || code === 0x09;

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

/** What a Connection field names beside the usual words; such fields end at this hop (RFC 9110 §7.6.1). */
export function nominatedNames(value: string, known: Set<string> | null): Set<string> | null {
  let names = known;
  for (const token of value.toLowerCase().split(',')) {
    const name = trimSpace(token);
    if (name === '' || name === 'keep-alive' || name === 'close' || name === 'upgrade') continue;
    names ??= new Set();
    names.add(name);
  }
  return names;
}

/**
 * Fields of a flat list as HTTP/2 can carry them: lower-case names, doubled ones as lists; without pseudo-headers,
 * fields of a connection, fields that are not valid, and repetitions of what may be there once.
 * @throws {FieldsTooLarge}
 */
export function http2Headers(flat: string[]): OutgoingHttpHeaders {
  const headers: Record<string, string | string[]> = Object.create(null);
  let blockBytes = 0;
  for (let i = 0; i < flat.length; i += 2) {
    const name = flat[i]!.toLowerCase();
    const value = flat[i + 1]!;
    if (connectionFields.has(name) || !isFieldValid(name, value)) continue;
    const known = headers[name];
    if (known !== undefined && singleFields.has(name)) continue;
    blockBytes += name.length + value.length + http2FieldOverheadBytes;
    if (blockBytes > maxHttp2BlockBytes) throw new FieldsTooLarge('header fields too large for HTTP/2');
    if (known === undefined) headers[name] = value;
    else if (Array.isArray(known)) known.push(value);
    else headers[name] = [known, value];
  }
  return headers;
}
