import { defineEntity, type InferEntity, p } from '@mikro-orm/core';

/** A machine that runs sandboxes. It counts as alive while it renews its lease. */
export const Host = defineEntity({
  name: 'Host',
  tableName: 'hosts',
  properties: {
    hostId: p.string().primary(),
    region: p.string(),
    regionName: p.string(),
    /** The total that may be promised to sandboxes, regardless of their use. Null: unlimited. */
    cpuCapacity: p.integer().nullable(),
    memoryMbCapacity: p.integer().nullable(),
    diskGbCapacity: p.integer().nullable(),
    /** The memory of the machine. Null: the host has not measured itself yet. */
    memoryMbTotal: p.integer().nullable(),
    /** Capacity for more sandboxes at `measuredAt`, without the reserves. Negative: the host is under pressure. */
    cpuFree: p.float().nullable(),
    /** The seconds by which each starting sandbox delays those behind it. Null: not measured. */
    secondsPerStart: p.float().nullable(),
    memoryMbFree: p.integer().nullable(),
    diskMbFree: p.integer().nullable(),
    /** Used-up resources: `cpu`, `memory`, `disk`. */
    shortOf: p.array().default([]),
    measuredAt: p.datetime(3).nullable(),
    /** Bandwidth of one sandbox to the internet, in each direction. Null: unlimited. */
    bandwidthMbps: p.integer().nullable(),
    /** The public address of its UDP ports. */
    publicAddress: p.string().nullable(),
    /** The range of UDP ports that may be forwarded to sandboxes. Null: none. */
    udpPortFirst: p.integer().nullable(),
    udpPortLast: p.integer().nullable(),
    /** The IPv4 network of its sandboxes, as CIDR. Null: the host has not recorded it yet. */
    sandboxNetwork: p.string().nullable(),
    /**
     * `host:port` at which gateways and APIs of other machines reach its sandboxes. Null: they use routes into its
     * network.
     */
    lastHopAddress: p.string().nullable(),
    /** The nearly full disk: `data` or `cache`. Null: neither. */
    fullDisk: p.string().nullable(),
    /**
     * Since when an operator drains the host. A draining host takes no sandboxes and resumes none. Null: it is not
     * drained.
     */
    drainingSince: p.datetime(3).nullable(),
    /** It listens for direct starts of sandboxes. */
    hearsStarts: p.boolean().default(false),
    /** It listens for pauses and resumes that the API has claimed. */
    hearsMoves: p.boolean().default(false),
    leaseExpiresAt: p.datetime(3),
    /** The host has stopped in order and will be back by this time. Until then its absence has no consequences. */
    awayUntil: p.datetime(3).nullable(),
    /** When the host was given up, with its sandboxes. It may renew its lease only after it has cleaned up. */
    lostAt: p.datetime(3).nullable(),
    createdAt: p.datetime(3).onCreate(() => new Date()),
    updatedAt: p
      .datetime(3)
      .onCreate(() => new Date())
      .onUpdate(() => new Date()),
  },
});
export type Host = InferEntity<typeof Host>;
