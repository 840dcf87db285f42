import { z } from 'zod';
import { emptyIsUnset, positive, positiveOrUnset, text, whole } from './field-types.ts';

/** One host: its name, driver, capacity, lease and warm pool. */
export const hostSettings = {
  /** This machine's host id. Empty: an id is generated and kept in the data folder. */
  PLATFORM_HOST_ID: text(),
  /** MB of memory that sandboxes may not use. Empty: a tenth of the machine's memory, and at least 512. */
  PLATFORM_HOST_MEMORY_RESERVE_MB: positiveOrUnset(),
  /**
   * The most that all sandboxes of this host are promised together, as a multiple of what the machine has, independent of
   * what they use. Empty: not limited; the host takes sandboxes as long as it has free capacity.
   */
  PLATFORM_HOST_CPU_OVERCOMMIT: positiveOrUnset(),
  PLATFORM_HOST_MEMORY_OVERCOMMIT: positiveOrUnset(),
  PLATFORM_HOST_DISK_OVERCOMMIT: positiveOrUnset(),
  /**
   * The host's lease. A host that does not renew it stops its sandboxes' processes after four fifths of this time; five
   * seconds after the lease ends, its sandboxes have failed.
   */
  PLATFORM_HOST_LEASE_SECONDS: positive(15),
  /**
   * Where this host's sandboxes run: `oci` runs them on this machine; `kubernetes` runs them as pods of a cluster, which
   * is one host (docs/kubernetes.md). Only `kubernetes` reads the settings PLATFORM_KUBERNETES_….
   */
  PLATFORM_DRIVER: z.preprocess(emptyIsUnset, z.enum(['oci', 'kubernetes']).default('oci')),
  /** `crun` or `runc`. Empty: crun where it works on this machine's cgroups, else runc. */
  PLATFORM_OCI_RUNTIME: z.preprocess(emptyIsUnset, z.enum(['crun', 'runc']).optional()),
  /** How many frozen sandboxes (on a cluster: pods) are kept ready for `base` on this host. 0 turns the pool off. */
  PLATFORM_WARM_POOL_SIZE: whole(2),
  /** After a burst of creates the pool grows to the number of creates within five seconds, at most to this. */
  PLATFORM_WARM_POOL_MAX_SIZE: whole(16),
  /**
   * MB of memory of all templates' frozen sandboxes together; each takes about 72. On a cluster: what their pods request.
   * 0: a sixteenth of the memory of the machine, or of the nodes.
   */
  PLATFORM_WARM_POOL_MEMORY_MB: whole(0),
};
