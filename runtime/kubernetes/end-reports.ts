import type { V1Pod } from '@kubernetes/client-node';
import type { SandboxId } from '../../domain/ids.ts';
import type { SandboxExit } from '../driver.ts';
import type { DriverLogger } from '../driver-logger.ts';
import { isGone } from './api-errors.ts';
import type { Cluster } from './cluster.ts';
import type { ClusterWatch } from './cluster-watch.ts';
import { annotations, readRun, readSandboxId } from './names.ts';
import { isReady } from './pod-place.ts';
import { findPodEnd, type PodEnd } from './pod-state.ts';

/** How the processes of a sandbox ended, with the cluster's reason. */
export interface SandboxEnd extends PodEnd {
  sandboxId: SandboxId;
  /** The number of the start or resume that the processes belong to. */
  run: number | null;
}

/** Reports each end of a ready sandbox once, including ends from before this process started. */
export class EndReports {
  readonly #cluster: Cluster;
  readonly #watch: ClusterWatch;
  readonly #logger: DriverLogger;
  /** The uids of pods that the driver ends or whose end is already reported. Their end is not reported again. */
  readonly #ended = new Set<string>();
  #onEnd: ((end: SandboxEnd) => unknown) | undefined;
  #onExit: ((exit: SandboxExit) => unknown) | undefined;

  constructor(cluster: Cluster, watch: ClusterWatch, logger: DriverLogger) {
    this.#cluster = cluster;
    this.#watch = watch;
    this.#logger = logger;
  }

  /** As `SandboxDriver.onExit`. The exit code is null if the cluster ended the sandbox. */
  onExit(listener: (exit: SandboxExit) => unknown): void {
    this.#onExit = listener;
    this.#reportAll();
  }

  onEnd(listener: (end: SandboxEnd) => unknown): void {
    this.#onEnd = listener;
    this.#reportAll();
  }

  /** Marks a pod that the driver is about to end, so that its end is not reported. */
  expect(pod: V1Pod): void {
    this.#ended.add(pod.metadata!.uid!);
  }

  isExpected(pod: V1Pod): boolean {
    return this.#ended.has(pod.metadata!.uid!);
  }

  /** Call this with each pod after each change. @param isGone whether the pod was removed from the cluster */
  notice(pod: V1Pod, isGone: boolean): void {
    const sandboxId = readSandboxId(pod);
    const { uid, name } = pod.metadata!;
    const end =
      findPodEnd(pod) ?? (isGone ? ({ reason: 'deleted', exitCode: null, output: '', message: '' } as const) : null);
    const hasListener = this.#onEnd !== undefined || this.#onExit !== undefined;
    if (sandboxId && end && isReady(pod) && !this.#ended.has(uid!) && hasListener) {
      this.#ended.add(uid!);
      this.#report(pod, { ...end, sandboxId, run: readRun(pod) }, isGone).catch((error) => {
        this.#ended.delete(uid!);
        this.#logger.error({ err: error, sandboxId }, 'the end of a sandbox could not be reported');
      });
    }
    if (isGone) this.#ended.delete(uid!);
    if (isGone && sandboxId === null) this.#logger.debug({ pod: name }, 'a pod without a sandbox is gone');
  }

  #reportAll(): void {
    for (const pod of this.#watch.pods()) this.notice(pod, false);
  }

  async #report(pod: V1Pod, end: SandboxEnd, isGone: boolean): Promise<void> {
    const { sandboxId, reason, message } = end;
    if (!isByItself(end)) this.#logger.warn({ sandboxId, reason, message }, 'the cluster has ended a sandbox');
    await this.#onEnd?.(end);
    await this.#onExit?.(toSandboxExit(pod, end));
    const { name, uid } = pod.metadata!;
    if (!isGone) await this.#cluster.annotatePod(name!, uid!, { [annotations.phase]: 'ended' }).catch(unlessGone);
  }
}

/** Whether the processes ended by themselves and were not ended by the cluster. */
export const isByItself = ({ reason }: PodEnd) => reason === 'exited' || reason === 'out_of_memory';

/** @param pod the pod of a sandbox */
export const toSandboxExit = (pod: V1Pod, end: PodEnd): SandboxExit => ({
  sandboxId: readSandboxId(pod)!,
  run: readRun(pod),
  // The exit code of processes that the cluster ended says nothing about them.
  exitCode: isByItself(end) ? end.exitCode : null,
  outOfMemory: end.reason === 'out_of_memory',
  commandOutput: end.output,
});

/** Ignores the error when the pod is gone meanwhile, because it then needs no annotation. */
function unlessGone(error: unknown): void {
  if (!isGone(error)) throw error;
}
