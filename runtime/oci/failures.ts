import { RegistryError } from '../../integrations/registry/registry-client.ts';
import { isOutOfSpace } from '../disk/out-of-space.ts';
import { DriverError } from '../driver.ts';
import { ImageBuildError } from '../images/image-build-error.ts';
import { ImageRefusedError } from '../images/unpack-layers.ts';
import { CommandError } from '../process/command.ts';
import { AgentError } from '../sandbox-agent/agent-client.ts';
import { LaunchError } from './container-runner.ts';

const finalRefusals =
  /unauthorized|authentication required|denied|manifest unknown|name unknown|not found|no such host/i;

/** Converts an error of a start to a DriverError. */
export function startFailure(error: unknown, signal: AbortSignal): DriverError {
  if (signal.aborted) return new DriverError('aborted', 'The start was cancelled', { cause: error });
  if (error instanceof DriverError) return error;
  if (isDiskFull(error)) return diskFull(error);
  if (error instanceof AgentError) {
    return new DriverError('start_failed', "The sandbox's agent did not answer", { cause: error, retryable: true });
  }
  return new DriverError('start_failed', 'The sandbox could not be started', { cause: error, retryable: true });
}

/**
 * Converts an error of an image to a DriverError. Refusals of the registry are final. Other errors may be temporary.
 */
export function imageFailure(error: unknown, signal: AbortSignal): DriverError {
  if (signal.aborted) return new DriverError('aborted', 'The start was cancelled', { cause: error });
  if (isDiskFull(error)) return diskFull(error);
  if (error instanceof ImageRefusedError) {
    return new DriverError('image_refused', `The image cannot be used. ${error.message}`, { cause: error });
  }
  if (error instanceof RegistryError) {
    const retryable = ![401, 403, 404].includes(error.status);
    return new DriverError('image_pull_failed', "The sandbox's image could not be pulled", { cause: error, retryable });
  }
  // Not retryable, because the image's maker itself retries the build.
  if (error instanceof ImageBuildError) return new DriverError('image_pull_failed', error.message, { cause: error });
  const text = error instanceof CommandError ? error.stderr : '';
  return new DriverError('image_pull_failed', "The sandbox's image could not be pulled", {
    cause: error,
    retryable: !finalRefusals.test(text),
  });
}

const isDiskFull = (error: unknown) =>
  isOutOfSpace(error) || (error instanceof LaunchError && /no space left/i.test(error.message));

const diskFull = (cause: unknown) =>
  new DriverError('host_disk_full', "The host's disk is full", { cause, retryable: true });
