import type { V1Pod } from '@kubernetes/client-node';
import { z } from 'zod';
import { annotations } from './names.ts';
import type { PodFigures } from './node-summary.ts';

const schema = z.object({
  /** The time of the measurement as Unix milliseconds of the node's clock. */
  atMs: z.number(),
  cpuSeconds: z.number(),
  receivedBytes: z.number(),
  sentBytes: z.number(),
});

/** The resources that a warm pod used before a sandbox took it. They do not count as the sandbox's use. */
export type UseBefore = z.infer<typeof schema>;

export const writeUseBefore = (use: UseBefore): string => JSON.stringify(schema.parse(use));

/** The use before a pod's sandbox. Null: the pod was made for its sandbox, or was not measured before. */
export function parseUseBefore({ metadata }: V1Pod): UseBefore | null {
  const text = metadata?.annotations?.[annotations.useBefore];
  if (text === undefined) return null;
  try {
    return schema.parse(JSON.parse(text));
  } catch {
    // Another program has changed the annotation, so the whole measured use counts.
    return null;
  }
}

/** Subtracts the use before the sandbox from the measured use of its pod. */
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
