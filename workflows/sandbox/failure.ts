import { ActivityFailure, ApplicationFailure, rootCause, TimeoutFailure } from '@temporalio/workflow';
import { type ErrorCode, isErrorCode } from '../../domain/errors.ts';
import { noLife } from '../../domain/life-plan.ts';
import { type SandboxReason, sandboxReasons } from '../../domain/sandbox-state.ts';
import type { RuntimeExit } from './messages.ts';

/** Why a sandbox failed, as the row keeps it. */
export interface HostFailure {
  reason: SandboxReason;
  failure: { message: string; exitCode: number | null; outOfMemory: boolean; commandOutput: string };
}

/** The host has nothing left that the sandbox could be started from. */
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

/** Reads the failure of a host activity. `otherwise` is the reason when the host named none. */
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

/** Fails an update; the API replies with the code. */
export function refused(code: ErrorCode, message: string): ApplicationFailure {
  return ApplicationFailure.nonRetryable(message, code);
}

/** For commands that arrive, or are in progress, when the sandbox is to end. */
export function endingRefusal(): ApplicationFailure {
  return refused('sandbox_ended', 'The sandbox is being terminated');
}

/** Fails an update with the error of an activity, under the error's own code if the API knows it. */
export function asRefusal(error: unknown, otherwise: ErrorCode): ApplicationFailure {
  // A local activity throws the failure itself, any other activity an ActivityFailure around it.
  const cause = error instanceof ActivityFailure ? error.cause : error;
  if (cause instanceof ApplicationFailure && isErrorCode(cause.type)) return refused(cause.type, cause.message);
  return refused(otherwise, readHostFailure(error, 'host_lost').failure.message);
}

/** There is nothing to start: the row is gone, or its sandbox has ended. */
export function isNoLife(error: unknown): boolean {
  return error instanceof ActivityFailure && error.cause instanceof ApplicationFailure && error.cause.type === noLife;
}

/** No worker took the activity from the host's queue: the host is away, and nothing has begun there. */
export function neverStarted(error: unknown): boolean {
  return (
    error instanceof ActivityFailure &&
    error.cause instanceof TimeoutFailure &&
    error.cause.timeoutType === 'SCHEDULE_TO_START'
  );
}
