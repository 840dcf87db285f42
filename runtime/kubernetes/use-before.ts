import type { V1Pod } from '@kubernetes/client-node';
import { z } from 'zod';
import { annotations } from './names.ts';
import type { PodFigures } from './node-summary.ts';

const schema = z.object({
  /** Unix milliseconds by the node's clock, of the measurement. */
  atMs: z.number(),
  cpuSeconds: z.number(),
  receivedBytes: z.number(),
  sentBytes: z.number(),
});

/** What a pod had used before its sandbox took it: none of it is the sandbox's. */
export type UseBefore = z.infer<typeof schema>;

export const writeUseBefore = (use: UseBefore): string => JSON.stringify(schema.parse(use));

/** Null: the pod was made for its sandbox, or nothing was measured. */
export function useBeforeOf({ metadata }: V1Pod): UseBefore | null {
  const text = metadata?.annotations?.[annotations.useBefore];
  if (text === undefined) return null;
  try {
    return schema.parse(JSON.parse(text));
  } catch {
    // Someone else has written it: all that was measured counts.
    return null;
  }
}

/** What a sandbox has used of what its pod has used. */
export function withoutUseBefore(figures: PodFigures, before: UseBefore | null): PodFigures {
  if (!before) return figures;
  return {
    ...figures,
    sinceMs: before.atMs,
    cpuSeconds: Math.max(0, figures.cpuSeconds - before.cpuSeconds),
    receivedBytes: Math.max(0, figures.receivedBytes - before.receivedBytes),
    sentBytes: Math.max(0, figures.sentBytes - before.sentBytes),
  };
}
