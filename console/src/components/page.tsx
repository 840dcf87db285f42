import { Link } from '@tanstack/react-router';
import { type ReactNode, useEffect, useRef } from 'react';

/**
 * A page: its title, also of the browser's tab, and what can be done on it.
 * @param props.above the page that this one belongs to
 */
export function PageBody(props: {
  title: string;
  heading?: ReactNode;
  above?: { to: string; label: string };
  actions?: ReactNode;
  children: ReactNode;
}) {
  useEffect(() => {
    document.title = `${props.title} · Sandbox platform`;
  }, [props.title]);
  return (
    <div className="page">
      <header className="page-header">
        <div>
          {props.above && (
            <p className="above">
              <Link to={props.above.to as '/'}>{props.above.label}</Link>
            </p>
          )}
          <h1>{props.heading ?? props.title}</h1>
        </div>
        {props.actions && <div className="page-actions">{props.actions}</div>}
      </header>
      {props.children}
    </div>
  );
}

/** Parts of a page that are shown one at a time, each at an address of its own. */
export function Parts(props: { label: string; parts: readonly { to: string; label: string; isShown: boolean }[] }) {
  const nav = useRef<HTMLElement>(null);
  const shown = props.parts.find(({ isShown }) => isShown)?.to;
  // A narrow window shows only some of the parts.
  // biome-ignore lint/correctness/useExhaustiveDependencies: another part is shown
  useEffect(() => {
    nav.current!.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
  }, [shown]);
  return (
    <nav className="parts" aria-label={props.label} ref={nav}>
      {props.parts.map(({ to, label, isShown }) => (
        <Link key={to} to={to as '/'} activeOptions={{ exact: true }} aria-current={isShown ? 'page' : undefined}>
          {label}
        </Link>
      ))}
    </nav>
  );
}

export function Section(props: { title: string; actions?: ReactNode; children: ReactNode }) {
  return (
    <section className="section" aria-label={props.title}>
      <header className="section-header">
        <h2>{props.title}</h2>
        {props.actions}
      </header>
      {props.children}
    </section>
  );
}
