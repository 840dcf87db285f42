import { createRequire } from 'node:module';
import { Marked, type RendererObject, type Token } from 'marked';
import { Html, html } from '../../domain/html.ts';

/** The part of highlight.js that is used. Its own declarations need those of browsers, which contradict those of Node. */
interface Highlighter {
  registerLanguage(name: string, language: unknown): void;
  getLanguage(name: string): unknown;
  highlight(text: string, options: { language: string }): { value: string };
}
const require = createRequire(import.meta.url);
const highlighter: Highlighter = require('highlight.js/lib/core');
for (const name of ['bash', 'json', 'python', 'typescript', 'yaml']) {
  highlighter.registerLanguage(name, require(`highlight.js/lib/languages/${name}`));
}
/** The names of fences that are not those of the library. */
const languages: Readonly<Record<string, string>> = { sh: 'bash', ts: 'typescript' };

/** A part of a page below a heading. */
export interface Section {
  /** Empty above the first heading. */
  id: string;
  label: string;
  depth: number;
  text: string;
}

/** The target of a link. `title` is that of the page, if it is one of this site. */
export interface LinkTarget {
  address: string;
  title: string | null;
}

/** @param resolveLink null: the target is not on this site, so the text of the link is shown without a link */
export function renderMarkdown(
  source: string,
  resolveLink: (href: string) => LinkTarget | null,
): { content: Html; sections: Section[] } {
  const ids = new Map<string, number>();
  const sections: Section[] = [];
  const renderer: RendererObject = {
    heading({ tokens, depth }) {
      const label = plainText(this.parser.parseInline(tokens));
      const id = uniqueId(label, ids);
      sections.push({ id, label, depth, text: '' });
      const text = new Html(this.parser.parseInline(tokens));
      const tag = new Html(`h${depth}`);
      return html`<${tag} id="${id}"><a href="#${id}">${text}</a></${tag}>\n`.text;
    },
    code: ({ text, lang = '' }) => codeBlock(text, lang.split(/\s/)[0]!).text,
    link({ href, tokens }) {
      const text = new Html(this.parser.parseInline(tokens));
      const target = resolveLink(href);
      if (target === null) return text.text;
      const isFileName = /^(<code>)?[\w./-]+\.md(<\/code>)?$/.test(text.text);
      return html`<a href="${target.address}">${isFileName && target.title !== null ? target.title : text}</a>`.text;
    },
    image: ({ href, text }) => html`<img src="${resolveLink(href)?.address ?? ''}" alt="${text}" loading="lazy">`.text,
    // Comments for tests are left out, and other HTML is shown as text.
    html: ({ text }) => (/^\s*<!--[\s\S]*-->\s*$/.test(text) ? '' : html`${text}`.text),
  };
  const marked = new Marked({ renderer });
  const parts = marked.lexer(source).map((token: Token) => {
    const part = marked.parser([token]);
    if (token.type !== 'heading') {
      if (sections.length === 0) sections.push({ id: '', label: '', depth: 1, text: '' });
      sections.at(-1)!.text += `${plainText(part)} `;
    }
    return part;
  });
  // A table may be wider than a narrow window, so it scrolls, with the keyboard too.
  const content = parts
    .join('')
    .replaceAll('<table>', '<div class="wide" tabindex="0"><table>')
    .replaceAll('</table>', '</table></div>')
    .replaceAll('<th></th>', '<td></td>');
  return { content: new Html(content), sections };
}

/** Text with code, emphasis and links in one paragraph, such as a description. */
export function renderInline(source: string): Html {
  return new Html(new Marked({ renderer: { html: ({ text }) => html`${text}`.text } }).parseInline(source) as string);
}

/** A block of code, with its syntax coloured if the language is known. */
export function codeBlock(text: string, language: string): Html {
  const name = languages[language] ?? language;
  const known = highlighter.getLanguage(name);
  const code = known ? new Html(highlighter.highlight(text, { language: name }).value) : text;
  // It scrolls, so that it must be reachable with the keyboard.
  return html`<pre tabindex="0" class="${language}"><code>${code}</code></pre>\n`;
}

/** The entities that the libraries write. */
const entities: Readonly<Record<string, string>> = {
  '&amp;': '&',
  '&lt;': '<',
  '&gt;': '>',
  '&quot;': '"',
  '&#39;': "'",
  '&#x27;': "'",
};

function plainText(rendered: string): string {
  const words = rendered.replace(/<\/?(?:a|code|em|span|strong)\b[^>]*>/g, '').replace(/<[^>]*>/g, ' ');
  const text = words.replace(/&#?\w+;/g, (entity) => entities[entity] ?? entity);
  return text.replace(/\s+/g, ' ').trim();
}

/** The id that GitHub gives to a heading, so that the links work in both places. */
function uniqueId(label: string, ids: Map<string, number>): string {
  const id = label
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .replace(/\s/g, '-');
  const before = ids.get(id) ?? 0;
  ids.set(id, before + 1);
  return before === 0 ? id : `${id}-${before}`;
}
