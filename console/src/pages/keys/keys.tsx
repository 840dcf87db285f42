import type { DataOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { useIsAdmin, useIsRoot, useSession } from '../../api/session.ts';
import { DialogButton } from '../../components/dialog-button.tsx';
import { type Column, type Filter, List } from '../../components/list.tsx';
import { Loaded } from '../../components/loaded.tsx';
import { Meter } from '../../components/meter.tsx';
import { useOwnerFilters } from '../../components/owner-filters.ts';
import { PageBody } from '../../components/page.tsx';
import { Ago, Status, Text } from '../../components/values.tsx';
import { formatCount } from '../../format/numbers.ts';
import { visibleText } from '../../format/text.ts';
import { KeyActions } from './key-actions.tsx';
import { NewKey } from './new-key.tsx';
import { Snippets } from './snippets.tsx';

type Item = DataOf<'listApiKeys'>['api_keys'][number];

const name: Column<Item> = {
  label: 'Name',
  sort: 'name',
  cell: (item) => (
    <span title={visibleText(item.description)}>
      <Text>{item.name}</Text>
    </span>
  ),
};
const owner: Column<Item> = {
  label: 'Owner',
  cell: (item) => <Text>{item.owner.display_name || item.owner.email}</Text>,
};
const others: readonly Column<Item>[] = [
  { label: 'Begins with', cell: (item) => <code>{item.prefix}…</code> },
  { label: 'Status', cell: (item) => <Status status={item.is_active ? 'active' : 'disabled'} /> },
  {
    label: 'Last used',
    sort: 'last_used_at',
    cell: (item) => (item.last_used_at === null ? 'Never' : <Ago at={item.last_used_at} />),
  },
  { label: 'Made', sort: 'created_at', cell: (item) => <Ago at={item.created_at} /> },
  { label: 'Actions', cell: (item) => <KeyActions item={item} /> },
];

const filters: readonly Filter[] = [
  { name: 'search', label: 'Part of the name' },
  {
    name: 'status',
    label: 'Status',
    options: [
      ['active', 'active'],
      ['inactive', 'disabled'],
    ],
  },
];

export function Page() {
  const seesOthers = [useIsRoot(), useIsAdmin()].includes(true);
  const ownerFilters = useOwnerFilters('user_id');
  return (
    <PageBody
      title="API keys"
      actions={
        <>
          <DialogButton label="How to use a key" isWide>
            {() => <Snippets apiKey="spk_…" e2bKey="e2b_…" />}
          </DialogButton>
          <NewKey />
        </>
      }
    >
      <p>Programs sign in with a key. A key may do all that its owner may do.</p>
      <OwnKeys />
      <List
        operation="listApiKeys"
        caption="API keys"
        items={(data) => data.api_keys}
        keyOf={(item) => item.key_id}
        columns={seesOthers ? [name, owner, ...others] : [name, ...others]}
        filters={[...filters, ...ownerFilters]}
        empty="There are no keys yet."
      />
    </PageBody>
  );
}

function OwnKeys() {
  const { user_id } = useSession();
  const read = useRead('listApiKeys', { query: { user_id, status: 'active', limit: 1 } });
  return (
    <Loaded read={read}>
      {({ pagination, max_active_api_keys: limit }) => (
        <Meter label="Your active keys" used={pagination.total} limit={limit} format={formatCount} />
      )}
    </Loaded>
  );
}
