import { ApplicationFailure } from '@temporalio/common';
import type { SandboxFailure } from '../db/entities/sandbox.ts';
import type { Orm } from '../db/orm.ts';
import type { PlanCatalog } from '../db/plans.ts';
import { type RunningPlace, SandboxLifeRepository } from '../db/repositories/sandbox-life.ts';
import {
  notifyOfFailure,
  warnOfDiskPressure,
  warnOfExpiry,
  warnOfTimeout,
} from '../db/repositories/sandbox-warnings.ts';
import { AppError } from '../domain/errors.ts';
import type { LifecycleOutcome, SandboxReason, SandboxStatus } from '../domain/sandbox-state.ts';
import { isOver } from '../domain/sandbox-state.ts';

/**
 * How a sandbox's workflow writes its row. Short database work, run as local activities on the worker that runs the
 * workflow, because a caller often waits for it. Times are Unix milliseconds.
 */
export function createSandboxLifeActivities({ orm, plans }: { orm: Orm; plans: PlanCatalog }) {
  const life = new SandboxLifeRepository(orm.em, plans);

  return {
    async recordRunning(sandboxId: string, place: RunningPlace, atMs: number): Promise<void> {
      await told(life.run(sandboxId, place, new Date(atMs)));
    },
    async recordPausing(sandboxId: string, reason: SandboxReason, atMs: number): Promise<void> {
      await told(life.beginPause(sandboxId, reason, new Date(atMs)));
    },
    async recordPauseFailed(sandboxId: string): Promise<void> {
      await told(life.cancelPause(sandboxId));
    },
    async recordPaused(sandboxId: string, reason: SandboxReason, atMs: number, memoryKept: boolean): Promise<void> {
      await told(life.pause(sandboxId, reason, new Date(atMs), memoryKept));
    },
    /** Admits the resume too; fails with the code of what stands in its way. */
    async recordResuming(sandboxId: string, run?: number): Promise<void> {
      await told(life.beginResume(sandboxId, run ?? null));
    },
    /** The reason that it is `paused` for now: what was not even admitted never left its own. */
    async recordResumeFailed(sandboxId: string, memoryKept: boolean): Promise<{ reason: SandboxReason | null }> {
      const { reason } = await told(life.cancelResume(sandboxId, memoryKept));
      return { reason: reason ?? null };
    },
    /** What it is for now: `running` or `paused` as before, or `paused` without processes. */
    async recordRestartFailed(
      sandboxId: string,
      from: 'running' | 'paused',
    ): Promise<{ status: SandboxStatus; reason: SandboxReason | null }> {
      const { status, reason } = await told(life.cancelRestart(sandboxId, from));
      return { status, reason: reason ?? null };
    },
    async recordTerminating(sandboxId: string, reason: SandboxReason): Promise<void> {
      await told(life.beginTermination(sandboxId, reason));
    },
    async recordStopped(sandboxId: string, atMs: number): Promise<void> {
      await told(life.stop(sandboxId, new Date(atMs)));
    },
    /** `cleaned` false: the host could not be reached; reconciliation gives the room back. */
    async recordTerminated(
      sandboxId: string,
      outcome: LifecycleOutcome,
      atMs: number,
      cleaned: boolean,
    ): Promise<void> {
      await told(life.endTermination(sandboxId, outcome, new Date(atMs), cleaned));
    },
    async recordFailed(sandboxId: string, reason: SandboxReason, failure: SandboxFailure, atMs: number): Promise<void> {
      await told(life.fail(sandboxId, reason, failure, new Date(atMs)));
      await notifyOfFailure(orm.em, sandboxId, failure);
    },
    async recordMemoryLost(sandboxId: string): Promise<void> {
      await told(life.loseMemory(sandboxId));
    },
    async recordCleaned(sandboxId: string): Promise<void> {
      await told(life.releaseRoom(sandboxId));
    },
    async recordForgotten(sandboxId: string, atMs: number): Promise<void> {
      await told(life.forget(sandboxId, new Date(atMs)));
    },
    async recordTimeout(sandboxId: string, timeoutSeconds: number, fromMs: number | null): Promise<void> {
      await told(life.setTimeout(sandboxId, timeoutSeconds, fromMs === null ? null : new Date(fromMs)));
    },
    /** Another host, after the first did not take it up. Fails with `no_capacity` when there is none. */
    async placeAgain(sandboxId: string): Promise<{ hostId: string; region: string }> {
      const row = await told(life.placeAgain(sandboxId));
      return { hostId: row.hostId, region: row.region };
    },
    /** What a sandbox whose workflow is over left behind. Null: there was never one. */
    async findRemains(sandboxId: string): Promise<SandboxRemains | null> {
      const row = await life.find(sandboxId);
      if (!row) return null;
      return {
        status: row.status,
        over: isOver(row.status),
        hostId: row.hostId,
        held: row.holdsCompute || row.holdsDisk,
      };
    },

    async warnOfTimeout(sandboxId: string, deadlineMs: number, beforeSeconds: number): Promise<void> {
      await warnOfTimeout(orm.em, sandboxId, new Date(deadlineMs), beforeSeconds);
    },
    async warnOfExpiry(sandboxId: string, expiresMs: number): Promise<void> {
      await warnOfExpiry(orm.em, sandboxId, new Date(expiresMs));
    },
    async warnOfDiskPressure(sandboxId: string, pausedAtMs: number): Promise<void> {
      await warnOfDiskPressure(orm.em, sandboxId, new Date(pausedAtMs));
    },
  };
}

export type SandboxLifeActivities = ReturnType<typeof createSandboxLifeActivities>;

export interface SandboxRemains {
  status: string;
  over: boolean;
  hostId: string;
  /** Something of it may still be on its host. */
  held: boolean;
}

/** A refusal is final and carries its code to the caller; whatever else goes wrong with the database is tried again. */
export async function told<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof AppError) throw ApplicationFailure.nonRetryable(error.message, error.code);
    throw error;
  }
}
