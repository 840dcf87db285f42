import type { DataOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { useIsRoot } from '../../api/session.ts';
import { BodyForm } from '../../components/body-form.tsx';
import { DialogButton } from '../../components/dialog-button.tsx';
import { Loaded } from '../../components/loaded.tsx';
import { useNotice } from '../../components/notices.tsx';
import { PageBody, Section } from '../../components/page.tsx';
import { userKind } from '../../components/user-name.tsx';
import { At, Copyable, Facts, Text } from '../../components/values.tsx';
import { AccountSection } from './account.tsx';
import { EmailChange } from './email-change.tsx';
import { Password } from './password.tsx';
import { SessionSection } from './session.tsx';

type Profile = DataOf<'getProfile'>;

/** The person, how they sign in, and their account. */
export function Page() {
  const isRoot = useIsRoot();
  const read = useRead('getProfile');
  return (
    <PageBody title="Profile">
      <Loaded read={read}>
        {(profile) => (
          <div className="columns">
            <About profile={profile} />
            <Password profile={profile} />
            <SessionSection />
            <AccountSection profile={profile} />
            {isRoot && <EmailChange currentEmail={profile.account.email} />}
          </div>
        )}
      </Loaded>
    </PageBody>
  );
}

function About({ profile }: { profile: Profile }) {
  return (
    <Section title="You" actions={<Edit profile={profile} />}>
      <Facts
        rows={[
          ['Name', <Text key="name">{profile.display_name}</Text>],
          ['User name', <Text key="username">{profile.username}</Text>],
          [
            'E-mail',
            <span key="email">
              <Text>{profile.email}</Text>
              {!profile.email_verified && <span className="soft"> · not confirmed yet</span>}
            </span>,
          ],
          profile.description !== '' && ['Description', <Text key="text">{profile.description}</Text>],
          ['Role', userKind(profile)],
          ['Id', <Copyable key="id" text={profile.user_id} label="User id" />],
          ['Made', <At key="made" at={profile.created_at} />],
        ]}
      />
    </Section>
  );
}

function Edit({ profile: { display_name, description } }: { profile: Profile }) {
  const notify = useNotice();
  return (
    <DialogButton label="Edit" title="Edit your profile">
      {(close) => (
        <BodyForm
          operation="updateProfile"
          sections={[{ fields: ['display_name', 'description'] }]}
          labels={{ display_name: 'Name' }}
          help={{ display_name: 'As others see it.', description: '' }}
          initial={{ display_name, description }}
          sendsChangesOnly
          changes={['getProfile', 'getSession', 'listUsers', 'getUser']}
          submitLabel="Save"
          onDone={() => {
            close();
            notify('Your profile is changed');
          }}
          onCancel={close}
        />
      )}
    </DialogButton>
  );
}
