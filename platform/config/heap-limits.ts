/** V8's limits for a process, in MiB: the old generation, and each half of the young generation. */
interface HeapLimit {
  oldSpaceMb: number;
  semiSpaceMb: number;
}

/**
 * Heap limits by script, for a machine of 4 GiB. Without a limit, V8 sizes its heap by the machine and collects garbage
 * late: a process with 60 MiB of live objects then grows to several hundred. The limit applies to each isolate. The
 * control worker has one isolate for sandboxes' workflows and one for all others. The first has 25 MiB, and 130 KiB for
 * each sandbox that has just begun to run (`npm run bench -- workflows`). With its maximum of 2,000 cached workflows that
 * is 290 MiB. The rest is for workflows with long histories.
 */
const heapLimits: ReadonlyMap<string, HeapLimit> = new Map([
  ['api/server.ts', { oldSpaceMb: 320, semiSpaceMb: 8 }],
  ['gateway/server.ts', { oldSpaceMb: 256, semiSpaceMb: 8 }],
  ['worker/control.ts', { oldSpaceMb: 1024, semiSpaceMb: 8 }],
  ['worker/host.ts', { oldSpaceMb: 384, semiSpaceMb: 8 }],
  ['runtime/kubernetes/node-helper/main.ts', { oldSpaceMb: 64, semiSpaceMb: 2 }],
]);

/**
 * Options of `node` for one of the platform's scripts. The operator's options in NODE_OPTIONS take precedence.
 * @param script the path from the project's root
 */
export function heapFlags(script: string, env: NodeJS.ProcessEnv = process.env): string[] {
  const limit = heapLimits.get(script);
  if (!limit || /--max[-_]old[-_]space[-_]size/.test(env.NODE_OPTIONS ?? '')) return [];
  return [`--max-old-space-size=${limit.oldSpaceMb}`, `--max-semi-space-size=${limit.semiSpaceMb}`];
}
