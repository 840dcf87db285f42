import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import type { DataOf } from '../../api/client.ts';
import { useIsAdmin } from '../../api/session.ts';
import { BodyForm } from '../../components/body-form.tsx';
import { Dialog } from '../../components/dialog.tsx';
import { useNotice } from '../../components/notices.tsx';
import { SecretDialog } from '../../components/secret-dialog.tsx';
import { Copyable, Facts, Text } from '../../components/values.tsx';
import { visibleText } from '../../format/text.ts';
import { help, labels } from './user-fields.ts';

type Created = DataOf<'createUser'>;

/** Invites a user by mail. Without a mail server, it shows their first password once. */
export function NewUser() {
  const [state, setState] = useState<'closed' | 'form' | Created>('closed');
  const isAdmin = useIsAdmin();
  const navigate = useNavigate();
  const notify = useNotice();
  const close = () => setState('closed');
  const open = ({ message, user }: Created) => {
    notify(message);
    void navigate({ to: '/users/$userId', params: { userId: user.user_id } });
  };
  return (
    <>
      <button type="button" className="primary" onClick={() => setState('form')}>
        New user
      </button>
      {state === 'form' && (
        <Dialog title="New user" onClose={close}>
          <BodyForm
            operation="createUser"
            sections={[
              { fields: ['email', 'username', 'is_root_user', ...(isAdmin ? (['role'] as const) : [])] },
              { title: 'More', fields: ['display_name', 'status', 'description'] },
            ]}
            labels={labels}
            help={{
              ...help,
              email: 'The user signs in with it, and gets an invitation there if the platform sends mails.',
              username: 'Unique in the account. It cannot be changed.',
              display_name: 'As others see it. The user name if empty.',
              status: 'A disabled user cannot sign in until you enable them. Enabled if empty.',
            }}
            initial={{ role: 'user' }}
            changes={['listUsers']}
            submitLabel="Make the user"
            onDone={(created) => (created.initial_password === '' ? open(created) : setState(created))}
            onCancel={close}
          />
        </Dialog>
      )}
      {typeof state === 'object' && <FirstPassword created={state} onClose={() => open(state)} />}
    </>
  );
}

/** Shown once, to be passed on. */
function FirstPassword({ created, onClose }: { created: Created; onClose: () => void }) {
  const { user, initial_password: password, dedicated_signin_url: url } = created;
  return (
    <SecretDialog title={`First password of ${visibleText(user.username)}`} secret="password" onClose={onClose}>
      <p className="note">
        No mail invites this user. Give them the password, and ask them to change it. It cannot be shown again.
      </p>
      <Facts
        rows={[
          ['E-mail', <Text key="email">{user.email}</Text>],
          ['Password', <Copyable key="password" text={password} label="Password" isSecret />],
          url !== null && ['Sign-in', <Copyable key="url" text={url} label="Address of the sign-in" />],
        ]}
      />
    </SecretDialog>
  );
}
