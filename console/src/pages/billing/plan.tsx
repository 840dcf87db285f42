import { useRead } from '../../api/queries.ts';
import { Loaded } from '../../components/loaded.tsx';
import { Section } from '../../components/page.tsx';
import { At, Facts, Status, Text } from '../../components/values.tsx';
import { formatMoney, formatPercent } from '../../format/numbers.ts';
import { ChoosePlan } from './choose-plan.tsx';
import type { Subscription } from './plan-effect.ts';
import { PlanHistory } from './plan-history.tsx';
import { PlanTable } from './plan-table.tsx';

/** The plan of the account, the other ones, and the changes so far. */
export function Plan() {
  const read = useRead('getSubscription');
  const offered = useRead('listPlans');
  return (
    <Loaded read={read}>
      {({ subscription }) => (
        <>
          <PresentPlan subscription={subscription} />
          <Section title="Plans">
            <Loaded read={offered}>
              {({ plans }) => (
                <PlanTable
                  plans={plans}
                  present={subscription.plan.plan_name}
                  action={(plan) => <ChoosePlan subscription={subscription} plan={plan} />}
                />
              )}
            </Loaded>
          </Section>
          <Section title="Changes of the plan">
            <PlanHistory currency={subscription.plan.currency} />
          </Section>
        </>
      )}
    </Loaded>
  );
}

export function PresentPlan({ subscription }: { subscription: Subscription }) {
  const { plan, planned_plan_name: planned } = subscription;
  return (
    <Section title="Your plan">
      {planned !== null && (
        <p className="note">
          The plan changes to{' '}
          <strong>
            <Text>{planned}</Text>
          </strong>{' '}
          on <At at={subscription.current_period_end} />. To cancel this, keep your present plan.
        </p>
      )}
      <Facts
        rows={[
          ['Plan', <Text key="plan">{plan.display_name}</Text>],
          ['Status', <Status key="status" status={subscription.status} />],
          [
            'Price',
            plan.is_free
              ? 'Free'
              : `${formatMoney(plan.price_amount, plan.currency)} a ${plan.billing_interval}, before tax`,
          ],
          ['Tax', formatPercent(subscription.tax_rate)],
          ['Period from', <At key="start" at={subscription.current_period_start} />],
          ['to', <At key="end" at={subscription.current_period_end} />],
        ]}
      />
      <p className="soft">
        Price and limits are those of the day you chose it. Changed offers apply from the next period on.
      </p>
    </Section>
  );
}
