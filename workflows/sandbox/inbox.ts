import { patched } from '@temporalio/workflow';
import type { HostReport } from './messages.ts';

/**
 * Reports of hosts that the workflow has not yet acted on. Each start and each resume of a sandbox has a number, its
 * run, which the host repeats in every report. A report about an earlier run is about processes that have been replaced,
 * so it is dropped, however late it arrives.
 */
export class SandboxInbox {
  #reports: HostReport[];

  /** @param carried the reports that the previous run of the workflow had not acted on */
  constructor(carried: readonly HostReport[] = []) {
    this.#reports = [...carried];
  }

  receive(report: HostReport): void {
    this.#reports.push(report);
  }

  /** Whether a report is about the processes of `run`, or of a later one. */
  concerns(run: number): boolean {
    return this.#reports.some((report) => isPresent(report, run));
  }

  /** Removes and returns the next report to act on, and drops those that it makes obsolete. Null: there is none. */
  take(run: number): HostReport | null {
    const present = this.#reports.filter((report) => isPresent(report, run));
    const taken = present.toSorted((one, other) => rankOf(one) - rankOf(other))[0] ?? null;
    this.#reports = present.filter((report) => report.run !== null && report.run > (taken?.run ?? run));
    return taken;
  }

  /** Hosts of earlier versions do not number runs; their reports are about the processes at their arrival. */
  hasUnnumbered(kind: HostReport['kind']): boolean {
    return this.#reports.some((report) => report.kind === kind && report.run === null);
  }

  /**
   * Call before a resume or restart: drops reports without a run number, which are about the processes that it replaces.
   */
  dropUnnumberedOfReplaced(): void {
    this.#dropUnnumbered('exited');
    if (!this.hasUnnumbered('memoryLost')) return;
    if (patched('memory-lost-before-a-resume-is-dropped')) this.#dropUnnumbered('memoryLost');
  }

  #dropUnnumbered(kind: HostReport['kind']): void {
    this.#reports = this.#reports.filter((report) => report.kind !== kind || report.run !== null);
  }

  /** For the next run of the workflow. */
  carry(): HostReport[] {
    return [...this.#reports];
  }
}

/**
 * Reports about the same processes may have one cause; the lowest rank is the cause of the others: a lost disk, then a
 * host that ended the processes, then lost memory, then an exit.
 */
function rankOf(report: HostReport): number {
  if (report.kind === 'diskPressure') return report.ended ? 1 : 4;
  return { diskLost: 0, memoryLost: 2, exited: 3 }[report.kind];
}

const isPresent = (report: HostReport, run: number) => report.run === null || report.run >= run;
