import type { DataOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { Empty, Loaded } from '../../components/loaded.tsx';
import { Meter } from '../../components/meter.tsx';
import { Section } from '../../components/page.tsx';
import { Ago, At, Facts, Text } from '../../components/values.tsx';
import { formatMoney } from '../../format/numbers.ts';
import { ChangeBudget, DeleteBudget, MakeBudget } from './budget-forms.tsx';
import { BudgetMessages } from './budget-messages.tsx';

/** The limit for the usage of a period, its state, and the messages about it. */
export function Budget() {
  const read = useRead('getBudget');
  return (
    <>
      <Loaded read={read}>
        {(budget) =>
          budget === null ? (
            <Section title="Budget">
              <Empty action={<MakeBudget />}>
                There is no budget. A budget tells you when usage reaches a part of an amount, and can stop new usage
                when the amount is used up.
              </Empty>
            </Section>
          ) : (
            <Section
              title="Budget"
              actions={
                <div className="row-actions">
                  <ChangeBudget budget={budget} />
                  <DeleteBudget budget={budget} />
                </div>
              }
            >
              <BudgetState />
              <BudgetFacts budget={budget} />
            </Section>
          )
        }
      </Loaded>
      <Section title="Messages">
        <BudgetMessages />
      </Section>
    </>
  );
}

/** What is used of the budget in this period. */
function BudgetState() {
  const read = useRead('getBudgetStatus');
  return (
    <Loaded read={read}>
      {(status) =>
        status && (
          <>
            {status.is_restricted && (
              <p className="problem" role="alert">
                The amount is used up: new sandboxes, resumes and new templates are refused until the period ends on{' '}
                <At at={status.period_end} />, or until you raise the amount.
              </p>
            )}
            {!status.is_active && (
              <p className="note">The budget is switched off: it neither alerts nor refuses anything.</p>
            )}
            <Meter
              label="Used in this period"
              used={status.amount_used}
              limit={status.budget_amount}
              format={(amount) => formatMoney(amount, status.currency)}
            />
            <p className="soft">
              {formatMoney(status.remaining_budget, status.currency)} left. The period ends{' '}
              <Ago at={status.period_end} />. Usage is compared every {status.check_interval_minutes} minutes. After a
              change of the amount, a threshold is reported again at the earliest {status.cooldown_hours} hours after
              its last report.
            </p>
          </>
        )
      }
    </Loaded>
  );
}

const limitTexts = {
  soft: 'Soft: it alerts, and refuses nothing',
  hard: 'Hard: new sandboxes and resumes are refused when the amount is used up',
} as const;

function BudgetFacts({ budget }: { budget: NonNullable<DataOf<'getBudget'>> }) {
  const reported = budget.alert_thresholds.filter(({ enabled }) => enabled).map(({ percent }) => `${percent} %`);
  return (
    <Facts
      rows={[
        ['Amount of a period', formatMoney(budget.budget_amount, budget.currency)],
        ['Limit', limitTexts[budget.limit_type]],
        ['Reported at', reported.length > 0 ? reported.join(', ') : 'No threshold is switched on'],
        [
          'Mails go to',
          <Text key="mails">{['the address of the account', ...budget.notification_emails].join(', ')}</Text>,
        ],
        ['Changed', <At key="changed" at={budget.updated_at} />],
      ]}
    />
  );
}
