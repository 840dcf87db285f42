import type { HostFence } from '../host-driver.ts';
import type { ClusterCapacity } from './cluster-capacity.ts';
import { toRequestShare } from './manifests.ts';
import type { WarmOptions } from './options.ts';
import { WarmClaims } from './warm-claims.ts';
import { WarmPodEviction } from './warm-pod-eviction.ts';
import { type MakerParts, WarmPodMaker } from './warm-pod-maker.ts';
import { WarmPods } from './warm-pods.ts';
import { WarmStarter } from './warm-starter.ts';

/** The share of the nodes' memory that warm pods may request by default. */
const memoryShare = 1 / 16;

interface SetupParts extends MakerParts {
  load: ClusterCapacity;
  fence: HostFence;
  isBusy: () => boolean;
}

/** The additional parts of a driver that has warm pods. */
export interface WarmParts {
  pods: WarmPods;
  starter: WarmStarter;
  eviction: WarmPodEviction;
}

export function setUpWarmPods({ base, size, memoryMb }: WarmOptions, parts: SetupParts): WarmParts {
  const { options, load, fence, watch, isBusy } = parts;
  const pods = new WarmPods({
    maker: new WarmPodMaker(parts),
    resolveImage: options.resolveImage,
    base,
    size,
    budgetMb: () => memoryMb ?? load.memory().totalMb * memoryShare,
    requestedMb: (shape) => shape.memoryMb * toRequestShare(options).memory,
    // `availableMb` counts the memory of the present warm pods as free. One more shape's memory stays free for a
    // sandbox.
    hasCapacity: (shape, present) => {
      const wantedMb = present.reduce((sum, each) => sum + each.memoryMb, 2 * shape.memoryMb);
      return !fence.isClosed && load.memory().availableMb >= wantedMb;
    },
    isBusy,
    logger: options.logger,
  });
  const claims = new WarmClaims(options.config, options.namespace);
  return {
    pods,
    starter: new WarmStarter({ ...parts, pods, claims }),
    eviction: new WarmPodEviction(watch, pods, options.logger),
  };
}
