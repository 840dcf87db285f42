import { Link, useNavigate } from '@tanstack/react-router';
import { useChange, useRead } from '../../api/queries.ts';
import { useIsAdmin, useIsRoot, useSession } from '../../api/session.ts';
import { ConfirmedButton } from '../../components/confirm.tsx';
import { DialogButton } from '../../components/dialog-button.tsx';
import { Loaded } from '../../components/loaded.tsx';
import { useNotice } from '../../components/notices.tsx';
import { visibleText } from '../../format/text.ts';
import { ChooseForm } from '../projects/choose-form.tsx';
import { hasMounts, MountsDialog } from './mounts-dialog.tsx';
import { isOver, type Sandbox } from './sandbox-words.ts';
import { followDeletion, sandboxReads, useMove, useSettledStatus } from './use-sandbox.ts';

/** What can be done with a sandbox as a whole, as far as its status allows it. */
export function SandboxActions({ sandbox }: { sandbox: Sandbox }) {
  const status = useSettledStatus(sandbox);
  const { user_id } = useSession();
  return (
    <>
      {status === 'running' && <Pause sandbox={sandbox} />}
      {status === 'paused' && <Resume sandbox={sandbox} />}
      {(status === 'running' || status === 'paused') && <Restart sandbox={sandbox} />}
      {status === 'running' && <SwitchProject sandbox={sandbox} />}
      <Link
        to="/sandboxes/new"
        search={{
          template: sandbox.template_id,
          // A new one is in a project of the person who makes it.
          project: sandbox.owner_user_id === user_id ? sandbox.project_id : undefined,
        }}
        className="button"
      >
        New one like this
      </Link>
      {!isOver(status) && status !== 'terminating' && <Terminate sandbox={sandbox} />}
      <Delete sandbox={sandbox} />
    </>
  );
}

function Pause({ sandbox }: { sandbox: Sandbox }) {
  const pause = useMove('pauseSandbox', sandbox.sandbox_id, 'pausing');
  const notify = useNotice();
  return (
    <button
      type="button"
      disabled={pause.isPending}
      onClick={() =>
        pause.mutate(
          { is_async: true },
          {
            onSuccess: () => notify(`${visibleText(sandbox.name)} is pausing`),
            onError: (error) => notify(error.message),
          },
        )
      }
    >
      Pause
    </button>
  );
}

function Resume({ sandbox }: { sandbox: Sandbox }) {
  const resume = useMove('resumeSandbox', sandbox.sandbox_id, 'resuming');
  const notify = useNotice();
  if (hasMounts(sandbox)) return <MountsDialog label="Resume" operation="resumeSandbox" sandbox={sandbox} isPrimary />;
  return (
    <button
      type="button"
      className="primary"
      disabled={resume.isPending}
      onClick={() =>
        resume.mutate(
          { is_async: true },
          {
            onSuccess: () => notify(`${visibleText(sandbox.name)} is resuming`),
            onError: (error) => notify(error.message),
          },
        )
      }
    >
      Resume
    </button>
  );
}

function Restart({ sandbox }: { sandbox: Sandbox }) {
  const restart = useMove('restartSandbox', sandbox.sandbox_id, 'resuming');
  const notify = useNotice();
  if (hasMounts(sandbox)) return <MountsDialog label="Restart" operation="restartSandbox" sandbox={sandbox} />;
  return (
    <ConfirmedButton
      label="Restart"
      object={visibleText(sandbox.name)}
      what="All its processes end, and what they had in memory is lost. It starts again on the same disk, with the full timeout."
      run={() => restart.mutateAsync(undefined)}
      onDone={() => notify(`${visibleText(sandbox.name)} is restarted`)}
    />
  );
}

function Terminate({ sandbox }: { sandbox: Sandbox }) {
  const terminate = useMove('terminateSandbox', sandbox.sandbox_id, 'terminating');
  const notify = useNotice();
  return (
    <ConfirmedButton
      label="Terminate"
      object={visibleText(sandbox.name)}
      what="Its processes end and its disk is removed. Its record stays in the list."
      run={() => terminate.mutateAsync(undefined)}
      onDone={() => notify(`${visibleText(sandbox.name)} is terminating`)}
    />
  );
}

function Delete({ sandbox }: { sandbox: Sandbox }) {
  const remove = useChange('deleteSandbox', ['listSandboxes']);
  const navigate = useNavigate();
  const notify = useNotice();
  return (
    <ConfirmedButton
      label="Delete"
      object={visibleText(sandbox.name)}
      what="It ends if it has not, and its disk, its data and its record are removed."
      run={() => remove.mutateAsync({ path: { sandbox_id: sandbox.sandbox_id } })}
      onDone={() => {
        followDeletion();
        notify(`${visibleText(sandbox.name)} is being deleted`);
        void navigate({ to: '/sandboxes' });
      }}
    />
  );
}

function SwitchProject({ sandbox }: { sandbox: Sandbox }) {
  return (
    <DialogButton label="Move" title={`Move ${visibleText(sandbox.name)} to another project`}>
      {(close) => <SwitchForm sandbox={sandbox} close={close} />}
    </DialogButton>
  );
}

function SwitchForm({ sandbox, close }: { sandbox: Sandbox; close: () => void }) {
  const isAdmin = useIsAdmin();
  const isRoot = useIsRoot();
  const { sandbox_id, project_id, project_name, owner_user_id } = sandbox;
  const ofOwner = isRoot || isAdmin ? { owner_user_id } : {};
  const account = isAdmin ? { account_id: 'all' } : {};
  const read = useRead('listProjects', { query: { limit: 100, ...ofOwner, ...account } });
  const move = useChange('switchSandboxProject', [...sandboxReads, 'listProjects', 'listProjectSandboxes']);
  const notify = useNotice();
  return (
    <Loaded read={read}>
      {({ projects }) => (
        <ChooseForm
          label="Project"
          help={`Now it is in ${visibleText(project_name)}. What it has used so far stays with that project.`}
          options={projects
            .filter((each) => each.project_id !== project_id)
            .map((each) => [each.project_id, each.name] as const)}
          empty="Its owner has no other project."
          submitLabel="Move"
          run={(chosen) => move.mutateAsync({ path: { sandbox_id }, body: { project_id: chosen } })}
          onDone={() => {
            close();
            notify(`${visibleText(sandbox.name)} is in another project now`);
          }}
        />
      )}
    </Loaded>
  );
}
