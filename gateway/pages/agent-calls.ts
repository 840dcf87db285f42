import type { RequestHeaders } from '../request-headers.ts';
import type { SandboxRoute } from '../routes.ts';
import type { ResponseHead } from '../upstream/response-parser.ts';
import type { PageName } from './page-paths.ts';

/** What a page may ask of the agent. */
export interface AgentProcedure {
  kind: 'unary' | 'stream' | 'upload' | 'download';
  /** Below `/<page>/agent/`. */
  name: string;
  /** The agent's own path. */
  target: string;
}

const unary = (name: string): AgentProcedure => ({ kind: 'unary', name, target: `/sandboxagent.${name}` });
const stream = (name: string): AgentProcedure => ({ kind: 'stream', name, target: `/sandboxagent.${name}` });

/** Each page reaches what it needs and nothing else of the agent. */
export const agentProcedures: Readonly<Record<PageName, readonly AgentProcedure[]>> = {
  terminal: [
    ...['Start', 'Connect'].map((name) => stream(`Process/${name}`)),
    ...['SendInput', 'SendSignal', 'Update'].map((name) => unary(`Process/${name}`)),
  ],
  files: [
    ...['Stat', 'ListDir', 'MakeDir', 'Move', 'Remove'].map((name) => unary(`Filesystem/${name}`)),
    { kind: 'upload', name: 'upload', target: '/upload' },
    { kind: 'download', name: 'download/', target: '/download/' },
  ],
};

/** The methods that each kind of call takes. */
export const methodsOf: Readonly<Record<AgentProcedure['kind'], readonly string[]>> = {
  unary: ['POST'],
  stream: ['POST'],
  upload: ['POST'],
  download: ['GET', 'HEAD'],
};

/** The request fields that reach the agent: no cookie, no origin, nothing that a page has no use for. */
const forwardedFields = new Set([
  'connect-protocol-version',
  'content-type',
  'if-none-match',
  'keepalive-ping-interval',
  'range',
]);

/** Turns the page's request into one of a client that has the access token. */
export function useAccessToken(headers: RequestHeaders, route: SandboxRoute): void {
  const kept: string[] = [];
  for (let i = 0; i < headers.forward.length; i += 2) {
    if (forwardedFields.has(headers.forward[i]!.toLowerCase())) kept.push(headers.forward[i]!, headers.forward[i + 1]!);
  }
  headers.forward = kept;
  headers.accessToken = route.secure ? route.accessToken : null;
}

/** The reply fields that reach the page. The agent may be replaced: no cookie, redirect, link or policy of its own. */
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
 * The head of the agent's reply as the page gets it. No browser renders or runs it, however it is asked for: a type
 * that the page does not expect is `application/octet-stream`, and files are attachments.
 */
export function pageReplyHead(head: ResponseHead, kind: AgentProcedure['kind']): ResponseHead {
  const headers: string[] = [];
  let type = 'application/octet-stream';
  for (let i = 0; i < head.headers.length; i += 2) {
    const name = head.headers[i]!.toLowerCase();
    const value = head.headers[i + 1]!;
    if (returnedFields.has(name)) headers.push(head.headers[i]!, value);
    // Only a failed download is JSON. A file is passed on as bytes; the type that the agent gives is ignored.
    if (name === 'content-type' && contentTypes[kind].includes(value) && (kind !== 'download' || head.status >= 400)) {
      type = value;
    }
  }
  headers.push('Content-Type', type, ...inertFields, 'Cache-Control', 'no-store');
  if (kind === 'download') headers.push('Content-Disposition', 'attachment');
  return { ...head, reason: '', headers };
}

/** A document made from this reply runs nothing, has no origin, and is of no use to other origins. */
const inertFields = [
  ...['Content-Security-Policy', "default-src 'none'; frame-ancestors 'none'; sandbox"],
  ...['X-Content-Type-Options', 'nosniff', 'Cross-Origin-Resource-Policy', 'same-origin'],
];
