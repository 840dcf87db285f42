import type { DataOf } from '../../api/client.ts';
import { useChange } from '../../api/queries.ts';
import { BodyForm } from '../../components/body-form.tsx';
import type { OwnInput } from '../../components/body-inputs.tsx';
import { ConfirmedButton } from '../../components/confirm.tsx';
import { DialogButton } from '../../components/dialog-button.tsx';
import { useNotice } from '../../components/notices.tsx';
import { formatMoney } from '../../format/numbers.ts';
import { visibleText } from '../../format/text.ts';

export type Account = DataOf<'listAccounts'>['accounts'][number];

const nameOf = ({ email }: Account) => visibleText(email);

export function AccountActions({ account }: { account: Account }) {
  return (
    <div className="row-actions">
      <Credit account={account} />
      <SetStatus account={account} />
    </div>
  );
}

function SetStatus({ account }: { account: Account }) {
  const change = useChange('setAccountStatus', ['listAccounts']);
  const notify = useNotice();
  const isActive = account.status === 'active';
  const name = nameOf(account);
  return (
    <ConfirmedButton
      label={isActive ? 'Suspend' : 'Reopen'}
      object={name}
      what={
        isActive
          ? 'Its sessions end. Its API keys can read, and neither change nor make anything. Sandboxes continue until their timeout.'
          : 'Its users can sign in, change and make things again.'
      }
      run={() =>
        change.mutateAsync({
          path: { account_id: account.account_id },
          body: { status: isActive ? 'suspended' : 'active' },
        })
      }
      onDone={() => notify(`${name} is ${isActive ? 'suspended' : 'open again'}`)}
    />
  );
}

const ActionInput: OwnInput = ({ id, value, onChange, 'aria-describedby': describedBy }) => (
  <select
    id={id}
    aria-describedby={describedBy}
    required
    value={value}
    onChange={(event) => onChange(event.target.value)}
  >
    <option value="grant">Grant credit</option>
    <option value="refund">Take back unused credit</option>
  </select>
);

function Credit({ account }: { account: Account }) {
  const notify = useNotice();
  const name = nameOf(account);
  return (
    <DialogButton label="Credit" title={`Credit of ${name}`}>
      {(close) => (
        <BodyForm
          operation="changeCredits"
          path={{ account_id: account.account_id }}
          sections={[{ fields: ['action', 'amount', 'description'] }]}
          labels={{ action: 'What', amount: 'Amount, in the currency of the plans' }}
          help={{
            action:
              'Credit pays invoices before a card does. What you take back, you pay out yourself; it cannot be more than the balance.',
            description: 'The account sees it among the changes of its balance.',
          }}
          inputs={{ action: ActionInput }}
          initial={{ action: 'grant' }}
          changes={['getBalance', 'listBalanceChanges', 'listInvoices']}
          submitLabel={`Change the credit of ${name}`}
          onDone={({ amount, currency }) => {
            close();
            const money = formatMoney(Math.abs(amount), currency);
            notify(amount > 0 ? `${name} got ${money}` : `${money} was taken back from ${name}`);
          }}
          onCancel={close}
        />
      )}
    </DialogButton>
  );
}
