import { useRead } from '../../api/queries.ts';
import { Loaded } from '../../components/loaded.tsx';
import { Section } from '../../components/page.tsx';
import { useHasProcessor } from './payment-processor.tsx';
import { PresentPlan } from './plan.tsx';
import { PlanTable } from './plan-table.tsx';

/** What users who are no root users see of the account's money. */
export function PlanOfUser() {
  const subscription = useRead('getSubscription');
  const plans = useRead('listPlans');
  const cards = useRead('getPaymentMethodsStatus', {}, { when: useHasProcessor() === true }).data;
  return (
    <>
      <p className="note">
        Root users of your account see its costs and invoices, and choose its plan. Your own usage is on the page Usage.
        {cards && (cards.has_payment_methods ? ' The account has a card.' : ' The account has no card.')}
      </p>
      <Loaded read={subscription}>
        {({ subscription: present }) => (
          <>
            <PresentPlan subscription={present} />
            <Section title="Plans">
              <Loaded read={plans}>
                {(data) => <PlanTable plans={data.plans} present={present.plan.plan_name} />}
              </Loaded>
            </Section>
          </>
        )}
      </Loaded>
    </>
  );
}
