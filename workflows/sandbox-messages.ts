import { defineQuery, defineSignal, defineUpdate } from '@temporalio/workflow';
import type { LifeStart } from '../domain/life-plan.ts';
import type { StorageChange } from '../domain/object-storage.ts';
import type { Port } from '../domain/ports.ts';
import type { SandboxReason, SandboxStatus } from '../domain/sandbox-state.ts';

/**
 * What can be said to a sandbox's workflow. An update that is refused fails with an ApplicationFailure whose `type` is
 * an error code of `domain/errors.ts`.
 */

/** What a sandbox's workflow (type `sandbox`, id `sbx-…`) is started with; `carried` only by itself. */
export interface SandboxWorkflowInput extends LifeStart {
  carried?: CarriedLife;
}

/** What a run of the workflow hands to the next. Times in Unix milliseconds. */
export interface CarriedLife {
  status: 'running' | 'paused';
  reason: SandboxReason | null;
  timeoutFromMs: number;
  pausedAtMs: number;
  memoryKept: boolean;
  /** Absent: the run before did not number starts and resumes. */
  run?: number;
  attempts?: number;
  /** What hosts have reported and nothing was done about yet. */
  reports?: HostReport[];
}

/** Where the life stands when an update is answered. */
export interface SandboxStanding {
  status: SandboxStatus;
  reason: SandboxReason | null;
}

/**
 * Brings the credentials of its first mounts, closed for the host; the start waits for them. Answers at once, or with
 * `wait` when the sandbox has left `created` and `starting`, whichever way.
 */
export const storageCredentialsUpdate = defineUpdate<SandboxStanding, [{ sealed: string; wait: boolean }]>(
  'storageCredentials',
);

/** Answers when the sandbox has left `created` and `starting`, whichever way. */
export const settledUpdate = defineUpdate<SandboxStanding, []>('settled');

/** Freezes it. Answers at `pausing`, or with `wait` at `paused`. Refused: `sandbox_not_running`, `pause_failed`. */
export const pauseUpdate = defineUpdate<SandboxStanding, [{ wait: boolean }]>('pause');

/**
 * Brings a paused one back. Answers at `resuming`, or with `wait` at `running`. Refused: `sandbox_not_paused`,
 * `concurrent_limit_reached`, `no_capacity`, `account_suspended`, `resume_failed`,
 * `object_storage_credentials_required`, `object_storage_mount_failed`.
 */
export const resumeUpdate = defineUpdate<SandboxStanding, [{ wait: boolean; storage?: StorageChange }]>('resume');

/**
 * Ends the processes of a running or paused sandbox and starts it again on its disk; answers at `running`. Refused as
 * `resume` is, and `sandbox_busy`, `restart_failed`, `host_disk_full`.
 */
export const restartUpdate = defineUpdate<SandboxStanding, [{ storage: StorageChange | null }]>('restart');

/**
 * Makes sure that it runs, from whichever living state; answers at `running`. A timeout given starts anew from now.
 * Refused as `resume`, and `sandbox_ended`.
 */
export const connectUpdate = defineUpdate<SandboxStanding, [{ timeoutSeconds: number | null }]>('connect');

export interface TimeoutChange {
  timeoutSeconds: number;
  /** Refuse one that is not longer than the present one (`timeout_not_raised`). */
  mustRaise: boolean;
}

export interface TimeoutStanding {
  timeoutSeconds: number;
  /** Unix milliseconds; null while no running phase is under way. */
  timeoutAtMs: number | null;
  appliesTo: 'current_phase' | 'next_phase';
}

/** Another length for running phases. Refused: `timeout_not_raised`, `timeout_already_passed`, `sandbox_ended`. */
export const timeoutUpdate = defineUpdate<TimeoutStanding, [TimeoutChange]>('timeout');

/**
 * Adds a port of its own; answers when it can be reached. Refused: `sandbox_not_running`, `port_taken`,
 * `port_name_taken`, `port_limit_reached`, `no_capacity`, `temporarily_unavailable`.
 */
export const addPortUpdate = defineUpdate<void, [Port]>('addPort');

/** Removes one by its number. Refused: `sandbox_not_running`, `not_found`, `port_of_template`, `temporarily_unavailable`. */
export const removePortUpdate = defineUpdate<void, [number]>('removePort');

/** Ends it; answers when the row says `terminating`. With `forget` the sandbox answers 404 once its data is gone. */
export const terminateUpdate = defineUpdate<SandboxStanding, [{ forget: boolean }]>('terminate');

/** The same for one of a batch, whose caller has been answered already. */
export const endSignal = defineSignal<[{ forget: boolean }]>('end');

/** What the workflow that ends a batch is started with. */
export interface BatchEndingInput {
  sandboxIds: string[];
  /** Make each answer 404 afterwards. */
  forget: boolean;
}

/**
 * What a host has seen of a sandbox. `run` is the number of the start or resume that brought them up; null
 * where the host does not know it.
 */
export type HostReport =
  | { kind: 'exited'; run: number | null; exit: RuntimeExit }
  /** The processes are gone without a record of how they ended; the disk is there. `at` is RFC 3339. */
  | { kind: 'memoryLost'; run: number | null; at: string }
  /** Nothing of it is left on the host, its disk included. */
  | { kind: 'diskLost'; run: number | null }
  /** The disk of the host is nearly full, so the host has frozen the processes, or ended them; the sandbox is paused. */
  | { kind: 'diskPressure'; run: number | null; ended: boolean };

export const hostReportSignal = defineSignal<[HostReport]>('hostReport');

/** The form of an `exited` report that hosts of earlier versions send. */
export const runtimeExitedSignal = defineSignal<[RuntimeExit]>('runtimeExited');

export interface RuntimeExit {
  exitCode: number | null;
  outOfMemory: boolean;
  commandOutput: string;
  /** RFC 3339. */
  at: string;
}

/** The form of a `memoryLost` report that hosts of earlier versions send. */
export const hostRestartedSignal = defineSignal<[{ at: string }]>('hostRestarted');

/**
 * Its host was given up: no process of the sandbox runs there any more, and no work there will be answered. `run` is
 * the one that counted on the host; null or absent where the row had none yet.
 */
export const hostLostSignal = defineSignal<[{ hostId: string; run?: number | null }]>('hostLost');

/** It was put into another project; only what operators search by follows from it. */
export const projectSwitchedSignal = defineSignal<[{ projectId: string }]>('projectSwitched');

/** For operators: what the workflow itself holds to be true. */
export interface SandboxLifeView {
  status: SandboxStatus;
  reason: SandboxReason | null;
  hostId: string | null;
  /** RFC 3339; when the next thing happens by itself. */
  nextDeadline: string | null;
  nextAction: 'timeout' | 'auto_pause' | 'expire' | null;
}
export const lifeQuery = defineQuery<SandboxLifeView>('life');
