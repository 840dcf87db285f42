import type { Logger } from 'pino';
import { NotificationListener } from '../../../db/core/notification-listener.ts';
import { directStartSeconds, startNewsChannel } from '../../../db/sandboxes/direct-starts.ts';
import type { SandboxId } from '../../../domain/ids.ts';

/**
 * Longer than a start on a busy machine, because a workflow that joins the start would use its processor too. A longer
 * start continues in its workflow.
 */
const maxWaitMs = directStartSeconds * 1000;

/** The result of a direct start. Null: the workflow starts the sandbox, or continues a start that takes long. */
export type StartNewsItem = { sinceMs: number } | null;

export interface ExpectedNews {
  result: Promise<StartNewsItem>;
  /** No news is needed any more. */
  end(): void;
}

/** The news of the direct starts that requests of this process wait for. */
export class StartNews {
  readonly #listener: NotificationListener;
  readonly #expected = new Map<SandboxId, (item: StartNewsItem) => void>();

  constructor(options: { databaseUrl: string; logger: Logger }) {
    this.#listener = new NotificationListener({
      ...options,
      channel: startNewsChannel,
      onNotification: (payload) => {
        const [sandboxId, sinceMs] = payload.split(' ');
        this.#expected.get(sandboxId as SandboxId)?.(sinceMs ? { sinceMs: Number(sinceMs) } : null);
      },
      // Notifications are lost from now on.
      onLiveChange: (live) => {
        if (!live) for (const tell of this.#expected.values()) tell(null);
      },
    });
  }

  start(): void {
    this.#listener.start();
  }

  async close(): Promise<void> {
    await this.#listener.close();
  }

  /** Call this before the admission, so that no news is missed. Null: news does not arrive now. */
  expect(sandboxId: SandboxId): ExpectedNews | null {
    if (!this.#listener.live) return null;
    const { promise, resolve } = Promise.withResolvers<StartNewsItem>();
    const timer = setTimeout(() => resolve(null), maxWaitMs);
    this.#expected.set(sandboxId, resolve);
    const end = () => {
      clearTimeout(timer);
      this.#expected.delete(sandboxId);
      resolve(null);
    };
    return { result: promise.finally(end), end };
  }
}
