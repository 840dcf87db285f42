import { createContext, useContext } from 'react';
import type { DataOf } from './client.ts';

export type Session = DataOf<'getSession'>;

/** Set by `app/signed-in.tsx`. */
export const CurrentSession = createContext<Session | null>(null);

/** The person who is signed in. */
export function useSession(): Session {
  const session = useContext(CurrentSession);
  if (!session) throw new Error('only for pages of people who are signed in');
  return session;
}

/** Operators work across accounts. */
export const useIsAdmin = () => useSession().role === 'admin';
/** Root users see and change what belongs to their account. */
export const useIsRoot = () => useSession().is_root_user;
