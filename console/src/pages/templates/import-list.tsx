import { Link } from '@tanstack/react-router';
import type { DataOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { useIsAdmin } from '../../api/session.ts';
import { Dialog } from '../../components/dialog.tsx';
import { type Column, type Filter, List } from '../../components/list.tsx';
import { accountFilter } from '../../components/owner-filters.ts';
import { PageBody } from '../../components/page.tsx';
import { usePageSearch } from '../../components/page-search.ts';
import { Ago, Text } from '../../components/values.tsx';
import { ImportJob, Progress } from './import-job.tsx';
import { useReadAgainWhile } from './read-again.ts';

type Item = DataOf<'listImportJobs'>['jobs'][number];

const columns: readonly Column<Item>[] = [
  { label: 'Image', cell: (item) => <JobLink item={item} /> },
  {
    label: 'Template',
    cell: (item) => (
      <Link to="/templates/$templateId" params={{ templateId: item.template_id }}>
        {item.template_id}
      </Link>
    ),
  },
  { label: 'Progress', cell: (item) => <Progress job={item} /> },
  { label: 'Asked for', cell: (item) => <Ago at={item.created_at} /> },
  { label: 'Ended', cell: (item) => <Ago at={item.completed_at} /> },
];

const filters: readonly Filter[] = [
  {
    name: 'status',
    label: 'Status',
    without: 'pending and running',
    options: ['pending', 'running', 'completed', 'failed', 'cancelled'].map((each) => [each, each] as const),
  },
  { name: 'template_id', label: 'Template (id)' },
];

/** Imports of images. The address has the one that is shown as `job`. */
export function Page() {
  const [{ job = '', account_id = '' }, change] = usePageSearch();
  const isAdmin = useIsAdmin();
  const ongoing = useRead('listImportJobs', { query: { limit: 1, account_id } }).data?.pagination.total ?? 0;
  useReadAgainWhile(ongoing > 0, 'listImportJobs');
  return (
    <PageBody
      title="Imports"
      above={{ to: '/templates', label: 'Templates' }}
      actions={
        <Link to="/templates/new" search={{ from: 'import' }} className="button primary">
          Import an image
        </Link>
      }
    >
      <List
        operation="listImportJobs"
        caption="Imports of images"
        items={(data) => data.jobs}
        keyOf={(item) => item.job_id}
        columns={columns}
        filters={isAdmin ? [...filters, accountFilter] : filters}
        empty="No import is running. The status shows those that have ended."
      />
      {job !== '' && (
        <Dialog title="Import" isWide onClose={() => change({ job: '' })}>
          <ImportJob key={job} jobId={job} />
        </Dialog>
      )}
    </PageBody>
  );
}

/** The same page with this import in front. */
function JobLink({ item }: { item: Item }) {
  const [search] = usePageSearch();
  return (
    <Link to="/templates/imports" search={{ ...search, job: item.job_id }}>
      <Text>{item.external_image_url}</Text>
    </Link>
  );
}
