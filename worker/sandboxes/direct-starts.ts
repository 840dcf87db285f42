import type { Logger } from 'pino';
import type { SandboxStarts } from '../../activities/sandboxes/starts.ts';
import { NotificationListener } from '../../db/core/notification-listener.ts';
import type { Orm } from '../../db/orm.ts';
import { recordHearing, startsChannel } from '../../db/sandboxes/direct-starts.ts';
import type { SandboxId } from '../../domain/ids.ts';

/** Starts each sandbox of this host as soon as its admission is committed. Its workflow begins beside that. */
export class DirectStarts {
  readonly #listener: NotificationListener;
  readonly #starts: SandboxStarts;
  readonly #record: (hears: boolean) => Promise<void>;
  #recording: Promise<void> = Promise.resolve();

  constructor(deps: { orm: Orm; databaseUrl: string; hostId: string; starts: SandboxStarts; logger: Logger }) {
    const { orm, databaseUrl, hostId, starts, logger } = deps;
    this.#starts = starts;
    this.#record = (hears) =>
      recordHearing(orm.em, hostId, hears).catch((error) =>
        logger.warn({ err: error, hears }, 'whether this host hears of direct starts could not be recorded'),
      );
    this.#listener = new NotificationListener({
      databaseUrl,
      channel: startsChannel(hostId),
      logger,
      onNotification: (payload) => {
        const [sandboxId, requestId] = payload.split(' ');
        void starts.startDirectly(sandboxId as SandboxId, requestId || null);
      },
      onLiveChange: (live) => {
        this.#recording = this.#recording.then(() => this.#record(live));
      },
    });
  }

  start(): void {
    this.#listener.start();
  }

  /** Returns when no direct start is in progress and none begins any more. */
  async stop(): Promise<void> {
    await this.#record(false);
    await this.#listener.close();
    await this.#recording;
    await this.#starts.stop();
  }
}
