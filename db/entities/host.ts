import { defineEntity, type InferEntity, p } from '@mikro-orm/core';

/** A machine that runs sandboxes. Alive as long as it renews its lease. */
export const Host = defineEntity({
  name: 'Host',
  tableName: 'hosts',
  properties: {
    hostId: p.string().primary(),
    region: p.string(),
    regionName: p.string(),
    cpuCapacity: p.integer(),
    memoryMbCapacity: p.integer(),
    diskGbCapacity: p.integer(),
    leaseExpiresAt: p.datetime(3),
    createdAt: p.datetime(3).onCreate(() => new Date()),
    updatedAt: p
      .datetime(3)
      .onCreate(() => new Date())
      .onUpdate(() => new Date()),
  },
});
export type Host = InferEntity<typeof Host>;
