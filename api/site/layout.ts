import { type Html, html } from '../../domain/html.ts';

/** A page of the documentation. */
export interface DocumentationPage {
  /** Its address, such as `/guide/lifecycle`. */
  path: string;
  title: string;
  content: Html;
  /** Its sections, for the table of contents. */
  outline: readonly { id: string; label: string; depth: number }[];
}

/** A link to a page, for the navigation. */
export interface PageLink {
  path: string;
  title: string;
}

/** The links beside every page: the guide and the reference. */
export type Navigation = readonly { title: string; links: readonly PageLink[] }[];

export const stylePath = '/guide/style.css';

/** The pages run no script and load nothing from other hosts. */
export const documentationPolicy =
  "default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/**
 * A whole document. The navigation stands after the content, so that it comes last for keyboards, screen readers and
 * narrow windows; the style sheet moves it to the left where there is room.
 * @param searched the words in the search field
 */
export function layout(page: DocumentationPage, navigation: Navigation, searched = ''): string {
  const { path, title, content, outline } = page;
  const contents = outline.map(
    ({ id, label, depth }) => html`<li class="depth-${depth}"><a href="#${id}">${label}</a></li>\n`,
  );
  const isHere = ({ links }: Navigation[number]) => links.some((link) => link.path === path);
  const nearestFirst = [...navigation].sort((a, b) => Number(isHere(b)) - Number(isHere(a)));
  const groups = nearestFirst.map(
    (group) => html`<h2>${group.title}</h2>
<ul>
${group.links.map((link) => html`<li><a href="${link.path}"${link.path === path ? html` aria-current="page"` : null}>${link.title}</a></li>\n`)}</ul>
`,
  );
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title} · Sandbox platform</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="${stylePath}">
</head>
<body>
<a class="skip" href="#content">To the content</a>
<header>
<a class="home" href="/guide">Sandbox platform</a>
<nav aria-label="Parts"><a href="/console/">Console</a><a href="/guide">Guide</a><a href="/docs">Reference</a><a class="menu" href="#pages">All pages</a></nav>
<form action="/guide/search" role="search"><input type="search" name="q" value="${searched}" placeholder="Search" aria-label="Search the guide and the reference" maxlength="100" required></form>
</header>
<div class="columns">
<main id="content">
${content}
</main>
${outline.length > 1 ? html`<nav class="contents" aria-label="On this page"><h2>On this page</h2>\n<ul>\n${contents}</ul></nav>` : null}
<nav class="pages" id="pages" aria-label="Pages">
${groups}</nav>
</div>
</body>
</html>
`.text;
}
