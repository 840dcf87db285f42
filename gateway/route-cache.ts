import type { SandboxId } from '../domain/ids.ts';
import type { RouteChanges, RouteSource, RouteTable, SandboxRoute } from './routes.ts';

interface CacheEntry {
  route: SandboxRoute;
  /** `performance.now()` at its expiry. Infinity while changes are announced. */
  expiresAtMs: number;
  lookedUpAtMs: number;
}

export interface RouteCacheOptions {
  maxEntries?: number;
  /** How long a route is cached while changes are not announced, and how long an unknown id is always cached. */
  shortTtlMs?: number;
  /** The time limit of a lookup. After it, the waiting requests fail. */
  lookupTimeoutMs?: number;
}

/**
 * Caches routes until a change is announced. If a sandbox changes during its lookup, waiting callers get the result,
 * but it is not cached, and later callers start a new lookup. When announcements are interrupted, the cache is
 * emptied, and routes are then cached only for a second.
 */
export class RouteCache implements RouteTable {
  readonly #source: RouteSource;
  readonly #changes: RouteChanges;
  readonly #maxEntries: number;
  readonly #shortTtlMs: number;
  readonly #lookupTimeoutMs: number;
  /** The least recently used entry is first. */
  readonly #entries = new Map<SandboxId, CacheEntry>();
  /**
   * Ids without a sandbox, with their expiry. They are stored separately, so that guessed ids never evict real routes.
   */
  readonly #unknown = new Map<SandboxId, number>();
  readonly #lookups = new Map<SandboxId, Promise<SandboxRoute | null>>();
  readonly #listeners: ((sandboxId: SandboxId | null) => void)[] = [];

  constructor(source: RouteSource, changes: RouteChanges, options: RouteCacheOptions = {}) {
    this.#source = source;
    this.#changes = changes;
    this.#maxEntries = options.maxEntries ?? 10_000;
    this.#shortTtlMs = options.shortTtlMs ?? 1000;
    this.#lookupTimeoutMs = options.lookupTimeoutMs ?? 5000;
    changes.onChange((sandboxId) => this.drop(sandboxId));
    changes.onLiveChange(() => this.#dropAll());
  }

  /** Rejects with the source's error when the route is neither cached nor readable. */
  find(sandboxId: SandboxId): Promise<SandboxRoute | null> {
    const now = performance.now();
    const entry = this.#entries.get(sandboxId);
    if (entry) {
      this.#entries.delete(sandboxId);
      if (entry.expiresAtMs > now) {
        this.#entries.set(sandboxId, entry);
        return Promise.resolve(entry.route);
      }
    }
    if ((this.#unknown.get(sandboxId) ?? 0) > now) return Promise.resolve(null);
    return this.#lookups.get(sandboxId) ?? this.#lookUp(sandboxId);
  }

  onChange(listener: (sandboxId: SandboxId | null) => void): void {
    this.#listeners.push(listener);
  }

  /** Drops the route of one sandbox, as if a change had been announced. */
  drop(sandboxId: SandboxId): void {
    this.#entries.delete(sandboxId);
    this.#unknown.delete(sandboxId);
    this.#lookups.delete(sandboxId);
    for (const listener of this.#listeners) listener(sandboxId);
  }

  dropUnlessNew(sandboxId: SandboxId): boolean {
    const entry = this.#entries.get(sandboxId);
    if (entry && performance.now() - entry.lookedUpAtMs < this.#shortTtlMs) return false;
    this.drop(sandboxId);
    return true;
  }

  get size(): number {
    return this.#entries.size + this.#unknown.size;
  }

  #dropAll(): void {
    this.#entries.clear();
    this.#unknown.clear();
    this.#lookups.clear();
    for (const listener of this.#listeners) listener(null);
  }

  #lookUp(sandboxId: SandboxId): Promise<SandboxRoute | null> {
    const lookup = within(this.#source.find(sandboxId), this.#lookupTimeoutMs).then(
      (route) => {
        if (this.#lookups.get(sandboxId) === lookup) {
          this.#lookups.delete(sandboxId);
          this.#keep(sandboxId, route);
        }
        return route;
      },
      (error: unknown) => {
        if (this.#lookups.get(sandboxId) === lookup) this.#lookups.delete(sandboxId);
        throw error;
      },
    );
    this.#lookups.set(sandboxId, lookup);
    return lookup;
  }

  #keep(sandboxId: SandboxId, route: SandboxRoute | null): void {
    const now = performance.now();
    const shortEnd = now + this.#shortTtlMs;
    if (!route) {
      this.#unknown.delete(sandboxId);
      this.#unknown.set(sandboxId, shortEnd);
      trim(this.#unknown, this.#maxEntries);
      return;
    }
    const expiresAtMs = this.#changes.live ? Number.POSITIVE_INFINITY : shortEnd;
    this.#entries.set(sandboxId, { route, expiresAtMs, lookedUpAtMs: now });
    trim(this.#entries, this.#maxEntries);
  }
}

/** Removes the oldest entry if there are too many. */
function trim(map: Map<string, unknown>, maxEntries: number): void {
  if (map.size <= maxEntries) return;
  const oldest = map.keys().next();
  if (!oldest.done) map.delete(oldest.value);
}

/** The promise, or a rejection after the given time. */
function within<T>(promise: Promise<T>, timeoutMs: number): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}
