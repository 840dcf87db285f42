import { Link } from '@tanstack/react-router';
import { useRead } from '../api/queries.ts';
import { Text } from './values.tsx';

/**
 * A user by name, for root users and operators. The names are those of the newest hundred users of the account; others
 * are shown by their id.
 */
export function UserName({ userId }: { userId: string }) {
  const users = useRead('listUsers', { query: { limit: 100 } }).data?.users;
  const user = users?.find(({ user_id }) => user_id === userId);
  return (
    <Link to="/users/$userId" params={{ userId }}>
      {user ? <Text>{user.display_name || user.email}</Text> : userId}
    </Link>
  );
}

/** What a user may do, in words. */
export function userKind(user: { role: 'user' | 'admin'; is_root_user: boolean }): string {
  if (user.role === 'admin') return user.is_root_user ? 'Operator and root user' : 'Operator';
  return user.is_root_user ? 'Root user' : 'User';
}
