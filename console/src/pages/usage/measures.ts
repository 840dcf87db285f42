import type { DataOf } from '../../api/client.ts';
import { formatMoney, formatNumber } from '../../format/numbers.ts';

export type Summary = DataOf<'getUsageSummary'>['summary'];
type Group = NonNullable<DataOf<'getUsageSummary'>['groups']>[number];
/** What was used on a day or by a group. */
export type Totals = Omit<Group, 'value'>;

/** The sums of a report, in the order of its table. */
export const measures: readonly { name: keyof Totals; label: string }[] = [
  { name: 'total_cost', label: 'Cost' },
  { name: 'total_cpu_hours', label: 'CPU hours, reserved' },
  { name: 'total_cpu_hours_used', label: 'CPU hours, used' },
  { name: 'total_memory_gb_hours', label: 'Memory, GB hours, reserved' },
  { name: 'total_memory_gb_hours_used', label: 'Memory, GB hours, used' },
  { name: 'total_storage_gb_hours', label: 'Disks, GB hours' },
  { name: 'total_traffic_gb', label: 'Traffic, GB' },
  { name: 'total_template_storage_gb_hours', label: 'Template images, GB hours' },
];

export const formatMeasure = (name: keyof Totals, value: number, currency: string) =>
  name === 'total_cost' ? formatMoney(value, currency) : formatNumber(value);

/** The charts that a person can choose. Each shows one or two measures. The first one is shown at first. */
export const charts: readonly { name: string; label: string; measures: readonly (keyof Totals)[] }[] = [
  { name: 'cost', label: 'Cost', measures: ['total_cost'] },
  { name: 'cpu', label: 'CPU hours', measures: ['total_cpu_hours', 'total_cpu_hours_used'] },
  { name: 'memory', label: 'Memory', measures: ['total_memory_gb_hours', 'total_memory_gb_hours_used'] },
  { name: 'disks', label: 'Disks', measures: ['total_storage_gb_hours'] },
  { name: 'traffic', label: 'Traffic', measures: ['total_traffic_gb'] },
  { name: 'images', label: 'Template images', measures: ['total_template_storage_gb_hours'] },
];
