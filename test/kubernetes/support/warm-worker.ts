import { KubeConfig } from '@kubernetes/client-node';
import type { SandboxSpec } from '../../../runtime/driver.ts';
import { openKubernetesDriver } from '../../../runtime/kubernetes/driver.ts';
import type { KubernetesDriverOptions } from '../../../runtime/kubernetes/options.ts';
import { until } from '../../support/until.ts';

/** The task of this program, as JSON in its only argument. */
export interface WarmWorkerTask {
  kubeConfigFile: string;
  options: Pick<
    KubernetesDriverOptions,
    'namespace' | 'hostId' | 'agentImage' | 'storageClass' | 'clientRanges' | 'podNetwork' | 'warm'
  >;
  spec: SandboxSpec;
}

/** This program makes warm pods like a host worker, reports this, and creates a sandbox. A test kills it meanwhile. */
const { kubeConfigFile, options, spec } = JSON.parse(process.argv[2]!) as WarmWorkerTask;
const config = new KubeConfig();
config.loadFromFile(kubeConfigFile);
const log = (fields: object, message: string) => console.error(message, fields);
const driver = await openKubernetesDriver({
  ...options,
  config,
  resolveImage: (reference) => reference,
  logger: { debug: () => {}, info: () => {}, warn: log, error: log },
});
await until(() => driver.poolReady > 0, 120_000);
process.send!('filled');
await driver.create(spec);
