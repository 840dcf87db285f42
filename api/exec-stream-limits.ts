import { BoundedCounts } from '../domain/bounded-counts.ts';
import { AppError } from '../domain/errors.ts';
import type { SandboxId } from '../domain/ids.ts';

/**
 * Limits the open exec streams of this process. While its command runs, each stream holds a connection to its reader, a
 * connection to the agent, and timers. Limits of requests per minute do not bound them.
 */
export class ExecStreamLimits {
  readonly #ofCallers: BoundedCounts;
  readonly #ofSandboxes: BoundedCounts;

  constructor(perCaller: number, perSandbox: number) {
    this.#ofCallers = new BoundedCounts(perCaller, 'exec-streams-of-caller');
    this.#ofSandboxes = new BoundedCounts(perSandbox, 'exec-streams-of-sandbox');
  }

  /**
   * Counts one more stream.
   * @returns a function that removes the stream from the counts
   * @throws {AppError} `too_many_requests`, `exec_stream_limit_reached`
   */
  add(caller: string, sandboxId: SandboxId): () => void {
    if (!this.#ofCallers.tryAdd(caller)) {
      throw new AppError('too_many_requests', 'You have too many exec streams open; close one of them');
    }
    if (!this.#ofSandboxes.tryAdd(sandboxId)) {
      this.#ofCallers.remove(caller);
      throw new AppError('exec_stream_limit_reached', 'The sandbox has too many exec streams open; close one of them');
    }
    return () => {
      this.#ofCallers.remove(caller);
      this.#ofSandboxes.remove(sandboxId);
    };
  }
}
