import type { Sandbox } from '../db/entities/sandbox.ts';
import type { StorageChange } from '../domain/object-storage.ts';
import type { Port } from '../domain/ports.ts';
import type { SandboxStatus } from '../domain/sandbox-state.ts';
import type { TimeoutChange, TimeoutReply } from '../domain/timeout-change.ts';

/**
 * The commands that routes send to a sandbox's life. Each becomes an update of its workflow; if the sandbox has ended,
 * the row answers. Every method throws `AppError` with the code for the caller.
 */
export interface SandboxCommands {
  /**
   * Starts the workflow of a row just admitted, and with `wait` answers once it runs or has failed.
   * @param options.sealedCredentials of its mounts, closed for its host
   */
  start(sandbox: Sandbox, options: { wait: boolean; sealedCredentials?: string | null }): Promise<void>;
  pause(sandbox: Sandbox, options: { wait: boolean }): Promise<void>;
  resume(sandbox: Sandbox, options: { wait: boolean; storage?: StorageChange }): Promise<void>;
  /** Ends its processes and starts it again on its disk. */
  restart(sandbox: Sandbox, options: { storage: StorageChange | null }): Promise<void>;
  connect(sandbox: Sandbox, options: { timeoutSeconds: number | null }): Promise<void>;
  setTimeout(sandbox: Sandbox, change: TimeoutChange): Promise<TimeoutReply>;
  /** Adds a port of its own to a running sandbox. */
  addPort(sandbox: Sandbox, port: Port): Promise<void>;
  /** Removes one by its number. */
  removePort(sandbox: Sandbox, port: number): Promise<void>;
  /** `alreadyTerminated` when there was nothing to end. */
  terminate(sandbox: Sandbox, options: { forget: boolean }): Promise<{ alreadyTerminated: boolean }>;
  /** Makes sure that all of them end, and answers before they do. */
  endBatch(sandboxes: readonly Sandbox[], options: { forget: boolean }): Promise<void>;
}

/** Whether a terminate finds nothing to end and nothing to forget. */
export function isAlreadyTerminated(status: SandboxStatus | undefined, forget: boolean): boolean {
  return status === 'terminated' && !forget;
}
