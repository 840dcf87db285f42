import type { SandboxId } from '../../domain/ids.ts';
import type { RouteChanges, RouteSource, SandboxRoute } from '../../gateway/routes.ts';

/** Routes in memory, with announcements of changes as from Postgres. */
export class MemoryRoutes implements RouteSource, RouteChanges {
  readonly #routes = new Map<string, SandboxRoute>();
  readonly #changeListeners: ((sandboxId: SandboxId) => void)[] = [];
  readonly #liveListeners: ((live: boolean) => void)[] = [];
  /** Ids of the lookups in their order. */
  readonly lookups: string[] = [];
  /** Lookups wait for it, and fail if it rejects. */
  gate: Promise<void> = Promise.resolve();
  live = true;

  /** Adds or changes a route, and announces the change. */
  set(route: Partial<SandboxRoute> & { sandboxId: SandboxId }): SandboxRoute {
    const changed = this.setSilently(route);
    this.announce(route.sandboxId);
    return changed;
  }

  /** The same without an announcement, as if it was lost. */
  setSilently(route: Partial<SandboxRoute> & { sandboxId: SandboxId }): SandboxRoute {
    const known = this.#routes.get(route.sandboxId);
    const changed = {
      status: 'running',
      hostId: null,
      address: '127.0.0.1',
      agentPort: 49983,
      secure: false,
      publicPorts: false,
      accessToken: null,
      platformToken: 'platform-token',
      isLocked: false,
      ports: [],
      ...known,
      ...route,
    };
    this.#routes.set(route.sandboxId, changed);
    return changed;
  }

  remove(sandboxId: SandboxId): void {
    this.#routes.delete(sandboxId);
    this.announce(sandboxId);
  }

  announce(sandboxId: SandboxId): void {
    for (const listener of this.#changeListeners) listener(sandboxId);
  }

  setLive(live: boolean): void {
    this.live = live;
    for (const listener of this.#liveListeners) listener(live);
  }

  async find(sandboxId: SandboxId): Promise<SandboxRoute | null> {
    this.lookups.push(sandboxId);
    const found = this.#routes.get(sandboxId) ?? null;
    await this.gate;
    return found && { ...found };
  }

  onChange(listener: (sandboxId: SandboxId) => void): void {
    this.#changeListeners.push(listener);
  }

  onLiveChange(listener: (live: boolean) => void): void {
    this.#liveListeners.push(listener);
  }
}
