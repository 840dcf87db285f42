import { readRegistryImage } from '../../domain/templates/image.ts';
import { type BaseImageOptions, ensureBaseImage } from '../images/base-image.ts';
import { BuiltinImages } from '../images/builtin-images.ts';
import { ImageCache, makeImageOnce, type UnpackedImage } from '../images/image-cache.ts';
import { defaultImageLimits, ensureImage } from '../images/image-store.ts';
import { RegistryPull } from '../images/registry-pull.ts';
import { imageFailure } from './failures.ts';
import type { OciDriverOptions } from './options.ts';

export const baseImageName = 'builtin:base';

/** Unpacked images of every kind: of the base image, of built-in templates, of the platform's and other registries. */
export class MachineImages {
  readonly cache: ImageCache;
  readonly builtin: BuiltinImages;
  readonly #options: OciDriverOptions;
  readonly #registry: RegistryPull | null;

  constructor(options: OciDriverOptions) {
    const { registry, imageCacheBytes: budgetBytes = null, cacheDir, interpreterRecipes = {}, logger } = options;
    this.#options = options;
    this.cache = new ImageCache({ cacheDir, budgetBytes, logger });
    this.builtin = BuiltinImages.of(this.#base(), interpreterRecipes, logger);
    this.#registry = registry ? new RegistryPull(registry) : null;
  }

  /** Gets an image from the cache, or makes it. @throws {DriverError} */
  async get(reference: string, signal: AbortSignal): Promise<UnpackedImage> {
    try {
      return await this.cache.get(() => this.#make(reference, signal));
    } catch (error) {
      throw imageFailure(error, signal);
    }
  }

  async close(): Promise<void> {
    await this.builtin.close();
    this.#registry?.close();
    await this.cache.settled();
  }

  /** Returns the image from the cache if it is there. */
  async #make(reference: string, signal: AbortSignal): Promise<UnpackedImage> {
    const { cacheDir, registryInsecureHttp } = this.#options;
    const limits = this.#options.imageLimits ?? defaultImageLimits;
    if (reference === baseImageName) return ensureBaseImage({ ...this.#base(), signal });
    if (reference.startsWith('builtin:')) return this.builtin.get(reference, signal);
    const stored = readRegistryImage(reference);
    if (!stored) return ensureImage({ cacheDir, reference, registryInsecureHttp, limits, signal });
    const registry = this.#registry;
    if (!registry) throw new Error('this host knows no registry of the platform');
    const make = (draft: string) => registry.pull(stored, draft, limits, signal);
    return makeImageOnce({ cacheDir, digest: stored.digest, make, signal });
  }

  #base(): BaseImageOptions {
    const { cacheDir, registryInsecureHttp, baseImage, imageLimits } = this.#options;
    const limits = imageLimits ?? defaultImageLimits;
    return {
      cacheDir,
      ...(baseImage && { reference: baseImage }),
      ...(registryInsecureHttp && { registryInsecureHttp }),
      limits,
    };
  }
}
