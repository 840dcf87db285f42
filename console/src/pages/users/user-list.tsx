import { Link } from '@tanstack/react-router';
import type { DataOf } from '../../api/client.ts';
import { useIsAdmin } from '../../api/session.ts';
import { type Column, type Filter, List } from '../../components/list.tsx';
import { accountFilter } from '../../components/owner-filters.ts';
import { PageBody } from '../../components/page.tsx';
import { userKind } from '../../components/user-name.tsx';
import { Ago, Status, Text } from '../../components/values.tsx';
import { NewUser } from './new-user.tsx';

type Item = DataOf<'listUsers'>['users'][number];

const columns: readonly Column<Item>[] = [
  {
    label: 'Name',
    cell: (item) => (
      <Link to="/users/$userId" params={{ userId: item.user_id }}>
        <Text>{item.display_name || item.username}</Text>
      </Link>
    ),
  },
  { label: 'E-mail', cell: (item) => <Text>{item.email}</Text> },
  { label: 'User name', cell: (item) => <Text>{item.username}</Text> },
  { label: 'Role', cell: (item) => userKind(item) },
  { label: 'Status', cell: (item) => <Status status={item.status} /> },
  {
    label: 'Last sign-in',
    cell: (item) => (item.last_login === null ? 'Never' : <Ago at={item.last_login} />),
  },
  { label: 'Made', cell: (item) => <Ago at={item.created_at} /> },
];

const filters: readonly Filter[] = [
  {
    name: 'status',
    label: 'Status',
    options: [
      ['enabled', 'enabled'],
      ['disabled', 'disabled'],
    ],
  },
];

export function Page() {
  const isAdmin = useIsAdmin();
  return (
    <PageBody title="Users" actions={<NewUser />}>
      <p>
        Users work with sandboxes of their own. Root users also see and manage those of the others, and the account.
      </p>
      <List
        operation="listUsers"
        caption="Users"
        items={(data) => data.users}
        keyOf={(item) => item.user_id}
        columns={columns}
        filters={isAdmin ? [...filters, accountFilter] : filters}
        empty="There are no users."
      />
    </PageBody>
  );
}
