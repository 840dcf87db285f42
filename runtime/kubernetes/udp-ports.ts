import { setTimeout as sleep } from 'node:timers/promises';
import { ApiException, type V1PersistentVolumeClaim, type V1Service } from '@kubernetes/client-node';
import type { SandboxId } from '../../domain/ids.ts';
import type { UdpMapping } from '../../domain/sandboxes/ports.ts';
import { DriverError } from '../driver.ts';
import type { PortRange } from '../host-driver.ts';
import { isOverQuota } from './api-errors.ts';
import type { Cluster } from './cluster.ts';
import type { ClusterWatch } from './cluster-watch.ts';
import { readSandboxId } from './names.ts';
import {
  buildTrialService,
  buildUdpPolicy,
  buildUdpService,
  toUdpMappings,
  type UdpManifestOptions,
  udpPolicyName,
} from './udp-manifests.ts';

const askAgainMs = 200;
/**
 * How long a load balancer's controller may keep a deleted Service. It is less than the time limit of a port change.
 */
const goneWithinMs = 6000;
const trialMs = 20_000;

/**
 * Forwards UDP ports from outside of the cluster to sandboxes. Each sandbox with UDP ports has a Service, and a
 * NetworkPolicy that opens the ports. The cluster deletes both together with the sandbox's disk at the latest. Calls
 * for one sandbox must not overlap.
 */
export class UdpPorts {
  readonly range: PortRange;
  readonly #cluster: Cluster;
  readonly #watch: ClusterWatch;
  readonly #options: UdpManifestOptions;
  /** The ports that the cluster has accepted, by sandbox. The watch may still have an older Service. */
  readonly #led = new Map<SandboxId, readonly UdpMapping[]>();

  constructor(cluster: Cluster, watch: ClusterWatch, options: UdpManifestOptions) {
    this.range = options.udp.range;
    this.#cluster = cluster;
    this.#watch = watch;
    this.#options = options;
  }

  /**
   * Tests whether the cluster accepts the ports, and reads the existing Services. The watch must be open.
   * @throws {Error} when the cluster does not accept such Services, or has other node ports
   */
  async open(): Promise<void> {
    await this.#tryOut();
    for (const service of this.#watch.services()) {
      const sandboxId = readSandboxId(service);
      if (sandboxId) this.#led.set(sandboxId, toUdpMappings(service));
    }
  }

  /** The sandboxes that have a Service. */
  get sandboxes(): readonly SandboxId[] {
    return [...this.#led.keys()];
  }

  /**
   * Forwards exactly these ports to the sandbox, even if it has no pod now.
   * @param disk the disk of the sandbox
   * @throws {DriverError} `no_capacity` when a port is in use on the cluster; nothing has changed then
   */
  async lead(
    { metadata }: V1PersistentVolumeClaim,
    ports: readonly UdpMapping[],
    signal: AbortSignal = new AbortController().signal,
  ): Promise<void> {
    const sandboxId = readSandboxId({ metadata })!;
    if (ports.length === 0) return this.remove(sandboxId);
    const owner = { name: metadata!.name!, uid: metadata!.uid! };
    try {
      await this.#applyService(buildUdpService(sandboxId, ports, owner, this.#options), signal);
      await this.#cluster.applyPolicy(buildUdpPolicy(sandboxId, ports, owner, this.#options), signal);
    } catch (error) {
      throw signal.aborted ? error : toDriverError(error);
    }
    this.#led.set(sandboxId, [...ports]);
  }

  /**
   * Removes the policy before the Service. If this process is killed in between, the next driver finds the Service and
   * removes it.
   */
  async remove(sandboxId: SandboxId): Promise<void> {
    if (!this.#led.has(sandboxId) && !this.#watch.service(sandboxId)) return;
    await this.#cluster.deletePolicy(udpPolicyName(sandboxId));
    await this.#cluster.deleteService(sandboxId);
    this.#led.delete(sandboxId);
  }

  /** The ports that a sandbox should have, if its Service has others or is gone. Null: the Service is correct. */
  lost(sandboxId: SandboxId): readonly UdpMapping[] | null {
    const ports = this.#led.get(sandboxId);
    if (!ports) return null;
    const service = this.#watch.service(sandboxId);
    const isThere = service !== null && !service.metadata!.deletionTimestamp;
    return isThere && formatPorts(toUdpMappings(service)) === formatPorts(ports) ? null : ports;
  }

  async #applyService(service: V1Service, signal: AbortSignal): Promise<void> {
    for (const endMs = performance.now() + goneWithinMs; ; ) {
      const { metadata } = await this.#cluster.applyService(service, signal);
      if (!metadata?.deletionTimestamp) return;
      if (performance.now() > endMs) throw stillGoing();
      await sleep(askAgainMs, undefined, { signal });
    }
  }

  /** No API returns the cluster's range of node ports, so this makes Services with the first and the last port. */
  async #tryOut(): Promise<void> {
    const { range, service } = this.#options.udp;
    if (service === 'LoadBalancer') {
      return this.#try(range.first, (trial, signal) => this.#cluster.tryService(trial, signal));
    }
    for (const port of [range.first, range.last]) {
      await this.#try(port, async (trial, signal) => {
        await this.#cluster.applyService(trial, signal);
        await this.#cluster.deleteService(trial.metadata!.name!);
      });
    }
  }

  async #try(port: number, act: (trial: V1Service, signal: AbortSignal) => Promise<unknown>): Promise<void> {
    try {
      await act(buildTrialService(port, this.#options), AbortSignal.timeout(trialMs));
    } catch (cause) {
      const { takenPort, nodePorts } = readRefusal(cause);
      const { first, last } = this.range;
      if (nodePorts) {
        throw new Error(`the UDP ports ${first}-${last} are not all node ports of the cluster, ${nodePorts}`, {
          cause,
        });
      }
      // A port that a sandbox has already, or a full quota, does not mean that the cluster refuses such Services.
      if (!takenPort && !isOverQuota(cause)) throw new Error('the cluster takes no Services for UDP ports', { cause });
    }
  }
}

const formatPorts = (ports: readonly UdpMapping[]) =>
  ports
    .map(({ hostPort, servicePort }) => `${hostPort}:${servicePort}`)
    .sort()
    .join();

/** The API server reports these refusals only as text. */
function readRefusal(error: unknown) {
  const text = error instanceof ApiException ? error.message : '';
  return {
    takenPort: /Invalid value: (\d+): provided port is already allocated/.exec(text)?.[1] ?? null,
    nodePorts: /provided port is not in the valid range.*?(\d+-\d+)/.exec(text)?.[1] ?? null,
  };
}

function toDriverError(error: unknown): DriverError {
  if (error instanceof DriverError) return error;
  const { takenPort } = readRefusal(error);
  const refused = (message: string) => new DriverError('no_capacity', message, { cause: error });
  if (takenPort) return refused(`UDP port ${takenPort} of the cluster is in use by something else; try again`);
  if (isOverQuota(error)) return refused('The cluster has no room for more UDP ports now; try again later');
  const message = 'The cluster did not take the UDP ports of the sandbox; try again later';
  return new DriverError('start_failed', message, { cause: error, retryable: true });
}

const stillGoing = () =>
  new DriverError('start_failed', 'The cluster still removes UDP ports that the sandbox had; try again later', {
    retryable: true,
  });
