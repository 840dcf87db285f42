import { PageBody } from '../../components/page.tsx';
import { type PagePart, PageParts } from '../../components/page-parts.tsx';
import { Events } from './events.tsx';
import { Report } from './report.tsx';
import { Sessions } from './sessions.tsx';
import { Storage } from './storage.tsx';

const parts: readonly PagePart[] = [
  { name: 'report', label: 'Report', show: () => <Report /> },
  { name: 'sessions', label: 'Sessions', show: () => <Sessions /> },
  { name: 'events', label: 'Events', show: () => <Events /> },
  { name: 'storage', label: 'Template storage', show: () => <Storage /> },
];

/** What was used, and what it costs: users see their own usage, root users that of the account. */
export function Page() {
  return (
    <PageBody title="Usage">
      <PageParts label="Parts of usage" parts={parts} keeps={['project_id', 'account_id']} />
    </PageBody>
  );
}
