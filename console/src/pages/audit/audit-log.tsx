import type { DataOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { useIsAdmin } from '../../api/session.ts';
import { type Column, type Filter, Filters, List } from '../../components/list.tsx';
import { Loading } from '../../components/loaded.tsx';
import { ObjectLink } from '../../components/object-link.tsx';
import { accountFilter } from '../../components/owner-filters.ts';
import { PageBody } from '../../components/page.tsx';
import { usePageSearch } from '../../components/page-search.ts';
import { useSpan } from '../../components/span.ts';
import { UserName } from '../../components/user-name.tsx';
import { At, Text } from '../../components/values.tsx';
import { Differences } from './differences.tsx';
import { EventDetails } from './event-details.tsx';

type Item = DataOf<'listAuditEvents'>['events'][number];

const columns: readonly Column<Item>[] = [
  { label: 'When', cell: (item) => <At at={item.created_at} /> },
  {
    label: 'Who',
    cell: (item) => (
      <div>
        {item.actor_user_id === null ? 'A command of an operator' : <UserName userId={item.actor_user_id} />}
        <div className="soft">
          <Text>{item.address}</Text>
        </div>
      </div>
    ),
  },
  { label: 'Operation', cell: (item) => <code>{item.action}</code> },
  { label: 'Object', cell: (item) => (item.object_id === null ? '–' : <ObjectLink id={item.object_id} />) },
  {
    label: 'Change',
    cell: (item) => <Differences before={item.before} after={item.after} maxLength={60} />,
  },
  { label: 'More', cell: (item) => <EventDetails event={item} /> },
];

const filters: readonly Filter[] = [
  { name: 'action', label: 'Operation (a part of it)' },
  { name: 'object_id', label: 'Object (id)' },
];

/** Who changed what in the account. */
export function Page() {
  const isAdmin = useIsAdmin();
  const { span, filters: spanFilters } = useSpan('any');
  const actor = useActorFilter();
  return (
    <PageBody title="Audit log">
      <p>
        Every request that may have changed something, with sign-ins and the commands of operators. What the platform
        does by itself, such as timeouts, is not here. Kept for a year.
      </p>
      <Filters filters={spanFilters} />
      {span === null ? (
        <Loading />
      ) : (
        <List
          operation="listAuditEvents"
          query={span}
          caption="Audit log"
          items={(data) => data.events}
          keyOf={(item) => item.event_id}
          columns={columns}
          filters={[actor, ...filters, ...(isAdmin ? [accountFilter] : [])]}
          empty="Nothing has changed in this time."
        />
      )}
    </PageBody>
  );
}

/** A choice among the newest hundred users, and whoever the address names. */
function useActorFilter(): Filter {
  const [{ actor_user_id: asked }] = usePageSearch();
  const users = useRead('listUsers', { query: { limit: 100 } }).data?.users ?? [];
  const options = users.map(({ user_id: id, display_name: name, email }) => [id, name || email] as const);
  const isOther = asked !== undefined && options.every(([id]) => id !== asked);
  return { name: 'actor_user_id', label: 'Who', options: isOther ? [[asked, asked], ...options] : options };
}
