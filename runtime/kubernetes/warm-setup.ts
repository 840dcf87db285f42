import type { HostFence } from '../host-driver.ts';
import type { Cluster } from './cluster.ts';
import type { ClusterRoom } from './cluster-room.ts';
import type { ClusterWatch } from './cluster-watch.ts';
import type { ImageLooks } from './image-looks.ts';
import { requestShareOf } from './manifests.ts';
import type { KubernetesDriverOptions, WarmOptions } from './options.ts';
import type { PodEnds } from './pod-ends.ts';
import type { PodStarts } from './pod-starts.ts';
import { TakenRoom } from './taken-room.ts';
import { WarmClaims } from './warm-claims.ts';
import { WarmPodMaker } from './warm-pod-maker.ts';
import { WarmPods } from './warm-pods.ts';
import { WarmStarter } from './warm-starter.ts';

/** Of the nodes' memory, what warm pods may request where no setting says so. */
const memoryShare = 1 / 16;

interface SetupParts {
  cluster: Cluster;
  watch: ClusterWatch;
  options: KubernetesDriverOptions;
  looks: ImageLooks;
  starts: PodStarts;
  ends: PodEnds;
  load: ClusterRoom;
  fence: HostFence;
  seconds: { podStart: number; podEnd: number; agentStart: number };
  isBusy: () => boolean;
}

/** What a driver with warm pods has beside one without. */
export interface WarmParts {
  pods: WarmPods;
  starter: WarmStarter;
  room: TakenRoom;
}

export function setUpWarmPods({ base, size, memoryMb }: WarmOptions, parts: SetupParts): WarmParts {
  const { options, load, fence, watch, isBusy } = parts;
  const pods = new WarmPods({
    maker: new WarmPodMaker(parts),
    imageOf: options.imageOf,
    base,
    size,
    budgetMb: () => memoryMb ?? load.memory().totalMb * memoryShare,
    requestedMb: (shape) => shape.memoryMb * requestShareOf(options).memory,
    // The room of the present ones counts as free there, and the next sandbox shall find some.
    hasRoom: (shape, present) => {
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
    room: new TakenRoom(watch, pods, options.logger),
  };
}
