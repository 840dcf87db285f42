/**
 * The metered types. Amounts are whole numbers of a small unit, so that sums are exact. `perUnit` small units make one
 * unit of the API. A GB is 1024 MB.
 *
 * - `charged`: the type has a price. Other types are recorded only for information.
 * - `resource`: the kind of object that uses it.
 */
export const usageTypes = {
  /** Reserved cores, while the sandbox runs. Amounts in core-milliseconds. */
  cpu_seconds: { unit: 'cpu_seconds', perUnit: 1000, charged: true, resource: 'sandbox' },
  /** Reserved memory, while the sandbox runs. Amounts in MB-milliseconds. */
  ram_gb_seconds: { unit: 'gb_seconds', perUnit: 1024 * 1000, charged: true, resource: 'sandbox' },
  /** The size of the disk, while the sandbox runs or is paused. Amounts in GB-milliseconds. */
  sandbox_storage_gb_seconds: { unit: 'gb_seconds', perUnit: 1000, charged: true, resource: 'sandbox' },
  /** Sent and received bytes. Amounts in bytes. */
  traffic_gb: { unit: 'gb', perUnit: 1024 ** 3, charged: true, resource: 'sandbox' },
  /** The images of an account's own templates. Amounts in MB-milliseconds. */
  template_storage_gb_seconds: { unit: 'gb_seconds', perUnit: 1024 * 1000, charged: true, resource: 'template' },
  /** Used processor time. Amounts in core-milliseconds. */
  cpu_seconds_used: { unit: 'cpu_seconds', perUnit: 1000, charged: false, resource: 'sandbox' },
  /** Used memory. Amounts in MB-milliseconds. */
  ram_gb_seconds_used: { unit: 'gb_seconds', perUnit: 1024 * 1000, charged: false, resource: 'sandbox' },
} as const satisfies Record<string, UsageKind>;

interface UsageKind {
  unit: 'cpu_seconds' | 'gb_seconds' | 'gb';
  perUnit: number;
  charged: boolean;
  resource: 'sandbox' | 'template';
}

export type UsageType = keyof typeof usageTypes;
export const usageTypeNames = Object.keys(usageTypes) as [UsageType, ...UsageType[]];

export type ResourceType = (typeof usageTypes)[UsageType]['resource'];
export const resourceTypes = ['sandbox', 'template'] as const satisfies readonly ResourceType[];

/** The price of one unit of each charged type: a decimal as a string, never a float. */
export interface UsagePrices {
  currency: string;
  prices: { readonly [type in UsageType]?: string };
}
