import { useNavigate } from '@tanstack/react-router';
import { useEffect, useRef } from 'react';
import { useSession } from '../api/session.ts';
import { navigationFor } from './navigation.ts';

/** The second key of a pair must follow within this time. */
const pairMs = 1200;

/** Keyboard shortcuts: `/`, `?`, and `g` followed by the key of a page. They do nothing while the focus is in a field. */
export function useKeyboard(actions: { focusSearch: () => void; openHelp: () => void }): void {
  const navigate = useNavigate();
  const session = useSession();
  const latest = useRef(actions);
  latest.current = actions;
  useEffect(() => {
    let goMs = 0;
    const onKey = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isWriting(event.target)) return;
      if (document.querySelector('dialog[open]')) return;
      const pages = navigationFor(session).flatMap(({ entries }) => entries);
      const page = event.timeStamp - goMs < pairMs ? pages.find(({ key }) => key === event.key) : undefined;
      goMs = event.key === 'g' ? event.timeStamp : 0;
      if (page) void navigate({ to: page.path as '/' });
      else if (event.key === '/') latest.current.focusSearch();
      else if (event.key === '?') latest.current.openHelp();
      else return;
      event.preventDefault();
    };
    document.addEventListener('keydown', onKey);
    return () => document.removeEventListener('keydown', onKey);
  }, [navigate, session]);
}

function isWriting(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
  );
}
