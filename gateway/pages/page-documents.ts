import { STATUS_CODES } from 'node:http';
import type { Exchange } from '../exchange.ts';
import type { PageName } from './agent-procedures.ts';

export interface PageDocument {
  status: number;
  page: PageName;
  /** Host and port of the page's origin, in lower case. */
  host: string;
  title: string;
  /** Names of the assets. */
  script: string;
  style: string;
}

/** Sends a page. It is the same for all sandboxes and visitors, and contains no data of a sandbox. */
export function documentReply(exchange: Exchange, document: PageDocument): void {
  const { page, title, script, style } = document;
  const html = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/${page}/assets/${style}">
<script type="module" src="/${page}/assets/${script}"></script>
</head>
<body><noscript>This page needs JavaScript.</noscript></body>
</html>
`;
  const headers = [
    ...['Content-Type', 'text/html; charset=utf-8', 'Content-Security-Policy', formatPolicy(document)],
    ...['Cross-Origin-Opener-Policy', 'same-origin', 'X-Frame-Options', 'DENY'],
    ...[
      'Permissions-Policy',
      'camera=(), clipboard-read=(), display-capture=(), geolocation=(), microphone=(), usb=()',
    ],
    ...['Cache-Control', 'no-store'],
  ];
  plainReply(exchange, document.status, headers, Buffer.from(html));
}

/**
 * The page may only load its own assets and call its own paths. `'self'` would include the agent's paths, whose
 * contents would then run as scripts of the page. xterm.js writes style elements and attributes, so the terminal allows
 * inline styles. All other sources of images, fonts and connections are forbidden, so a style cannot send data.
 */
function formatPolicy({ page, host }: PageDocument): string {
  const own = `${host}/${page}`;
  return [
    "default-src 'none'",
    `script-src ${own}/assets/`,
    `style-src ${own}/assets/${page === 'terminal' ? " 'unsafe-inline'" : ''}`,
    `connect-src ${own}/session ${own}/agent/`,
    page === 'files' ? 'img-src data: blob:' : 'img-src data:',
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join('; ');
}

/** Sends a reply of the gateway itself. `body` null: the status has no body. */
export function plainReply(exchange: Exchange, status: number, fields: string[], body: Buffer | null): void {
  const headers = [...fields, 'X-Request-Id', exchange.requestId, 'X-Content-Type-Options', 'nosniff'];
  headers.push('Referrer-Policy', 'no-referrer', 'Cross-Origin-Resource-Policy', 'same-origin');
  if (body) headers.push('Content-Length', String(body.length));
  exchange.sendHead({
    status,
    reason: STATUS_CODES[status] ?? '',
    headers,
    bodyLength: body?.length ?? 0,
    upgrade: null,
  });
  const sent = body && exchange.method !== 'HEAD' ? body : Buffer.alloc(0);
  exchange.finish(sent, [], () => undefined);
}
