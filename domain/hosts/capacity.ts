/** Resources that a sandbox takes from its host. */
export interface Use {
  /** Cores. */
  cpu: number;
  memoryMb: number;
  diskMb: number;
}

/**
 * The resources that a host could still give to sandboxes at its last measurement. Negative: the host is under
 * pressure.
 */
export interface FreeCapacity extends Use {
  /** The total memory of the machine, to compare hosts of different sizes. */
  memoryTotalMb: number;
}

/**
 * At most this many busy sandbox cores share one core of the machine, so a new sandbox gets at least 1/16 of a core.
 */
const busyCoresPerCore = 16;
/** The percentage of time in which all processes waited for memory, from which the host is under pressure. */
const stalledPctUnderPressure = 5;
/** The part of the memory that is kept free under pressure. */
const memoryReserveUnderPressure = 1 / 4;
const memoryReserve = 1 / 10;
const minMemoryReserveMb = 512;
/** A growing use of memory or disk is counted as if it continued to grow for this long. */
const growthSeconds = 10;
/** From this processor use on, sandboxes may get less than they want. */
const saturatedPart = 0.9;
/**
 * A busy sandbox gets at least this part of each of its cores, even if other processes use the rest of the processor. A
 * sandbox that uses less is idle.
 */
const minBusyShare = 1 / (4 * busyCoresPerCore);

/** @returns the memory in MB that a host keeps free of sandboxes */
export function memoryReserveMb(totalMb: number): number {
  return Math.max(minMemoryReserveMb, Math.floor(totalMb * memoryReserve));
}

/**
 * Memory for more sandboxes: the available memory less the reserve. Pressure enlarges the reserve and does not close
 * the host, because a single sandbox that thrashes below its own limit also makes the kernel report pressure.
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

/** Disk for more sandboxes: free space less the reserve, less the expected writes of the present sandboxes. */
export function freeDiskMb(disk: { freeMb: number; reserveMb: number; growthMbPerSecond: number }): number {
  return Math.floor(disk.freeMb - disk.reserveMb - Math.max(0, disk.growthMbPerSecond) * growthSeconds);
}

/** The processor use of a running sandbox, and its limit. */
export interface ProcessorUse {
  cores: number;
  cpuCount: number;
}

/**
 * The number of cores that sandboxes want. If the processor has idle time, sandboxes get what they want. If it has
 * none, a busy sandbox is throttled when it gets at least half as much per core as the sandbox with the highest use per
 * core. A throttled sandbox may want all of its cores.
 * @param usedPart the used part of the machine's processor, 0 to 1
 */
export function wantedCores(uses: readonly ProcessorUse[], usedPart: number): number {
  const share = ({ cores, cpuCount }: ProcessorUse) => cores / cpuCount;
  const hungriest = Math.max(0, ...uses.map(share));
  const least = Math.max(minBusyShare, hungriest / 2);
  const isHeldBack = (use: ProcessorUse) => usedPart >= saturatedPart && share(use) >= least;
  return uses.reduce((sum, use) => sum + (isHeldBack(use) ? use.cpuCount : use.cores), 0);
}

/** The cores that more sandboxes may want. By their weights, all sandboxes share the processor evenly. */
export function freeCores(coreCount: number, wanted: number): number {
  return coreCount * busyCoresPerCore - wanted;
}
