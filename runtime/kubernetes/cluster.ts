import { Readable, Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  ApiException,
  CoordinationV1Api,
  CoreV1Api,
  Exec,
  type KubeConfig,
  NetworkingV1Api,
  PatchStrategy,
  setHeaderOptions,
  V1MicroTime,
  type V1NetworkPolicy,
  type V1Node,
  type V1ObjectMeta,
  type V1PersistentVolumeClaim,
  type V1Pod,
  type V1ResourceQuota,
  type V1Secret,
  type V1Service,
  type V1Status,
} from '@kubernetes/client-node';
import { isGone } from './api-errors.ts';
import type { LeaseReading } from './lease-watch.ts';
import { fieldManager, labels, sandboxSelector } from './names.ts';
import { within } from './within.ts';

const applyOptions = setHeaderOptions('Content-Type', PatchStrategy.ServerSideApply);
const mergeOptions = setHeaderOptions('Content-Type', PatchStrategy.MergePatch);
const execTimeoutMs = 20_000;
/** Pauses before a request is sent again to an API server that restarts or is busy. */
const triesAgainAfterMs = [100, 300, 1000, 3000];

/** The requests of the driver to a cluster. It writes to one namespace only. */
export class Cluster {
  readonly #core: CoreV1Api;
  readonly #coordination: CoordinationV1Api;
  readonly #networking: NetworkingV1Api;
  readonly #exec: Exec;
  readonly #namespace: string;

  constructor(config: KubeConfig, namespace: string) {
    this.#coordination = config.makeApiClient(CoordinationV1Api);
    this.#core = config.makeApiClient(CoreV1Api);
    this.#networking = config.makeApiClient(NetworkingV1Api);
    this.#exec = new Exec(config);
    this.#namespace = namespace;
  }

  applyPod(pod: V1Pod, signal: AbortSignal): Promise<V1Pod> {
    return asked(() => this.#core.patchNamespacedPod(this.#apply(pod), applyOptions), signal);
  }

  applyDisk(disk: V1PersistentVolumeClaim, signal: AbortSignal): Promise<V1PersistentVolumeClaim> {
    return asked(() => this.#core.patchNamespacedPersistentVolumeClaim(this.#apply(disk), applyOptions), signal);
  }

  applyPolicy(policy: V1NetworkPolicy, signal: AbortSignal): Promise<V1NetworkPolicy> {
    return asked(() => this.#networking.patchNamespacedNetworkPolicy(this.#apply(policy), applyOptions), signal);
  }

  applyService(service: V1Service, signal: AbortSignal): Promise<V1Service> {
    return asked(() => this.#core.patchNamespacedService(this.#apply(service), applyOptions), signal);
  }

  /** Asks the cluster whether it would accept the Service, without making it. */
  tryService(service: V1Service, signal: AbortSignal): Promise<V1Service> {
    const of = { ...this.#apply(service), dryRun: 'All' };
    return asked(() => this.#core.patchNamespacedService(of, applyOptions), signal);
  }

  /** @param uid the pod's uid; a later pod of the same name is not changed */
  async annotatePod(name: string, uid: string, annotations: Record<string, string>): Promise<void> {
    const body = { metadata: { uid, annotations } };
    await asked(() => this.#core.patchNamespacedPod({ name, namespace: this.#namespace, body }, mergeOptions));
  }

  /** Deletes a pod without waiting for its end. @returns its uid; null when there is no such pod */
  async deletePod(name: string): Promise<string | null> {
    const answer = await unlessGone(() => this.#core.deleteNamespacedPod({ name, namespace: this.#namespace }));
    return answer?.metadata?.uid ?? null;
  }

  /** Deletes a pod without waiting for its end. A pod that has changed since it was read is not deleted. */
  async deleteUnchangedPod({ metadata }: V1Pod): Promise<void> {
    const of = { name: metadata!.name!, namespace: this.#namespace, body: unchanged(metadata!) };
    await asked(() => this.#core.deleteNamespacedPod(of)).catch(unlessChanged);
  }

  /** Deletes a disk like `deleteUnchangedPod`. */
  async deleteUnchangedDisk({ metadata }: V1PersistentVolumeClaim): Promise<void> {
    const of = { name: metadata!.name!, namespace: this.#namespace, body: unchanged(metadata!) };
    await asked(() => this.#core.deleteNamespacedPersistentVolumeClaim(of)).catch(unlessChanged);
  }

  /** Whether the pod exists according to the API server, which knows it earlier than the watch. */
  async isThere(name: string, uid: string): Promise<boolean> {
    const pod = await unlessGone(() => this.#core.readNamespacedPod({ name, namespace: this.#namespace }));
    return pod?.metadata?.uid === uid;
  }

  async annotateDisk(name: string, uid: string, annotations: Record<string, string>): Promise<void> {
    const of = { name, namespace: this.#namespace, body: { metadata: { uid, annotations } } };
    await asked(() => this.#core.patchNamespacedPersistentVolumeClaim(of, mergeOptions));
  }

  /**
   * @param secret has a unique name, so a Secret that exists already is the one of an earlier try whose answer was lost
   */
  async createSecret(secret: V1Secret, signal: AbortSignal): Promise<void> {
    const create = () => this.#core.createNamespacedSecret({ namespace: this.#namespace, body: secret });
    await asked(create, signal).catch((error) => {
      if (!(error instanceof ApiException && error.code === 409)) throw error;
    });
  }

  async deleteSecret(name: string): Promise<void> {
    await unlessGone(() => this.#core.deleteNamespacedSecret({ name, namespace: this.#namespace }));
  }

  async deleteDisk(name: string): Promise<void> {
    await unlessGone(() => this.#core.deleteNamespacedPersistentVolumeClaim({ name, namespace: this.#namespace }));
  }

  async deletePolicy(name: string): Promise<void> {
    await unlessGone(() => this.#networking.deleteNamespacedNetworkPolicy({ name, namespace: this.#namespace }));
  }

  async deleteService(name: string): Promise<void> {
    await unlessGone(() => this.#core.deleteNamespacedService({ name, namespace: this.#namespace }));
  }

  listPods(selector: string) {
    return this.#core.listNamespacedPod({ namespace: this.#namespace, labelSelector: selector });
  }

  listDisks(selector: string) {
    return this.#core.listNamespacedPersistentVolumeClaim({ namespace: this.#namespace, labelSelector: selector });
  }

  listServices(selector: string) {
    return this.#core.listNamespacedService({ namespace: this.#namespace, labelSelector: selector });
  }

  /** Deletes all pods of a host's sandboxes and its warm pods, without waiting for their end. */
  async endSandboxPods(hostId: string): Promise<void> {
    const of = { namespace: this.#namespace, labelSelector: sandboxSelector(hostId) };
    await asked(() => this.#core.deleteCollectionNamespacedPod(of));
  }

  /**
   * Writes to the cluster for how long from now on the sandboxes of a host may run.
   * @throws {Error} when the cluster does not answer within the time
   */
  async renewLease(hostId: string, seconds: number, timeoutMs: number): Promise<void> {
    const body = {
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: { name: hostId, labels: { [labels.managedBy]: fieldManager, [labels.host]: hostId } },
      spec: { holderIdentity: hostId, leaseDurationSeconds: seconds, renewTime: new V1MicroTime() },
    };
    // The signal ends the retries, because a later request would promise too long a time.
    const signal = AbortSignal.timeout(timeoutMs);
    const renew = () => this.#coordination.patchNamespacedLease(this.#apply(body), applyOptions);
    await within(asked(renew, signal), timeoutMs);
  }

  /** @returns null when there is no lease. @throws {Error} when the cluster does not answer within the time */
  async readLease(hostId: string, timeoutMs: number): Promise<LeaseReading | null> {
    const read = unlessGone(() => this.#coordination.readNamespacedLease({ name: hostId, namespace: this.#namespace }));
    const lease = await within(read, timeoutMs);
    const { renewTime, leaseDurationSeconds: seconds } = lease?.spec ?? {};
    return renewTime && seconds ? { renewal: `${renewTime} ${seconds}`, seconds } : null;
  }

  /** @throws {Error} also when the cluster does not answer within the time */
  async listNodes(timeoutMs: number): Promise<V1Node[]> {
    return (
      await within(
        asked(() => this.#core.listNode()),
        timeoutMs,
      )
    ).items;
  }

  /** @throws {Error} also when the cluster does not answer within the time */
  async listQuotas(timeoutMs: number): Promise<V1ResourceQuota[]> {
    const of = { namespace: this.#namespace };
    return (
      await within(
        asked(() => this.#core.listNamespacedResourceQuota(of)),
        timeoutMs,
      )
    ).items;
  }

  listPolicies(selector: string) {
    return this.#networking.listNamespacedNetworkPolicy({ namespace: this.#namespace, labelSelector: selector });
  }

  /**
   * Runs a command in a container, with a text on standard input.
   * @throws {Error} when the command cannot be run, fails, or takes longer than 20 s
   */
  async run(pod: string, container: string, words: string[], input: Buffer, signal: AbortSignal): Promise<void> {
    const ended = Promise.withResolvers<V1Status>();
    const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() });
    const socket = await this.#exec.exec(
      this.#namespace,
      pod,
      container,
      words,
      nowhere,
      null,
      // The input stays open: API servers before 1.30 close the whole connection when the input ends.
      Readable.from(
        (async function* () {
          yield input;
          await ended.promise.catch(() => {});
        })(),
      ),
      false,
      ended.resolve,
    );
    const abort = AbortSignal.any([signal, AbortSignal.timeout(execTimeoutMs)]);
    const fail = () => ended.reject(abort.reason);
    socket.addEventListener('close', () => ended.reject(new Error('the connection to the container was closed')));
    socket.addEventListener('error', () => ended.reject(new Error('the connection to the container failed')));
    abort.addEventListener('abort', fail, { once: true });
    if (abort.aborted) fail();
    try {
      const { status, message } = await ended.promise;
      if (status !== 'Success') throw new Error(`${words[0]} in the container: ${message ?? status}`);
    } finally {
      abort.removeEventListener('abort', fail);
      socket.close();
    }
  }

  #apply<Body extends { metadata?: { name?: string } }>(body: Body) {
    // `force` lets the driver's fields win over fields that another client has written to its objects.
    return { name: body.metadata!.name!, namespace: this.#namespace, body, fieldManager, force: true };
  }
}

const unchanged = ({ uid, resourceVersion }: V1ObjectMeta) => ({ preconditions: { uid, resourceVersion } });

/** Ignores the error of a conditional delete when the object has changed or is gone. */
function unlessChanged(error: unknown): void {
  if (!isGone(error)) throw error;
}

/** Repeats a request while the API server is away or busy. Every request here may safely be sent twice. */
export async function asked<Answer>(ask: () => Promise<Answer>, signal?: AbortSignal): Promise<Answer> {
  for (const pauseMs of triesAgainAfterMs) {
    signal?.throwIfAborted();
    try {
      return await ask();
    } catch (error) {
      if (!mayPass(error)) throw error;
      await sleep(pauseMs, undefined, { signal });
    }
  }
  return ask();
}

async function unlessGone<Answer>(ask: () => Promise<Answer>): Promise<Answer | null> {
  try {
    return await asked(ask);
  } catch (error) {
    if (error instanceof ApiException && error.code === 404) return null;
    throw error;
  }
}

/** Whether the same request may succeed later: no answer at all, too many requests, or an error of the server. */
function mayPass(error: unknown): boolean {
  return !(error instanceof ApiException) || error.code === 429 || error.code >= 500;
}
