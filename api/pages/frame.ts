import type { FastifyReply } from 'fastify';
import type { AppError } from '../../domain/errors.ts';
import { type Html, html } from '../../domain/html.ts';

/** The parts of a page below its title. */
export interface Page {
  title: string;
  content: Html;
}

/** The address of the style sheet of all pages. The policy below forbids inline styles. */
export const stylePath = '/account/style.css';

/** The policy forbids scripts, content of other origins, and frames. */
const strictPolicy =
  "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/** The referrer is suppressed, because it would contain the token. */
const pageHeaders = {
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'cache-control': 'no-store',
};

/** Replies with a page. @param policy the content security policy of the page */
export function sendPage(
  reply: FastifyReply,
  status: number,
  { title, content }: Page,
  policy = strictPolicy,
): FastifyReply {
  const page = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${title}</title>
<link rel="stylesheet" href="${stylePath}">
</head>
<body>
<main>
<h1>${title}</h1>
${content}
</main>
</body>
</html>
`;
  const headers = { 'content-security-policy': policy, ...pageHeaders };
  return reply.code(status).headers(headers).type('text/html; charset=utf-8').send(page.text);
}

/** Shows an error with its documented code. */
export function sendProblemPage(reply: FastifyReply, failure: AppError): FastifyReply {
  return sendPage(reply, failure.status, {
    title: 'This did not work',
    content: html`<p class="problem" role="alert">${failure.message}</p>
<p>Code: <code>${failure.code}</code>. <a href="/account/sign-in">To the sign-in</a></p>`,
  });
}

export const style = `
:root {
  color-scheme: light dark;
  --text: light-dark(#111827, #e4e6ea);
  --line: light-dark(#d1d5db, #3d424c);
  --around: light-dark(#f3f4f6, #101216);
  --accent: light-dark(#1a56db, #7aa7ff);
}
body { font: 16px/1.5 system-ui, sans-serif; margin: 0; background: var(--around); color: var(--text) }
main { box-sizing: border-box; max-width: 28em; margin: 10vh auto; padding: 2em; background: light-dark(#fff, #1c1f26); border-radius: 8px }
h1 { font-size: 1.3em; margin-top: 0 }
h2 { font-size: 1.1em; margin-top: 1.5em }
a { color: var(--accent) }
label { display: block; margin: 1em 0 }
input { box-sizing: border-box; width: 100%; padding: .5em; font: inherit; color: inherit; background: light-dark(#fff, #16181d); border: 1px solid light-dark(#6b7280, #8b93a1); border-radius: 4px }
button, .button { padding: .6em 1.2em; font: inherit; color: #fff; background: #1a56db; border: 0; border-radius: 4px; cursor: pointer }
button:disabled { opacity: .6; cursor: default }
.button { display: block; text-align: center; text-decoration: none }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px }
/* The field of the payment processor has dark letters. */
#card { margin: 1em 0; padding: .6em; background: #fff; border: 1px solid var(--line); border-radius: 4px }
hr { margin: 2em 0; border: 0; border-top: 1px solid var(--line) }
.problem { color: light-dark(#b91c1c, #ff9a90) }
main:has(pre) { max-width: 44em }
code { overflow-wrap: anywhere }
pre { overflow-x: auto; padding: .8em; background: var(--around); font-size: .85em }
@media (max-width: 30em) { main { margin: 0; min-height: 100vh; border-radius: 0; padding: 1.5em } }
`;
