import type { LinkProps } from '@tanstack/react-router';
import type { Session } from '../api/session.ts';

/** A page in the navigation. Its key, after `g`, opens it. */
export interface NavigationEntry {
  path: NonNullable<LinkProps['to']>;
  label: string;
  key?: string;
  /** Absent: everybody sees it. */
  for?: (session: Session) => boolean;
}

const isRoot = (session: Session) => session.is_root_user || session.role === 'admin';
const isAdmin = (session: Session) => session.role === 'admin';

export const navigation: readonly { title: string; entries: readonly NavigationEntry[] }[] = [
  {
    title: 'Work',
    entries: [
      { path: '/', label: 'Overview', key: 'o' },
      { path: '/sandboxes', label: 'Sandboxes', key: 's' },
      { path: '/templates', label: 'Templates', key: 't' },
      { path: '/projects', label: 'Projects', key: 'p' },
      { path: '/keys', label: 'API keys', key: 'k' },
      { path: '/webhooks', label: 'Webhooks', key: 'w' },
    ],
  },
  {
    title: 'Account',
    entries: [
      { path: '/usage', label: 'Usage', key: 'u' },
      { path: '/quotas', label: 'Quotas', key: 'q' },
      { path: '/billing', label: 'Billing', key: 'b' },
      { path: '/users', label: 'Users', for: isRoot },
      { path: '/audit', label: 'Audit log', for: isRoot },
      { path: '/notifications', label: 'Notifications', key: 'n' },
    ],
  },
  {
    title: 'Platform',
    entries: [
      { path: '/admin/accounts', label: 'Accounts', for: isAdmin },
      { path: '/admin/hosts', label: 'Hosts', for: isAdmin },
      { path: '/admin/workers', label: 'Workers', for: isAdmin },
      { path: '/admin/dead-letters', label: 'Dead letters', for: isAdmin },
      { path: '/admin/comparison', label: 'Comparison', for: isAdmin },
    ],
  },
];

/** What this person sees of the navigation. */
export function navigationFor(session: Session) {
  return navigation
    .map(({ title, entries }) => ({ title, entries: entries.filter((entry) => entry.for?.(session) ?? true) }))
    .filter(({ entries }) => entries.length > 0);
}
