import type { FreeCapacity, Use } from './capacity.ts';

/** Where a new sandbox should run. */
export interface RegionPreference {
  /** Regions to try first, nearest first; all others follow. */
  nearest: readonly string[];
  /** Only the first region is allowed. */
  forced: boolean;
}

/** No preference. */
export const anyRegion: RegionPreference = { nearest: [], forced: false };

/**
 * A region, followed by the others in the order of their distance if the operator configured it.
 * @param distances for each region the other regions, nearest first
 */
export function nearestTo(region: string, distances: Readonly<Record<string, readonly string[]>>): string[] {
  return [...new Set([region, ...(distances[region] ?? [])])];
}

/** The total that sandboxes may take of a host, and the amount that they take already. No capacity: unlimited. */
interface Limit {
  capacity: number | null;
  reserved: number;
}

/** The capacity of a host, by its limits and by its measurements. */
export interface HostCapacity {
  hostId: string;
  region: string;
  /** Promised resources, even if the sandboxes use little of them. */
  cpu: Limit;
  memoryMb: Limit;
  diskGb: Limit;
  /** The host's UDP ports that may be forwarded to sandboxes. */
  udpPorts: Limit;
  /** The measured capacity for more sandboxes. Null: the host has not measured itself yet. */
  free: FreeCapacity | null;
  /** The disk that is nearly full: the disk of the sandboxes, or the disk of the unpacked images. */
  fullDisk?: FullDisk | null;
  /** The expected wait of one more start, before it begins. Absent: not measured. */
  startWaitSeconds?: number;
}

export type FullDisk = 'data' | 'cache';

export interface RequiredCapacity {
  cpu: number;
  memoryMb: number;
  diskGb: number;
  udpPorts: number;
  /** The expected real use, if known. */
  expected: Use;
  /** The longest wait of the start that the caller accepts. Absent: any. */
  maxStartWaitSeconds?: number;
}

/** `starts`: too many other sandboxes of the host are starting. */
export type Resource = 'cpu' | 'memory' | 'disk' | 'udp_ports' | 'starts';

/**
 * A client that waits for a create should not wait longer than this for the starts of others. It can do something
 * better with the time: try later, or elsewhere.
 */
export const maxStartWaitSeconds = 10;

/** Hosts are filled up to this part of their memory before emptier hosts are used. */
const wellFilled = 3 / 4;

/** The best host in the nearest region with capacity. Null: no host has capacity, or none of the forced region. */
export function chooseHost(
  hosts: readonly HostCapacity[],
  needed: RequiredCapacity,
  preference: RegionPreference,
): HostCapacity | null {
  for (const region of preference.forced ? preference.nearest.slice(0, 1) : preference.nearest) {
    const host = bestFit(
      hosts.filter((each) => each.region === region),
      needed,
    );
    if (host) return host;
  }
  return preference.forced ? null : bestFit(hosts, needed);
}

/**
 * The fullest host below the fill level, so that large sandboxes find a host later. If there is none, the emptiest
 * host, because sandboxes may later use more than was measured. Null: no host has capacity.
 */
export function bestFit(hosts: readonly HostCapacity[], needed: RequiredCapacity): HostCapacity | null {
  const fitting = hosts
    .filter((host) => fits(host, needed))
    .map((host) => ({ host, left: memoryLeft(host, needed) }))
    .sort((a, b) => a.left - b.left);
  const uncrowded = fitting.find(({ left }) => left >= 1 - wellFilled);
  return (uncrowded ?? fitting.at(-1))?.host ?? null;
}

/** The part of a host's memory that is free after one more sandbox. */
function memoryLeft({ free, memoryMb }: HostCapacity, needed: RequiredCapacity): number {
  if (free) return (free.memoryMb - needed.expected.memoryMb) / Math.max(1, free.memoryTotalMb);
  if (memoryMb.capacity === null) return 1;
  return (memoryMb.capacity - memoryMb.reserved - needed.memoryMb) / Math.max(1, memoryMb.capacity);
}

/** Whether a host has capacity for this. */
export function fits(host: HostCapacity, needed: RequiredCapacity): boolean {
  return findShortages(host, needed).length === 0;
}

/**
 * The resources that a host has too little of for this sandbox. A resource that the sandbox does not need is never
 * short.
 */
export function findShortages(host: HostCapacity, needed: RequiredCapacity): Resource[] {
  const isOver = ({ capacity, reserved }: Limit, amount: number) => capacity !== null && reserved + amount > capacity;
  const lacks = (resource: keyof Use) => {
    const amount = needed.expected[resource];
    return host.free !== null && amount > 0 && amount > host.free[resource];
  };
  const short: Record<Resource, boolean> = {
    cpu: isOver(host.cpu, needed.cpu) || lacks('cpu'),
    memory: isOver(host.memoryMb, needed.memoryMb) || lacks('memoryMb'),
    disk: isDiskFull(host, needed) || isOver(host.diskGb, needed.diskGb) || lacks('diskMb'),
    udp_ports: isOver(host.udpPorts, needed.udpPorts),
    starts: (host.startWaitSeconds ?? 0) > (needed.maxStartWaitSeconds ?? Number.POSITIVE_INFINITY),
  };
  return (Object.keys(short) as Resource[]).filter((resource) => short[resource]);
}

/** The resources that are short on every host, taken from the host that lacks the fewest. */
export function fewestShortages(hosts: readonly HostCapacity[], needed: RequiredCapacity): Resource[] {
  const shortages = hosts.map((host) => findShortages(host, needed));
  return shortages.sort((a, b) => a.length - b.length)[0] ?? [];
}

/** Whether a nearly full disk of the host prevents this. A resumed sandbox already has its image and its disk. */
function isDiskFull(host: HostCapacity, needed: RequiredCapacity): boolean {
  return host.fullDisk === 'data' || (host.fullDisk === 'cache' && needed.diskGb > 0);
}

/** The maximum use of a sandbox. */
interface NominalUse {
  cpu: number;
  memoryMb: number;
  diskGb: number;
}

/** The use of a template's sandboxes at their first measurement. */
export interface TemplateUse {
  /** Cores, as a mean, because too little processor time only slows sandboxes down. */
  cpu: number;
  /** The largest use of a single sandbox, in MB. */
  memoryMb: number;
}

/** A sandbox of an unmeasured template counts with this many cores and with all of its memory. */
const firstGuessCores = 0.25;
/**
 * The disk space in MB that a start and the first commands write. The growth of the whole disk shows sandboxes that
 * write more.
 */
const firstWritesMb = 256;

/**
 * The use that a sandbox counts with until its host has measured it.
 * @param known the measured use of the template's sandboxes; null: none was measured
 */
export function expectedUse(nominal: NominalUse, known: TemplateUse | null): Use {
  return {
    cpu: Math.min(nominal.cpu, known?.cpu ?? firstGuessCores),
    memoryMb: Math.min(nominal.memoryMb, known?.memoryMb ?? nominal.memoryMb),
    diskMb: Math.min(nominal.diskGb * 1024, firstWritesMb),
  };
}

/** The room of a host after the expected use of its unmeasured sandboxes. */
export function lessExpected(free: FreeCapacity, expected: readonly Use[]): FreeCapacity {
  const sum = (of: (use: Use) => number) => expected.reduce((total, use) => total + of(use), 0);
  return {
    memoryTotalMb: free.memoryTotalMb,
    cpu: free.cpu - sum((use) => use.cpu),
    memoryMb: free.memoryMb - sum((use) => use.memoryMb),
    diskMb: free.diskMb - sum((use) => use.diskMb),
  };
}
