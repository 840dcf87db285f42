import type { V1Pod } from '@kubernetes/client-node';
import { DriverError } from '../driver.ts';
import { AgentError } from '../sandbox-agent/agent-client.ts';
import { isGone } from './api-errors.ts';
import type { Cluster } from './cluster.ts';
import type { ClusterWatch } from './cluster-watch.ts';
import { annotations, isFreezeWanted } from './names.ts';
import { endOf } from './pod-state.ts';

/** What the pod of a sandbox may come to while its helper is asked. */
type Outcome = 'done' | 'late' | 'ended';

/** Has sandboxes frozen and thawed by the helper of their node: an annotation asks, another one answers. */
export class PodFreezer {
  readonly #cluster: Cluster;
  readonly #watch: ClusterWatch;
  readonly #timeoutSeconds: number;

  constructor(cluster: Cluster, watch: ClusterWatch, timeoutSeconds: number) {
    this.#cluster = cluster;
    this.#watch = watch;
    this.#timeoutSeconds = timeoutSeconds;
  }

  /**
   * Freezes the sandbox of a pod.
   * @returns false: its node has no helper that answers, or the pod ends; the request is then taken back
   * @throws the signal's reason when it aborts; the sandbox runs on
   */
  async freeze(pod: V1Pod, signal: AbortSignal): Promise<boolean> {
    // A helper marks each pod of its node.
    if (pod.metadata?.annotations?.[annotations.frozenNow] === undefined) return false;
    try {
      const outcome = await this.#ask(pod, { [annotations.frozen]: 'true' }, signal);
      if (outcome === 'late') await this.#annotate(pod, { [annotations.frozen]: 'false' });
      return outcome === 'done';
    } catch (error) {
      await this.#annotate(pod, { [annotations.frozen]: 'false' });
      throw error;
    }
  }

  /**
   * Thaws the sandbox of a pod, and freezes it again when `verify` fails.
   * @param more annotations that are written with the same request
   * @throws {DriverError} `agent_not_answering` after an `AgentError`; `start_failed` when the helper does not answer;
   *   `runtime_exited` when the pod ends
   */
  async thaw(
    pod: V1Pod,
    more: Record<string, string>,
    signal: AbortSignal,
    verify: () => Promise<void>,
  ): Promise<void> {
    try {
      const outcome = await this.#ask(pod, { ...more, [annotations.frozen]: 'false' }, signal);
      if (outcome === 'ended') throw new DriverError('runtime_exited', "The sandbox's processes have ended");
      if (outcome === 'late') {
        throw new DriverError('start_failed', 'The sandbox could not be thawed in time', { retryable: true });
      }
      await verify();
    } catch (error) {
      await this.#ask(pod, { [annotations.frozen]: 'true' }, new AbortController().signal);
      if (!(error instanceof AgentError)) throw error;
      throw new DriverError('agent_not_answering', "The sandbox's agent does not answer", { cause: error });
    }
  }

  /** Writes annotations, and waits until the helper has done what they ask for. */
  async #ask(pod: V1Pod, wanted: Record<string, string>, signal: AbortSignal): Promise<Outcome> {
    const { name, uid } = pod.metadata!;
    if (!(await this.#annotate(pod, wanted))) return 'ended';
    const late = new Error('the helper of the node has not answered in time');
    const look = (): Outcome | undefined => {
      const seen = this.#watch.pod(name!);
      if (!seen || seen.metadata?.uid !== uid || endOf(seen)) return 'ended';
      const isAsked = isFreezeWanted(seen) === (wanted[annotations.frozen] === 'true');
      return isAsked && seen.metadata?.annotations?.[annotations.frozenNow] === wanted[annotations.frozen]
        ? 'done'
        : undefined;
    };
    const of = { seconds: this.#timeoutSeconds, late: () => late, signal };
    return this.#watch.until(name!, look, of).catch((error): Outcome => {
      if (error === late) return 'late';
      throw error;
    });
  }

  /** @returns false: the pod is gone */
  async #annotate(pod: V1Pod, wanted: Record<string, string>): Promise<boolean> {
    const { name, uid } = pod.metadata!;
    try {
      await this.#cluster.annotatePod(name!, uid!, wanted);
      return true;
    } catch (error) {
      if (isGone(error)) return false;
      throw error;
    }
  }
}
