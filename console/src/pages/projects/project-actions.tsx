import { useNavigate } from '@tanstack/react-router';
import type { DataOf } from '../../api/client.ts';
import { useChange } from '../../api/queries.ts';
import { BodyForm } from '../../components/body-form.tsx';
import { ConfirmedButton } from '../../components/confirm.tsx';
import { DialogButton } from '../../components/dialog-button.tsx';
import { useNotice } from '../../components/notices.tsx';
import { visibleText } from '../../format/text.ts';
import { changes, help } from './project-fields.ts';

type Project = DataOf<'getProject'>;

export function ProjectActions({ project }: { project: Project }) {
  return (
    <>
      <Edit project={project} />
      {!project.is_default && <MakeDefault project={project} />}
      {!project.is_default && <Delete project={project} />}
    </>
  );
}

function Edit({ project }: { project: Project }) {
  const { project_id, name, description } = project;
  const notify = useNotice();
  return (
    <DialogButton label="Edit" title={`Edit ${visibleText(name)}`}>
      {(close) => (
        <BodyForm
          operation="updateProject"
          path={{ project_id }}
          sections={[{ fields: ['name', 'description'] }]}
          help={help}
          initial={{ name, description }}
          sendsChangesOnly
          changes={changes}
          submitLabel="Save"
          onDone={() => {
            close();
            notify('The project is changed');
          }}
          onCancel={close}
        />
      )}
    </DialogButton>
  );
}

function MakeDefault({ project: { project_id, name } }: { project: Project }) {
  const update = useChange('updateProject', changes);
  const notify = useNotice();
  return (
    <button
      type="button"
      disabled={update.isPending}
      onClick={() =>
        update.mutate(
          { path: { project_id }, body: { is_default: true } },
          {
            onSuccess: () => notify(`${visibleText(name)} is the default project`),
            onError: (error) => notify(error.message),
          },
        )
      }
    >
      Make default
    </button>
  );
}

function Delete({ project: { project_id, name } }: { project: Project }) {
  const remove = useChange('deleteProject', ['listProjects']);
  const navigate = useNavigate();
  const notify = useNotice();
  return (
    <ConfirmedButton
      label="Delete"
      object={visibleText(name)}
      what="Only a project without sandboxes can be deleted. Ended ones count, too: delete them or move them first."
      run={() => remove.mutateAsync({ path: { project_id } })}
      onDone={() => {
        notify(`${visibleText(name)} is deleted`);
        void navigate({ to: '/projects' });
      }}
    />
  );
}
