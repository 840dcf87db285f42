import type { Logger } from 'pino';
import { NotificationListener } from '../../../db/core/notification-listener.ts';
import { directMoveSeconds, type News, newsChannel, readNews } from '../../../db/sandboxes/direct-news.ts';
import type { SandboxId } from '../../../domain/ids.ts';
import type { SandboxStatus } from '../../../domain/sandboxes/state.ts';

/**
 * Longer than a start on a busy machine, because a workflow that joins the start would use its processor too. A longer
 * move continues in its workflow.
 */
const maxWaitMs = directMoveSeconds * 1000;

export interface ExpectedNews {
  /**
   * Waits for the end of a move.
   * @param run of the sandbox after the move
   * @param before the status before the move. News of it is about an earlier move, and late
   * @returns null when the workflow makes the move, or continues one that takes long
   */
  result(run: number, before?: SandboxStatus): Promise<News | null>;
  /** No news is needed any more. */
  end(): void;
}

/** The news of the direct moves that requests of this process wait for. */
export class SandboxNews {
  readonly #listener: NotificationListener;
  readonly #expected = new Map<SandboxId, Set<(news: News | null) => void>>();

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

  /** Call this before the move is committed, so that no news is missed. Null: news does not arrive now. */
  expect(sandboxId: SandboxId): ExpectedNews | null {
    if (!this.#listener.live) return null;
    const heard: (News | null)[] = [];
    let check = () => {};
    const tell = (news: News | null) => {
      heard.push(news);
      check();
    };
    const expecting = this.#expected.get(sandboxId) ?? new Set();
    this.#expected.set(sandboxId, expecting.add(tell));
    const timer = setTimeout(() => tell(null), maxWaitMs);
    const end = () => {
      clearTimeout(timer);
      expecting.delete(tell);
      if (expecting.size === 0 && this.#expected.get(sandboxId) === expecting) this.#expected.delete(sandboxId);
    };
    const result = async (run: number, before?: SandboxStatus) => {
      const isMeant = (news: News | null) => news === null || (news.run === run && news.status !== before);
      await new Promise<void>((resolve) => {
        check = () => heard.some(isMeant) && resolve();
        check();
      });
      end();
      return heard.find(isMeant) ?? null;
    };
    return { result, end };
  }
}
