import type { DataOf } from '../../api/client.ts';
import { useIsRoot } from '../../api/session.ts';
import { BodyForm } from '../../components/body-form.tsx';
import { DialogButton } from '../../components/dialog-button.tsx';
import { useNotice } from '../../components/notices.tsx';
import { Section } from '../../components/page.tsx';
import { At, Copyable, Facts, Status, Text } from '../../components/values.tsx';

type Account = DataOf<'getProfile'>['account'];

export function AccountSection({ profile: { account } }: { profile: DataOf<'getProfile'> }) {
  const isRoot = useIsRoot();
  return (
    <Section title="Account" actions={isRoot && <Edit account={account} />}>
      <Facts
        rows={[
          ['Name', <Text key="name">{account.display_name}</Text>],
          ['E-mail', <Text key="email">{account.email}</Text>],
          account.description !== '' && ['Description', <Text key="text">{account.description}</Text>],
          ['Status', <Status key="status" status={account.status} />],
          ['Id', <Copyable key="id" text={account.account_id} label="Account id" />],
          ['Made', <At key="made" at={account.created_at} />],
        ]}
      />
    </Section>
  );
}

function Edit({ account: { display_name, description } }: { account: Account }) {
  const notify = useNotice();
  return (
    <DialogButton label="Edit" title="Edit the account">
      {(close) => (
        <BodyForm
          operation="updateAccount"
          sections={[{ fields: ['display_name', 'description'] }]}
          labels={{ display_name: 'Name' }}
          help={{ display_name: 'As its users see it.', description: '' }}
          initial={{ display_name, description }}
          sendsChangesOnly
          changes={['getProfile', 'listAccounts']}
          submitLabel="Save"
          onDone={() => {
            close();
            notify('The account is changed');
          }}
          onCancel={close}
        />
      )}
    </DialogButton>
  );
}
