import { readFileSync } from 'node:fs';
import os from 'node:os';
import { freeMemoryMb, memoryReserveMb } from '../domain/hosts/capacity.ts';
import type { HostLoad, HostMemory } from './host-driver.ts';

/** Reads the load of the machine by all of its processes. */
export class MachineLoad implements HostLoad {
  readonly #proc: string;
  #processor: { busy: number; all: number };

  /** @param proc the folder of the kernel's figures */
  constructor(proc = '/proc') {
    this.#proc = proc;
    this.#processor = this.#readProcessor();
  }

  get coreCount(): number {
    return os.availableParallelism();
  }

  memory(): HostMemory {
    const info = readFileSync(`${this.#proc}/meminfo`, 'latin1');
    const mb = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(info)![1]) / 1024;
    return { totalMb: mb('MemTotal'), availableMb: mb('MemAvailable'), stalledPct: this.#stalledPct() };
  }

  /** Whether any memory is left above the reserve of the machine. */
  get hasFreeMemory(): boolean {
    const memory = this.memory();
    return freeMemoryMb({ ...memory, reserveMb: memoryReserveMb(memory.totalMb) }) > 0;
  }

  /** @returns the share of processor time used since the last call, 0 to 1 */
  processorUsed(): number {
    const before = this.#processor;
    this.#processor = this.#readProcessor();
    const all = this.#processor.all - before.all;
    return all > 0 ? (this.#processor.busy - before.busy) / all : 0;
  }

  /** `full avg10`. A kernel without pressure figures has no such file. */
  #stalledPct(): number {
    try {
      const text = readFileSync(`${this.#proc}/pressure/memory`, 'latin1');
      return Number(/^full avg10=([\d.]+)/m.exec(text)?.[1] ?? 0);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === 'ENOENT' || code === 'EOPNOTSUPP') return 0;
      throw error;
    }
  }

  /** Processor time in ticks. Time that the hypervisor took counts as used. */
  #readProcessor(): { busy: number; all: number } {
    const line = readFileSync(`${this.#proc}/stat`, 'latin1').split('\n', 1)[0]!;
    const [user, nice, system, idle, iowait, ...others] = line.split(/\s+/).slice(1, 9).map(Number);
    const busy = user! + nice! + system! + others.reduce((sum, ticks) => sum + ticks, 0);
    return { busy, all: busy + idle! + iowait! };
  }
}
