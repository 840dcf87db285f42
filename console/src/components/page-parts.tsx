import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { usePageSearch } from './page-search.ts';

export interface PagePart {
  /** Its `part` in the address. */
  name: string;
  label: string;
  show: () => ReactNode;
}

/**
 * Parts of a page that are shown one at a time. The address says which with `?part=`; without, it is the first one.
 * @param props.keeps what stays in the address when the person goes to another part
 */
export function PageParts(props: { label: string; parts: readonly PagePart[]; keeps?: readonly string[] }) {
  const { label, parts, keeps = [] } = props;
  const [search] = usePageSearch();
  const first = parts[0]!;
  const shown = parts.find(({ name }) => name === search.part) ?? first;
  const kept = Object.fromEntries(keeps.map((name) => [name, search[name]]));
  return (
    <>
      <nav className="parts" aria-label={label}>
        {parts.map((part) => (
          <Link
            key={part.name}
            to="."
            search={{ ...kept, part: part === first ? undefined : part.name }}
            activeOptions={{ exact: true }}
            aria-current={part === shown ? 'page' : undefined}
          >
            {part.label}
          </Link>
        ))}
      </nav>
      {shown.show()}
    </>
  );
}
