import { readdirSync, readFileSync } from 'node:fs';

/**
 * The sandbox's own versions of files of `/proc` that show the whole host, by name; `empty` replaces all hidden ones.
 * They show the sandbox's memory and the number of processors, all idle. Programs that read them work (`free`, `top`,
 * `os.totalmem()`) and see no neighbour. The sandbox's real use is in its control group.
 */
export function ownFileTexts({ memoryMb }: { memoryMb: number }): Record<string, string> {
  return {
    meminfo: memoryText(memoryMb),
    stat: processorText(),
    loadavg: '0.00 0.00 0.00 1/1 1\n',
    diskstats: '',
    vmstat: readFileSync('/proc/vmstat', 'latin1').replaceAll(/ \d+$/gm, ' 0'),
    cgroups: readFileSync('/proc/cgroups', 'latin1').replaceAll(/^(\w+\t\d+)\t\d+/gm, '$1\t1'),
    empty: '',
    swaps: 'Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n',
  };
}

/** In the format of proc(5), all of it free. */
function memoryText(memoryMb: number): string {
  const kib = memoryMb * 1024;
  const rows: [string, number][] = [
    ['MemTotal', kib],
    ['MemFree', kib],
    ['MemAvailable', kib],
    ...['Buffers', 'Cached', 'SwapCached', 'Active', 'Inactive', 'SwapTotal', 'SwapFree', 'Dirty', 'Writeback'].map(
      (name): [string, number] => [name, 0],
    ),
    ...['AnonPages', 'Mapped', 'Shmem', 'KReclaimable', 'Slab', 'SReclaimable', 'SUnreclaim'].map(
      (name): [string, number] => [name, 0],
    ),
    ['CommitLimit', kib],
    ['Committed_AS', 0],
  ];
  return rows.map(([name, value]) => `${`${name}:`.padEnd(16)}${String(value).padStart(8)} kB\n`).join('');
}

/**
 * As many processors as the host has, all idle; their number is no secret. Programs compute the age of processes from
 * `btime`.
 */
function processorText(): string {
  const processors = readdirSync('/sys/devices/system/cpu').filter((name) => /^cpu\d+$/.test(name)).length;
  const zeros = ' 0'.repeat(10);
  const btime = /^btime \d+$/m.exec(readFileSync('/proc/stat', 'latin1'))?.[0] ?? 'btime 0';
  const rows = Array.from({ length: processors }, (_, number) => `cpu${number}${zeros}`);
  const counters = [
    'intr 0',
    'ctxt 0',
    btime,
    'processes 1',
    'procs_running 1',
    'procs_blocked 0',
    `softirq${zeros} 0`,
  ];
  return [`cpu ${zeros}`, ...rows, ...counters].map((row) => `${row}\n`).join('');
}
