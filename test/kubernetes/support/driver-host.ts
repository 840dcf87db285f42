import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { CoreV1Api, type KubeConfig, type V1PersistentVolumeSpec } from '@kubernetes/client-node';
import type { SandboxSpec } from '../../../runtime/driver.ts';
import { ensureAgentImageFolder } from '../../../runtime/kubernetes/agent-image.ts';
import { type KubernetesDriver, openKubernetesDriver } from '../../../runtime/kubernetes/driver.ts';
import type { KubernetesDriverOptions } from '../../../runtime/kubernetes/options.ts';
import { cacheDir } from '../../runtime/local-host.ts';
import { smallSpec } from '../../runtime/small-spec.ts';
import { computeDigest, pushImage } from '../../support/pushed-image.ts';
import { createLayer, tar } from '../../support/tar-layer.ts';

const repository = path.resolve(import.meta.dirname, '../../..');

/** The properties of a test's cluster that a driver needs. */
export interface DrivenCluster {
  config: KubeConfig;
  place: { network: { pods: string } };
  /** Host and port of a registry without TLS. */
  registry: string;
}

/** Returns the source of a disk by the name of its volume. */
type DiskPlace = (name: string) => Pick<V1PersistentVolumeSpec, 'hostPath' | 'local' | 'nodeAffinity'>;

/** A folder on the node of the pod. It is gone when the node starts again. */
const ownFolder: DiskPlace = (name) => ({ hostPath: { path: `/run/${name}`, type: 'DirectoryOrCreate' } });

/** Pushes the agent image to a registry. @returns its reference */
export async function pushAgentImage(registry: string): Promise<string> {
  const folder = await ensureAgentImageFolder(cacheDir(), path.join(repository, 'agent/dist'));
  const entries = fs
    .readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => {
      const file = path.join(entry.parentPath, entry.name);
      const name = path.join('.platform', path.relative(folder, file));
      return { name, content: fs.readFileSync(file), mode: fs.statSync(file).mode & 0o777 };
    });
  const { digest } = await pushImage(`http://${registry}`, 'platform-agent', {
    layers: [createLayer(entries)],
    config: { config: {}, rootfs: { type: 'layers', diff_ids: [computeDigest(tar(entries))] } },
  });
  return `${registry}/platform-agent@${digest}`;
}

/** A driver with its own namespace on a cluster, and with volumes for the disks of its sandboxes. */
export class DriverHost {
  readonly namespace = `host-${randomBytes(6).toString('hex')}`;
  readonly warnings: unknown[] = [];
  readonly #cluster: DrivenCluster;
  readonly #agentImage: string;
  readonly #diskPlace: DiskPlace;
  #disks = 0;
  driver!: KubernetesDriver;

  private constructor(cluster: DrivenCluster, agentImage: string, diskPlace: DiskPlace) {
    this.#cluster = cluster;
    this.#agentImage = agentImage;
    this.#diskPlace = diskPlace;
  }

  static async open(
    cluster: DrivenCluster,
    agentImage: string,
    options: Partial<KubernetesDriverOptions> = {},
    diskPlace: DiskPlace = ownFolder,
  ): Promise<DriverHost> {
    const host = new DriverHost(cluster, agentImage, diskPlace);
    await host.core.createNamespace({ body: { metadata: { name: host.namespace } } });
    await host.start(options);
    return host;
  }

  get core(): CoreV1Api {
    return this.#cluster.config.makeApiClient(CoreV1Api);
  }

  /** Opens the driver as a host worker does when it starts. */
  async start(options: Partial<KubernetesDriverOptions> = {}): Promise<void> {
    this.driver = await openKubernetesDriver({ ...this.options, ...options });
  }

  /** The default options of the driver. */
  get options(): KubernetesDriverOptions {
    const warn = (fields: object, message: string) => this.warnings.push({ ...fields, message });
    return {
      config: this.#cluster.config,
      namespace: this.namespace,
      hostId: this.namespace,
      agentImage: this.#agentImage,
      resolveImage: (reference) => reference,
      storageClass: this.namespace,
      clientRanges: ['0.0.0.0/0'],
      podNetwork: this.#cluster.place.network.pods,
      logger: { debug: () => {}, info: () => {}, warn, error: warn },
    };
  }

  /** Makes volumes for the disks of warm pods. */
  async addVolumes(count: number): Promise<void> {
    for (let made = 0; made < count; made += 1) await this.#addVolume();
  }

  async #addVolume(): Promise<void> {
    this.#disks += 1;
    const name = `${this.namespace}-${this.#disks}`;
    await this.core.createPersistentVolume({
      body: {
        metadata: { name },
        spec: {
          accessModes: ['ReadWriteOnce'],
          capacity: { storage: '1Gi' },
          ...this.#diskPlace(name),
          persistentVolumeReclaimPolicy: 'Retain',
          storageClassName: this.namespace,
        },
      },
    });
  }

  /** Returns the spec of a new sandbox, and makes a volume for its disk. */
  async spec(image: string, overrides: Partial<SandboxSpec> = {}): Promise<SandboxSpec> {
    await this.#addVolume();
    return smallSpec({ sandboxId: `sbx-${randomBytes(8).toString('hex')}`, image }, overrides);
  }

  /** The names of the pods and disks in the host's namespace, read from the API server. */
  async objects(): Promise<{ pods: string[]; disks: string[] }> {
    const of = { namespace: this.namespace };
    const [pods, disks] = await Promise.all([
      this.core.listNamespacedPod(of),
      this.core.listNamespacedPersistentVolumeClaim(of),
    ]);
    const names = (items: { metadata?: { name?: string } }[]) => items.map(({ metadata }) => metadata!.name!);
    return { pods: names(pods.items), disks: names(disks.items) };
  }

  async close(): Promise<void> {
    await this.driver.reconcile([]);
    await this.driver.close();
    for (let disk = 1; disk <= this.#disks; disk += 1) {
      await this.core.deletePersistentVolume({ name: `${this.namespace}-${disk}` });
    }
    await this.core.deleteNamespace({ name: this.namespace });
  }
}
