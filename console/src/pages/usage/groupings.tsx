import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { useRead } from '../../api/queries.ts';
import { useIsAdmin, useIsRoot } from '../../api/session.ts';
import { usePageSearch } from '../../components/page-search.ts';
import { Text } from '../../components/values.tsx';

/** Something by which usage can be grouped. */
export interface Grouping {
  /** In the address and, except for metadata, in the request. */
  name: string;
  label: string;
  /** What usage without a value is. */
  none: string;
  /** The columns of the file. */
  columns: readonly [value: string, name?: string];
  /** The name of a group, if it is known. */
  nameOf: (value: string) => string | undefined;
  show: (value: string) => ReactNode;
}

/** The groupings that the person may choose. Only root users see others. */
export function useGroupings(): readonly Grouping[] {
  const [{ by }] = usePageSearch();
  const [isRoot, isAdmin] = [useIsRoot(), useIsAdmin()];
  const projects = useRead('listProjects', { query: { limit: 100 } }, { when: by === 'project_id' }).data?.projects;
  const users = useRead('listUsers', { query: { limit: 100 } }, { when: by === 'user_id' }).data?.users;
  const projectName = (id: string) => projects?.find(({ project_id }) => project_id === id)?.name;
  const userName = (id: string) => {
    const user = users?.find(({ user_id }) => user_id === id);
    return user && (user.display_name || user.email);
  };
  const ofProject: Grouping = {
    name: 'project_id',
    label: 'Project',
    none: 'In no project, such as images of templates',
    columns: ['project_id', 'project_name'],
    nameOf: projectName,
    show: (id) => (
      <Link to="/projects/$projectId" params={{ projectId: id }}>
        <Text>{projectName(id) ?? id}</Text>
      </Link>
    ),
  };
  const ofUser: Grouping = {
    name: 'user_id',
    label: 'User',
    none: 'No user',
    columns: ['user_id', 'user_name'],
    nameOf: userName,
    show: (id) => (
      <Link to="/users/$userId" params={{ userId: id }}>
        <Text>{userName(id) ?? id}</Text>
      </Link>
    ),
  };
  const ofMetadata: Grouping = {
    name: 'metadata',
    label: 'Metadata',
    none: 'Without this key',
    columns: ['metadata_value'],
    nameOf: () => undefined,
    show: (value) => <Text>{value}</Text>,
  };
  return [ofProject, ...(isRoot || isAdmin ? [ofUser] : []), ofMetadata];
}
