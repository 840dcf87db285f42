import { Link, useNavigate } from '@tanstack/react-router';
import type { DataOf } from '../../api/client.ts';
import { useIsAdmin, useIsRoot } from '../../api/session.ts';
import { BodyForm } from '../../components/body-form.tsx';
import { DialogButton } from '../../components/dialog-button.tsx';
import { type Column, List } from '../../components/list.tsx';
import { useNotice } from '../../components/notices.tsx';
import { useOwnerFilters } from '../../components/owner-filters.ts';
import { PageBody } from '../../components/page.tsx';
import { Ago, Text } from '../../components/values.tsx';
import { formatCount } from '../../format/numbers.ts';
import { changes, help, labels } from './project-fields.ts';

type Item = DataOf<'listProjects'>['projects'][number];

const name: Column<Item> = {
  label: 'Name',
  cell: (item) => (
    <>
      <Link to="/projects/$projectId" params={{ projectId: item.project_id }}>
        <Text>{item.name}</Text>
      </Link>
      {item.is_default && <span className="soft"> · default</span>}
    </>
  ),
};
const owner: Column<Item> = {
  label: 'Owner',
  cell: (item) => <Text>{item.owner?.display_name || item.owner?.email}</Text>,
};
const others: readonly Column<Item>[] = [
  { label: 'Sandboxes', isNumber: true, cell: (item) => formatCount(item.sandbox_count) },
  { label: 'Made', cell: (item) => <Ago at={item.created_at} /> },
  { label: 'Changed', cell: (item) => <Ago at={item.updated_at} /> },
];

export function Page() {
  const seesOthers = [useIsRoot(), useIsAdmin()].includes(true);
  return (
    <PageBody title="Projects" actions={<NewProject />}>
      <p>Projects keep sandboxes apart in lists and in the usage of an account.</p>
      <List
        operation="listProjects"
        caption="Projects"
        items={(data) => data.projects}
        keyOf={(item) => item.project_id}
        columns={seesOthers ? [name, owner, ...others] : [name, ...others]}
        filters={useOwnerFilters('owner_user_id')}
        empty="You have no projects yet. The first one becomes your default project."
        emptyAction={<NewProject />}
      />
    </PageBody>
  );
}

function NewProject() {
  const navigate = useNavigate();
  const notify = useNotice();
  return (
    <DialogButton label="New project" isPrimary>
      {(close) => (
        <BodyForm
          operation="createProject"
          sections={[{ fields: ['name', 'description', 'is_default'] }]}
          labels={labels}
          help={help}
          changes={changes}
          submitLabel="Make the project"
          onDone={({ project_id }) => {
            notify('The project is made');
            void navigate({ to: '/projects/$projectId', params: { projectId: project_id } });
          }}
          onCancel={close}
        />
      )}
    </DialogButton>
  );
}
