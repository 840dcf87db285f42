import type { SandboxSpec } from '../../runtime/driver.ts';
import { Cluster } from '../../runtime/kubernetes/cluster.ts';
import { ClusterWatch } from '../../runtime/kubernetes/cluster-watch.ts';
import type { ImageFacts } from '../../runtime/kubernetes/image-facts.ts';
import { buildDisk, buildPod } from '../../runtime/kubernetes/manifests.ts';
import { hostSelector } from '../../runtime/kubernetes/names.ts';
import type { KubernetesDriverOptions } from '../../runtime/kubernetes/options.ts';
import type { DriverHost } from '../../test/kubernetes/support/driver-host.ts';

const seconds = 1800;
const late = () => new Error('A bare pod took half an hour');

/** Pods and disks as the driver makes them for sandboxes, but without policies and agents. */
export class BarePods {
  readonly #options: KubernetesDriverOptions;
  readonly #facts: ImageFacts;
  readonly #cluster: Cluster;
  readonly #watch: ClusterWatch;
  readonly #signal = AbortSignal.timeout(2 * seconds * 1000);

  private constructor(options: KubernetesDriverOptions, facts: ImageFacts) {
    const { config, namespace, hostId, logger } = options;
    this.#options = options;
    this.#facts = facts;
    this.#cluster = new Cluster(config, namespace);
    this.#watch = new ClusterWatch(config, this.#cluster, { namespace, selector: hostSelector(hostId), logger });
  }

  /** @param options the options of the compared driver */
  static async open(host: DriverHost, facts: ImageFacts, options: Partial<KubernetesDriverOptions>): Promise<BarePods> {
    // They do not belong to the host, because its driver would treat them as sandboxes.
    const pods = new BarePods({ ...host.options, ...options, hostId: 'bare' }, facts);
    await pods.#watch.open(() => {});
    return pods;
  }

  /** Returns when the pod is Ready. */
  async start(spec: SandboxSpec): Promise<void> {
    await this.#cluster.applyDisk(buildDisk(spec, this.#facts, this.#options), this.#signal);
    await this.#cluster.applyPod(buildPod(spec, this.#facts, this.#options), this.#signal);
    const ready = () =>
      this.#watch
        .pod(spec.sandboxId)
        ?.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') || undefined;
    await this.#watch.until(spec.sandboxId, ready, { seconds, late });
  }

  /** Returns when the pods and their disks are gone. */
  async remove(specs: readonly SandboxSpec[]): Promise<void> {
    await Promise.all(
      specs.map(async ({ sandboxId }) => {
        await this.#cluster.deletePod(sandboxId);
        await this.#cluster.deleteDisk(sandboxId);
        const gone = () => (this.#watch.pod(sandboxId) || this.#watch.disk(sandboxId) ? undefined : true);
        await this.#watch.until(sandboxId, gone, { seconds, late });
      }),
    );
  }

  close(): Promise<void> {
    return this.#watch.close();
  }
}
