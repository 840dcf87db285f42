import { DriverError } from '../driver.ts';
import type { Cgroups } from './cgroups.ts';
import type { SandboxMounts } from './mounts/sandbox-mounts.ts';

/**
 * Freezes the processes of a sandbox.
 * @param seconds the time limit of the freezer
 * @throws {DriverError} `pause_failed` after which the sandbox keeps running
 */
export async function freezeSandbox(
  { instance, folder, seconds }: { instance: string; folder: string; seconds: number },
  { cgroups, mounts }: { cgroups: Cgroups; mounts: SandboxMounts },
  signal: AbortSignal,
): Promise<void> {
  const freeze = async () => {
    const servers = await mounts.serversAmong(folder, await cgroups.readProcesses(instance));
    return cgroups.freezer.freeze(instance, seconds, servers, signal);
  };
  // A process that waits for an unresponsive bucket cannot be frozen.
  const isHanging = async () => !signal.aborted && (await mounts.cutHanging(folder, signal)) > 0;
  if ((await freeze()) || ((await isHanging()) && (await freeze()))) return;
  signal.throwIfAborted();
  const waits = await cgroups.freezer.unfreezableWaits(instance);
  const reason = waits.length > 0 ? `: processes wait in the kernel (${waits.join(', ')})` : '';
  throw new DriverError('pause_failed', `The sandbox could not be frozen in time${reason}`, { retryable: true });
}
