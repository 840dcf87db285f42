import { randomBytes } from 'node:crypto';
import type { V1NetworkPolicy, V1Pod } from '@kubernetes/client-node';
import { z } from 'zod';
import { Cluster } from './cluster.ts';
import { ClusterWatch } from './cluster-watch.ts';
import { buildProbePod, buildProbePolicy, selectorOfProbes } from './isolation-manifests.ts';
import type { KubernetesDriverOptions } from './options.ts';
import { findAddress, findStartFailure } from './pod-state.ts';

/** How well a cluster enforces a NetworkPolicy that closes a pod in both directions. */
export interface Isolation {
  /** Descriptions of the connections that succeed in spite of the policy. Empty: the cluster enforces the policy. */
  open: string[];
  /** The time from the start of a closed pod to its last successful connection. Null: no connection succeeded. */
  lateMs: number | null;
}

/** The cluster does not isolate sandboxes from each other, or the probe could not show that it does. */
export class IsolationError extends Error {
  override name = 'IsolationError';
}

const listenerPort = 7070;
/** Objects of a probe that are older than this belong to a process that ended before it removed them. */
const abandonedAfterMs = 10 * 60_000;

const reports = z.record(z.string(), z.object({ reached: z.boolean(), lastMs: z.number().nullable() }));
/** The results of a pod that dials, by the name of each target. `in-pod/isolation-dialer.cjs` writes them. */
export type Reached = z.infer<typeof reports>;

/**
 * Refuses a cluster that would not isolate sandboxes from each other.
 * @throws {IsolationError} when the cluster does not enforce NetworkPolicy, or pods reach no other pod at all
 * @throws {DriverError} when the pods of the probe cannot be started
 */
export async function requireIsolation(options: KubernetesDriverOptions): Promise<void> {
  const { open, lateMs } = await probeIsolation(options);
  if (open.length > 0) {
    throw new IsolationError(
      `The cluster does not enforce NetworkPolicy, so sandboxes are not kept apart: ${open.join('; ')}`,
    );
  }
  if (lateMs === null) return;
  options.logger.warn({ lateMs }, 'the cluster enforces a NetworkPolicy only some time after a pod has started');
}

/**
 * Tests with four pods whether the cluster enforces NetworkPolicy: two pods listen, two pods dial, and a policy closes
 * one pod of each kind. The probe takes the start time of two pods one after the other plus about three seconds. It
 * removes its pods. If this process ends before that, the pods end by themselves, and the next probe of the host
 * removes the rest.
 * @throws {IsolationError} when the pod without a policy reaches no other pod, because the result then proves nothing
 * @throws {DriverError} when a pod cannot be started
 */
export async function probeIsolation(options: KubernetesDriverOptions): Promise<Isolation> {
  const probe = new Probe(options);
  try {
    return await probe.run();
  } finally {
    await probe.remove();
  }
}

class Probe {
  readonly #options: KubernetesDriverOptions;
  readonly #cluster: Cluster;
  readonly #watch: ClusterWatch;
  /** The listening pods also answer with this text. */
  readonly #id = randomBytes(5).toString('hex');
  readonly #seconds: number;
  readonly #signal: AbortSignal;
  readonly #pods: string[] = [];
  #policy: V1NetworkPolicy | undefined;

  constructor(options: KubernetesDriverOptions) {
    const { config, namespace, logger, podStartTimeoutSeconds = 120 } = options;
    this.#options = options;
    this.#seconds = podStartTimeoutSeconds;
    this.#signal = AbortSignal.timeout(2 * podStartTimeoutSeconds * 1000);
    this.#cluster = new Cluster(config, namespace);
    const selector = selectorOfProbes({ id: this.#id });
    this.#watch = new ClusterWatch(config, this.#cluster, { namespace, selector, logger });
  }

  async run(): Promise<Isolation> {
    await this.#removeAbandoned();
    await this.#watch.open(() => {});
    this.#policy = await this.#cluster.applyPolicy(buildProbePolicy(this.#id, this.#options), this.#signal);
    const listens = ['isolation-listener.cjs', `${listenerPort}`, this.#id];
    const [open, shut] = await Promise.all([this.#start('open', listens), this.#start('shut', listens, true)]);
    const [openAddress, shutAddress] = await Promise.all([this.#address(open), this.#address(shut)]);
    const listener = { port: listenerPort, word: this.#id };
    const dials = (targets: object) => ['isolation-dialer.cjs', '/dev/termination-log', JSON.stringify(targets)];
    const free = await this.#start(
      'free',
      dials({
        open: { host: openAddress, ...listener, wanted: 'reached' },
        shut: { host: shutAddress, ...listener, wanted: 'closed' },
      }),
    );
    const closed = await this.#start(
      'closed',
      dials({ open: { host: openAddress, ...listener, wanted: 'closed' }, apiServer: { wanted: 'closed' } }),
      true,
    );
    return judgeIsolation({ free: await this.#reached(free), closed: await this.#reached(closed) });
  }

  async remove(): Promise<void> {
    await this.#watch.close();
    await Promise.all(this.#pods.map((name) => this.#cluster.deletePod(name)));
    if (this.#policy) await this.#cluster.deletePolicy(this.#policy.metadata!.name!);
  }

  /** @param isClosed whether the policy closes the pod */
  async #start(role: string, words: string[], isClosed = false): Promise<string> {
    const pod = buildProbePod({ id: this.#id, role, words, isClosed, policy: this.#policy! }, this.#options);
    const name = pod.metadata!.name!;
    this.#pods.push(name);
    await this.#cluster.applyPod(pod, this.#signal);
    return name;
  }

  #address(name: string): Promise<string> {
    return this.#when(name, findAddress);
  }

  #reached(name: string): Promise<Reached> {
    return this.#when(name, (pod) => {
      const ended = pod.status?.containerStatuses?.[0]?.state?.terminated;
      return ended?.exitCode === 0 ? reports.parse(JSON.parse(ended.message ?? '')) : null;
    });
  }

  #when<Answer>(name: string, answer: (pod: V1Pod) => Answer | null): Promise<Answer> {
    const check = () => {
      const pod = this.#watch.pod(name);
      const found = pod && answer(pod);
      const failure = pod && found === null && findStartFailure(pod);
      if (failure) throw failure;
      return found ?? undefined;
    };
    const late = () => new IsolationError(`A pod that tries the cluster's isolation did not run in time: ${name}`);
    return this.#watch.until(name, check, { seconds: this.#seconds, late, signal: this.#signal });
  }

  async #removeAbandoned(): Promise<void> {
    const { hostId } = this.#options;
    const { items } = await this.#cluster.listPolicies(selectorOfProbes({ hostId }));
    const old = items.filter(({ metadata }) => Date.now() - Number(metadata!.creationTimestamp) > abandonedAfterMs);
    // The cluster deletes the pods of a probe together with its policy, which owns them.
    for (const { metadata } of old) await this.#cluster.deletePolicy(metadata!.name!);
  }
}

/**
 * @param reached.free the results of the pod that no policy closes
 * @param reached.closed the results of the pod that the policy closes
 */
export function judgeIsolation({ free, closed }: { free: Reached; closed: Reached }): Isolation {
  if (!free.open?.reached) {
    throw new IsolationError(
      'Nothing shows that the cluster enforces NetworkPolicy: a pod that no policy of ours closes reached no other pod',
    );
  }
  const found = [
    [free.shut, 'a pod that may receive nothing received from another'],
    [closed.open, 'a pod that may send nothing reached another'],
    [closed.apiServer, 'a pod that may send nothing reached the API server'],
  ] as const;
  const open = found.flatMap(([result, words]) => (result?.reached === false ? [] : [words]));
  const times = Object.values(closed).flatMap(({ lastMs }) => (lastMs === null ? [] : [lastMs]));
  return { open, lateMs: times.length > 0 ? Math.max(...times) : null };
}
