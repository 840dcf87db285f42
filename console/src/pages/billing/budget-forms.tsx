import type { DataOf } from '../../api/client.ts';
import { useChange } from '../../api/queries.ts';
import { BodyForm } from '../../components/body-form.tsx';
import { ConfirmedButton } from '../../components/confirm.tsx';
import { DialogButton } from '../../components/dialog-button.tsx';
import { useNotice } from '../../components/notices.tsx';
import { formatMoney } from '../../format/numbers.ts';

type Budget = NonNullable<DataOf<'getBudget'>>;

const changes = ['getBudget', 'getBudgetStatus', 'listBudgetMessages'] as const;

const labels = {
  budget_amount: 'Amount of a period',
  alert_thresholds: 'Alerts',
  notification_emails: 'Further mail addresses',
  is_active: 'The budget is switched on',
};
const help = {
  budget_amount:
    'For the cost of usage in each period of the subscription, in the currency of the plans. The price of the plan does not count; usage that the plan includes does.',
  limit_type:
    'Soft only alerts. Hard also refuses new sandboxes and resumes when the amount is used up; running sandboxes continue.',
  is_active: 'Switched off, it neither alerts nor refuses anything.',
};

export function MakeBudget() {
  const notify = useNotice();
  return (
    <DialogButton label="Set a budget" isPrimary>
      {(close) => (
        <BodyForm
          operation="createBudget"
          sections={[
            { fields: ['budget_amount', 'limit_type', 'notification_emails'] },
            { title: 'Alerts at other parts than 50, 80 and 100 %', fields: ['alert_thresholds'] },
          ]}
          labels={labels}
          help={help}
          initial={{ limit_type: 'soft' }}
          changes={changes}
          submitLabel="Set the budget"
          onDone={(budget) => {
            close();
            notify(`The budget is ${formatMoney(budget.budget_amount, budget.currency)} a period`);
          }}
          onCancel={close}
        />
      )}
    </DialogButton>
  );
}

export function ChangeBudget({ budget }: { budget: Budget }) {
  const notify = useNotice();
  const { budget_amount, limit_type, notification_emails, alert_thresholds, is_active } = budget;
  return (
    <DialogButton label="Change" title="Change the budget">
      {(close) => (
        <BodyForm
          operation="updateBudget"
          sections={[
            { fields: ['budget_amount', 'limit_type', 'notification_emails', 'alert_thresholds', 'is_active'] },
          ]}
          labels={labels}
          help={help}
          initial={{ budget_amount, limit_type, notification_emails, alert_thresholds, is_active }}
          sendsChangesOnly
          changes={changes}
          submitLabel="Save"
          onDone={(changed) => {
            close();
            notify(`The budget is ${formatMoney(changed.budget_amount, changed.currency)} a period`);
          }}
          onCancel={close}
        />
      )}
    </DialogButton>
  );
}

export function DeleteBudget({ budget }: { budget: Budget }) {
  const remove = useChange('deleteBudget', changes);
  const notify = useNotice();
  const name = `the budget of ${formatMoney(budget.budget_amount, budget.currency)}`;
  return (
    <ConfirmedButton
      label="Delete"
      object={name}
      what="Usage is not compared any more, and what the budget refused is allowed again. Its messages stay."
      run={() => remove.mutateAsync({})}
      onDone={() => notify('The budget is deleted')}
    />
  );
}
