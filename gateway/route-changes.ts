import { NotificationListener, type NotificationListenerOptions } from '../db/core/notification-listener.ts';
import type { SandboxId } from '../domain/ids.ts';
import type { RouteChanges } from './routes.ts';

/** The NOTIFY channel on which Postgres announces changed routes. The payload is the sandbox id. */
export const routeChangeChannel = 'sandbox_route_changed';

/** Announces the routes that change in Postgres. While it is not live, announcements are lost. */
export class PostgresRouteChanges implements RouteChanges {
  readonly #listener: NotificationListener;
  readonly #changeListeners: ((sandboxId: SandboxId) => void)[] = [];
  readonly #liveListeners: ((live: boolean) => void)[] = [];

  constructor(options: Omit<NotificationListenerOptions, 'channel' | 'onNotification' | 'onLiveChange'>) {
    this.#listener = new NotificationListener({
      ...options,
      channel: routeChangeChannel,
      onNotification: (sandboxId) => {
        if (sandboxId) for (const listener of this.#changeListeners) listener(sandboxId as SandboxId);
      },
      onLiveChange: (live) => {
        for (const listener of this.#liveListeners) listener(live);
      },
    });
  }

  get live(): boolean {
    return this.#listener.live;
  }

  onChange(listener: (sandboxId: SandboxId) => void): void {
    this.#changeListeners.push(listener);
  }

  onLiveChange(listener: (live: boolean) => void): void {
    this.#liveListeners.push(listener);
  }

  /** Starts to listen and returns at once. */
  start(): void {
    this.#listener.start();
  }

  close(): Promise<void> {
    return this.#listener.close();
  }
}
