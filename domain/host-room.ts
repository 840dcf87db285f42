/** Resources that a sandbox takes from its host. */
export interface Use {
  /** Cores. */
  cpu: number;
  memoryMb: number;
  diskMb: number;
}

/** What a host could still give to sandboxes when it last measured itself. Below zero: it is under pressure. */
export interface FreeRoom extends Use {
  /** Of the machine, to compare hosts of different sizes. */
  memoryTotalMb: number;
}

/** Each core serves at most this many cores of busy sandboxes, so a new one gets at least that share of it. */
const busyCoresPerCore = 16;
/** Of all time, in which no process went on because each waited for memory. */
const stalledPctUnderPressure = 5;
/** Under pressure this part of the memory is kept free. */
const memoryReserveUnderPressure = 1 / 4;
const memoryReserve = 1 / 10;
const leastMemoryReserveMb = 512;
/** What grows is counted as if it went on for this long. */
const growthSeconds = 10;
/** From this part of the processor on, sandboxes may get less of it than they want. */
const saturatedPart = 0.9;
/**
 * Whatever uses the rest of a processor, a sandbox that is busy gets this much for each of its cores. One that gets less
 * is idle.
 */
const leastBusyShare = 1 / (4 * busyCoresPerCore);

/** @returns MB that a host keeps free of sandboxes */
export function memoryReserveMb(totalMb: number): number {
  return Math.max(leastMemoryReserveMb, Math.floor(totalMb * memoryReserve));
}

/**
 * Memory for more sandboxes: what is available less the reserve. Pressure makes the reserve larger instead of closing the
 * host, because one sandbox that thrashes below its own limit makes the kernel report pressure, too.
 * @param stalledPct `full avg10` of the kernel's pressure figures for memory
 */
export function freeMemoryMb(memory: {
  totalMb: number;
  availableMb: number;
  reserveMb: number;
  stalledPct: number;
}): number {
  const underPressure = memory.stalledPct >= stalledPctUnderPressure;
  const kept = underPressure
    ? Math.max(memory.reserveMb, memory.totalMb * memoryReserveUnderPressure)
    : memory.reserveMb;
  return Math.floor(memory.availableMb - kept);
}

/** Disk for more sandboxes: what is free less the reserve, and less what those that are here are about to write. */
export function freeDiskMb(disk: { freeMb: number; reserveMb: number; growthMbPerSecond: number }): number {
  return Math.floor(disk.freeMb - disk.reserveMb - Math.max(0, disk.growthMbPerSecond) * growthSeconds);
}

/** How much processor a running sandbox used, and how much it may. */
export interface ProcessorUse {
  cores: number;
  cpuCount: number;
}

/**
 * Cores that sandboxes want. While the processor has idle time, they get what they want. When it has none, busy ones that
 * get at least half of what the hungriest gets for each of its cores are held back, and may want all of their cores.
 * @param usedPart of the machine's processor, 0 to 1
 */
export function wantedCores(uses: readonly ProcessorUse[], usedPart: number): number {
  const share = ({ cores, cpuCount }: ProcessorUse) => cores / cpuCount;
  const hungriest = Math.max(0, ...uses.map(share));
  const least = Math.max(leastBusyShare, hungriest / 2);
  const isHeldBack = (use: ProcessorUse) => usedPart >= saturatedPart && share(use) >= least;
  return uses.reduce((sum, use) => sum + (isHeldBack(use) ? use.cpuCount : use.cores), 0);
}

/** Cores that more sandboxes may want. By their weights, all of them share the processor evenly. */
export function freeCores(coreCount: number, wanted: number): number {
  return coreCount * busyCoresPerCore - wanted;
}

/** The most that a sandbox can take. */
export interface NominalUse {
  cpu: number;
  memoryMb: number;
  diskGb: number;
}

/** What sandboxes of a template used when they were measured for the first time. */
export interface TemplateUse {
  /** Cores, the mean: processor time that is short makes sandboxes slower and fails none of them. */
  cpu: number;
  /** The most of one. */
  memoryMb: number;
}

/** Without any measure of a template, a sandbox counts with this and with all of its memory. */
const firstGuessCores = 0.25;
/** What a start and the first commands write. A sandbox that writes more is seen by the growth of the whole disk. */
const firstWritesMb = 256;

/**
 * What a sandbox counts with until its host has measured it.
 * @param known null: no sandbox of its template has been measured
 */
export function expectedUse(nominal: NominalUse, known: TemplateUse | null): Use {
  return {
    cpu: Math.min(nominal.cpu, known?.cpu ?? firstGuessCores),
    memoryMb: Math.min(nominal.memoryMb, known?.memoryMb ?? nominal.memoryMb),
    diskMb: Math.min(nominal.diskGb * 1024, firstWritesMb),
  };
}

/** What is left of a host's room, when sandboxes that are not measured yet take what is expected of them. */
export function lessExpected(free: FreeRoom, expected: readonly Use[]): FreeRoom {
  const sum = (of: (use: Use) => number) => expected.reduce((total, use) => total + of(use), 0);
  return {
    memoryTotalMb: free.memoryTotalMb,
    cpu: free.cpu - sum((use) => use.cpu),
    memoryMb: free.memoryMb - sum((use) => use.memoryMb),
    diskMb: free.diskMb - sum((use) => use.diskMb),
  };
}
