import { Link } from '@tanstack/react-router';
import type { DataOf } from '../../api/client.ts';
import { useIsAdmin, useIsRoot } from '../../api/session.ts';
import { DialogButton } from '../../components/dialog-button.tsx';
import { type Column, List } from '../../components/list.tsx';
import { accountFilter } from '../../components/owner-filters.ts';
import { PageBody } from '../../components/page.tsx';
import { UserName } from '../../components/user-name.tsx';
import { Ago, Status, Text } from '../../components/values.tsx';
import { formatCount } from '../../format/numbers.ts';
import { EventTypeTable } from './event-type-table.tsx';
import { NewWebhook } from './new-webhook.tsx';

type Item = DataOf<'listWebhooks'>['webhooks'][number];

const url: Column<Item> = {
  label: 'Address',
  cell: (item) => (
    <>
      <Link to="/webhooks/$endpointId" params={{ endpointId: item.endpoint_id }}>
        <Text>{item.url}</Text>
      </Link>
      {item.description !== '' && (
        <div className="soft">
          <Text>{item.description.slice(0, 80)}</Text>
        </div>
      )}
    </>
  ),
};
const owner: Column<Item> = {
  label: 'Events of',
  cell: (item) => (item.user_id === null ? 'All users' : <UserName userId={item.user_id} />),
};
const others: readonly Column<Item>[] = [
  { label: 'Events', cell: (item) => item.event_types.join(', ') },
  {
    label: 'Status',
    cell: (item) => <Status status={item.is_active ? 'active' : 'disabled'} detail={item.disabled_reason} />,
  },
  { label: 'Delivered', isNumber: true, cell: (item) => formatCount(item.successful_deliveries) },
  { label: 'Failed', isNumber: true, cell: (item) => formatCount(item.failed_deliveries) },
  { label: 'Last delivery', cell: (item) => <Ago at={item.last_delivery_at} /> },
];

export function Page() {
  const isRoot = useIsRoot();
  const isAdmin = useIsAdmin();
  return (
    <PageBody
      title="Webhooks"
      actions={
        <>
          <DialogButton label="Types of events" isWide>
            {() => <EventTypeTable />}
          </DialogButton>
          <NewWebhook />
        </>
      }
    >
      <p>A webhook sends each event of the chosen types to an address of yours, as a signed POST with JSON.</p>
      <List
        operation="listWebhooks"
        caption="Webhooks"
        items={(data) => data.webhooks}
        keyOf={(item) => item.endpoint_id}
        columns={isRoot || isAdmin ? [url, owner, ...others] : [url, ...others]}
        filters={isAdmin ? [accountFilter] : []}
        empty="There are no webhooks yet."
      />
    </PageBody>
  );
}
