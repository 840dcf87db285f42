import { readRegistryImage } from '../../domain/templates/image.ts';
import { DriverError } from '../driver.ts';
import type { HostImageState, HostImages } from '../host-driver.ts';

const baseImageName = 'builtin:base';
const notSet = 'This template has no image on this cluster';

/**
 * Returns a function that gives the reference by which nodes pull the image of a sandbox.
 * @param options.registry `host:port` of the platform's registry, without a path
 * @param options.builtin images of the built-in templates, by `builtin:<template>`
 * @throws {DriverError} `image_refused` (by the returned function) when the operator has named no image for a template
 */
export function imageNames(options: { registry: string | null; builtin: Readonly<Record<string, string>> }) {
  return (reference: string): string => {
    const inRegistry = readRegistryImage(reference);
    if (inRegistry) {
      if (options.registry === null) throw new DriverError('image_refused', 'The platform has no registry');
      return `${options.registry}/${inRegistry.path}@${inRegistry.digest}`;
    }
    if (!reference.startsWith('builtin:')) return reference;
    const image = options.builtin[reference];
    if (image === undefined) throw new DriverError('image_refused', notSet);
    return image;
  };
}

/** The images of built-in templates on a cluster. The cluster builds no images, so the operator names them. */
export class NamedImages implements HostImages {
  readonly names: readonly string[];
  readonly #images: Readonly<Record<string, string>>;
  #listener: (state: HostImageState) => void = () => {};

  /**
   * @param names the names of all built-in templates whose image a host builds
   * @param images the images that the operator names, by template name
   */
  constructor(names: readonly string[], images: Readonly<Record<string, string>>) {
    this.names = names.filter((name) => name !== baseImageName);
    this.#images = images;
  }

  async isMade(image: string): Promise<boolean> {
    return this.#images[image] !== undefined;
  }

  /** @throws {DriverError} `image_refused` when the operator has named no image for this template */
  async get(image: string): Promise<void> {
    if (this.#images[image] !== undefined) return;
    this.#listener({ image, status: 'failed', message: notSet });
    throw new DriverError('image_refused', notSet);
  }

  onChange(listener: (state: HostImageState) => void): void {
    this.#listener = listener;
  }
}
