import { type DiskCopy, DriverError, type ImageBuilds, type PackedImage, type PackedLayer } from '../driver.ts';

/** Refuses all builds, for a cluster that is not set up to make images of sandboxes. */
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

  /** Does nothing, because no build leaves files. */
  async discard(): Promise<void> {}
}

const refusal = () =>
  new DriverError('not_on_a_cluster', 'Sandboxes in this region run on a cluster, which cannot make templates of them');
