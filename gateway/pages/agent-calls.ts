import type { RequestHeaders } from '../request-headers.ts';
import type { SandboxRoute } from '../routes.ts';
import type { ResponseHead } from '../upstream/response-parser.ts';
import type { AgentProcedure } from './agent-procedures.ts';

/** The request fields that are forwarded to the agent. Cookies, origins and other fields are dropped. */
const forwardedFields = new Set([
  'connect-protocol-version',
  'content-type',
  'if-none-match',
  'keepalive-ping-interval',
  'range',
]);

/** Makes the page's request one of a client with the access token. */
export function useAccessToken(headers: RequestHeaders, route: SandboxRoute): void {
  const kept: string[] = [];
  for (let i = 0; i < headers.forward.length; i += 2) {
    if (forwardedFields.has(headers.forward[i]!.toLowerCase())) kept.push(headers.forward[i]!, headers.forward[i + 1]!);
  }
  headers.forward = kept;
  headers.accessToken = route.secure ? route.accessToken : null;
}

/**
 * The reply fields that are forwarded to the page. The agent may be replaced, so its cookies, redirects, links and
 * policies are dropped.
 */
const returnedFields = new Set([
  'accept-ranges',
  'content-length',
  'content-range',
  'etag',
  'last-modified',
  'x-request-id',
]);

const contentTypes: Readonly<Record<AgentProcedure['kind'], readonly string[]>> = {
  unary: ['application/json'],
  stream: ['application/connect+json', 'application/json'],
  upload: ['application/json', 'text/plain; charset=utf-8'],
  download: ['application/json'],
};

/**
 * The head of the agent's reply for the page. No browser renders or runs the reply: an unexpected content type becomes
 * `application/octet-stream`, and files are attachments.
 */
export function pageReplyHead(head: ResponseHead, kind: AgentProcedure['kind']): ResponseHead {
  const headers: string[] = [];
  let type = 'application/octet-stream';
  for (let i = 0; i < head.headers.length; i += 2) {
    const name = head.headers[i]!.toLowerCase();
    const value = head.headers[i + 1]!;
    if (returnedFields.has(name)) headers.push(head.headers[i]!, value);
    // Only a failed download is JSON. A file is passed on as bytes, and the agent's content type is ignored.
    if (name === 'content-type' && contentTypes[kind].includes(value) && (kind !== 'download' || head.status >= 400)) {
      type = value;
    }
  }
  headers.push('Content-Type', type, ...inertFields, 'Cache-Control', 'no-store');
  if (kind === 'download') headers.push('Content-Disposition', 'attachment');
  return { ...head, reason: '', headers };
}

/**
 * With these fields, a document made of the reply runs no scripts, has no origin, and is unreadable for other origins.
 */
const inertFields = [
  ...['Content-Security-Policy', "default-src 'none'; frame-ancestors 'none'; sandbox"],
  ...['X-Content-Type-Options', 'nosniff', 'Cross-Origin-Resource-Policy', 'same-origin'],
];
