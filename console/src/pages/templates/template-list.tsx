import { Link } from '@tanstack/react-router';
import type { DataOf } from '../../api/client.ts';
import { useIsAdmin } from '../../api/session.ts';
import { type Column, type Filter, List } from '../../components/list.tsx';
import { accountFilter } from '../../components/owner-filters.ts';
import { PageBody } from '../../components/page.tsx';
import { TemplateStorage } from '../../components/template-storage.tsx';
import { Ago, Status, Text } from '../../components/values.tsx';
import { formatBytes, formatCount, formatMegabytes } from '../../format/numbers.ts';
import { ownerOf, statuses, visibilities } from './template-values.ts';

type Item = DataOf<'listTemplates'>['templates'][number];

const columns: readonly Column<Item>[] = [
  {
    label: 'Name',
    cell: (item) => (
      <Link to="/templates/$templateId" params={{ templateId: item.template_id }}>
        <Text>{item.name}</Text>
      </Link>
    ),
  },
  { label: 'Status', cell: (item) => <Status status={item.status} /> },
  { label: 'Visible', cell: (item) => visibilities[item.visibility] },
  { label: 'Owner', cell: (item) => <Text>{ownerOf(item)}</Text> },
  {
    label: 'Sandboxes get',
    cell: (item) => `${formatCount(item.default_cpu_count)} CPU · ${formatMegabytes(item.default_memory_mb)}`,
  },
  {
    label: 'Image',
    isNumber: true,
    cell: (item) => (item.image_size_bytes === null ? '–' : formatBytes(item.image_size_bytes)),
  },
  { label: 'Changed', cell: (item) => <Ago at={item.updated_at} /> },
];

const filters: readonly Filter[] = [
  { name: 'name', label: 'Name (the whole name)' },
  { name: 'status', label: 'Status', options: statuses.map((each) => [each, each] as const) },
  { name: 'visibility', label: 'Visible', options: Object.entries(visibilities) },
  { name: 'usable', label: 'Usable', options: [['true', 'Sandboxes can be made from it']] },
];

export function Page() {
  const isAdmin = useIsAdmin();
  return (
    <PageBody
      title="Templates"
      actions={
        <>
          <Link to="/templates/imports" className="button">
            Imports
          </Link>
          <Link to="/templates/new" className="button primary">
            New template
          </Link>
        </>
      }
    >
      <TemplateStorage />
      <List
        operation="listTemplates"
        caption="Templates"
        items={(data) => data.templates}
        keyOf={(item) => item.template_id}
        columns={columns}
        filters={isAdmin ? [...filters, accountFilter] : filters}
        empty="There are no templates."
      />
    </PageBody>
  );
}
