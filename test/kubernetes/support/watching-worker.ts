import { KubeConfig } from '@kubernetes/client-node';
import { openKubernetesDriver } from '../../../runtime/kubernetes/driver.ts';
import type { SandboxEnd } from '../../../runtime/kubernetes/end-reports.ts';

/** The answer of this program: the state of its driver's sandboxes, and its own memory use. */
export interface WorkerState {
  running: number;
  /** The run numbers of the running sandboxes. */
  runs: number[];
  ends: Pick<SandboxEnd, 'sandboxId' | 'reason'>[];
  /** The size of the live objects in memory, in bytes. */
  liveBytes: number;
}

/**
 * This program runs the driver in a separate process, so that a test can measure its memory (`--expose-gc`). Arguments:
 * kubeconfig, namespace, host id. It answers each message with its state.
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
  resolveImage: (reference) => reference,
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
