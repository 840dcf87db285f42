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
    /** Room for more sandboxes at `measuredAt`, without the reserves; negative: the host is under pressure. */
    cpuFree: p.float().nullable(),
    memoryMbFree: p.integer().nullable(),
    diskMbFree: p.integer().nullable(),
    /** Resources of which it has nothing left: `cpu`, `memory`, `disk`. */
    shortOf: p.array().default([]),
    measuredAt: p.datetime(3).nullable(),
    /** Bandwidth of one sandbox to the internet, in each direction. Null: not limited. */
    bandwidthMbps: p.integer().nullable(),
    /** The address at which its UDP ports are reached. */
    publicAddress: p.string().nullable(),
    /** The range of UDP ports that may lead to sandboxes; null: none. */
    udpPortFirst: p.integer().nullable(),
    udpPortLast: p.integer().nullable(),
    /** The IPv4 network of its sandboxes, as CIDR. Null: it has not said so yet. */
    sandboxNetwork: p.string().nullable(),
    /** `host:port` at which gateways and APIs of other machines reach its sandboxes. Null: by routes into its network. */
    lastHopAddress: p.string().nullable(),
    /** `data` or `cache`: its disk that is nearly full. Null: neither is. */
    fullDisk: p.string().nullable(),
    /** An operator drains it since then: it takes no sandboxes, also none back. Null: it is not drained. */
    drainingSince: p.datetime(3).nullable(),
    leaseExpiresAt: p.datetime(3),
    /** It stopped in order and will be back by then; until then nothing is done about its absence. */
    awayUntil: p.datetime(3).nullable(),
    /** Its sandboxes were given up. It may renew its lease only after it has cleaned up. */
    lostAt: p.datetime(3).nullable(),
    createdAt: p.datetime(3).onCreate(() => new Date()),
    updatedAt: p
      .datetime(3)
      .onCreate(() => new Date())
      .onUpdate(() => new Date()),
  },
});
export type Host = InferEntity<typeof Host>;
