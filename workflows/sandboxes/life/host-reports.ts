import { type ApplicationFailure, type CancellationScope, Trigger } from '@temporalio/workflow';
import { type HostFailure, readExit, refused } from './failure.ts';
import type { HostReport } from './messages.ts';

/**
 * Reports of hosts that the workflow has not acted on yet. Each start and each resume of a sandbox has a number, its
 * run, and the host repeats it in every report. A report about an earlier run describes processes that have been
 * replaced, so the inbox drops it.
 */
export class SandboxInbox {
  #reports: HostReport[];
  #taken: HostReport | null = null;

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

  /**
   * Removes and returns the next report to act on, and drops the reports that it makes obsolete. Null: no report is
   * left.
   */
  take(run: number): HostReport | null {
    const present = this.#reports.filter((report) => isPresent(report, run));
    const taken = present.toSorted((one, other) => rankReport(one) - rankReport(other))[0] ?? null;
    this.#reports = present.filter((report) => report.run !== null && report.run > (taken?.run ?? run));
    this.#taken = taken;
    return taken;
  }

  /** Returns the last report that was taken, because it was not acted on. */
  putBack(): void {
    if (this.#taken) this.#reports.push(this.#taken);
    this.#taken = null;
  }

  /**
   * Whether there is a report without a run number. It describes the processes that exist when it arrives. A restored
   * backup sends such reports, and so does a host that has lost its record of the sandbox.
   */
  hasUnnumbered(kind: HostReport['kind']): boolean {
    return this.#reports.some((report) => report.kind === kind && report.run === null);
  }

  /**
   * Call this before a resume or restart. It drops reports without a run number, because they describe the replaced
   * processes.
   */
  dropUnnumberedOfReplaced(): void {
    const isOfReplaced = ({ kind, run }: HostReport) => run === null && (kind === 'exited' || kind === 'memoryLost');
    this.#reports = this.#reports.filter((report) => !isOfReplaced(report));
  }

  /** The reports that the next run of the workflow takes over. */
  carry(): HostReport[] {
    return [...this.#reports];
  }
}

/**
 * Reports about the same processes may have one cause. The report with the lowest rank is the cause of the others. The
 * order is: a lost disk, a host that ended the processes, lost memory, an exit.
 */
function rankReport(report: HostReport): number {
  if (report.kind === 'diskPressure') return report.ended ? 1 : 4;
  return { diskLost: 0, memoryLost: 2, exited: 3 }[report.kind];
}

const isPresent = (report: HostReport, run: number) => report.run === null || report.run >= run;

/** The host was lost during its work. It is unknown whether the host completed the work. */
export class HostLostError extends Error {
  override name = 'HostLostError';
}

/** The failure of a sandbox whose processes were on the lost host. */
export const hostLostFailure: HostFailure = {
  reason: 'host_lost',
  failure: { message: 'The host of the sandbox was lost', ...readExit(undefined) },
};

/** The refusal of commands that need the host with the sandbox's disk. */
export function hostUnavailable(): ApplicationFailure {
  return refused('host_unavailable', 'The host of this sandbox is away; try again when it is back');
}

/** Records whether the sandbox's host was lost. */
export class HostLoss {
  #trigger = newTrigger();
  #happened = false;
  #run: number | null = null;

  get happened(): boolean {
    return this.#happened;
  }

  /** @param run the run that was lost. Null: unknown */
  record(run: number | null): void {
    this.#happened = true;
    this.#run = run;
    this.#trigger.reject(new HostLostError('The host was lost'));
  }

  /** Call this when the sandbox has another host, or currently needs no host. */
  reset(): void {
    if (!this.#happened) return;
    this.#happened = false;
    this.#trigger = newTrigger();
  }

  /** Call this when the processes of `run` are adopted: a loss of earlier ones does not concern them. */
  resetBefore(run: number): void {
    if (this.#run !== null && this.#run < run) this.reset();
  }

  /**
   * Waits for work on the host, and stops waiting when the host is lost. The host undoes unfinished work when it
   * reconciles.
   * @throws {HostLostError} and the errors of `work`
   */
  async unlessLost<Result>(scope: CancellationScope, work: () => Promise<Result>): Promise<Result> {
    if (this.#happened) throw new HostLostError('The host was lost');
    const result = scope.run(work);
    try {
      return await Promise.race([result, this.#trigger]);
    } catch (error) {
      if (error instanceof HostLostError) {
        result.catch(() => {});
        scope.cancel();
      }
      throw error;
    }
  }
}

function newTrigger(): Trigger<never> {
  const trigger = new Trigger<never>();
  trigger.then(undefined, () => {});
  return trigger;
}
