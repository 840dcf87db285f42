import { useIsAdmin, useIsRoot } from '../../api/session.ts';
import { PageBody } from '../../components/page.tsx';
import { type PagePart, PageParts } from '../../components/page-parts.tsx';
import { Balance } from './balance.tsx';
import { Budget } from './budget.tsx';
import { Cards } from './cards.tsx';
import { CurrentPeriod } from './current-period.tsx';
import { History } from './history.tsx';
import { Invoices } from './invoices.tsx';
import { PaymentNote } from './payment-processor.tsx';
import { Payments } from './payments.tsx';
import { Plan } from './plan.tsx';
import { PlanOfUser } from './plan-of-user.tsx';

const parts: readonly PagePart[] = [
  { name: 'overview', label: 'Overview', show: () => <CurrentPeriod /> },
  { name: 'history', label: 'History', show: () => <History /> },
  { name: 'invoices', label: 'Invoices', show: () => <Invoices /> },
  { name: 'plan', label: 'Plan', show: () => <Plan /> },
  { name: 'cards', label: 'Cards', show: () => <Cards /> },
  { name: 'payments', label: 'Payments', show: () => <Payments /> },
  { name: 'balance', label: 'Balance', show: () => <Balance /> },
  { name: 'budget', label: 'Budget', show: () => <Budget /> },
];

/** What the account costs and how it is paid. Only root users may see it; other users see the plan. */
export function Page() {
  const seesMoney = [useIsRoot(), useIsAdmin()].includes(true);
  return (
    <PageBody title="Billing">
      <PaymentNote />
      {seesMoney ? <PageParts label="Parts of billing" parts={parts} /> : <PlanOfUser />}
    </PageBody>
  );
}
