import { Link } from '@tanstack/react-router';

/** Where objects are shown, by the prefix of their ids. */
const pages: Readonly<Record<string, string>> = {
  sbx: '/sandboxes',
  tpl: '/templates',
  prj: '/projects',
  usr: '/users',
  whk: '/webhooks',
  inv: '/billing/invoices',
};

/** The address of the page of an object. Null: such objects have none. */
export function pageOf(id: string): string | null {
  const page = pages[/^([a-z]{3})-[a-z0-9]+$/.exec(id)?.[1] ?? ''];
  return page ? `${page}/${id}` : null;
}

/** The id of an object, as a link if it has a page. The object may be gone. */
export function ObjectLink({ id }: { id: string }) {
  const page = pageOf(id);
  const shown = <code className="id">{id}</code>;
  return page === null ? shown : <Link to={page as '/'}>{shown}</Link>;
}
