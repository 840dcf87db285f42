import { setTimeout as sleep } from 'node:timers/promises';
import type { V1Pod } from '@kubernetes/client-node';
import { DriverError } from '../driver.ts';
import type { DriverLogger } from '../driver-logger.ts';
import { KeyedLock } from '../process/keyed-lock.ts';
import { AgentError } from '../sandbox-agent/agent-client.ts';
import { isGone } from './api-errors.ts';
import type { Cluster } from './cluster.ts';
import type { ClusterWatch } from './cluster-watch.ts';
import { annotations, isFreezeWanted, isFrozen } from './names.ts';
import { findPodEnd } from './pod-state.ts';
import { helperAway } from './start-errors.ts';

const writeAgainMs = 1000;

/** The result of a request to a node helper. `late`: it did not answer in time. `ended`: the pod has ended. */
type Outcome = 'done' | 'late' | 'ended';

interface FreezerOptions {
  cluster: Cluster;
  watch: ClusterWatch;
  /** How long the node helper may take, also to write its mark to a pod that has just started. */
  seconds: { mark: number; freeze: number; thaw: number };
  logger: DriverLogger;
}

/**
 * Asks node helpers to freeze and thaw sandboxes. One annotation of the pod is the request, another one is the answer.
 * The freezer withdraws a request that has failed, even if the API server was not reachable or this process was
 * restarted. Otherwise the helper would later freeze a sandbox that counts as running.
 */
export class PodFreezer {
  readonly #options: FreezerOptions;
  /** Serialises the writes to one pod. */
  readonly #lock = new KeyedLock();
  /** The state that is still to be written to each pod, by its uid. */
  readonly #owed = new Map<string, { pod: V1Pod; frozen: boolean }>();
  /** The nodes on which a helper has marked a pod. */
  readonly #nodesWithHelper = new Set<string>();
  readonly #closing = new AbortController();
  #writing: Promise<void> | null = null;

  constructor(options: FreezerOptions) {
    this.#options = options;
  }

  /** Withdraws freeze requests of an earlier process that no helper has carried out yet. The watch must be open. */
  open(): void {
    for (const pod of this.#options.watch.pods()) {
      if (isFreezeWanted(pod) && !isFrozen(pod) && !findPodEnd(pod)) this.#owe(pod, false);
    }
  }

  /** Stops the retries. The next process withdraws the requests that are left. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#writing;
  }

  /** Call it with each pod after each change. */
  notice(pod: V1Pod): void {
    if (isMarked(pod) && pod.spec?.nodeName) this.#nodesWithHelper.add(pod.spec.nodeName);
  }

  /**
   * Freezes the sandbox of a pod.
   * @returns false when the node has no helper that answers, or when the pod ends; the request is then withdrawn
   * @throws the signal's reason when the signal aborts; the sandbox keeps running
   */
  async freeze(pod: V1Pod, signal: AbortSignal): Promise<boolean> {
    if (!isMarked(pod) && !(await this.#isMarkedSoon(pod, signal))) return false;
    try {
      const outcome = await this.#ask(pod, true, { signal });
      if (outcome === 'late') await this.#write(pod, false);
      return outcome === 'done';
    } catch (error) {
      await this.#write(pod, false);
      throw error;
    }
  }

  /**
   * Thaws the sandbox of a pod, and freezes it again when `verify` fails.
   * @param more annotations that the same request writes
   * @throws {DriverError} `agent_not_answering` after an `AgentError`; `host_unavailable` when the helper does not
   *   answer; `runtime_exited` when the pod ends
   */
  async thaw(
    pod: V1Pod,
    more: Record<string, string>,
    signal: AbortSignal,
    verify: () => Promise<void>,
  ): Promise<void> {
    try {
      const outcome = await this.#ask(pod, false, { more, signal });
      if (outcome === 'ended') throw new DriverError('runtime_exited', "The sandbox's processes have ended");
      if (outcome === 'late') throw helperAway();
      await verify();
    } catch (error) {
      await this.#ask(pod, true, {}).catch(() => this.#owe(pod, true));
      if (!(error instanceof AgentError)) throw error;
      throw new DriverError('agent_not_answering', "The sandbox's agent does not answer", { cause: error });
    }
  }

  /** Waits for the mark on a pod that has just started, if its node has a helper. */
  async #isMarkedSoon(pod: V1Pod, signal: AbortSignal): Promise<boolean> {
    const nodeName = pod.spec?.nodeName ?? '';
    if (!this.#nodesWithHelper.has(nodeName)) return false;
    const outcome = await this.#whenSeen(pod, isMarked, { seconds: this.#options.seconds.mark, signal });
    // The helper may have been removed from the node, so the next pause does not wait for it.
    if (outcome === 'late') this.#nodesWithHelper.delete(nodeName);
    return outcome === 'done';
  }

  /** Writes the requested state to the pod, and waits until the helper reports it. */
  async #ask(
    pod: V1Pod,
    frozen: boolean,
    { more, signal }: { more?: Record<string, string>; signal?: AbortSignal },
  ): Promise<Outcome> {
    const { seconds } = this.#options;
    this.#owed.delete(pod.metadata!.uid!);
    if (!(await this.#annotate(pod, frozen, more))) return 'ended';
    const isDone = (seen: V1Pod) =>
      isFreezeWanted(seen) === frozen && seen.metadata?.annotations?.[annotations.frozenNow] === `${frozen}`;
    const within = frozen ? seconds.freeze : seconds.thaw;
    return this.#whenSeen(pod, isDone, { seconds: within, ...(signal && { signal }) });
  }

  /** Waits until the watch sees that the helper has done something with the pod. */
  #whenSeen(
    { metadata }: V1Pod,
    isDone: (seen: V1Pod) => boolean,
    { seconds, signal }: { seconds: number; signal?: AbortSignal },
  ): Promise<Outcome> {
    const { watch } = this.#options;
    const { name, uid } = metadata!;
    const late = new Error('the helper of the node has not answered in time');
    const check = (): Outcome | undefined => {
      const seen = watch.pod(name!);
      if (!seen || seen.metadata?.uid !== uid || findPodEnd(seen)) return 'ended';
      return isDone(seen) ? 'done' : undefined;
    };
    return watch
      .until(name!, check, { seconds, late: () => late, ...(signal && { signal }) })
      .catch((error): Outcome => {
        if (error === late) return 'late';
        throw error;
      });
  }

  /** Withdraws a failed request: writes the given state now, or as soon as the API server accepts it. */
  async #write(pod: V1Pod, frozen: boolean): Promise<void> {
    try {
      await this.#annotate(pod, frozen);
    } catch (error) {
      const { logger } = this.#options;
      logger.warn(
        { err: error, pod: pod.metadata!.name },
        'a freeze request could not be withdrawn yet; it is tried again',
      );
      this.#owe(pod, frozen);
    }
  }

  #owe(pod: V1Pod, frozen: boolean): void {
    this.#owed.set(pod.metadata!.uid!, { pod, frozen });
    this.#writing ??= this.#writeOwed();
  }

  async #writeOwed(): Promise<void> {
    const { signal } = this.#closing;
    while (this.#owed.size > 0 && !signal.aborted) {
      for (const [uid, owed] of [...this.#owed]) {
        await this.#annotateIfOwed(uid, owed).then(
          () => this.#owed.get(uid) === owed && this.#owed.delete(uid),
          () => sleep(writeAgainMs, undefined, { signal }).catch(() => {}),
        );
      }
    }
    this.#writing = null;
  }

  #annotateIfOwed(uid: string, owed: { pod: V1Pod; frozen: boolean }): Promise<unknown> {
    // A newer request for the same pod may have removed this entry meanwhile.
    return this.#lock.run(uid, async () => this.#owed.get(uid) === owed && this.#send(owed.pod, owed.frozen));
  }

  /** @returns false when the pod is gone */
  #annotate(pod: V1Pod, frozen: boolean, more: Record<string, string> = {}): Promise<boolean> {
    return this.#lock.run(pod.metadata!.uid!, () => this.#send(pod, frozen, more));
  }

  async #send(pod: V1Pod, frozen: boolean, more: Record<string, string> = {}): Promise<boolean> {
    const { name, uid } = pod.metadata!;
    try {
      await this.#options.cluster.annotatePod(name!, uid!, { ...more, [annotations.frozen]: `${frozen}` });
      return true;
    } catch (error) {
      if (isGone(error)) return false;
      throw error;
    }
  }
}

/** A node helper writes this annotation to each pod of its node, soon after the pod's start. */
const isMarked = ({ metadata }: V1Pod) => metadata?.annotations?.[annotations.frozenNow] !== undefined;
