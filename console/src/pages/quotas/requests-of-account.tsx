import { useIsAdmin, useSession } from '../../api/session.ts';
import { type Column, List } from '../../components/list.tsx';
import { accountFilter } from '../../components/owner-filters.ts';
import { UserName } from '../../components/user-name.tsx';
import { OwnRequestActions } from './request-actions.tsx';
import { type Request, requestColumns, requestFilters } from './request-columns.tsx';
import { ReviewActions } from './review-actions.tsx';

const user: Column<Request> = { label: 'User', cell: (item) => <UserName userId={item.user_id} /> };

/** The requests of all users of the account, for those who decide about them. */
export function RequestsOfAccount() {
  const isAdmin = useIsAdmin();
  const { user_id: self } = useSession();
  const actions: Column<Request> = {
    label: 'Actions',
    cell: (item) => (
      <>
        <ReviewActions request={item} />
        {item.user_id === self && <OwnRequestActions request={item} />}
      </>
    ),
  };
  return (
    <List
      operation="listQuotaRequestsOfAccount"
      caption="Quota requests of the account"
      items={(data): readonly Request[] => data.requests}
      keyOf={(item) => item.request_id}
      columns={[user, ...requestColumns, actions]}
      filters={isAdmin ? [...requestFilters, accountFilter] : requestFilters}
      empty="Nobody has requested a quota."
    />
  );
}
