import { useChange, useRead } from '../../api/queries.ts';
import { ConfirmedButton } from '../../components/confirm.tsx';
import { useNotice } from '../../components/notices.tsx';
import { At } from '../../components/values.tsx';
import { formatMoney, formatPercent } from '../../format/numbers.ts';
import { visibleText } from '../../format/text.ts';
import { nameOfCard } from './card-names.ts';
import { useHasProcessor } from './payment-processor.tsx';
import { costOfChange, effectOf, type Plan, type Subscription } from './plan-effect.ts';

/** Chooses a plan for the account, after the person has read what this costs. */
export function ChoosePlan({ subscription, plan }: { subscription: Subscription; plan: Plan }) {
  const notify = useNotice();
  const choose = useChange('changeSubscription', [
    ...(['getSubscription', 'listSubscriptionHistory', 'getCurrentBilling', 'listBillingPeriods'] as const),
    ...(['listInvoices', 'getBalance', 'listBalanceChanges', 'listPaymentIntents', 'getTemplateStorageUsage'] as const),
  ]);
  const effect = effectOf(subscription.plan, plan);
  const { planned_plan_name: planned } = subscription;
  const name = visibleText(plan.display_name);
  if (effect === 'keep' && planned === null) return null;
  if (planned === plan.plan_name) return <>Planned</>;
  const run = async () => {
    const { subscription: after, change_status } = await choose.mutateAsync({ body: { plan_name: plan.plan_name } });
    if (change_status === 'running') notify('The charge has not ended yet. The plan changes when it succeeds.');
    else if (after.planned_plan_name !== null) notify(`${name} is planned for the next period`);
    else notify(effect === 'keep' ? `You keep ${name}` : `Your plan is ${name}`);
  };
  return (
    <ConfirmedButton
      label={effect === 'keep' ? 'Keep' : 'Choose'}
      object={name}
      what={
        effect === 'keep' ? (
          `The change to ${visibleText(planned ?? '')} is cancelled, and nothing else changes.`
        ) : effect === 'later' ? (
          <Later subscription={subscription} name={name} />
        ) : (
          <Now subscription={subscription} plan={plan} name={name} />
        )
      }
      run={run}
    />
  );
}

function Later({ subscription, name }: { subscription: Subscription; name: string }) {
  const hasProcessor = useHasProcessor();
  return (
    <>
      {name} begins when this period ends, on <At at={subscription.current_period_end} />. Until then nothing changes,
      and you can cancel it by keeping your present plan. It costs nothing now.
      {hasProcessor === false && ' If this platform does not bill, it begins at once.'}
    </>
  );
}

function Now({ subscription, plan, name }: { subscription: Subscription; plan: Plan; name: string }) {
  const hasProcessor = useHasProcessor();
  const balance = useRead('getBalance').data?.balance ?? 0;
  const cards = useRead('listPaymentMethods', {}, { when: hasProcessor === true }).data?.payment_methods;
  const { charge, credit, tax, due } = costOfChange(subscription, plan, Date.now());
  const money = (amount: number) => formatMoney(amount, plan.currency);
  const card = cards?.find(({ is_default }) => is_default);
  const fromBalance = Math.min(balance, due);
  const old = visibleText(subscription.plan.display_name);
  return (
    <>
      {name} begins at once. It costs about <strong>{money(due)}</strong> now: {money(charge)} for {name} until{' '}
      <At at={subscription.current_period_end} />
      {credit > 0 && `, less ${money(credit)} for the unused time of ${old}`}
      {tax > 0 && `, and ${money(tax)} tax (${formatPercent(subscription.tax_rate)})`}.
      {fromBalance > 0 && ` ${money(fromBalance)} of it is taken from your balance.`}
      {due > fromBalance && card && ` ${money(due - fromBalance)} is charged to your ${nameOfCard(card)}.`}
      {due > fromBalance && cards && !card && ' You have no card for the rest, so it is refused: add a card first.'}
      {hasProcessor === false && ' If this platform does not bill, it is free.'} If the charge fails, nothing changes.
    </>
  );
}
