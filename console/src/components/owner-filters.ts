import { useRead } from '../api/queries.ts';
import { useIsAdmin, useIsRoot } from '../api/session.ts';
import type { Filter } from './list.tsx';

/**
 * The filters of lists in which root users see other users, and operators see other accounts.
 * @param name the parameter of the list for a user
 */
export function useOwnerFilters(name: string): readonly Filter[] {
  const isRoot = useIsRoot();
  const isAdmin = useIsAdmin();
  const users = useRead('listUsers', { query: { limit: 100 } }, { when: isRoot }).data?.users ?? [];
  const ofUser = {
    name,
    label: 'Owner',
    options: users.map((each) => [each.user_id, each.display_name || each.email] as const),
  };
  return [...(isRoot ? [ofUser] : []), ...(isAdmin ? [accountFilter] : [])];
}

/** For operators. */
export const accountFilter: Filter = { name: 'account_id', label: 'Account (id, or all)' };
