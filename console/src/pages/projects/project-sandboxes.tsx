import { Link } from '@tanstack/react-router';
import type { DataOf } from '../../api/client.ts';
import { useChange, useRead } from '../../api/queries.ts';
import { useIsAdmin, useIsRoot } from '../../api/session.ts';
import { ConfirmedButton } from '../../components/confirm.tsx';
import { DialogButton } from '../../components/dialog-button.tsx';
import { type Column, type Filter, List } from '../../components/list.tsx';
import { Loaded } from '../../components/loaded.tsx';
import { useNotice } from '../../components/notices.tsx';
import { Section } from '../../components/page.tsx';
import { Ago, Status, Text } from '../../components/values.tsx';
import { formatCount, formatMegabytes } from '../../format/numbers.ts';
import { visibleText } from '../../format/text.ts';
import { ChooseForm } from './choose-form.tsx';
import { changes } from './project-fields.ts';

type Project = DataOf<'getProject'>;
type Item = DataOf<'listProjectSandboxes'>['sandboxes'][number];

const columns: readonly Column<Item>[] = [
  {
    label: 'Name',
    cell: (item) => (
      <Link to="/sandboxes/$sandboxId" params={{ sandboxId: item.id }}>
        <Text>{item.name}</Text>
      </Link>
    ),
  },
  { label: 'Status', cell: (item) => <Status status={item.status} /> },
  { label: 'Size', cell: (item) => `${formatCount(item.cpu_count)} CPU · ${formatMegabytes(item.memory_mb)}` },
  {
    label: 'Template',
    cell: (item) => (
      <Link to="/templates/$templateId" params={{ templateId: item.template_id }}>
        {item.template_id}
      </Link>
    ),
  },
  { label: 'Made', cell: (item) => <Ago at={item.created_at} /> },
];

const filters: readonly Filter[] = [
  {
    name: 'status',
    label: 'Status',
    options: ['running', 'paused', 'failed', 'terminated'].map((each) => [each, each] as const),
  },
];

/** The sandboxes of a project. Running ones can go to other projects of their user. */
export function ProjectSandboxes({ project }: { project: Project }) {
  const actions: Column<Item> = {
    label: 'Actions',
    cell: (item) =>
      item.status === 'running' && (
        <div className="row-actions">
          <Move item={item} />
          {!project.is_default && <Evict item={item} />}
        </div>
      ),
  };
  return (
    <Section title="Sandboxes" actions={<Add project={project} />}>
      <List
        operation="listProjectSandboxes"
        path={{ project_id: project.project_id }}
        caption={`Sandboxes of ${visibleText(project.name)}`}
        items={(data) => data.sandboxes}
        keyOf={(item) => item.id}
        columns={[...columns, actions]}
        filters={filters}
        empty="This project has no sandboxes."
      />
    </Section>
  );
}

const moved = ['listProjectSandboxes', ...changes] as const;

function Add({ project }: { project: Project }) {
  return (
    <DialogButton label="Add a sandbox" title={`Add a sandbox to ${visibleText(project.name)}`}>
      {(close) => <AddForm project={project} close={close} />}
    </DialogButton>
  );
}

function AddForm({ project, close }: { project: Project; close: () => void }) {
  const { project_id, owner_user_id, name } = project;
  const isAdmin = useIsAdmin();
  const isRoot = useIsRoot();
  const ofOwner = isRoot || isAdmin ? { owner_user_id } : {};
  const account = isAdmin ? { account_id: 'all' } : {};
  const read = useRead('listSandboxes', { query: { status: 'running', limit: 100, ...ofOwner, ...account } });
  const add = useChange('addSandboxToProject', moved);
  const notify = useNotice();
  return (
    <Loaded read={read}>
      {({ sandboxes }) => (
        <ChooseForm
          label="Sandbox"
          help="The newest 100 running sandboxes of the project's owner in other projects. What a sandbox has used so far stays with its project of before."
          options={sandboxes
            .filter((each) => each.project_id !== project_id)
            .map((each) => [each.sandbox_id, `${each.name} (now in ${each.project_name})`] as const)}
          empty="No sandbox is running in another project of its owner."
          submitLabel="Add"
          run={(sandbox_id) => add.mutateAsync({ path: { project_id, sandbox_id } })}
          onDone={() => {
            close();
            notify(`The sandbox is now in ${visibleText(name)}`);
          }}
        />
      )}
    </Loaded>
  );
}

function Move({ item }: { item: Item }) {
  return (
    <DialogButton label="Move" title={`Move ${visibleText(item.name)}`}>
      {(close) => <MoveForm item={item} close={close} />}
    </DialogButton>
  );
}

function MoveForm({ item, close }: { item: Item; close: () => void }) {
  const isAdmin = useIsAdmin();
  const isRoot = useIsRoot();
  const ofOwner = isRoot || isAdmin ? { owner_user_id: item.owner_user_id } : {};
  const account = isAdmin ? { account_id: 'all' } : {};
  const read = useRead('listProjects', { query: { limit: 100, ...ofOwner, ...account } });
  const move = useChange('switchSandboxProject', moved);
  const notify = useNotice();
  return (
    <Loaded read={read}>
      {({ projects }) => (
        <ChooseForm
          label="Project"
          help="What the sandbox has used so far stays with this project."
          options={projects
            .filter((each) => each.project_id !== item.project_id)
            .map((each) => [each.project_id, each.name] as const)}
          empty="Its owner has no other project."
          submitLabel="Move"
          run={(project_id) => move.mutateAsync({ path: { sandbox_id: item.id }, body: { project_id } })}
          onDone={() => {
            close();
            notify(`${visibleText(item.name)} is in another project now`);
          }}
        />
      )}
    </Loaded>
  );
}

function Evict({ item }: { item: Item }) {
  const evict = useChange('evictSandboxFromProject', moved);
  const notify = useNotice();
  return (
    <ConfirmedButton
      label="Remove"
      object={visibleText(item.name)}
      what="The sandbox goes on in the default project of its user. What it has used so far stays with this project."
      run={() => evict.mutateAsync({ path: { project_id: item.project_id, sandbox_id: item.id } })}
      onDone={() => notify(`${visibleText(item.name)} is in the default project now`)}
    />
  );
}
