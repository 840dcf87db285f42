import { ApplicationFailure } from '@temporalio/common';
import type { PlanCatalog } from '../../db/billing/plans.ts';
import type { Orm } from '../../db/orm.ts';
import { type AdoptedRow, DirectMoves } from '../../db/sandboxes/direct-moves.ts';
import type { Sandbox, SandboxFailure } from '../../db/sandboxes/sandbox.entity.ts';
import { MovedDirectly, type RunningPlace } from '../../db/sandboxes/sandbox-changes.ts';
import { SandboxLifeRepository } from '../../db/sandboxes/sandbox-life.ts';
import {
  notifyOfFailure,
  warnOfDiskPressure,
  warnOfExpiry,
  warnOfTimeout,
} from '../../db/sandboxes/sandbox-warnings.ts';
import { AppError } from '../../domain/errors.ts';
import type { SandboxId } from '../../domain/ids.ts';
import { firstRun, movedDirectly } from '../../domain/sandboxes/life-plan.ts';
import {
  isOver,
  type LifecycleOutcome,
  type SandboxMove,
  type SandboxReason,
  type SandboxStatus,
} from '../../domain/sandboxes/state.ts';

/**
 * The writes of a sandbox's workflow to its row. They are local activities on the workflow's own worker, because they
 * are short and a caller often waits for them. Times are Unix milliseconds.
 */
export function createSandboxLifeActivities({
  orm,
  plans,
  onMove,
}: {
  orm: Orm;
  plans: PlanCatalog;
  onMove?: (move: SandboxMove) => void;
}) {
  const life = new SandboxLifeRepository(orm.em, plans, onMove);
  const moves = new DirectMoves(orm.em, plans);

  return {
    /** @param takeOver also adopt a move that its host still works on; the workflow then finishes it */
    adoptRow(sandboxId: SandboxId, takeOver: boolean): Promise<AdoptedRow> {
      return moves.adopt(sandboxId, takeOver);
    },
    async recordRunning(sandboxId: SandboxId, place: RunningPlace, atMs: number): Promise<void> {
      await refusing(life.run(sandboxId, place, new Date(atMs)));
    },
    async recordPausing(sandboxId: SandboxId, reason: SandboxReason, atMs: number): Promise<void> {
      await refusing(life.beginPause(sandboxId, reason, new Date(atMs)));
    },
    async recordPauseFailed(sandboxId: SandboxId): Promise<void> {
      await refusing(life.cancelPause(sandboxId));
    },
    async recordPaused(sandboxId: SandboxId, reason: SandboxReason, atMs: number, memoryKept: boolean): Promise<void> {
      await refusing(life.pause(sandboxId, reason, new Date(atMs), memoryKept));
    },
    /** Also admits the resume. Fails with the code of the refusal. */
    async recordResuming(sandboxId: SandboxId, run: number): Promise<void> {
      await refusing(life.beginResume(sandboxId, run));
    },
    /** @returns the current reason of the pause; a resume that was not admitted does not change it */
    async recordResumeFailed(sandboxId: SandboxId, memoryKept: boolean): Promise<{ reason: SandboxReason | null }> {
      const { reason } = await refusing(life.cancelResume(sandboxId, memoryKept));
      return { reason: reason ?? null };
    },
    /** @returns the current status: `running` or `paused` as before, or `paused` without processes */
    async recordRestartFailed(
      sandboxId: SandboxId,
      from: 'running' | 'paused',
    ): Promise<{ status: SandboxStatus; reason: SandboxReason | null }> {
      const { status, reason } = await refusing(life.cancelRestart(sandboxId, from));
      return { status, reason: reason ?? null };
    },
    async recordTerminating(sandboxId: SandboxId, reason: SandboxReason): Promise<void> {
      await refusing(life.beginTermination(sandboxId, reason));
    },
    async recordStopped(sandboxId: SandboxId, atMs: number): Promise<void> {
      await refusing(life.stop(sandboxId, new Date(atMs)));
    },
    /** @param cleaned false when the host was unreachable; its reconciliation then releases the capacity */
    async recordTerminated(
      sandboxId: SandboxId,
      outcome: LifecycleOutcome,
      atMs: number,
      cleaned: boolean,
    ): Promise<void> {
      await refusing(life.endTermination(sandboxId, outcome, new Date(atMs), cleaned));
    },
    async recordFailed(
      sandboxId: SandboxId,
      reason: SandboxReason,
      failure: SandboxFailure,
      atMs: number,
    ): Promise<void> {
      await refusing(life.fail(sandboxId, reason, failure, new Date(atMs)));
      await notifyOfFailure(orm.em, sandboxId, failure);
    },
    async recordMemoryLost(sandboxId: SandboxId): Promise<void> {
      await refusing(life.loseMemory(sandboxId));
    },
    async recordCleaned(sandboxId: SandboxId): Promise<void> {
      await refusing(life.releaseCapacity(sandboxId));
    },
    async recordForgotten(sandboxId: SandboxId, atMs: number): Promise<void> {
      await refusing(life.forget(sandboxId, new Date(atMs)));
    },
    async recordTimeout(sandboxId: SandboxId, timeoutSeconds: number, fromMs: number | null): Promise<void> {
      await refusing(life.setTimeout(sandboxId, timeoutSeconds, fromMs === null ? null : new Date(fromMs)));
    },
    /** Records the usage of the sandbox so far, if no transition has recorded it for a while. */
    async recordUsage(sandboxId: SandboxId, atMs: number): Promise<void> {
      await refusing(life.closeUsage(sandboxId, new Date(atMs)));
    },
    /**
     * Selects another host when the first did not start the sandbox. Fails with `no_capacity` when there is none.
     * @returns `running` when a direct start has started the sandbox on the first host; it stays there
     */
    async placeAgain(
      sandboxId: SandboxId,
    ): Promise<{ hostId: string; region: string; running?: { run: number; sinceMs: number } }> {
      const row = await refusing(life.placeAgain(sandboxId));
      const { hostId, region } = row;
      return {
        hostId,
        region,
        ...(hasStarted(row) && { running: { run: firstRun, sinceMs: row.startedAt.getTime() } }),
      };
    },
    /** The remains of a sandbox whose workflow has closed. Null: no such sandbox exists. */
    async findRemains(sandboxId: SandboxId): Promise<SandboxRemains | null> {
      const row = await life.find(sandboxId);
      if (!row) return null;
      return {
        status: row.status,
        over: isOver(row.status),
        hostId: row.hostId,
        held: row.holdsCompute || row.holdsDisk,
      };
    },

    async warnOfTimeout(sandboxId: SandboxId, deadlineMs: number, beforeSeconds: number): Promise<void> {
      await warnOfTimeout(orm.em, sandboxId, new Date(deadlineMs), beforeSeconds);
    },
    async warnOfExpiry(sandboxId: SandboxId, expiresMs: number): Promise<void> {
      await warnOfExpiry(orm.em, sandboxId, new Date(expiresMs));
    },
    async warnOfDiskPressure(sandboxId: SandboxId, pausedAtMs: number): Promise<void> {
      await warnOfDiskPressure(orm.em, sandboxId, new Date(pausedAtMs));
    },
  };
}

export type { AdoptedRow };
export type SandboxLifeActivities = ReturnType<typeof createSandboxLifeActivities>;

export interface SandboxRemains {
  status: string;
  over: boolean;
  hostId: string;
  /** Its host may still have parts of it. */
  held: boolean;
}

/** Whether a direct start has started the sandbox. Since then it may also have been paused and resumed directly. */
export function hasStarted(row: Sandbox): row is Sandbox & { startedAt: Date } {
  return row.startedAt != null && (row.movedDirectly || (row.status === 'running' && row.run === firstRun));
}

/**
 * Makes refusals final, with their code for the caller, and also the error of a row that was moved directly. Other errors
 * of the database are retried.
 */
export async function refusing<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof AppError) throw ApplicationFailure.nonRetryable(error.message, error.code);
    if (error instanceof MovedDirectly) throw ApplicationFailure.nonRetryable(error.message, movedDirectly);
    throw error;
  }
}
