import { type DiskCopy, DriverError, type ImageBuilds, type PackedImage, type PackedLayer } from '../driver.ts';

/** A cluster makes no images of sandboxes: a build fails at once, and says so. */
export class NoImageBuilds implements ImageBuilds {
  async copyDisk(): Promise<DiskCopy> {
    throw refusal();
  }

  async packChanges(): Promise<PackedLayer> {
    throw refusal();
  }

  async packImage(): Promise<PackedImage> {
    throw refusal();
  }

  async imageDigest(): Promise<string> {
    throw refusal();
  }

  /** No build leaves anything. */
  async discard(): Promise<void> {}
}

const refusal = () =>
  new DriverError('not_on_a_cluster', 'Sandboxes in this region run on a cluster, which cannot make templates of them');
