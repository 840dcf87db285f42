import { useIsAdmin } from '../../api/session.ts';
import { Filters } from '../../components/list.tsx';
import { Empty, Loading } from '../../components/loaded.tsx';
import { accountFilter } from '../../components/owner-filters.ts';
import { usePageSearch } from '../../components/page-search.ts';
import { useSpan } from '../../components/span.ts';
import { DayReport } from './day-report.tsx';
import { GroupReport } from './group-report.tsx';
import { useGroupings } from './groupings.tsx';
import { useProjectFilter } from './project-filter.ts';
import type { ReportQuery } from './report-query.ts';

/** The usage of a time, by day or by group. The address says which. */
export function Report() {
  const [search] = usePageSearch();
  const isAdmin = useIsAdmin();
  const { span, filters } = useSpan('30d');
  const projectFilter = useProjectFilter();
  const groupings = useGroupings();
  const byMetadata = search.by === 'metadata';
  const grouping = groupings.find(({ name }) => name === search.by);
  const query: ReportQuery = {
    ...span,
    project_id: search.project_id,
    account_id: isAdmin ? search.account_id : undefined,
  };
  const groupBy = byMetadata ? search.key && `metadata.${search.key}` : grouping?.name;
  return (
    <>
      <Filters
        filters={[
          ...filters,
          projectFilter,
          {
            name: 'by',
            label: 'By',
            without: 'Day',
            options: groupings.map(({ name, label }) => [name, label] as const),
          },
          ...(byMetadata ? [{ name: 'key', label: 'Key of the metadata' }] : []),
          ...(isAdmin ? [accountFilter] : []),
        ]}
      />
      {span === null ? (
        <Loading />
      ) : grouping && groupBy ? (
        <GroupReport query={query} groupBy={groupBy} grouping={grouping} />
      ) : byMetadata ? (
        <Empty>Write a key of the metadata of your sandboxes, such as team.</Empty>
      ) : (
        <DayReport query={query} />
      )}
    </>
  );
}
