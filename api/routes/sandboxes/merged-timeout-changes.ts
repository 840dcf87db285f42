import type { Sandbox } from '../../../db/sandboxes/sandbox.entity.ts';
import { AppError } from '../../../domain/errors.ts';
import {
  requirePossibleTimeout,
  type TimeoutChange,
  type TimeoutReply,
  timeoutReply,
} from '../../../domain/sandboxes/timeout-change.ts';

/** The maximum number of changes of one kind that wait in this process for one sandbox. */
const maxWaiting = 100;

interface WaitingChange {
  sandbox: Sandbox;
  change: TimeoutChange;
  resolve(reply: TimeoutReply): void;
  reject(error: unknown): void;
}

/**
 * Changes of timeouts, of which each sandbox has at most one of each kind (set, raise) in flight. Changes that arrive
 * meanwhile wait and are then sent as one: the longest. The replies are those of an order in which concurrent changes
 * may be carried out: all other sets come before the longest one, and all other raises after it, so they are refused.
 */
export class MergedTimeoutChanges {
  readonly #send: (sandbox: Sandbox, change: TimeoutChange) => Promise<TimeoutReply>;
  /** By sandbox and kind. A key exists while a change is in flight. */
  readonly #waiting = new Map<string, WaitingChange[]>();

  constructor(send: (sandbox: Sandbox, change: TimeoutChange) => Promise<TimeoutReply>) {
    this.#send = send;
  }

  /** @throws {AppError} those of the timeout update, `too_many_requests` */
  async change(sandbox: Sandbox, change: TimeoutChange): Promise<TimeoutReply> {
    const key = `${sandbox.sandboxId} ${change.mustRaise}`;
    const waiting = this.#waiting.get(key);
    if (!waiting) {
      this.#waiting.set(key, []);
      return this.#send(sandbox, change).finally(() => {
        // Its caller does not wait for the others.
        void this.#sendWaiting(key);
      });
    }
    if (waiting.length >= maxWaiting) {
      throw new AppError('too_many_requests', 'Too many changes of this timeout are waiting; try again in 1 s', {
        retryAfterSeconds: 1,
      });
    }
    return new Promise((resolve, reject) => waiting.push({ sandbox, change, resolve, reject }));
  }

  async #sendWaiting(key: string): Promise<void> {
    const merged = this.#waiting.get(key)!;
    if (merged.length === 0) {
      this.#waiting.delete(key);
      return;
    }
    this.#waiting.set(key, []);
    const longest = merged.reduce((one, other) =>
      other.change.timeoutSeconds > one.change.timeoutSeconds ? other : one,
    );
    try {
      const reply = await this.#send(longest.sandbox, longest.change);
      longest.resolve(reply);
      for (const other of merged) if (other !== longest) answer(other, reply);
    } catch (error) {
      // What is refused for the longest timeout is refused for the shorter ones for the same reason.
      for (const { reject } of merged) reject(error);
    }
    await this.#sendWaiting(key);
  }
}

/** @param longest the reply to the longest of the changes that were sent as one */
function answer({ change, resolve, reject }: WaitingChange, { timeoutSeconds, timeoutAtMs }: TimeoutReply): void {
  const fromMs = timeoutAtMs === null ? null : timeoutAtMs - timeoutSeconds * 1000;
  try {
    requirePossibleTimeout({ timeoutSeconds, fromMs }, change, Date.now());
    resolve(timeoutReply({ timeoutSeconds: change.timeoutSeconds, fromMs }));
  } catch (error) {
    reject(error);
  }
}
