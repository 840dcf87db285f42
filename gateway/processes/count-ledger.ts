import type { Count } from './messages.ts';

/** The primary's record of the counts of all processes, so that limits apply to their sum. */
export class CountLedger {
  /** By kind, key and process. Zeros are removed. */
  readonly #counts = new Map<string, Map<string, Map<number, number>>>();

  set(processId: number, [kind, key, count]: Count): void {
    const keys = this.#counts.get(kind) ?? new Map<string, Map<number, number>>();
    const byProcess = keys.get(key) ?? new Map<number, number>();
    if (count > 0) byProcess.set(processId, count);
    else byProcess.delete(processId);
    if (byProcess.size > 0) keys.set(key, byProcess);
    else keys.delete(key);
    this.#counts.set(kind, keys);
  }

  /** The count of all other processes for a key. */
  others(processId: number, kind: string, key: string): number {
    let sum = 0;
    for (const [id, count] of this.#counts.get(kind)?.get(key) ?? []) if (id !== processId) sum += count;
    return sum;
  }

  /** Removes a process that has ended. Returns its counts. */
  remove(processId: number): Count[] {
    const removed = this.#all().filter(([kind, key]) => this.#counts.get(kind)!.get(key)!.has(processId));
    for (const [kind, key] of removed) this.set(processId, [kind, key, 0]);
    return removed;
  }

  /** The counts of all other processes, for a process that starts. */
  countOthers(processId: number): Count[] {
    return this.#all()
      .map(([kind, key]): Count => [kind, key, this.others(processId, kind, key)])
      .filter(([, , count]) => count > 0);
  }

  #all(): Count[] {
    return [...this.#counts].flatMap(([kind, keys]) => [...keys.keys()].map((key): Count => [kind, key, 0]));
  }
}
