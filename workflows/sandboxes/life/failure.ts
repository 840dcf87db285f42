import { ActivityFailure, ApplicationFailure, rootCause, TimeoutFailure } from '@temporalio/workflow';
import { type ErrorCode, isErrorCode } from '../../../domain/errors.ts';
import { movedDirectly, noLife } from '../../../domain/sandboxes/life-plan.ts';
import { type SandboxReason, type SandboxStatus, sandboxReasons } from '../../../domain/sandboxes/state.ts';
import type { RuntimeExit } from './messages.ts';

/** The reason of a sandbox's failure, in the form that the row keeps. */
export interface HostFailure {
  reason: SandboxReason;
  failure: { message: string; exitCode: number | null; outOfMemory: boolean; commandOutput: string };
}

/** The host has lost the sandbox's disk, so the sandbox cannot be started again. */
export const diskLostFailure: HostFailure = {
  reason: 'disk_lost',
  failure: { message: 'The sandbox and its disk are gone from this host', ...readExit(undefined) },
};

/** The processes of the sandbox ended by themselves. */
export function exitFailure(exit: RuntimeExit): HostFailure {
  const message = exit.outOfMemory
    ? 'The sandbox ran out of memory'
    : 'The processes of the sandbox ended by themselves';
  return { reason: 'runtime_exited', failure: { message, ...readExit(exit) } };
}

/** Reads the failure of a host activity. `otherwise` is the reason if the host gave none. */
export function readHostFailure(error: unknown, otherwise: SandboxReason): HostFailure {
  const cause = error instanceof ActivityFailure ? error.cause : error;
  if (cause instanceof ApplicationFailure) {
    const exit = cause.details?.[0] as Partial<RuntimeExit> | undefined;
    const reason = sandboxReasons.find((known) => known === cause.type) ?? otherwise;
    return { reason, failure: { message: cause.message ?? reason, ...readExit(exit) } };
  }
  if (cause instanceof TimeoutFailure) {
    return { reason: otherwise, failure: { message: 'The host did not answer in time', ...readExit(undefined) } };
  }
  return { reason: otherwise, failure: { message: rootCause(error) ?? 'unknown', ...readExit(undefined) } };
}

export function readExit(exit: Partial<RuntimeExit> | undefined) {
  return {
    exitCode: exit?.exitCode ?? null,
    outOfMemory: exit?.outOfMemory ?? false,
    commandOutput: exit?.commandOutput ?? '',
  };
}

/** The failure of a refused update. The API replies with `code`. */
export function refused(code: ErrorCode, message: string): ApplicationFailure {
  return ApplicationFailure.nonRetryable(message, code);
}

/** The refusals of commands that need another status. */
export const notRunning = (status: SandboxStatus) =>
  refused('sandbox_not_running', `The sandbox is ${status}, not running`);
export const notPaused = (status: SandboxStatus) =>
  refused('sandbox_not_paused', `The sandbox is ${status}, not paused`);
export const busy = (status: SandboxStatus) =>
  refused('sandbox_busy', `The sandbox is ${status}, neither running nor paused`);

/** The refusal for commands that arrive, or are in progress, when the sandbox is about to end. */
export function endingRefusal(): ApplicationFailure {
  return refused('sandbox_ended', 'The sandbox is being terminated');
}

/** Makes the error of an activity the failure of an update, with the error's own code if the API has that code. */
export function asRefusal(error: unknown, otherwise: ErrorCode): ApplicationFailure {
  // A local activity throws the failure directly. Other activities throw an ActivityFailure with the failure as its
  // cause.
  const cause = error instanceof ActivityFailure ? error.cause : error;
  if (cause instanceof ApplicationFailure && isErrorCode(cause.type)) return refused(cause.type, cause.message);
  return refused(otherwise, readHostFailure(error, 'host_lost').failure.message);
}

/** Whether there is nothing to start, because the row is gone or its sandbox has ended. */
export function isNoLife(error: unknown): boolean {
  return error instanceof ActivityFailure && error.cause instanceof ApplicationFailure && error.cause.type === noLife;
}

/** Whether a write has failed because the sandbox was moved directly. Nothing was written, and the row comes first. */
export function isMovedDirectly(error: unknown): boolean {
  const cause = error instanceof ActivityFailure ? error.cause : error;
  return cause instanceof ApplicationFailure && cause.type === movedDirectly;
}

/** Whether no worker took the activity from the host's queue. Then the host is away, and it has not begun the work. */
export function neverStarted(error: unknown): boolean {
  return (
    error instanceof ActivityFailure &&
    error.cause instanceof TimeoutFailure &&
    error.cause.timeoutType === 'SCHEDULE_TO_START'
  );
}
