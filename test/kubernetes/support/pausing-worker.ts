import { KubeConfig } from '@kubernetes/client-node';
import type { SandboxId } from '../../../domain/ids.ts';
import { openKubernetesDriver } from '../../../runtime/kubernetes/driver.ts';

/**
 * This program pauses a sandbox like a host worker. A test kills it meanwhile. Arguments: kubeconfig, namespace,
 * sandbox.
 */
const [kubeConfig, namespace, sandboxId] = process.argv.slice(2) as [string, string, SandboxId];
const config = new KubeConfig();
config.loadFromFile(kubeConfig);
const log = () => {};
const driver = await openKubernetesDriver({
  config,
  namespace,
  hostId: namespace,
  agentImage: 'not-used',
  resolveImage: (reference) => reference,
  clientRanges: [],
  podNetwork: '10.0.0.0/8',
  logger: { debug: log, info: log, warn: log, error: log },
});
await driver.pause(sandboxId);
