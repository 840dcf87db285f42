import type { CountedPod } from './cluster-capacity.ts';
import type { ClusterWatch } from './cluster-watch.ts';
import { isFreeWarm, isFrozen, sandboxContainer, sandboxOf } from './names.ts';
import { isReady } from './pod-place.ts';
import { endOf } from './pod-state.ts';
import { bytesOf } from './quantities.ts';
import { useBeforeOf } from './use-before.ts';

/** The pods of a host that use capacity of its cluster. */
export function* countedPods(watch: ClusterWatch): Generator<CountedPod> {
  for (const pod of watch.pods()) {
    if (endOf(pod)) continue;
    const sandboxId = sandboxOf(pod);
    const container = pod.spec!.containers.find(({ name }) => name === sandboxContainer);
    const isFree = isFreeWarm(pod);
    const disk = isFree ? watch.disk(pod.metadata!.name!) : sandboxId === null ? null : watch.diskOf(sandboxId);
    yield {
      uid: pod.metadata!.uid!,
      sandboxId,
      node: pod.spec!.nodeName ?? null,
      requestedBytes: bytesOf(container?.resources?.requests?.memory ?? '0'),
      diskBytes: bytesOf(disk?.spec?.resources?.requests?.storage ?? '0'),
      limitBytes: bytesOf(container?.resources?.limits?.memory ?? '0'),
      isRunning: isReady(pod) && !isFrozen(pod),
      isFree,
      useBefore: useBeforeOf(pod),
    };
  }
}
