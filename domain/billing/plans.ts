import { AppError } from '../errors.ts';
import type { Amount } from './money.ts';
import type { BillingInterval } from './periods.ts';

/** A subscription plan and its limits. Money is a decimal as a string, never a float. */
export interface Plan {
  planName: string;
  displayName: string;
  description: string;
  /** The price of one period. */
  priceAmount: Amount;
  currency: string;
  billingInterval: BillingInterval;
  isFree: boolean;
  maxConcurrentSandboxes: number;
  maxCpuCoresPerSandbox: number;
  maxMemoryGbPerSandbox: number;
  maxStorageGbPerSandbox: number;
  /** Absent: no limit. */
  maxDiskRatesPerSandbox?: DiskRates;
  maxSandboxTimeoutSeconds: number;
  /** The number of days that a paused sandbox is kept. */
  persistenceDays: number;
  maxActiveApiKeys: number;
  /** The total of all users of the account. */
  maxProjects: number;
  /** The total of all users of the account. */
  maxTemplates: number;
  /** GB of images of the account's private and shared templates. */
  maxTemplateStorageGb: number;
}

/** The highest rates at which a sandbox reads and writes its disk. 1 MB is 1,048,576 bytes. */
export interface DiskRates {
  readMbPerSecond: number;
  writeMbPerSecond: number;
  readsPerSecond: number;
  writesPerSecond: number;
}

/** The shortest timeout of a sandbox, in seconds. */
export const minTimeoutSeconds = 60;
export const defaultTimeoutSeconds = 300;

export interface RequestedResources {
  cpuCount: number;
  memoryMb: number;
  storageGb: number;
  timeoutSeconds: number;
}

/** An account with the name of its plan, and the plan of its subscription. */
interface PlanHolder {
  planName: string;
  /** Null: the account has no subscription yet. */
  boughtPlan: Plan | null;
}

/** The limits that apply to an account: those of its subscription. */
export function planHeldBy({ planName, boughtPlan }: PlanHolder, plans: { get(planName: string): Plan }): Plan {
  return boughtPlan ?? plans.get(planName);
}

/** Half of the plan's maximum, but at least 1 GB. */
export function defaultStorageGb(plan: Plan): number {
  return Math.max(1, Math.floor(plan.maxStorageGbPerSandbox / 2));
}

/**
 * Checks a request against the plan.
 * @param names the names of the fields in the request
 * @throws {AppError} `plan_limit_exceeded` with every field that exceeds it
 */
export function checkPlanLimits(
  plan: Plan,
  asked: Partial<RequestedResources>,
  names = { cpuCount: 'cpu_count', memoryMb: 'memory_mb' },
): void {
  const over: { path: string; reason: string }[] = [];
  const hold = (path: string, value: number | undefined, max: number, unit: string) => {
    if (value !== undefined && value > max)
      over.push({ path, reason: `must be at most ${max}${unit} on the ${plan.displayName} plan` });
  };
  hold(names.cpuCount, asked.cpuCount, plan.maxCpuCoresPerSandbox, ' cores');
  hold(names.memoryMb, asked.memoryMb, plan.maxMemoryGbPerSandbox * 1024, ' MB');
  hold('storage_gb', asked.storageGb, plan.maxStorageGbPerSandbox, ' GB');
  hold('timeout', asked.timeoutSeconds, plan.maxSandboxTimeoutSeconds, ' seconds');
  if (over.length > 0) {
    const text = over.map((item) => `${item.path} ${item.reason}`).join('; ');
    throw new AppError('plan_limit_exceeded', text, { details: over });
  }
}
