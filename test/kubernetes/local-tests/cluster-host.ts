import { randomBytes } from 'node:crypto';
import { CoreV1Api, KubeConfig } from '@kubernetes/client-node';
import type { SandboxSpec } from '../../../runtime/driver.ts';
import { imageNames } from '../../../runtime/kubernetes/cluster-images.ts';
import { type KubernetesDriver, openKubernetesDriver } from '../../../runtime/kubernetes/driver.ts';
import { labels } from '../../../runtime/kubernetes/names.ts';
import type { KubernetesDriverOptions } from '../../../runtime/kubernetes/options.ts';
import { nothing } from '../../runtime/local-host.ts';
import { smallSpec } from '../../runtime/small-spec.ts';

export { cacheDir, nothing, onHost, shell } from '../../runtime/local-host.ts';

/**
 * Replaces `test/runtime/local-host.ts` for tests that run on a cluster: the same members, as far as a cluster can have
 * them. The settings of the platform in the environment name the cluster.
 */
export class LocalHost {
  readonly warnings: unknown[] = [];
  readonly #hostId = `host-${randomBytes(6).toString('hex')}`;
  #numbered = 0;
  #isClosed = false;
  driver!: KubernetesDriver;

  static async open(options: Partial<KubernetesDriverOptions> = {}): Promise<LocalHost> {
    const host = new LocalHost();
    await host.start(options);
    return host;
  }

  /** Opens the driver as a starting host worker does. */
  async start(options: Partial<KubernetesDriverOptions> = {}): Promise<void> {
    this.driver = await openKubernetesDriver({ ...this.options(), ...options });
  }

  /** Of the local driver, a cluster has no folder, no runtime and no pool. */
  get dataDir(): never {
    throw new Error('A cluster has no data folder');
  }

  options(): KubernetesDriverOptions {
    const warn = (fields: object, message: string) => this.warnings.push({ ...fields, message });
    const { env } = process;
    return {
      config: config(),
      namespace: namespace(),
      hostId: this.#hostId,
      agentImage: env.PLATFORM_KUBERNETES_AGENT_IMAGE!,
      resolveImage: imageNames({ registry: null, builtin: { 'builtin:base': env.PLATFORM_BASE_IMAGE! } }),
      storageClass: env.PLATFORM_KUBERNETES_STORAGE_CLASS!,
      clientRanges: ['0.0.0.0/0'],
      podNetwork: env.PLATFORM_SANDBOX_SUBNET!,
      logger: { debug: () => {}, info: () => {}, warn, error: warn },
    };
  }

  /** A new sandbox: small, without internet access. */
  spec(overrides: Partial<SandboxSpec> = {}): SandboxSpec {
    this.#numbered += 1;
    return smallSpec(
      { sandboxId: `sbx-test${this.#hostId.slice(5)}${this.#numbered}`, image: 'builtin:base' },
      overrides,
    );
  }

  /** The pods of this host take the place of containers, and its disks the place of the folders of sandboxes. */
  async inventory(): Promise<typeof nothing> {
    const core = config().makeApiClient(CoreV1Api);
    const of = { namespace: namespace(), labelSelector: `${labels.host}=${this.#hostId}` };
    const pods = await core.listNamespacedPod(of);
    const disks = await core.listNamespacedPersistentVolumeClaim(of);
    const names = (items: { metadata?: { name?: string } }[]) => items.map(({ metadata }) => metadata!.name!);
    const folders = { ...nothing.folders, sandboxes: names(disks.items) };
    return { ...nothing, containers: names(pods.items), folders } as typeof nothing;
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.driver.reconcile([]);
    await this.driver.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Ends the sandboxes and checks that nothing of them is left. In any case the host is closed. */
  async closeEmpty(): Promise<void> {
    try {
      await this.driver.reconcile([]);
      expect(await this.inventory()).toEqual(nothing);
    } finally {
      await this.close();
    }
  }
}

const namespace = () => process.env.PLATFORM_KUBERNETES_NAMESPACE!;

function config(): KubeConfig {
  const config = new KubeConfig();
  config.loadFromFile(process.env.PLATFORM_KUBERNETES_KUBECONFIG!);
  return config;
}
