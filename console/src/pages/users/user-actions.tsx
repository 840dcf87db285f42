import { useNavigate } from '@tanstack/react-router';
import type { DataOf } from '../../api/client.ts';
import { useChange } from '../../api/queries.ts';
import { useIsAdmin, useSession } from '../../api/session.ts';
import { BodyForm } from '../../components/body-form.tsx';
import { ConfirmedButton } from '../../components/confirm.tsx';
import { DialogButton } from '../../components/dialog-button.tsx';
import { useNotice } from '../../components/notices.tsx';
import { visibleText } from '../../format/text.ts';
import { changes, help, labels } from './user-fields.ts';

type User = DataOf<'getUser'>;

export function UserActions({ user }: { user: User }) {
  const isSelf = useSession().user_id === user.user_id;
  return (
    <>
      <Edit user={user} />
      {user.status === 'enabled' && <ResetPassword user={user} />}
      {/* Nobody shuts themselves out. */}
      {!isSelf && <SwitchUser user={user} />}
      {!isSelf && <Delete user={user} />}
    </>
  );
}

function Edit({ user: { user_id, username, display_name, description, role, is_root_user } }: { user: User }) {
  const isAdmin = useIsAdmin();
  const notify = useNotice();
  return (
    <DialogButton label="Edit" title={`Edit ${visibleText(username)}`}>
      {(close) => (
        <BodyForm
          operation="updateUser"
          path={{ user_id }}
          sections={[
            { fields: ['display_name', 'description', 'is_root_user', ...(isAdmin ? (['role'] as const) : [])] },
          ]}
          labels={labels}
          help={help}
          initial={{ display_name, description, is_root_user, role }}
          sendsChangesOnly
          changes={changes}
          submitLabel="Save"
          onDone={() => {
            close();
            notify('The user is changed');
          }}
          onCancel={close}
        />
      )}
    </DialogButton>
  );
}

function ResetPassword({ user: { user_id, email } }: { user: User }) {
  const reset = useChange('resetUserPassword', []);
  const notify = useNotice();
  return (
    <button
      type="button"
      disabled={reset.isPending}
      onClick={() =>
        reset.mutate(
          { path: { user_id } },
          {
            onSuccess: () =>
              notify(`A link to a new password is sent to ${visibleText(email)}. It works for 30 minutes`),
            onError: (error) => notify(error.message),
          },
        )
      }
    >
      Mail a link to a new password
    </button>
  );
}

function SwitchUser({ user: { user_id, username, status } }: { user: User }) {
  const update = useChange('updateUser', changes);
  const notify = useNotice();
  const set = (next: User['status']) => ({ path: { user_id }, body: { status: next } });
  if (status === 'enabled') {
    return (
      <ConfirmedButton
        label="Disable"
        object={visibleText(username)}
        what="Their sessions and API keys stop working at once. Their sandboxes go on until they time out."
        run={() => update.mutateAsync(set('disabled'))}
        onDone={() => notify(`${visibleText(username)} is disabled`)}
      />
    );
  }
  return (
    <button
      type="button"
      disabled={update.isPending}
      onClick={() =>
        update.mutate(set('enabled'), {
          onSuccess: () => notify(`${visibleText(username)} is enabled`),
          onError: (error) => notify(error.message),
        })
      }
    >
      Enable
    </button>
  );
}

function Delete({ user: { user_id, username } }: { user: User }) {
  const remove = useChange('deleteUser', ['listUsers', 'getUser']);
  const navigate = useNavigate();
  const notify = useNotice();
  return (
    <ConfirmedButton
      label="Delete"
      object={visibleText(username)}
      what="Their sandboxes end, and their keys, private templates and quotas are removed. Projects with ended sandboxes, and templates that others see, go to a root user. This cannot be undone."
      run={() => remove.mutateAsync({ path: { user_id } })}
      onDone={() => {
        notify(`${visibleText(username)} is being deleted`);
        void navigate({ to: '/users' });
      }}
    />
  );
}
