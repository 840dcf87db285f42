import type { Logger } from 'pino';
import { NotificationListener } from '../../../db/core/notification-listener.ts';
import { directMoveSeconds, newsChannel, readNews } from '../../../db/sandboxes/direct-news.ts';
import type { SandboxId } from '../../../domain/ids.ts';
import type { SandboxStatus } from '../../../domain/sandboxes/state.ts';

/**
 * Longer than a start on a busy machine, because a workflow that joins the start would use its processor too. A longer
 * move continues in its workflow.
 */
const maxWaitMs = directMoveSeconds * 1000;

/** The result of a direct move. Null: the workflow makes the move, or continues one that takes long. */
export type News = { status: SandboxStatus; sinceMs: number } | null;

export interface ExpectedNews {
  result: Promise<News>;
  /** No news is needed any more. */
  end(): void;
}

/** The news of the direct moves that requests of this process wait for. */
export class SandboxNews {
  readonly #listener: NotificationListener;
  readonly #expected = new Map<SandboxId, Set<(news: News) => void>>();

  constructor(options: { databaseUrl: string; logger: Logger }) {
    this.#listener = new NotificationListener({
      ...options,
      channel: newsChannel,
      onNotification: (payload) => {
        const { sandboxId, news } = readNews(payload);
        for (const tell of this.#expected.get(sandboxId) ?? []) tell(news);
      },
      // Notifications are lost from now on.
      onLiveChange: (live) => {
        if (!live) for (const tell of [...this.#expected.values()].flatMap((each) => [...each])) tell(null);
      },
    });
  }

  start(): void {
    this.#listener.start();
  }

  async close(): Promise<void> {
    await this.#listener.close();
  }

  /**
   * Call this before the move is committed, so that no news is missed.
   * @param present the status before the move: news of it is about an earlier move, and late
   * @returns null when news does not arrive now
   */
  expect(sandboxId: SandboxId, present?: SandboxStatus): ExpectedNews | null {
    if (!this.#listener.live) return null;
    const { promise, resolve } = Promise.withResolvers<News>();
    const timer = setTimeout(() => resolve(null), maxWaitMs);
    const expecting = this.#expected.get(sandboxId) ?? new Set();
    const tell = (news: News) => {
      if (present === undefined || news?.status !== present) resolve(news);
    };
    this.#expected.set(sandboxId, expecting.add(tell));
    const end = () => {
      clearTimeout(timer);
      expecting.delete(tell);
      if (expecting.size === 0 && this.#expected.get(sandboxId) === expecting) this.#expected.delete(sandboxId);
      resolve(null);
    };
    return { result: promise.finally(end), end };
  }
}
