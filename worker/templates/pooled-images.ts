import type { Logger } from 'pino';
import { NotificationListener } from '../../db/core/notification-listener.ts';
import type { Orm } from '../../db/orm.ts';
import { imagesOfTemplates } from '../../db/templates/template-images.ts';
import type { HostDriver } from '../../runtime/host-driver.ts';

/** The poll interval, because notifications may be lost. */
const pollMs = 60_000;

/** When a template is deleted, its host ends the frozen sandboxes that it keeps of that template. */
export class PooledImages {
  readonly #options: { orm: Orm; driver: Pick<HostDriver, 'pooledImages' | 'dropPooled'>; logger: Logger };
  readonly #listener: NotificationListener;
  #timer: NodeJS.Timeout | undefined;
  #checking: Promise<void> = Promise.resolve();

  constructor(options: {
    orm: Orm;
    databaseUrl: string;
    driver: Pick<HostDriver, 'pooledImages' | 'dropPooled'>;
    logger: Logger;
  }) {
    this.#options = options;
    this.#listener = new NotificationListener({
      databaseUrl: options.databaseUrl,
      channel: 'template_images_changed',
      logger: options.logger,
      onNotification: () => this.#checkSoon(),
      // Notifications are lost while there is no connection.
      onLiveChange: () => this.#checkSoon(),
    });
  }

  start(): void {
    this.#listener.start();
    this.#timer = setInterval(() => this.#checkSoon(), pollMs);
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#listener.close();
    await this.#checking;
  }

  #checkSoon(): void {
    const { logger } = this.#options;
    this.#checking = this.#checking
      .then(() => this.#check())
      .catch((error) => logger.warn({ err: error }, 'the templates of frozen sandboxes could not be read'));
  }

  async #check(): Promise<void> {
    const { orm, driver } = this.#options;
    const pooled = driver.pooledImages;
    if (pooled.length === 0) return;
    const there = await imagesOfTemplates(orm.em, pooled);
    for (const image of pooled) if (!there.has(image)) await driver.dropPooled(image);
  }
}
