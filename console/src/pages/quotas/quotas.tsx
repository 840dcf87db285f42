import { Link } from '@tanstack/react-router';
import { useIsAdmin, useIsRoot } from '../../api/session.ts';
import { PageBody } from '../../components/page.tsx';
import { type PagePart, PageParts } from '../../components/page-parts.tsx';
import { Allocations } from './allocations.tsx';
import { OwnQuota } from './own-quota.tsx';
import { RequestsOfAccount } from './requests-of-account.tsx';

const own: PagePart = { name: 'own', label: 'Your quota', show: () => <OwnQuota /> };
const ofAccount: readonly PagePart[] = [
  { name: 'requests', label: 'Requests', show: () => <RequestsOfAccount /> },
  { name: 'allocations', label: 'Quotas of the account', show: () => <Allocations /> },
];

export function Page() {
  const isRoot = useIsRoot();
  const isAdmin = useIsAdmin();
  return (
    <PageBody title="Quotas">
      <p>
        A quota limits a user, or all users of the account together. The limits of the{' '}
        <Link to="/billing" search={{ part: 'plan' }}>
          plan
        </Link>
        , of the account and of the user apply at the same time. Months begin at midnight UTC.
      </p>
      {isRoot || isAdmin ? (
        <PageParts label="Parts of quotas" parts={[own, ...ofAccount]} keeps={['account_id']} />
      ) : (
        <OwnQuota />
      )}
    </PageBody>
  );
}
