import type { DataOf } from '../../api/client.ts';
import type { Column, Filter } from '../../components/list.tsx';
import { QuotaLimits } from '../../components/quota-amounts.tsx';
import { Ago, Status, Text } from '../../components/values.tsx';

export type Request = DataOf<'listQuotaRequests'>['requests'][number];

export const requestColumns: readonly Column<Request>[] = [
  {
    label: 'Requested',
    cell: (item) => (
      <div>
        <QuotaLimits quota={item} />
      </div>
    ),
  },
  { label: 'Reason', cell: (item) => <Text>{item.reason}</Text> },
  {
    label: 'Status',
    cell: (item) => (
      <div>
        <Status status={item.status} />
        {item.review_notes && (
          <div className="soft">
            <Text>{item.review_notes}</Text>
          </div>
        )}
      </div>
    ),
  },
  { label: 'Made', cell: (item) => <Ago at={item.created_at} /> },
  { label: 'Reviewed', cell: (item) => <Ago at={item.reviewed_at} /> },
];

export const requestFilters: readonly Filter[] = [
  {
    name: 'status',
    label: 'Status',
    options: ['pending', 'approved', 'denied', 'withdrawn'].map((each) => [each, each] as const),
  },
];

/** Operations whose replies a change of a request makes old. */
export const changes = ['listQuotaRequests', 'listQuotaRequestsOfAccount'] as const;
