import { Link, useParams } from '@tanstack/react-router';
import type { DataOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { Loaded } from '../../components/loaded.tsx';
import { PageBody, Section } from '../../components/page.tsx';
import { userKind } from '../../components/user-name.tsx';
import { At, Copyable, Facts, Status, Text } from '../../components/values.tsx';
import { visibleText } from '../../format/text.ts';
import { UserActions } from './user-actions.tsx';
import { UserQuota } from './user-quota.tsx';

type User = DataOf<'getUser'>;

const nameOf = (user: User) => visibleText(user.display_name || user.username);

export function Page() {
  const { userId = '' } = useParams({ strict: false });
  return <UserPage key={userId} userId={userId} />;
}

function UserPage({ userId }: { userId: string }) {
  const read = useRead('getUser', { path: { user_id: userId } });
  const user = read.data;
  return (
    <PageBody
      title={user ? nameOf(user) : userId}
      above={{ to: '/users', label: 'Users' }}
      actions={user && <UserActions user={user} />}
    >
      <Loaded read={read}>
        {(data) => (
          <div className="columns">
            <About user={data} />
            <UserQuota userId={data.user_id} name={nameOf(data)} />
          </div>
        )}
      </Loaded>
    </PageBody>
  );
}

function About({ user }: { user: User }) {
  return (
    <Section title="User">
      <Facts
        rows={[
          ['Id', <Copyable key="id" text={user.user_id} label="User id" />],
          [
            'E-mail',
            <span key="email">
              <Text>{user.email}</Text>
              {!user.email_verified && <span className="soft"> · not confirmed yet</span>}
            </span>,
          ],
          ['User name', <Text key="name">{user.username}</Text>],
          ['Role', userKind(user)],
          ['Status', <Status key="status" status={user.status} />],
          user.description !== '' && ['Description', <Text key="text">{user.description}</Text>],
          ['Last sign-in', user.last_login === null ? 'Never' : <At key="login" at={user.last_login} />],
          ['Made', <At key="made" at={user.created_at} />],
          ['See their', <Owned key="owned" userId={user.user_id} />],
        ]}
      />
    </Section>
  );
}

function Owned({ userId }: { userId: string }) {
  return (
    <>
      <Link to="/sandboxes" search={{ owner_user_id: userId }}>
        sandboxes
      </Link>
      {', '}
      <Link to="/projects" search={{ owner_user_id: userId }}>
        projects
      </Link>
      {', '}
      <Link to="/keys" search={{ user_id: userId }}>
        API keys
      </Link>
      {', '}
      <Link to="/audit" search={{ actor_user_id: userId }}>
        changes
      </Link>
    </>
  );
}
