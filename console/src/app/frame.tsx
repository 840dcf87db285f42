import { Link, Outlet, useNavigate, useRouterState } from '@tanstack/react-router';
import { type FormEvent, useEffect, useRef, useState } from 'react';
import { apiUrl } from '../api/client.ts';
import { useLiveEvents, useLiveState } from '../api/live.ts';
import { useSession } from '../api/session.ts';
import { Dialog } from '../components/dialog.tsx';
import { pageOf } from '../components/object-link.tsx';
import { useSignOut } from '../components/sign-out.ts';
import { useUnreadNotifications } from '../components/unread-notifications.ts';
import { Text } from '../components/values.tsx';
import { formatCount } from '../format/numbers.ts';
import { useKeyboard } from './keyboard.ts';
import { navigationFor } from './navigation.ts';
import { useTheme } from './theme.ts';

/** The frame around every page of a person who is signed in. */
export function Frame() {
  useLiveEvents();
  const search = useRef<HTMLInputElement>(null);
  const [helpIsOpen, setHelpOpen] = useState(false);
  const [menuIsOpen, setMenuOpen] = useState(false);
  const path = useRouterState({ select: (state) => state.location.pathname });
  useKeyboard({ focusSearch: () => search.current?.focus(), openHelp: () => setHelpOpen(true) });
  // biome-ignore lint/correctness/useExhaustiveDependencies: a chosen page closes the menu
  useEffect(() => setMenuOpen(false), [path]);
  return (
    <div className="frame">
      <a className="skip" href="#main">
        Skip to the content
      </a>
      <header className="top">
        <button
          type="button"
          className="quiet menu-button"
          aria-expanded={menuIsOpen}
          aria-controls="navigation"
          onClick={() => setMenuOpen(!menuIsOpen)}
        >
          Menu
        </button>
        <Link to="/" className="brand" aria-label="Sandbox platform: overview">
          <img src="icon.svg" alt="" width="24" height="24" />
          <span>Sandbox platform</span>
        </Link>
        <SearchField inputRef={search} />
        <LiveSign />
        <Bell />
        <Person onHelp={() => setHelpOpen(true)} />
      </header>
      <Navigation isOpen={menuIsOpen} />
      <main id="main" tabIndex={-1}>
        <Outlet />
      </main>
      {helpIsOpen && <Help onClose={() => setHelpOpen(false)} />}
    </div>
  );
}

function Navigation(props: { isOpen: boolean }) {
  const groups = navigationFor(useSession());
  return (
    <nav id="navigation" className={props.isOpen ? 'navigation open' : 'navigation'} aria-label="Pages">
      {groups.map(({ title, entries }) => (
        <section key={title} aria-label={title}>
          <h2>{title}</h2>
          <ul>
            {entries.map(({ path, label }) => (
              <li key={path}>
                <Link to={path} activeOptions={{ exact: path === '/', includeSearch: false }}>
                  {label}
                </Link>
              </li>
            ))}
          </ul>
        </section>
      ))}
      <p className="navigation-end">
        <a href={apiUrl('/guide')}>Guide</a>
        <a href={apiUrl('/docs')}>API reference</a>
      </p>
    </nav>
  );
}

function SearchField(props: { inputRef: React.RefObject<HTMLInputElement | null> }) {
  const navigate = useNavigate();
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const text = String(new FormData(event.currentTarget).get('text')).trim();
    const page = pageOf(text);
    if (page) void navigate({ to: page as '/' });
    else void navigate({ to: '/sandboxes', search: text === '' ? {} : { search: text } });
    props.inputRef.current?.blur();
  };
  return (
    <search className="search">
      <form onSubmit={submit}>
        <input
          ref={props.inputRef}
          type="search"
          name="text"
          maxLength={128}
          placeholder="Search sandboxes, or an id  ( / )"
          aria-label="Search sandboxes, or go to an id"
          aria-keyshortcuts="/"
        />
      </form>
    </search>
  );
}

const liveTexts = {
  connecting: 'Connecting to live changes',
  live: 'Changes are shown live',
  lost: 'Live changes are lost; connecting again',
};

function LiveSign() {
  const state = useLiveState();
  return (
    <span className={`live live-${state}`} role="status" title={liveTexts[state]}>
      <span className="hidden">{liveTexts[state]}</span>
    </span>
  );
}

function Bell() {
  const unread = useUnreadNotifications() ?? 0;
  return (
    <Link to="/notifications" className="bell" aria-label={`Notifications, ${unread} unread`}>
      <svg viewBox="0 0 24 24" width="20" height="20" aria-hidden="true">
        <path d="M6 17V11a6 6 0 0 1 12 0v6l2 2H4z M10 21h4" fill="none" stroke="currentColor" strokeWidth="1.7" />
      </svg>
      {unread > 0 && <span className="bell-count">{formatCount(unread)}</span>}
    </Link>
  );
}

function Person(props: { onHelp: () => void }) {
  const session = useSession();
  const [theme, setTheme] = useTheme();
  const signOut = useSignOut();
  return (
    <div className="person">
      <button type="button" className="quiet" popoverTarget="person-menu">
        <Text>{session.display_name || session.email}</Text>
      </button>
      <div id="person-menu" popover="auto" className="person-menu">
        <p>
          <Text>{session.email}</Text>
          <br />
          {session.role === 'admin' ? 'Operator' : session.is_root_user ? 'Root user' : 'User'}
        </p>
        <Link to="/profile">Profile and password</Link>
        <label>
          Theme
          <select value={theme} onChange={(event) => setTheme(event.target.value)}>
            <option value="auto">As the system</option>
            <option value="light">Light</option>
            <option value="dark">Dark</option>
          </select>
        </label>
        <button type="button" className="link" onClick={props.onHelp}>
          Keyboard (?)
        </button>
        <button type="button" className="link" onClick={signOut}>
          Sign out
        </button>
      </div>
    </div>
  );
}

function Help(props: { onClose: () => void }) {
  const keyed = navigationFor(useSession()).flatMap(({ entries }) => entries.filter(({ key }) => key));
  return (
    <Dialog title="Keyboard" onClose={props.onClose}>
      <table className="keys">
        <tbody>
          <KeyRow keys={['/']} does="Search" />
          <KeyRow keys={['?']} does="This help" />
          <KeyRow keys={['Esc']} does="Close a dialog" />
          {keyed.map(({ key, label }) => (
            <KeyRow key={key} keys={['g', key!]} does={label} />
          ))}
        </tbody>
      </table>
    </Dialog>
  );
}

function KeyRow(props: { keys: string[]; does: string }) {
  return (
    <tr>
      <td>
        {props.keys.map((key) => (
          <kbd key={key}>{key}</kbd>
        ))}
      </td>
      <td>{props.does}</td>
    </tr>
  );
}
