import { z } from 'zod';

/** The resource use of a node, as its kubelet measures it. */
export interface NodeFigures {
  /** The processor use of all processes of the node. */
  coresUsed: number;
  /** The memory that new processes could get. Null: not measured. */
  availableBytes: number | null;
}

/** The resource use of a pod since the first process of its sandbox container started. */
export interface PodFigures {
  /** The times of the measurement and of the start, as Unix milliseconds of the node's clock. */
  atMs: number;
  sinceMs: number;
  cpuSeconds: number;
  memoryBytes: number;
  receivedBytes: number;
  sentBytes: number;
  /**
   * The use of the sandbox's disk. Null: the kubelet does not measure this kind of volume, or has not measured it yet.
   */
  disk: { usedBytes: number; capacityBytes: number } | null;
}

export interface NodeSummary {
  node: NodeFigures;
  /** The figures by the pod's uid. */
  pods: Map<string, PodFigures>;
}

const count = z.number().nonnegative().catch(0);
const time = z.iso.datetime({ offset: true }).transform((text) => Date.parse(text));
const volume = z.object({ name: z.string(), usedBytes: count, capacityBytes: count });
const pod = z.object({
  podRef: z.object({ namespace: z.string(), uid: z.string() }),
  containers: z
    .array(
      z.object({
        name: z.string(),
        startTime: time,
        cpu: z.object({ time, usageCoreNanoSeconds: count }).optional(),
        memory: z.object({ workingSetBytes: count }).optional(),
      }),
    )
    .nullish(),
  network: z.object({ rxBytes: count, txBytes: count }).optional(),
  volume: z.array(volume.or(z.unknown())).nullish(),
});
const summary = z.object({
  node: z.object({
    cpu: z.object({ usageNanoCores: count }).optional(),
    memory: z.object({ availableBytes: z.number().optional() }).optional(),
  }),
  pods: z.array(z.unknown()).nullish(),
});

/**
 * Reads `/stats/summary` of a kubelet. The figures come from the kernel, so a sandbox cannot forge them. Pods with an
 * unexpected format are left out.
 * @param of.containerName the name of the sandbox's container in each pod
 * @param of.volumeName the name of the disk's volume in each pod
 * @throws {Error} when the text is not a summary
 */
export function readNodeSummary(
  text: string,
  of: { namespace: string; containerName: string; volumeName: string },
): NodeSummary {
  const { node, pods } = summary.parse(JSON.parse(text));
  const figures: NodeSummary = {
    node: {
      coresUsed: (node.cpu?.usageNanoCores ?? 0) / 1e9,
      availableBytes: node.memory?.availableBytes ?? null,
    },
    pods: new Map(),
  };
  for (const each of pods ?? []) {
    const parsed = pod.safeParse(each);
    if (!parsed.success || parsed.data.podRef.namespace !== of.namespace) continue;
    const { podRef, containers, network, volume: volumes } = parsed.data;
    const container = containers?.find(({ name }) => name === of.containerName);
    if (!container?.cpu) continue;
    const disk = volumes?.map((found) => volume.safeParse(found).data).find((found) => found?.name === of.volumeName);
    figures.pods.set(podRef.uid, {
      atMs: container.cpu.time,
      sinceMs: container.startTime,
      cpuSeconds: container.cpu.usageCoreNanoSeconds / 1e9,
      memoryBytes: container.memory?.workingSetBytes ?? 0,
      receivedBytes: network?.rxBytes ?? 0,
      sentBytes: network?.txBytes ?? 0,
      disk: disk && disk.capacityBytes > 0 ? disk : null,
    });
  }
  return figures;
}
