import { defineEntity, type InferEntity, p } from '@mikro-orm/core';

/** A machine that runs sandboxes. Alive as long as it renews its lease. */
export const Host = defineEntity({
  name: 'Host',
  tableName: 'hosts',
  properties: {
    hostId: p.string().primary(),
    region: p.string(),
    regionName: p.string(),
    /** What sandboxes here may be promised together, whatever they use. Null: not limited. */
    cpuCapacity: p.integer().nullable(),
    memoryMbCapacity: p.integer().nullable(),
    diskGbCapacity: p.integer().nullable(),
    /** The memory of the machine. Null: it has not measured itself yet. */
    memoryMbTotal: p.integer().nullable(),
    /** What was free for more sandboxes at `measuredAt`, its reserves left out; below zero: it is under pressure. */
    cpuFree: p.float().nullable(),
    memoryMbFree: p.integer().nullable(),
    diskMbFree: p.integer().nullable(),
    /** Of these it has nothing left: `cpu`, `memory`, `disk`. */
    shortOf: p.array().default([]),
    measuredAt: p.datetime(3).nullable(),
    /** What one sandbox may send to the internet, and receive, each second. Null: not limited. */
    bandwidthMbps: p.integer().nullable(),
    /** Where its UDP ports are reached. */
    publicAddress: p.string().nullable(),
    /** The range that leads to sandboxes; null: it has none. */
    udpPortFirst: p.integer().nullable(),
    udpPortLast: p.integer().nullable(),
    /** `data` or `cache`: its disk that is nearly full. Null: neither is. */
    fullDisk: p.string().nullable(),
    leaseExpiresAt: p.datetime(3),
    /** It stopped in order and comes back: until then it is missed by nobody. */
    awayUntil: p.datetime(3).nullable(),
    /** Its sandboxes were given up. It may not renew its lease before it has cleaned up after them. */
    lostAt: p.datetime(3).nullable(),
    createdAt: p.datetime(3).onCreate(() => new Date()),
    updatedAt: p
      .datetime(3)
      .onCreate(() => new Date())
      .onUpdate(() => new Date()),
  },
});
export type Host = InferEntity<typeof Host>;
