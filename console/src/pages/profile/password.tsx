import type { DataOf } from '../../api/client.ts';
import { useChange } from '../../api/queries.ts';
import { BodyForm } from '../../components/body-form.tsx';
import type { OwnInput } from '../../components/body-inputs.tsx';
import { DialogButton } from '../../components/dialog-button.tsx';
import { useNotice } from '../../components/notices.tsx';
import { Section } from '../../components/page.tsx';
import { Text } from '../../components/values.tsx';
import { visibleText } from '../../format/text.ts';

/** How the person signs in. */
export function Password({ profile }: { profile: DataOf<'getProfile'> }) {
  const { has_local_password: hasPassword, oauth_provider: provider, email } = profile;
  if (provider !== null) {
    return (
      <Section title="Sign-in">
        <p>
          You sign in through <Text>{provider}</Text>, and have no password here.
        </p>
      </Section>
    );
  }
  return (
    <Section title="Sign-in">
      <p>You sign in with your e-mail and a password.</p>
      <p className="soft">A new password ends all your sessions, also this one. Your API keys go on working.</p>
      <div className="page-actions">
        {hasPassword && <ChangePassword />}
        <MailLink email={email} />
      </div>
    </Section>
  );
}

const CurrentPasswordInput: OwnInput = ({ value, onChange, ...ids }) => (
  <input
    {...ids}
    type="password"
    autoComplete="current-password"
    required
    value={value}
    onChange={(event) => onChange(event.target.value)}
  />
);

function ChangePassword() {
  const notify = useNotice();
  return (
    <DialogButton label="Change the password">
      {(close) => (
        <BodyForm
          operation="changePassword"
          sections={[{ fields: ['current_password', 'new_password'] }]}
          help={{
            current_password: '',
            new_password: '8 characters or more. None of the most common ones, and not your name or e-mail.',
          }}
          inputs={{ current_password: CurrentPasswordInput }}
          // The session has ended, so the person is asked to sign in again.
          changes={['getSession']}
          submitLabel="Change the password"
          onDone={() => {
            close();
            notify('The password is changed');
          }}
          onCancel={close}
        />
      )}
    </DialogButton>
  );
}

function MailLink({ email }: { email: string }) {
  const request = useChange('requestPasswordReset', []);
  const notify = useNotice();
  return (
    <button
      type="button"
      disabled={request.isPending}
      onClick={() =>
        request.mutate(
          {},
          {
            onSuccess: () => notify(`A link is sent to ${visibleText(email)}. It works for 30 minutes`),
            onError: (error) => notify(error.message),
          },
        )
      }
    >
      Mail me a link to a new password
    </button>
  );
}
