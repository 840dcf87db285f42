import { DriverError } from '../driver.ts';
import { AgentError } from '../sandbox-agent/agent-client.ts';
import { isOverQuota } from './api-errors.ts';

export const absent = () => new DriverError('sandbox_absent', 'The sandbox and its disk are gone from this host');

export const noUdpPorts = () =>
  new DriverError('not_on_a_cluster', 'The cluster of this sandbox has no UDP ports for sandboxes');

export const noCapacity = (cause?: unknown) =>
  new DriverError('no_capacity', 'The cluster has no room for the sandbox now; try again later', { cause });

export const nodeAway = () =>
  new DriverError('host_unavailable', 'The machine of this sandbox is away; try again when it is back');

export const diskAway = () =>
  new DriverError(
    'host_unavailable',
    'The machine that has the disk of this sandbox takes no sandboxes now; try again when it does',
  );

export const noNodeFor = (memoryMb: number) =>
  new DriverError('no_capacity', `No machine of the cluster has ${memoryMb} MB of memory for one sandbox`);

export const helperAway = () =>
  new DriverError('host_unavailable', 'The machine of this sandbox does not answer now; try again later', {
    retryable: true,
  });

/** @param text the cause, which only the operator sees */
export const notStarted = (text: string) =>
  new DriverError('start_failed', 'The sandbox could not be started', { cause: new Error(text), retryable: true });

/** Converts an error of a start to the error that the caller gets. */
export function startFailure(error: unknown, signal: AbortSignal): DriverError {
  if (signal.aborted) return new DriverError('aborted', 'The start was cancelled', { cause: error });
  if (error instanceof DriverError) return error;
  if (isOverQuota(error)) return noCapacity(error);
  const message =
    error instanceof AgentError ? "The sandbox's agent did not answer" : 'The sandbox could not be started';
  return new DriverError('start_failed', message, { cause: error, retryable: true });
}
