import type { OutgoingHttpHeaders } from 'node:http2';
import { forwardedClientField } from '../domain/forwarded-client.ts';

/** Names that are removed from trailers: they could change the framing, routing or authorisation of the message. */
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
  'e2b-traffic-access-token',
  forwardedClientField,
]);

/** Fields that Node allows only once over HTTP/2. For repeated ones Node throws, so only the first is kept. */
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

/** Connection-specific fields of HTTP/1.1, which HTTP/2 forbids (RFC 9113 §8.2.2). */
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

/** nghttp2's overhead for a field in addition to its name and value, and the largest header block that it sends. */
const http2FieldOverheadBytes = 12;
const maxHttp2BlockBytes = 60 * 1024;

/** The fields do not fit into one header block of HTTP/2. */
export class FieldsTooLarge extends Error {
  override name = 'FieldsTooLarge';
}

/** Whether a field is valid in every version of HTTP (RFC 9110 §5). */
export function isFieldValid(name: string, value: string): boolean {
  return fieldName.test(name) && fieldValue.test(value);
}

/** The trailer fields that may be forwarded, as a flat list. */
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
 * A field's value without surrounding spaces and tabs (RFC 9110 §5.5). `trim` would also remove line ends, control
 * characters and no-break spaces, and would thus accept values that other servers refuse or read differently.
 */
export function trimSpace(text: string): string {
  let from = 0;
  let to = text.length;
  while (from < to && isSpace(text.charCodeAt(from))) from++;
  while (to > from && isSpace(text.charCodeAt(to - 1))) to--;
  return text.slice(from, to);
}

const isSpace = (code: number) => code === 0x20 || code === 0x09;

/** Removes the fields with these lower-case names. */
export function withoutNames(flat: string[], names: ReadonlySet<string>): string[] {
  const kept: string[] = [];
  for (let i = 0; i < flat.length; i += 2) {
    if (!names.has(flat[i]!.toLowerCase())) kept.push(flat[i]!, flat[i + 1]!);
  }
  return kept;
}

/** A name with `_` in place of `-` counts too, because servers that turn names into variables treat them alike. */
export function isDisguisedCredential(name: string): boolean {
  return name.length === 16 && name.includes('_') && name.toLowerCase().replaceAll('_', '-') === 'x-platform-token';
}

/**
 * Removes cookies that name another domain than this host. One for the base domain would reach the servers of all
 * sandboxes.
 */
export function withoutForeignCookies(flat: string[], host: string): string[] {
  let kept: string[] | null = null;
  for (let i = 0; i < flat.length; i += 2) {
    const isForeign =
      flat[i]!.length === 10 && flat[i]!.toLowerCase() === 'set-cookie' && isForeignTo(host, flat[i + 1]!);
    if (isForeign) kept ??= flat.slice(0, i);
    else kept?.push(flat[i]!, flat[i + 1]!);
  }
  return kept ?? flat;
}

/** @param host may end in a port. @param cookie a value of Set-Cookie, read as browsers do (RFC 6265 §5.2) */
function isForeignTo(host: string, cookie: string): boolean {
  const name = host.replace(/:\d*$/, '').toLowerCase();
  return cookie
    .split(';')
    .slice(1)
    .some((attribute) => {
      const domain = /^\s*domain\s*=\s*\.?(.*?)\s*$/i.exec(attribute)?.[1];
      return domain !== undefined && domain !== '' && domain.toLowerCase() !== name;
    });
}

/** The names in a Connection field, except the usual words. These fields end at this hop (RFC 9110 §7.6.1). */
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
 * The fields of a flat list in the form of HTTP/2: lower-case names, and repeated fields as lists. Pseudo-headers,
 * connection-specific and invalid fields, and repetitions of single fields are removed.
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
