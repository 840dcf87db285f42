import { useState } from 'react';
import type { DataOf } from '../api/client.ts';
import { formatNumber } from '../format/numbers.ts';
import type { OwnInput } from './body-inputs.tsx';
import { Meter } from './meter.tsx';

const hour = 3600;

/** What a quota limits, in the units that people read. `per`: how many of the API's units are one of them. */
const amounts = [
  { field: 'cpu_seconds_monthly', label: 'CPU hours a month', per: hour },
  { field: 'ram_gb_seconds', label: 'Memory, GB hours a month', per: hour },
  { field: 'sandbox_storage_gb_seconds', label: 'Disks of sandboxes, GB hours a month', per: hour },
  { field: 'traffic_gb_seconds', label: 'Traffic, GB a month', per: 1 },
  { field: 'template_storage_gb', label: 'Images of templates, GB', per: 1 },
  { field: 'concurrent_sandboxes', label: 'Sandboxes at the same time', per: 1 },
] as const;

type QuotaField = (typeof amounts)[number]['field'];
type Quota = Pick<DataOf<'createQuotaAllocation'>, QuotaField>;

const perField = <Value,>(value: (amount: (typeof amounts)[number]) => Value) =>
  Object.fromEntries(amounts.map((amount) => [amount.field, value(amount)])) as Record<QuotaField, Value>;

/** The fields of a quota in forms. */
export const quotaFields = amounts.map(({ field }) => field);
export const quotaLabels = perField(({ label }) => label);
export const quotaHelp = perField(() => 'Empty or 0: this quota does not limit it.');

/**
 * A number that people write in another unit than the API takes.
 * @param props.isRequired 0 says that nothing limits it. Otherwise 0 is as no number
 */
function AmountInput(props: Parameters<OwnInput>[0] & { per: number; isRequired?: boolean }) {
  const { value, onChange, per, isRequired = false, ...ids } = props;
  const [text, setText] = useState(value === '' ? '' : String(Number(value) / per));
  const write = (written: string) => {
    setText(written);
    const amount = per === 1 ? Number(written) : Math.round(Number(written) * per);
    onChange(written === '' || (amount === 0 && !isRequired) ? '' : String(amount));
  };
  return (
    <input
      {...ids}
      type="number"
      min={0}
      step="any"
      required={isRequired}
      value={text}
      onChange={(event) => write(event.target.value)}
    />
  );
}
const HoursInput: OwnInput = (props) => <AmountInput {...props} per={hour} />;
const NumberInput: OwnInput = (props) => <AmountInput {...props} per={1} />;

export const quotaInputs = perField(({ per }) => (per === hour ? HoursInput : NumberInput));
/** A request must say something about these two. */
export const requestedInputs: Readonly<Record<QuotaField, OwnInput>> = {
  ...quotaInputs,
  cpu_seconds_monthly: (props) => <AmountInput {...props} per={hour} isRequired />,
  template_storage_gb: (props) => <AmountInput {...props} per={1} isRequired />,
};

/** The limits of a quota, a line for each that it has. */
export function QuotaLimits({ quota }: { quota: Quota }) {
  const limits = amounts.filter(({ field }) => quota[field]);
  if (limits.length === 0) return <span className="soft">Limits nothing</span>;
  return limits.map(({ field, label, per }) => (
    <div key={field}>
      {label}: {formatNumber(quota[field]! / per)}
    </div>
  ));
}

/**
 * How much of a quota is used.
 * @param props.used in the units of the API; without a number, only the limit is shown
 */
export function QuotaMeters(props: { quota: Quota | null; used: { [Field in QuotaField]?: number } }) {
  return amounts.map(({ field, label, per }) => {
    const limit = props.quota?.[field] ? props.quota[field] / per : null;
    const used = props.used[field];
    if (used !== undefined) {
      return <Meter key={field} label={label} used={used / per} limit={limit} format={formatNumber} />;
    }
    return limit === null ? null : (
      <div key={field}>
        {label}: {formatNumber(limit)} at most
      </div>
    );
  });
}
