/** Resources that a sandbox takes from its host. */
export interface Use {
  /** Cores. */
  cpu: number;
  memoryMb: number;
  diskMb: number;
}

/** What a host could still give to sandboxes at its last measurement. Negative: the host is under pressure. */
export interface FreeRoom extends Use {
  /** Of the machine, to compare hosts of different sizes. */
  memoryTotalMb: number;
}

/** Each core serves at most this many cores of busy sandboxes, so a new one gets at least that share of it. */
const busyCoresPerCore = 16;
/** Share of the time in which all processes waited for memory. */
const stalledPctUnderPressure = 5;
/** Share of the memory that is kept free under pressure. */
const memoryReserveUnderPressure = 1 / 4;
const memoryReserve = 1 / 10;
const leastMemoryReserveMb = 512;
/** Memory or disk that grows is counted as if it grew on for this long. */
const growthSeconds = 10;
/** Processor use from which sandboxes may get less than they want. */
const saturatedPart = 0.9;
/**
 * A busy sandbox gets at least this much of each of its cores, whatever uses the rest of the processor. One that uses
 * less is idle.
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

/** Disk for more sandboxes: free space less the reserve, less what the present sandboxes are about to write. */
export function freeDiskMb(disk: { freeMb: number; reserveMb: number; growthMbPerSecond: number }): number {
  return Math.floor(disk.freeMb - disk.reserveMb - Math.max(0, disk.growthMbPerSecond) * growthSeconds);
}

/** How much processor a running sandbox used, and its limit. */
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

/** The use of a template's sandboxes at their first measurement. */
export interface TemplateUse {
  /** Cores, as a mean: too little processor time slows sandboxes down and fails none. */
  cpu: number;
  /** The largest of one sandbox. */
  memoryMb: number;
}

/** A sandbox of a template without measurements counts with this and with all of its memory. */
const firstGuessCores = 0.25;
/** Disk that a start and the first commands write. The growth of the whole disk shows a sandbox that writes more. */
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

/** The rest of a host's room after the expected use of the sandboxes that are not measured yet. */
export function lessExpected(free: FreeRoom, expected: readonly Use[]): FreeRoom {
  const sum = (of: (use: Use) => number) => expected.reduce((total, use) => total + of(use), 0);
  return {
    memoryTotalMb: free.memoryTotalMb,
    cpu: free.cpu - sum((use) => use.cpu),
    memoryMb: free.memoryMb - sum((use) => use.memoryMb),
    diskMb: free.diskMb - sum((use) => use.diskMb),
  };
}
