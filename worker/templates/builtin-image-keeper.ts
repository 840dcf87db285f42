import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Orm } from '../../db/orm.ts';
import { type ImageOfHost, recordImageOfHost } from '../../db/templates/builtin-images.ts';
import type { HostImageState, HostImages } from '../../runtime/host-driver.ts';

/** The delays before the next build after a failed one. The last value repeats. */
const retryMinutes = [1, 5, 15, 60];
const writeAgainMs = 5000;

/**
 * Keeps the built-in templates' images of one host: makes some of them in the background, retries failed builds, and
 * publishes the state of each image, which is the status of its template.
 */
export class BuiltinImageKeeper {
  readonly #options: KeeperOptions;
  readonly #stopping = new AbortController();
  readonly #failures = new Map<string, number>();
  /** States that are not written yet, by image. Later states replace earlier ones. */
  readonly #unwritten = new Map<string, Pick<ImageOfHost, 'status' | 'message'>>();
  readonly #work = new Set<Promise<void>>();
  #writing = false;

  constructor(options: KeeperOptions) {
    this.#options = options;
  }

  /** Returns when it is known which images exist. The images to make ahead are made in the background. */
  async start(): Promise<void> {
    const { images, ahead, logger } = this.#options;
    images.onChange((state) => this.#onChange(state));
    for (const image of images.names) {
      const isMade = await images.isMade(image).catch((error) => {
        logger.warn({ err: error, image }, 'it could not be read whether the image of a template exists');
        return false;
      });
      const isAhead = ahead.some((name) => image === `builtin:${name}`);
      if (!isMade && isAhead) this.#begin(image, 0);
      else this.#note(image, { status: isMade ? 'available' : 'missing', message: null });
    }
  }

  /** Ends all waits. Builds in progress end with the driver. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#options.images.onChange(() => {});
    await Promise.all(this.#work);
  }

  #onChange({ image, status, message }: HostImageState): void {
    if (status !== 'failed') {
      if (status === 'available') this.#failures.delete(image);
      this.#note(image, { status, message });
      return;
    }
    const failed = this.#failures.get(image) ?? 0;
    this.#failures.set(image, failed + 1);
    const { retrySeconds = retryMinutes.map((minutes) => minutes * 60) } = this.#options;
    const seconds = retrySeconds[Math.min(failed, retrySeconds.length - 1)]!;
    const at = new Date(Date.now() + seconds * 1000);
    this.#note(image, { status, message: `${message}. The next attempt begins at ${at.toISOString()}` });
    this.#begin(image, seconds * 1000);
  }

  /** Makes an image after a delay. `onChange` reports the outcome. */
  #begin(image: string, afterMs: number): void {
    const { signal } = this.#stopping;
    this.#keep(
      delay(afterMs, undefined, { signal })
        .then(() => this.#make(image, signal))
        .then(
          // If the image already existed, no build began and no outcome was reported, so it is noted here.
          () => this.#note(image, { status: 'available', message: null }),
          // The maker has already logged and reported the error.
          () => {},
        ),
    );
  }

  /** Makes an image only if the disk has space, so that sandboxes can use a nearly full disk. */
  async #make(image: string, signal: AbortSignal): Promise<void> {
    const { images, hasSpace, logger } = this.#options;
    if (hasSpace() || (await images.isMade(image))) {
      await images.get(image, signal);
      return;
    }
    logger.warn({ image }, 'the image of a template is not made: the disk is nearly full');
    this.#onChange({ image, status: 'failed', message: 'The disk of the host is nearly full' });
    throw new Error('the disk is nearly full');
  }

  #note(image: string, state: Pick<ImageOfHost, 'status' | 'message'>): void {
    this.#unwritten.set(image, state);
    if (!this.#writing) this.#keep(this.#write());
  }

  async #write(): Promise<void> {
    const { orm, hostId, logger } = this.#options;
    this.#writing = true;
    for (;;) {
      const next = this.#unwritten.entries().next().value;
      if (!next) break;
      const [image, state] = next;
      try {
        await recordImageOfHost(orm.em, { hostId, image, ...state });
        if (this.#unwritten.get(image) === state) this.#unwritten.delete(image);
      } catch (error) {
        if (this.#stopping.signal.aborted) break;
        logger.warn({ err: error, image }, 'the status of a template could not be written; trying again');
        await delay(writeAgainMs, undefined, { signal: this.#stopping.signal }).catch(() => {});
      }
    }
    this.#writing = false;
  }

  #keep(work: Promise<void>): void {
    this.#work.add(work);
    work.finally(() => this.#work.delete(work)).catch(() => {});
  }
}

interface KeeperOptions {
  orm: Orm;
  images: HostImages;
  hostId: string;
  /** Whether the disk has space for another image. */
  hasSpace: () => boolean;
  /** Names of the built-in templates whose images are made ahead. */
  ahead: readonly string[];
  /** The delays after the first failed build, the second, and so on. The last value repeats. */
  retrySeconds?: readonly number[];
  logger: Logger;
}
