import { hkdfSync } from 'node:crypto';

/** The secret keys of an installation by number. A change of PLATFORM_SECRET_KEY adds the next number. */
export interface KnownSecretKeys {
  /** All keys since the first, 32 or more bytes each. What was made with an earlier key stays readable. */
  byNumber: ReadonlyMap<number, Buffer>;
  /** The number of the key for everything that is made now. */
  current: number;
  /**
   * The numbers of the keys that this process was started with. Only signatures by these and the current one are
   * accepted, so a former key signs nothing more once it is no longer in the settings.
   */
  given: readonly number[];
}

/** Something was made with a key that this process does not have. */
export class UnknownSecretKeyError extends Error {
  override name = 'UnknownSecretKeyError';

  constructor(number: number) {
    super(`This process does not know secret key ${number}; start it with the platform's present PLATFORM_SECRET_KEY`);
  }
}

/** The secret keys as a process knows them now. They change while it runs, when the operator replaces the key. */
export class SecretKeys {
  #known: KnownSecretKeys;

  constructor(known: KnownSecretKeys) {
    this.#known = known;
  }

  /** A platform whose key was never replaced. */
  static only(secretKey: string): SecretKeys {
    return new SecretKeys({ byNumber: new Map([[1, Buffer.from(secretKey, 'base64')]]), current: 1, given: [1] });
  }

  get current(): number {
    return this.#known.current;
  }

  /** The numbers of all keys, the current one first. */
  get numbers(): number[] {
    return startingWith(this.current, [...this.#known.byNumber.keys()]);
  }

  /** The numbers of the keys whose signatures are accepted, the current one first. */
  get accepted(): number[] {
    return startingWith(this.current, this.#known.given);
  }

  /** @throws {UnknownSecretKeyError} */
  key(number: number): Buffer {
    const key = this.#known.byNumber.get(number);
    if (!key) throw new UnknownSecretKeyError(number);
    return key;
  }

  replace(known: KnownSecretKeys): void {
    this.#known = known;
  }
}

const startingWith = (first: number, numbers: readonly number[]) => [
  first,
  ...numbers.filter((number) => number !== first),
];

/** The 32-byte key for one purpose. */
export function deriveKey(key: Buffer, purpose: string): Buffer {
  return Buffer.from(hkdfSync('sha256', key, 'sandbox-platform', purpose, 32));
}
