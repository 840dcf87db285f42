import { KubeConfig } from '@kubernetes/client-node';
import { pino } from 'pino';
import { z } from 'zod';
import { stopSignal } from '../../platform/config/stop-signal.ts';
import { NodeGroups } from './node-helper/node-groups.ts';
import type { HelperOptions } from './node-pods.ts';

/**
 * Runs a helper until this process gets a signal to stop. A DaemonSet runs one such process on each node. Its service
 * account may read the pods of the sandboxes' namespace and write their status. See README.md,
 * "Freezing: the node helper".
 * @param name the helper's name in the log
 */
export async function runHelper(
  name: string,
  make: (options: HelperOptions) => { open(): Promise<void>; close(): Promise<void> },
): Promise<never> {
  const environment = z
    .object({
      /** The node on which the helper runs. */
      NODE_NAME: z.string().min(1),
      /** The namespace of the sandboxes. */
      SANDBOX_NAMESPACE: z.string().min(1),
      /** The folder in which the node's control groups are mounted. */
      CGROUP_FOLDER: z.string().startsWith('/').default('/sys/fs/cgroup'),
    })
    .parse(process.env);
  const logger = pino();
  const config = new KubeConfig();
  config.loadFromCluster();
  const { NODE_NAME: nodeName, SANDBOX_NAMESPACE: namespace, CGROUP_FOLDER: folder } = environment;
  const helper = make({ config, namespace, nodeName, groups: NodeGroups.at(folder), logger });
  await helper.open();
  logger.info({ node: nodeName }, `the ${name} watches the pods of its node`);
  await stopSignal();
  await helper.close();
  process.exit(0);
}
