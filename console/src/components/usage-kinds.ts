import type { DataOf } from '../api/client.ts';
import { formatNumber } from '../format/numbers.ts';

type UsageEvent = DataOf<'listUsageEvents'>['events'][number];
type UsageKind = UsageEvent['usage_type'];

/** What the platform meters, in words. */
export const usageKinds: Readonly<Record<UsageKind, string>> = {
  cpu_seconds: 'CPU, reserved',
  ram_gb_seconds: 'Memory, reserved',
  sandbox_storage_gb_seconds: 'Disks of sandboxes',
  traffic_gb: 'Traffic',
  template_storage_gb_seconds: 'Images of templates',
  cpu_seconds_used: 'CPU, used',
  ram_gb_seconds_used: 'Memory, used',
};

export const nameOfKind = (kind: string) => usageKinds[kind as UsageKind] ?? kind.replaceAll('_', ' ');

const units: Readonly<Record<UsageEvent['usage_unit'], string>> = {
  cpu_seconds: 'core seconds',
  gb_seconds: 'GB seconds',
  gb: 'GB',
};

export const formatQuantity = (quantity: number, unit: UsageEvent['usage_unit']) =>
  `${formatNumber(quantity)} ${units[unit]}`;
