import type { Logger } from 'pino';
import type { SandboxMoves } from '../../activities/sandboxes/moves.ts';
import type { SandboxStarts } from '../../activities/sandboxes/starts.ts';
import { NotificationListener } from '../../db/core/notification-listener.ts';
import type { Orm } from '../../db/orm.ts';
import { readWorkNotice, recordHearing, workChannel } from '../../db/sandboxes/direct-news.ts';

/**
 * Starts, pauses and resumes each sandbox of this host as soon as the API has committed that. Its workflow hears of it
 * afterwards.
 */
export class DirectWorkListener {
  readonly #listener: NotificationListener;
  readonly #work: { starts: SandboxStarts; moves: SandboxMoves };
  readonly #record: (hears: boolean) => Promise<void>;
  #recording: Promise<void> = Promise.resolve();

  constructor(deps: {
    orm: Orm;
    databaseUrl: string;
    hostId: string;
    starts: SandboxStarts;
    moves: SandboxMoves;
    logger: Logger;
  }) {
    const { orm, databaseUrl, hostId, starts, moves, logger } = deps;
    this.#work = { starts, moves };
    this.#record = (hears) =>
      recordHearing(orm.em, hostId, hears).catch((error) =>
        logger.warn({ err: error, hears }, 'whether this host hears of direct work could not be recorded'),
      );
    this.#listener = new NotificationListener({
      databaseUrl,
      channel: workChannel(hostId),
      logger,
      onNotification: (payload) => {
        const { work, sandboxId, requestId } = readWorkNotice(payload);
        if (work === 'start') void starts.startDirectly(sandboxId, requestId);
        else void moves.make(work, sandboxId, requestId);
      },
      onLiveChange: (live) => {
        this.#recording = this.#recording.then(() => this.#record(live));
      },
    });
  }

  start(): void {
    this.#listener.start();
  }

  /** Returns when no direct work is in progress and none begins any more. */
  async stop(): Promise<void> {
    await this.#record(false);
    await this.#listener.close();
    await this.#recording;
    await Promise.all([this.#work.starts.stop(), this.#work.moves.stop()]);
  }
}
