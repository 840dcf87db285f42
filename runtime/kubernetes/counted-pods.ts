import type { CountedPod } from './cluster-capacity.ts';
import type { ClusterWatch } from './cluster-watch.ts';
import { isFreeWarm, isFrozen, readSandboxId, sandboxContainer } from './names.ts';
import { isReady } from './pod-place.ts';
import { findPodEnd } from './pod-state.ts';
import { parseBytes } from './quantities.ts';
import { parseUseBefore } from './use-before.ts';

/** The pods of a host that use capacity of its cluster. */
export function* countedPods(watch: ClusterWatch): Generator<CountedPod> {
  for (const pod of watch.pods()) {
    if (findPodEnd(pod)) continue;
    const sandboxId = readSandboxId(pod);
    const container = pod.spec!.containers.find(({ name }) => name === sandboxContainer);
    const isFree = isFreeWarm(pod);
    const disk = isFree ? watch.disk(pod.metadata!.name!) : sandboxId === null ? null : watch.findDisk(sandboxId);
    yield {
      uid: pod.metadata!.uid!,
      sandboxId,
      node: pod.spec!.nodeName ?? null,
      requestedBytes: parseBytes(container?.resources?.requests?.memory ?? '0'),
      diskBytes: parseBytes(disk?.spec?.resources?.requests?.storage ?? '0'),
      limitBytes: parseBytes(container?.resources?.limits?.memory ?? '0'),
      isRunning: isReady(pod) && !isFrozen(pod),
      isFree,
      useBefore: parseUseBefore(pod),
    };
  }
}
