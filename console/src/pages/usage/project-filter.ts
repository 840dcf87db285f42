import { useRead } from '../../api/queries.ts';
import type { Filter } from '../../components/list.tsx';

/** A choice among the projects that the person sees. */
export function useProjectFilter(): Filter {
  const projects = useRead('listProjects', { query: { limit: 100 } }).data?.projects ?? [];
  return {
    name: 'project_id',
    label: 'Project',
    options: projects.map((each) => [each.project_id, each.name] as const),
  };
}
