import fs from 'node:fs';
import os from 'node:os';

const mebibyte = 1024 * 1024;

/** `GET /metrics`. Sizes are bytes unless their name ends in `_mib`. */
interface Usage {
  /** Unix seconds. */
  ts: number;
  cpu_count: number;
  /** Percent of all processors since the previous reading. */
  cpu_used_pct: number;
  mem_total: number;
  mem_used: number;
  mem_cache: number;
  mem_total_mib: number;
  mem_used_mib: number;
  disk_used: number;
  disk_total: number;
}

/** Reads what the sandbox uses, from the files that the host gives it. */
export class UsageMeter {
  #before = { busy: 0, total: 0 };

  read(): Usage {
    const cpus = os.cpus();
    const memory = readMeminfo();
    const total = memory.get('MemTotal') ?? 0;
    const used = Math.max(total - (memory.get('MemAvailable') ?? 0), 0);
    const disk = fs.statfsSync('/');
    const diskTotal = disk.blocks * disk.bsize;
    return {
      ts: Math.floor(Date.now() / 1000),
      cpu_count: cpus.length,
      cpu_used_pct: this.#cpuUsed(cpus),
      mem_total: total,
      mem_used: used,
      mem_cache: memory.get('Cached') ?? 0,
      mem_total_mib: Math.floor(total / mebibyte),
      mem_used_mib: Math.floor(used / mebibyte),
      disk_used: diskTotal - disk.bfree * disk.bsize,
      disk_total: diskTotal,
    };
  }

  #cpuUsed(cpus: os.CpuInfo[]): number {
    let busy = 0;
    let total = 0;
    for (const { times } of cpus) {
      const all = times.user + times.nice + times.sys + times.idle + times.irq;
      total += all;
      busy += all - times.idle;
    }
    const before = this.#before;
    this.#before = { busy, total };
    const passed = total - before.total;
    return passed > 0 ? Math.round(((busy - before.busy) / passed) * 10_000) / 100 : 0;
  }
}

/** The fields of `/proc/meminfo` in bytes. */
function readMeminfo(): Map<string, number> {
  const text = fs.readFileSync('/proc/meminfo', 'latin1');
  const fields = text.matchAll(/^(\w+): +(\d+) kB$/gm);
  return new Map([...fields].map(([, name, kibibytes]) => [name!, Number(kibibytes) * 1024]));
}
