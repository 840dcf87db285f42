/** The counts of other processes that share a limit. */
export interface CountExchange {
  /** The other processes' count under a key, as far as this process knows it. */
  others(kind: string, key: string): number;
  /** Called for each change of the counts here. */
  changed(kind: string, key: string, count: number, max: number): void;
}

/** The counts of a process that shares its limits with no other. */
export const noOtherProcesses: CountExchange = { others: () => 0, changed: () => undefined };

/** Counts by key, and knows when there are too many. */
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

  /** False when there are as many as there may be; then nothing is counted. */
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

  /** Of how many keys something is counted. */
  get size(): number {
    return this.#counts.size;
  }
}
