import os from 'node:os';
import { hash, verify } from '@node-rs/argon2';
import pLimit from 'p-limit';
import { AppError } from '../domain/errors.ts';
import { isPasswordLength } from '../domain/password-rules.ts';

/** OWASP's first choice for argon2id (algorithm 2): 19 MiB, two passes, one thread. */
const usualCost = { algorithm: 2, memoryCost: 19_456, timeCost: 2, parallelism: 1 };

/** Each takes one of libuv's four threads, which name look-ups and files need, too, and a processor. */
const atOnce = Math.min(2, Math.max(1, Math.floor(os.availableParallelism() / 2)));
/** More than these would take seconds; the caller should retry. */
const waitingAtMost = 100;

/**
 * Hashes passwords with argon2id off the event loop, a few at a time. The platform's pepper goes into each hash, so
 * that a copy of the database alone does not let anybody guess. One a process.
 */
export class PasswordHashes {
  readonly #pepper: Buffer;
  readonly #cost: typeof usualCost;
  readonly #limit = pLimit(atOnce);
  #nobodys: Promise<string> | null = null;
  #computed = 0;

  constructor(pepper: Buffer, cost = usualCost) {
    this.#pepper = pepper;
    this.#cost = cost;
  }

  /** How often argon2 was computed for a password. */
  get computed(): number {
    return this.#computed;
  }

  /** @throws {AppError} `temporarily_unavailable` when too many wait */
  hash(password: string): Promise<string> {
    return this.#run(() => hash(normal(password), { ...this.#cost, secret: this.#pepper }));
  }

  /**
   * Whether a password matches the hash. Without a hash it takes as long and returns false.
   * @throws {AppError} `temporarily_unavailable` when too many wait
   */
  async verify(hashed: string | null, password: string): Promise<boolean> {
    if (!isPasswordLength(password)) return false;
    this.#nobodys ??= hash('', { ...this.#cost, secret: this.#pepper });
    const known = hashed ?? (await this.#nobodys);
    const matches = await this.#run(() => verify(known, normal(password), { secret: this.#pepper }));
    return matches && hashed !== null;
  }

  #run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#limit.pendingCount >= waitingAtMost) {
      throw new AppError('temporarily_unavailable', 'Too many sign-ins are under way; try again in some seconds');
    }
    return this.#limit(() => {
      this.#computed += 1;
      return work();
    });
  }
}

/** The same characters may come in several encodings, depending on the keyboard. */
const normal = (password: string) => password.normalize('NFC');
