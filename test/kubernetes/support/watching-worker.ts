import { KubeConfig } from '@kubernetes/client-node';
import { openKubernetesDriver } from '../../../runtime/kubernetes/driver.ts';
import type { SandboxEnd } from '../../../runtime/kubernetes/end-reports.ts';

/** What a worker that watches answers: of its driver's sandboxes, and of itself. */
export interface WorkerState {
  running: number;
  /** The numbers of the starts of the sandboxes that run. */
  runs: number[];
  ends: Pick<SandboxEnd, 'sandboxId' | 'reason'>[];
  /** What is alive in its memory, in bytes. */
  liveBytes: number;
}

/**
 * The driver of a host worker in a process of its own, whose memory is its own (`--expose-gc`). Its arguments are a
 * configuration of the cluster, and the driver's namespace and host; it answers each message with its state.
 */
const [file, namespace, hostId] = process.argv.slice(2) as [string, string, string];
const config = new KubeConfig();
config.loadFromFile(file);
const log = (fields: object, message: string) => console.error(message, fields);
const driver = await openKubernetesDriver({
  config,
  namespace,
  hostId,
  agentImage: 'agent',
  imageOf: (reference) => reference,
  clientRanges: [],
  podNetwork: '198.19.0.0/16',
  logger: { debug: () => {}, info: () => {}, warn: log, error: log },
});
const ends: WorkerState['ends'] = [];
driver.onEnd(({ sandboxId, reason }) => ends.push({ sandboxId, reason }));

process.on('message', async () => {
  const sandboxes = (await driver.list()).filter(({ state }) => state === 'running');
  const runs = [...new Set(sandboxes.map(({ run }) => run!))];
  globalThis.gc!();
  const { heapUsed, external } = process.memoryUsage();
  const state: WorkerState = { running: sandboxes.length, runs, ends, liveBytes: heapUsed + external };
  process.send!(state);
});
process.on('disconnect', () => process.exit());
process.send!('open');
