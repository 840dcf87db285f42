import type { DataOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { type Filter, Filters } from '../../components/list.tsx';
import { Empty, Loaded } from '../../components/loaded.tsx';
import { Section } from '../../components/page.tsx';
import { usePageSearch } from '../../components/page-search.ts';
import { Ago, Status, Text } from '../../components/values.tsx';
import { formatCount } from '../../format/numbers.ts';
import { DeliveryDialog } from './delivery.tsx';

type Delivery = DataOf<'listWebhookDeliveries'>['deliveries'][number];

const everyMs = 10_000;

const filters: readonly Filter[] = [
  {
    name: 'status',
    label: 'Status',
    options: ['pending', 'delivering', 'retrying', 'delivered', 'failed'].map((each) => [each, each] as const),
  },
  { name: 'newest', label: 'Of the newest', without: '50', options: [['200', '200']] },
];

/** The newest deliveries. The API does not page or filter them. `?delivery=` shows one of them. */
export function Deliveries({ endpointId }: { endpointId: string }) {
  const [search, change] = usePageSearch();
  const limit = search.newest === '200' ? 200 : 50;
  const input = { path: { endpoint_id: endpointId }, query: { limit } };
  const read = useRead('listWebhookDeliveries', input, { everyMs });
  return (
    <Section title="Deliveries">
      <p className="soft">An event that is sent to this address, with all its attempts. They are kept for 30 days.</p>
      <Filters filters={filters} />
      <Loaded read={read}>
        {({ deliveries }) => {
          const shown = deliveries.filter(({ status }) => !search.status || status === search.status);
          if (deliveries.length === 0)
            return <Empty>Nothing has been sent yet. A test event shows whether it works.</Empty>;
          if (shown.length === 0) return <Empty>None of the newest {formatCount(limit)} has this status.</Empty>;
          return <DeliveryTable deliveries={shown} open={(delivery) => change({ delivery })} />;
        }}
      </Loaded>
      {search.delivery && (
        <DeliveryDialog
          key={search.delivery}
          endpointId={endpointId}
          deliveryId={search.delivery}
          onClose={() => change({ delivery: '' })}
        />
      )}
    </Section>
  );
}

function DeliveryTable(props: { deliveries: readonly Delivery[]; open: (deliveryId: string) => void }) {
  return (
    <div className="table-frame">
      <table>
        <caption className="hidden">Deliveries</caption>
        <thead>
          <tr>
            <th scope="col">Event</th>
            <th scope="col">Status</th>
            <th scope="col" className="number">
              Attempts
            </th>
            <th scope="col">Last reply</th>
            <th scope="col">Next attempt</th>
            <th scope="col">Made</th>
          </tr>
        </thead>
        <tbody>
          {props.deliveries.map((each) => (
            <tr key={each.delivery_id}>
              <td data-label="Event">
                <button type="button" className="link" onClick={() => props.open(each.delivery_id)}>
                  {each.event_type}
                </button>
              </td>
              <td data-label="Status">
                <Status status={each.status} />
              </td>
              <td data-label="Attempts" className="number">
                {formatCount(each.attempt_number)} of {formatCount(each.max_attempts)}
              </td>
              <td data-label="Last reply">{each.http_status_code ?? <Text>{each.error_message}</Text>}</td>
              <td data-label="Next attempt">
                <Ago at={each.next_retry_at} />
              </td>
              <td data-label="Made">
                <Ago at={each.created_at} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
