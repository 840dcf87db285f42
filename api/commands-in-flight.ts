import { AppError } from '../domain/errors.ts';
import type { SandboxId } from '../domain/ids.ts';

/**
 * The maximum number of commands of this process that one sandbox has at once. With two terminations, which are not
 * counted, and the update of its create, they are Temporal's default limit of updates in flight for a workflow (10).
 */
const maxCommandsInFlight = 7;

/**
 * Counts the commands that this process has sent to each sandbox and that have no reply yet. Temporal refuses updates
 * above its limit only after they have delayed the others, so a command above ours is refused before it is sent.
 */
export class CommandsInFlight {
  readonly #counts = new Map<SandboxId, number>();

  /** @throws {AppError} `too_many_requests`, and sends nothing */
  async send<R>(sandboxId: SandboxId, command: () => Promise<R>): Promise<R> {
    const count = this.#counts.get(sandboxId) ?? 0;
    if (count >= maxCommandsInFlight) {
      throw new AppError('too_many_requests', 'Too many commands for this sandbox are under way; try again in 1 s', {
        retryAfterSeconds: 1,
      });
    }
    this.#counts.set(sandboxId, count + 1);
    try {
      return await command();
    } finally {
      const left = this.#counts.get(sandboxId)! - 1;
      if (left > 0) this.#counts.set(sandboxId, left);
      else this.#counts.delete(sandboxId);
    }
  }
}
