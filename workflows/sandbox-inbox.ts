import type { HostReport } from './sandbox-messages.ts';

/**
 * What hosts have reported and the life has not yet acted on. Each start and each resume of a sandbox has a number, its
 * run, which the host gives back with every report. A report about an earlier run is late: the processes that it speaks
 * of have been replaced, so it is dropped however late it comes.
 */
export class SandboxInbox {
  #reports: HostReport[];

  /** @param carried what the run of the workflow before this one had not acted on */
  constructor(carried: readonly HostReport[] = []) {
    this.#reports = [...carried];
  }

  receive(report: HostReport): void {
    this.#reports.push(report);
  }

  /** Whether there is something to act on for a sandbox whose processes were last brought up by `run`. */
  concerns(run: number): boolean {
    return this.#reports.some((report) => isPresent(report, run));
  }

  /** The next report to act on, with all that it makes obsolete taken out. Null: there is none. */
  take(run: number): HostReport | null {
    const present = this.#reports.filter((report) => isPresent(report, run));
    const taken = present.toSorted((one, other) => rankOf(one) - rankOf(other))[0] ?? null;
    this.#reports = present.filter((report) => report.run !== null && report.run > (taken?.run ?? run));
    return taken;
  }

  /** Reports of hosts that do not number runs; they speak of whatever runs when they arrive. */
  hasUnnumbered(kind: HostReport['kind']): boolean {
    return this.#reports.some((report) => report.kind === kind && report.run === null);
  }

  dropUnnumbered(kind: HostReport['kind']): void {
    this.#reports = this.#reports.filter((report) => report.kind !== kind || report.run !== null);
  }

  /** For the next run of the workflow. */
  carry(): HostReport[] {
    return [...this.#reports];
  }
}

/**
 * The least explains the others of the same processes: a lost disk, then a host that ended them, then lost memory, then
 * an exit.
 */
function rankOf(report: HostReport): number {
  if (report.kind === 'diskPressure') return report.ended ? 1 : 4;
  return { diskLost: 0, memoryLost: 2, exited: 3 }[report.kind];
}

const isPresent = (report: HostReport, run: number) => report.run === null || report.run >= run;
