import MiniSearch, { type Options } from 'minisearch';
import { html } from '../../domain/html.ts';
import type { GuidePage } from './guide.ts';
import type { DocumentationPage } from './layout.ts';

/** A section of a page in the index. */
interface Entry {
  id: string;
  page: string;
  label: string;
  text: string;
}

const options: Options<Entry> = {
  fields: ['label', 'page', 'text'],
  storeFields: ['page', 'label', 'text'],
  searchOptions: { boost: { label: 4, page: 2 } },
};
const maxTerms = 8;
const shownResults = 30;
const excerptCharacters = 240;

/** The index of all sections, as JSON. */
export function indexOf(pages: readonly GuidePage[]): string {
  const index = new MiniSearch<Entry>(options);
  index.addAll(
    pages.flatMap(({ path, title, sections }) =>
      sections.map(({ id, label, text }) => ({ id: id === '' ? path : `${path}#${id}`, page: title, label, text })),
    ),
  );
  return JSON.stringify(index);
}

export class DocumentationSearch {
  readonly #index: MiniSearch<Entry>;

  private constructor(index: MiniSearch<Entry>) {
    this.#index = index;
  }

  /** Reads an index in steps, so that other requests get their turns. */
  static async load(index: string): Promise<DocumentationSearch> {
    return new DocumentationSearch(await MiniSearch.loadJSONAsync<Entry>(index, options));
  }

  /** A page with the sections that fit best. The number of words and the expansion of each are bounded. */
  results(words: string): DocumentationPage {
    const terms =
      words
        .toLowerCase()
        .match(/[\p{L}\p{N}_]+/gu)
        ?.slice(0, maxTerms) ?? [];
    const found = this.#index
      .search(terms.join(' '), {
        prefix: (term) => term.length > 2,
        fuzzy: (term) => (term.length > 4 ? 1 : false),
      })
      .slice(0, shownResults);
    const items = found.map(
      ({
        id,
        page,
        label,
        text,
      }) => html`<li><a href="${id}">${label === '' ? page : label}</a> <span class="quiet">${page}</span>
<p>${excerpt(text, terms)}</p></li>
`,
    );
    return {
      path: '/guide/search',
      title: `Search: ${words}`,
      content: html`<h1>Search: ${words}</h1>
${found.length === 0 ? html`<p>Nothing was found. Try another word.</p>` : html`<ol class="results">\n${items}</ol>`}`,
      outline: [],
    };
  }
}

function excerpt(text: string, terms: readonly string[]): string {
  const lower = text.toLowerCase();
  const places = terms.map((term) => lower.indexOf(term)).filter((place) => place >= 0);
  const start = Math.max(0, Math.min(...(places.length > 0 ? places : [0])) - 60);
  const cut = text.slice(start, start + excerptCharacters);
  return `${start > 0 ? '…' : ''}${cut}${start + excerptCharacters < text.length ? '…' : ''}`;
}
