import type { CountExchange } from '../../domain/bounded-counts.ts';
import type { Count } from './messages.ts';

const reportIntervalMs = 50;
/** Counts below this share of their limit are not reported. Most counts stay below it. */
const reportShare = 1 / 16;

/**
 * The counts of this process and of the others, for shared limits. The others' counts are up to 50 ms old and omit
 * small ones, so a burst can exceed a limit by what the others admit meanwhile.
 */
export class SharedCounts implements CountExchange {
  readonly #report: (counts: Count[]) => void;
  readonly #others = new Map<string, Map<string, number>>();
  /** The counts of this process that the primary knows, by kind and key. */
  readonly #reported = new Map<string, Set<string>>();
  readonly #changed = new Map<string, Map<string, number>>();
  #timer: NodeJS.Timeout | null = null;

  constructor(report: (counts: Count[]) => void) {
    this.#report = report;
  }

  others(kind: string, key: string): number {
    return this.#others.get(kind)?.get(key) ?? 0;
  }

  changed(kind: string, key: string, count: number, max: number): void {
    const isKnown = this.#reported.get(kind)?.has(key) || this.#changed.get(kind)?.has(key);
    if (!isKnown && count < max * reportShare) return;
    getOrCreate(this.#changed, kind, () => new Map<string, number>()).set(key, count);
    this.#timer ??= setTimeout(() => this.#flush(), reportIntervalMs).unref();
  }

  setOthers(counts: Count[]): void {
    for (const [kind, key, count] of counts) {
      const keys = getOrCreate(this.#others, kind, () => new Map<string, number>());
      if (count > 0) keys.set(key, count);
      else keys.delete(key);
    }
  }

  #flush(): void {
    this.#timer = null;
    const counts: Count[] = [];
    for (const [kind, keys] of this.#changed) {
      const reported = getOrCreate(this.#reported, kind, () => new Set<string>());
      for (const [key, count] of keys) {
        counts.push([kind, key, count]);
        if (count > 0) reported.add(key);
        else reported.delete(key);
      }
    }
    this.#changed.clear();
    this.#report(counts);
  }
}

function getOrCreate<Value>(map: Map<string, Value>, key: string, make: () => Value): Value {
  const known = map.get(key);
  if (known !== undefined) return known;
  const made = make();
  map.set(key, made);
  return made;
}
