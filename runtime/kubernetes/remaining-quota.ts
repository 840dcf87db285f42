import type { V1ResourceQuota } from '@kubernetes/client-node';
import { parseBytes, parseQuantity } from './quantities.ts';

/** What the quotas of a namespace leave. `Infinity`: no quota limits it. */
export interface RemainingQuota {
  /** The sum of memory limits that new sandboxes may have. */
  memoryBytes: number;
  /** The sum of sizes that new disks may have. */
  storageBytes: number;
  /** The number of new sandboxes. */
  count: number;
}

/** @param memoryShare the memory request of a pod as a share of its limit */
export function remainingQuota(quotas: readonly V1ResourceQuota[], memoryShare: number): RemainingQuota {
  const left = (names: readonly string[], read: (quantity: string) => number) =>
    Math.min(
      ...quotas.flatMap(({ status }) =>
        names.flatMap((name) => {
          const hard = status?.hard?.[name];
          return hard === undefined ? [] : [Math.max(0, read(hard) - read(status?.used?.[name] ?? '0'))];
        }),
      ),
    );
  return {
    memoryBytes: Math.min(
      left(['limits.memory'], parseBytes),
      left(['requests.memory', 'memory'], parseBytes) / memoryShare,
    ),
    storageBytes: left(['requests.storage'], parseBytes),
    count: left(['pods', 'count/pods', 'persistentvolumeclaims', 'count/persistentvolumeclaims'], parseQuantity),
  };
}
