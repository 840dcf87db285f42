import type { V1ResourceQuota } from '@kubernetes/client-node';
import { bytesOf, countOf } from './quantities.ts';

/** What the quotas of a namespace leave. `Infinity`: they do not limit it. */
export interface QuotaRoom {
  /** Memory that sandboxes may be promised. */
  memoryBytes: number;
  /** Capacity of disks. */
  storageBytes: number;
  /** Sandboxes. */
  count: number;
}

/** @param memoryShare what a pod asks its node for, as a share of its limit */
export function quotaRoom(quotas: readonly V1ResourceQuota[], memoryShare: number): QuotaRoom {
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
    memoryBytes: Math.min(left(['limits.memory'], bytesOf), left(['requests.memory', 'memory'], bytesOf) / memoryShare),
    storageBytes: left(['requests.storage'], bytesOf),
    count: left(['pods', 'count/pods', 'persistentvolumeclaims', 'count/persistentvolumeclaims'], countOf),
  };
}
