import { List } from '../../components/list.tsx';
import { Section } from '../../components/page.tsx';
import { NewRequest, OwnRequestActions } from './request-actions.tsx';
import { type Request, requestColumns, requestFilters } from './request-columns.tsx';

/** What the person has requested of the root users of the account. */
export function OwnRequests() {
  return (
    <Section title="Your requests" actions={<NewRequest />}>
      <List
        operation="listQuotaRequests"
        caption="Your quota requests"
        items={(data): readonly Request[] => data.requests}
        keyOf={(item) => item.request_id}
        columns={[...requestColumns, { label: 'Actions', cell: (item) => <OwnRequestActions request={item} /> }]}
        filters={requestFilters}
        empty="You have not requested a quota. A root user of your account decides about a request."
      />
    </Section>
  );
}
