import fs from 'node:fs';
import path from 'node:path';
import { type Html, html } from '../../domain/html.ts';
import type { DocumentationPage, PageLink } from './layout.ts';
import { type LinkTarget, renderMarkdown, type Section } from './markdown.ts';

const root = path.join(import.meta.dirname, '../..');

export interface GuidePage extends DocumentationPage {
  sections: Section[];
}

/** The pages of the guide: the Markdown files of `docs/`, of the clients, and the security policy. */
export function guidePages(): GuidePage[] {
  const files = [
    ...fs.globSync('docs/{,guides/}*.md', { cwd: root }),
    ...fs.globSync('clients/{,*/}README.md', { cwd: root }),
  ];
  const sources = [...files, 'SECURITY.md'].sort().map((file) => {
    const source = fs.readFileSync(path.join(root, file), 'utf8');
    const title = /^# (.+)$/m.exec(source)?.[1] ?? file;
    return { file, source, address: guideAddress(file), title };
  });
  const targets: Targets = new Map(sources.map(({ file, address, title }) => [file, { address, title }]));
  const pages = sources.map(({ file, source, address, title }) => {
    const { content, sections } = renderMarkdown(source, (href) => findTarget(href, file, targets));
    return { path: address, title, content: withLinks(address, content), sections, outline: outlineOf(sections) };
  });
  const order = linksOfIndex(targets);
  const place = ({ path: address }: PageLink) => order.indexOf(address);
  return pages.sort((a, b) => place(a) - place(b));
}

/** Pictures of the guide, by address. */
export function guideImages(): { path: string; file: string }[] {
  const files = fs.globSync('docs/images/*.{svg,png,webp}', { cwd: root });
  return files.map((file) => ({ path: `/guide/${file.slice('docs/'.length)}`, file: path.join(root, file) }));
}

function guideAddress(file: string): string {
  if (file === 'docs/README.md') return '/guide';
  if (file === 'SECURITY.md') return '/guide/security-policy';
  return `/guide/${file.replace(/^docs\//, '').replace(/(\/README)?\.md$/, '')}`;
}

/** The pages by file. */
type Targets = ReadonlyMap<string, LinkTarget>;

function findTarget(href: string, from: string, targets: Targets): LinkTarget | null {
  if (/^https?:/.test(href) || href.startsWith('#')) return { address: href, title: null };
  const [target, anchor] = href.split('#') as [string, string?];
  const file = path.posix.join(path.posix.dirname(from), target);
  if (file.startsWith('docs/images/')) return { address: `/guide/${file.slice('docs/'.length)}`, title: null };
  const page = targets.get(file) ?? targets.get(path.posix.join(file, 'README.md'));
  if (!page || anchor === undefined) return page ?? null;
  return { ...page, address: `${page.address}#${anchor}` };
}

/** The order of the pages is that of the table on the first page. Pages that it does not name come last. */
function linksOfIndex(targets: Targets): string[] {
  const index = fs.readFileSync(path.join(root, 'docs/README.md'), 'utf8');
  const named = [...index.matchAll(/\]\(([^)]+)\)/g)].map(([, href]) => findTarget(href!, 'docs/README.md', targets));
  const found = named.flatMap((target) => (target ? [target.address] : []));
  return [...new Set(['/guide', ...found, ...[...targets.values()].map(({ address }) => address)])];
}

function outlineOf(sections: readonly Section[]): DocumentationPage['outline'] {
  return sections.filter(({ depth }) => depth === 2 || depth === 3);
}

function withLinks(address: string, content: Html): Html {
  if (address !== '/guide') return content;
  return html`${content}<p><a href="/docs">Reference of the API</a> · <a href="/openapi.json">OpenAPI document</a> · <a href="/agent-openapi.json">OpenAPI document of the agent</a></p>`;
}
