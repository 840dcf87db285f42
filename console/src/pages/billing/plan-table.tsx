import type { ReactNode } from 'react';
import { Text } from '../../components/values.tsx';
import { formatCount, formatMegabytes, formatMoney } from '../../format/numbers.ts';
import { formatDuration } from '../../format/time.ts';
import type { Plan } from './plan-effect.ts';

const formatGigabytes = (gigabytes: number) => formatMegabytes(gigabytes * 1024);

const columns: readonly { label: string; isNumber?: true; cell: (plan: Plan) => ReactNode }[] = [
  {
    label: 'Price, before tax',
    isNumber: true,
    cell: (plan) =>
      plan.is_free ? 'Free' : `${formatMoney(plan.price_amount, plan.currency)} a ${plan.billing_interval}`,
  },
  { label: 'Active sandboxes', isNumber: true, cell: (plan) => formatCount(plan.max_concurrent_sandboxes) },
  { label: 'CPU', isNumber: true, cell: (plan) => formatCount(plan.max_cpu_cores_per_sandbox) },
  { label: 'Memory', isNumber: true, cell: (plan) => formatGigabytes(plan.max_memory_gb_per_sandbox) },
  { label: 'Disk', isNumber: true, cell: (plan) => formatGigabytes(plan.max_storage_gb_per_sandbox) },
  { label: 'Longest timeout', isNumber: true, cell: (plan) => formatDuration(plan.max_sandbox_timeout_seconds) },
  {
    label: 'Paused ones are kept',
    isNumber: true,
    cell: (plan) => formatDuration(plan.persistence_days * 86_400),
  },
];

/** The plans beside each other. @param props.present the name of the account's plan */
export function PlanTable(props: { plans: readonly Plan[]; present: string; action?: (plan: Plan) => ReactNode }) {
  return (
    <>
      <p className="soft">
        Sizes are the largest of one sandbox. Usage is paid beside the price, except on a free plan.
      </p>
      <div className="table-frame">
        <table>
          <caption className="hidden">Plans with their prices and limits</caption>
          <thead>
            <tr>
              <th scope="col">Plan</th>
              {columns.map(({ label, isNumber }) => (
                <th key={label} scope="col" className={isNumber && 'number'}>
                  {label}
                </th>
              ))}
              {props.action && <th scope="col">Actions</th>}
            </tr>
          </thead>
          <tbody>
            {props.plans.map((plan) => (
              <tr key={plan.plan_name} aria-current={plan.plan_name === props.present ? 'true' : undefined}>
                <td data-label="Plan">
                  <div>
                    <strong>
                      <Text>{plan.display_name}</Text>
                    </strong>
                    {plan.plan_name === props.present && ' · your plan'}
                    <p className="soft">
                      <Text>{plan.description}</Text>
                    </p>
                  </div>
                </td>
                {columns.map(({ label, isNumber, cell }) => (
                  <td key={label} data-label={label} className={isNumber && 'number'}>
                    {cell(plan)}
                  </td>
                ))}
                {props.action && <td data-label="Actions">{props.action(plan)}</td>}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}
