import path from 'node:path';
import type { DriverLogger } from '../driver-logger.ts';
import type { HostImageState, HostImages } from '../host-driver.ts';
import type { BaseImageOptions } from './base-image.ts';
import { cachedCodeInterpreterImage, ensureCodeInterpreterImage } from './code-interpreter-image.ts';
import { ImageBuildError } from './image-build-error.ts';
import type { UnpackedImage } from './image-cache.ts';

/** The recipes of built-in templates for code, by image. */
export const interpreterRecipes: Readonly<Record<string, string>> = Object.fromEntries(
  ['code-interpreter', 'code-interpreter-all'].map((name) => [`builtin:${name}`, path.join(import.meta.dirname, name)]),
);

type Recipe = {
  cached: () => Promise<UnpackedImage | null>;
  ensure: (options: Pick<BaseImageOptions, 'signal' | 'onProgress'>) => Promise<UnpackedImage>;
};

/**
 * The images that this host makes itself. Each has at most one build at a time, and all callers wait for it. If a
 * caller stops waiting, the build continues for the others. Other processes with the same cache wait for it too.
 */
export class BuiltinImages implements HostImages {
  readonly #recipes: ReadonlyMap<string, Recipe>;
  readonly #logger: DriverLogger;
  readonly #builds = new Map<string, Promise<UnpackedImage>>();
  readonly #stopping = new AbortController();
  #listener: (state: HostImageState) => void = () => {};

  constructor(options: { recipes: ReadonlyMap<string, Recipe>; logger: DriverLogger }) {
    this.#recipes = options.recipes;
    this.#logger = options.logger;
  }

  /** The images of the recipes in these folders. */
  static of(base: BaseImageOptions, folders: Readonly<Record<string, string>>, logger: DriverLogger): BuiltinImages {
    const recipe = (recipeDir: string): Recipe => ({
      cached: () => cachedCodeInterpreterImage({ ...base, recipeDir }),
      ensure: (options) => ensureCodeInterpreterImage({ ...base, ...options, recipeDir }),
    });
    const recipes = new Map(Object.entries(folders).map(([image, folder]) => [image, recipe(folder)]));
    return new BuiltinImages({ recipes, logger });
  }

  get names(): string[] {
    return [...this.#recipes.keys()];
  }

  /** Calls back when a build begins and when it ends. An end by `close` is not reported. */
  onChange(listener: (state: HostImageState) => void): void {
    this.#listener = listener;
  }

  /** Whether the image is in the cache. */
  async isMade(image: string): Promise<boolean> {
    return (await this.#recipe(image).cached()) !== null;
  }

  /**
   * The image from the cache, or from the current build, or from a build that begins now.
   * @param signal ends the wait, not the build
   * @throws {ImageBuildError} when the build failed
   */
  async get(image: string, signal: AbortSignal): Promise<UnpackedImage> {
    signal.throwIfAborted();
    const made = this.#builds.has(image) ? null : await this.#recipe(image).cached();
    if (made) return made;
    return unlessAborted(this.#build(image), signal);
  }

  /** Ends the running builds with all of their processes. */
  async close(): Promise<void> {
    this.#stopping.abort();
    await Promise.allSettled(this.#builds.values());
  }

  #recipe(image: string): Recipe {
    const recipe = this.#recipes.get(image);
    if (!recipe) throw new ImageBuildError(`This host cannot make the image ${image}`);
    return recipe;
  }

  #build(image: string): Promise<UnpackedImage> {
    const present = this.#builds.get(image);
    if (present) return present;
    const build = this.#make(image).finally(() => this.#builds.delete(image));
    this.#builds.set(image, build);
    // Callers that wait for the build get its failure. There may be no caller.
    build.catch(() => {});
    return build;
  }

  async #make(image: string): Promise<UnpackedImage> {
    const signal = this.#stopping.signal;
    signal.throwIfAborted();
    const startedMs = performance.now();
    const seconds = () => Math.round((performance.now() - startedMs) / 1000);
    let last = '';
    const onProgress: BaseImageOptions['onProgress'] = ({ message, fraction }) => {
      if (message === last) return;
      last = message;
      this.#logger.info(
        { image, step: message, percent: Math.round(fraction * 100) },
        'making the image of a template',
      );
    };
    this.#listener({ image, status: 'building', message: null });
    try {
      const made = await this.#recipe(image).ensure({ signal, onProgress });
      this.#logger.info({ image, seconds: seconds() }, 'the image of a template was made');
      this.#listener({ image, status: 'available', message: null });
      return made;
    } catch (error) {
      if (signal.aborted) throw error;
      this.#logger.error({ err: error, image, seconds: seconds() }, 'the image of a template could not be made');
      const message = error instanceof ImageBuildError ? error.message : 'The image could not be made on its host';
      this.#listener({ image, status: 'failed', message });
      throw error;
    }
  }
}

/** @throws the signal's reason, as soon as it is aborted */
async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const abort = () => reject(signal.reason);
  signal.addEventListener('abort', abort, { once: true });
  try {
    return await Promise.race([work, promise]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}
