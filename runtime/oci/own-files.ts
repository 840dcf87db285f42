import { readFileSync } from 'node:fs';

/** The size of a sandbox. */
export interface OwnSize {
  memoryMb: number;
  /** The processors that it may use, by the host's numbers. */
  processors: readonly number[];
}

/** The use of a sandbox. Memory is in KiB, time in hundredths of a second. */
export interface OwnUse {
  memory: MemoryUse;
  /** The sum over all of its processors. */
  time: { user: number; system: number; idle: number };
  /** The start of the sandbox in seconds since 1970. */
  startedAt: number;
  /** Processors in use over the last 1, 5 and 15 minutes. */
  load: readonly [number, number, number];
  processes: number;
}

export interface MemoryUse {
  /** All memory that counts against the limit. */
  total: number;
  /** File cache. */
  cache: number;
  anonymous: number;
  shared: number;
  mapped: number;
  activeAnonymous: number;
  inactiveAnonymous: number;
  activeFile: number;
  inactiveFile: number;
}

const nothingUsed: MemoryUse = {
  total: 0,
  cache: 0,
  anonymous: 0,
  shared: 0,
  mapped: 0,
  activeAnonymous: 0,
  inactiveAnonymous: 0,
  activeFile: 0,
  inactiveFile: 0,
};

/** The destinations of own files outside `/proc`, by name. Every other name of `ownFileTexts` is below `/proc`. */
export const ownFileDestinations: Readonly<Record<string, string>> = { online: '/sys/devices/system/cpu/online' };

/**
 * The sandbox's own versions of files that would show the whole host, by name. `empty` replaces all hidden files. They
 * show the memory and the processors of the sandbox. `usedFileTexts` adds their use later.
 */
export function ownFileTexts(size: OwnSize): Record<string, string> {
  return {
    ...sizedFileTexts(size),
    diskstats: '',
    vmstat: readFileSync('/proc/vmstat', 'latin1').replaceAll(/ \d+$/gm, ' 0'),
    cgroups: readFileSync('/proc/cgroups', 'latin1').replaceAll(/^(\w+\t\d+)\t\d+/gm, '$1\t1'),
    empty: '',
    swaps: 'Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n',
  };
}

/** The files that depend on the size of the sandbox, with no use yet. */
export function sizedFileTexts(size: OwnSize): Record<'meminfo' | 'stat' | 'loadavg' | 'cpuinfo' | 'online', string> {
  const unused = { memory: nothingUsed, time: { user: 0, system: 0, idle: 0 }, startedAt: bootTime() };
  return {
    ...usedFileTexts(size, { ...unused, load: [0, 0, 0], processes: 1 }),
    cpuinfo: processorsText(size.processors.length),
    online: onlineText(size.processors),
  };
}

export const onlineText = (processors: readonly number[]): string => `${processors.join(',')}\n`;

/** The files that show the use of the sandbox. Programs that read them work as on a machine of the sandbox's size. */
export function usedFileTexts(size: OwnSize, use: OwnUse): Record<'meminfo' | 'stat' | 'loadavg', string> {
  return {
    meminfo: memoryText(size.memoryMb, use.memory),
    stat: timeText(size.processors.length, use),
    loadavg: padded(`${use.load.map((each) => each.toFixed(2)).join(' ')} 1/${use.processes} 1\n`, loadLength),
  };
}

/** The format of proc(5). The lines and their lengths are always the same. */
function memoryText(memoryMb: number, use: MemoryUse): string {
  const total = memoryMb * 1024;
  const free = Math.max(0, total - use.total);
  const rows: [string, number][] = [
    ['MemTotal', total],
    ['MemFree', free],
    ['MemAvailable', Math.min(total, free + use.activeFile + use.inactiveFile)],
    ['Buffers', 0],
    ['Cached', use.cache],
    ['SwapCached', 0],
    ['Active', use.activeAnonymous + use.activeFile],
    ['Inactive', use.inactiveAnonymous + use.inactiveFile],
    ['Active(anon)', use.activeAnonymous],
    ['Inactive(anon)', use.inactiveAnonymous],
    ['Active(file)', use.activeFile],
    ['Inactive(file)', use.inactiveFile],
    ...zeros('SwapTotal', 'SwapFree', 'Dirty', 'Writeback'),
    ['AnonPages', use.anonymous],
    ['Mapped', use.mapped],
    ['Shmem', use.shared],
    ...zeros('KReclaimable', 'Slab', 'SReclaimable', 'SUnreclaim'),
    ['CommitLimit', total],
    ['Committed_AS', use.anonymous],
  ];
  return rows.map(([name, value]) => `${`${name}:`.padEnd(16)}${String(value).padStart(12)} kB\n`).join('');
}

const zeros = (...names: string[]) => names.map((name): [string, number] => [name, 0]);

/** The processors of a sandbox share its time equally, because the kernel only counts the sum. */
function timeText(processors: number, { time, startedAt, processes }: OwnUse): string {
  const each = (hundredths: number) => Math.floor(hundredths / processors);
  const [user, system, idle] = [each(time.user), each(time.system), each(time.idle)];
  const row = (name: string, times: number) =>
    `${name} ${user * times} 0 ${system * times} ${idle * times}${' 0'.repeat(6)}`;
  const rows = Array.from({ length: processors }, (_, number) => row(`cpu${number}`, 1));
  const counters = [
    'intr 0',
    'ctxt 0',
    `btime ${startedAt}`,
    `processes ${processes}`,
    'procs_running 1',
    'procs_blocked 0',
  ];
  const lines = [row('cpu ', processors), ...rows, ...counters, `softirq${' 0'.repeat(11)}`];
  return padded(lines.map((line) => `${line}\n`).join(''), (processors + 1) * rowLength + countersLength);
}

/**
 * Fills the last line with spaces. A file that grows between the two reads of a program, the second of which looks for
 * the end, would show it the end of a newer text.
 */
const padded = (text: string, length: number) => `${text.slice(0, -1).padEnd(length - 1)}\n`;

/** More than the texts have with the largest numbers that a sandbox reaches in years. */
const [loadLength, rowLength, countersLength] = [64, 80, 160];

/** The descriptions of the host's processors without their current speed, which would reveal the use by others. */
let processorTexts: string[] | undefined;

function processorsText(processors: number): string {
  processorTexts ??= readFileSync('/proc/cpuinfo', 'latin1')
    .split('\n\n')
    .filter((text) => /^processor\s*:/.test(text))
    .map((text) => text.replaceAll(/^cpu MHz\s*:.*\n/gm, '').trimEnd());
  const numbered = (text: string, number: number) => text.replace(/^(processor\s*:).*$/m, `$1 ${number}`);
  return processorTexts
    .slice(0, processors)
    .map((text, number) => `${numbered(text, number)}\n\n`)
    .join('');
}

let bootedAt: number | undefined;

/** When this machine started, in seconds since 1970. */
export function bootTime(): number {
  bootedAt ??= Number(/^btime (\d+)$/m.exec(readFileSync('/proc/stat', 'latin1'))?.[1] ?? 0);
  return bootedAt;
}
