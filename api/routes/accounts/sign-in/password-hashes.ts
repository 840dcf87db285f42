import os from 'node:os';
import { hash, verify } from '@node-rs/argon2';
import pLimit from 'p-limit';
import { isPasswordLength } from '../../../../domain/accounts/password-rules.ts';
import { AppError } from '../../../../domain/errors.ts';
import { numbered, type PlatformSecrets, parseNumbered } from '../../../../platform/config/secrets.ts';

/** OWASP's first choice for argon2id (algorithm 2): 19 MiB, two passes, one thread. */
const usualCost = { algorithm: 2, memoryCost: 19_456, timeCost: 2, parallelism: 1 };

/** Each hash takes a processor and one of libuv's four threads, which name lookups and files need too. */
const atOnce = Math.min(2, Math.max(1, Math.floor(os.availableParallelism() / 2)));
/** A longer queue would take seconds, so further callers get an error and should retry. */
const waitingAtMost = 100;

/** A hash names the secret key of its pepper, so it stays valid when the key is replaced. */
type Peppers = Pick<PlatformSecrets, 'secretKeyNumber' | 'passwordPepper'>;

/**
 * Hashes passwords with argon2id off the event loop, a few at a time. The platform's pepper is part of each hash, so a
 * copy of the database is not enough to guess passwords. There is one instance per process.
 */
export class PasswordHashes {
  readonly #secrets: Peppers;
  readonly #cost: typeof usualCost;
  readonly #limit = pLimit(atOnce);
  #hashWithoutUser: Promise<string> | null = null;
  #computed = 0;

  constructor(secrets: Peppers, cost = usualCost) {
    this.#secrets = secrets;
    this.#cost = cost;
  }

  /** The number of passwords for which argon2 was computed. */
  get computed(): number {
    return this.#computed;
  }

  /** @throws {AppError} `temporarily_unavailable` when too many wait */
  hash(password: string): Promise<string> {
    const { secretKeyNumber: number } = this.#secrets;
    const secret = this.#secrets.passwordPepper(number);
    return this.#run(async () => numbered(number, await hash(normal(password), { ...this.#cost, secret })));
  }

  /**
   * Whether a password matches the hash. Without a hash it takes as long and returns false.
   * @throws {AppError} `temporarily_unavailable` when too many wait
   */
  async verify(hashed: string | null, password: string): Promise<boolean> {
    if (!isPasswordLength(password)) return false;
    this.#hashWithoutUser ??= hash('', { ...this.#cost, secret: this.#secrets.passwordPepper(1) });
    const { number, rest } = parseNumbered(hashed ?? (await this.#hashWithoutUser));
    const secret = this.#secrets.passwordPepper(number);
    const matches = await this.#run(() => verify(rest, normal(password), { secret }));
    return matches && hashed !== null;
  }

  #run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#limit.pendingCount >= waitingAtMost) {
      throw new AppError('temporarily_unavailable', 'Too many sign-ins are being processed; try again in some seconds');
    }
    return this.#limit(() => {
      this.#computed += 1;
      return work();
    });
  }
}

/** The same characters may have different encodings, depending on the keyboard. */
const normal = (password: string) => password.normalize('NFC');
