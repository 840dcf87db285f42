import { useNavigate, useSearch } from '@tanstack/react-router';

/** The query of the page's address. All values are texts. */
export type PageSearch = Record<string, string | undefined>;

/** What the address says about the page, and a way to change it. An empty value leaves the address. */
export function usePageSearch(): [search: PageSearch, change: (changes: PageSearch) => void] {
  const search = useSearch({ strict: false }) as PageSearch;
  const navigate = useNavigate();
  const change = (changes: PageSearch) => {
    // Another field may have changed the address since this page was drawn.
    const next = (before: PageSearch) =>
      Object.fromEntries(
        Object.entries({ ...before, ...changes }).filter(([, value]) => value !== undefined && value !== ''),
      );
    void navigate({ to: '.', search: next });
  };
  return [search, change];
}

export function parseSearch(text: string): PageSearch {
  return Object.fromEntries(new URLSearchParams(text));
}

export function stringifySearch(search: Record<string, unknown>): string {
  const given = Object.entries(search).filter(([, value]) => value !== undefined && value !== '');
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return text === '' ? '' : `?${text}`;
}
