import { createHash } from 'node:crypto';
import { Html, html } from '../../domain/html.ts';
import type { GatewayError } from '../error-reply.ts';
import type { Exchange } from '../exchange.ts';
import type { SandboxRoute } from '../routes.ts';
import { findFieldValues } from './own-origin.ts';
import { plainReply } from './page-documents.ts';

/**
 * Whether a person looks at the reply: a browser shows it as a document. Programs do not ask for HTML, and get JSON.
 */
export function isForPerson({ method, headers, isWebSocket }: Exchange): boolean {
  if (isWebSocket || (method !== 'GET' && method !== 'HEAD')) return false;
  return findFieldValues(headers.forward, 'accept').some((value) => /(^|[\s,])text\/html\b/i.test(value));
}

/** Replies to a person with an error of the gateway. */
export function errorPage(exchange: Exchange, { status, code, message, retryAfterSeconds }: GatewayError): void {
  const [, title = message, rest = ''] = /^(.*?)[.:] (.*)$/s.exec(message) ?? [];
  const content = html`${rest === '' ? null : html`<p>${rest.charAt(0).toUpperCase() + rest.slice(1)}.</p>\n`}<p class="quiet">${status} <code>${code}</code> · request <code>${exchange.requestId}</code></p>`;
  const retry = retryAfterSeconds === null ? [] : ['Retry-After', String(retryAfterSeconds)];
  noticePage(exchange, { status, title, content, fields: retry });
}

/** The page at `/` of a sandbox's own host name, for a person. Programs get the reply of the agent. */
export function sandboxPage(
  exchange: Exchange,
  { sandboxId, status, address }: SandboxRoute,
  { host, apiUrl }: { host: string; apiUrl: string },
): void {
  const isRunning = status === 'running' && address !== null;
  const links = html`<ul>
<li><a href="/terminal">Terminal</a></li>
<li><a href="/files">Files</a></li>
</ul>
<p>They need the access token once: open the links that <code>sandbox-platform open ${sandboxId}</code> and
<code>sandbox-platform open --files ${sandboxId}</code> print.</p>
<p>A server in the sandbox has the address <code>&lt;port&gt;-${host}</code>.</p>
<p>Programs call the agent of the sandbox here: <a href="${apiUrl}/docs/agent">its reference</a>,
<a href="${apiUrl}/guide">guide</a>.</p>`;
  const content = html`<p>${stateText(status)}</p>
${status === 'paused' ? html`<p>To resume it: <code>sandbox-platform resume ${sandboxId}</code>, or <code>POST /v1/sandboxes/${sandboxId}/resume</code>.</p>\n` : null}${isRunning ? links : null}`;
  noticePage(exchange, { status: isRunning ? 200 : 502, title: sandboxId, content, fields: [] });
}

function stateText(status: string): Html {
  if (status === 'running' || status === 'paused') return html`The sandbox is ${status}.`;
  const isEnded = ['terminating', 'terminated', 'failed'].includes(status);
  return html`The sandbox does not run${isEnded ? ' any more' : ' now'}. Its status is <code>${status}</code>.`;
}

const style = `
:root { color-scheme: light dark; --accent: light-dark(#1a56db, #7aa7ff) }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0; background: light-dark(#f3f4f6, #101216); color: light-dark(#111827, #e4e6ea) }
main { box-sizing: border-box; max-width: 40em; margin: 10vh auto; padding: 2em; background: light-dark(#fff, #1c1f26); border-radius: 8px; overflow-wrap: anywhere }
h1 { font-size: 1.3em; margin-top: 0 }
a { color: var(--accent) }
.quiet { color: light-dark(#5b6270, #9aa1ad); font-size: .9em }
@media (max-width: 30em) { main { margin: 0; min-height: 100vh; border-radius: 0; padding: 1.5em } }
`;
/**
 * The style is in the page, because the page is shown on all names of a sandbox, and those of ports have no files of
 * the gateway. The policy allows nothing but this style.
 */
const policy = `default-src 'none'; style-src 'sha256-${createHash('sha256').update(style).digest('base64')}'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`;

interface Notice {
  status: number;
  title: string;
  content: Html;
  fields: string[];
}

function noticePage(exchange: Exchange, { status, title, content, fields }: Notice): void {
  const page = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<link rel="icon" href="data:,">
<style>${new Html(style)}</style>
</head>
<body>
<main>
<h1>${title}</h1>
${content}
</main>
</body>
</html>
`;
  const headers = ['Content-Type', 'text/html; charset=utf-8', 'Content-Security-Policy', policy];
  plainReply(exchange, status, [...headers, 'Cache-Control', 'no-store', ...fields], Buffer.from(page.text));
}
