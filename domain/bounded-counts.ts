/** The counts of other processes that share a limit. */
export interface CountExchange {
  /** The sum of the other processes' counts for a key, as far as this process knows them. */
  others(kind: string, key: string): number;
  /** This process calls it on each change of its own counts. */
  changed(kind: string, key: string, count: number, max: number): void;
}

/** The exchange of a process that shares its limits with no other process. */
export const noOtherProcesses: CountExchange = { others: () => 0, changed: () => undefined };

/** Counts by key, with a maximum for each key. */
export class BoundedCounts {
  readonly #max: number;
  readonly #kind: string;
  readonly #exchange: CountExchange;
  readonly #counts = new Map<string, number>();

  /** @param kind the name that this limit has in every process */
  constructor(max: number, kind: string, exchange: CountExchange = noOtherProcesses) {
    this.#max = max;
    this.#kind = kind;
    this.#exchange = exchange;
  }

  /** Adds one to the count of a key. Returns false and adds nothing if the count is at its maximum. */
  tryAdd(key: string): boolean {
    const count = this.#counts.get(key) ?? 0;
    if (count + this.#exchange.others(this.#kind, key) >= this.#max) return false;
    this.#set(key, count + 1);
    return true;
  }

  remove(key: string): void {
    const count = this.#counts.get(key) ?? 0;
    if (count > 0) this.#set(key, count - 1);
  }

  #set(key: string, count: number): void {
    if (count > 0) this.#counts.set(key, count);
    else this.#counts.delete(key);
    this.#exchange.changed(this.#kind, key, count, this.#max);
  }

  /** The number of keys with a count above zero. */
  get size(): number {
    return this.#counts.size;
  }
}
