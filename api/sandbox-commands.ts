import type { Sandbox } from '../db/sandboxes/sandbox.entity.ts';
import type { StorageChange } from '../domain/sandboxes/object-storage.ts';
import type { Port } from '../domain/sandboxes/ports.ts';
import type { SandboxStatus } from '../domain/sandboxes/state.ts';
import type { TimeoutChange, TimeoutReply } from '../domain/sandboxes/timeout-change.ts';

/**
 * The commands that routes send to sandboxes. Each becomes an update of the sandbox's workflow. If the sandbox has
 * ended, its row gives the answer. Every method throws `AppError` with the code for the caller.
 */
export interface SandboxCommands {
  /**
   * Starts the workflow of an admitted row. With `wait`, returns when the sandbox runs or has failed.
   * @param options.sealedCredentials the credentials of its mounts, encrypted for its host
   */
  start(sandbox: Sandbox, options: { wait: boolean; sealedCredentials?: string | null }): Promise<void>;
  pause(sandbox: Sandbox, options: { wait: boolean }): Promise<void>;
  resume(sandbox: Sandbox, options: { wait: boolean; storage?: StorageChange }): Promise<void>;
  /** Ends its processes and starts it again on its disk. */
  restart(sandbox: Sandbox, options: { storage: StorageChange | null }): Promise<void>;
  connect(sandbox: Sandbox, options: { timeoutSeconds: number | null }): Promise<void>;
  setTimeout(sandbox: Sandbox, change: TimeoutChange): Promise<TimeoutReply>;
  /** Adds an own port to a running sandbox. */
  addPort(sandbox: Sandbox, port: Port): Promise<void>;
  /** Removes an own port by its number. */
  removePort(sandbox: Sandbox, port: number): Promise<void>;
  /** `alreadyTerminated`: there was nothing to end. */
  terminate(sandbox: Sandbox, options: { forget: boolean }): Promise<{ alreadyTerminated: boolean }>;
  /** Ensures that all of them will end, and returns before they have ended. */
  endBatch(sandboxes: readonly Sandbox[], options: { forget: boolean }): Promise<void>;
}

/** Whether a terminate has nothing to end and nothing to forget. */
export function isAlreadyTerminated(status: SandboxStatus | undefined, forget: boolean): boolean {
  return status === 'terminated' && !forget;
}
