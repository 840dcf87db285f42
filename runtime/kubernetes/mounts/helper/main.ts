import { KubeConfig } from '@kubernetes/client-node';
import { pino } from 'pino';
import { z } from 'zod';
import { stopSignal } from '../../../../config/stop-signal.ts';
import { NodeGroups } from '../../node-helper/node-groups.ts';
import { MountHelper } from './mount-helper.ts';

/**
 * The mount helper: one on each node, as a privileged pod in the node's process numbers, whose service account may read
 * pods of the sandboxes' namespace and write their status. See ARCHITECTURE.md, "A sandbox on a cluster".
 */
const environment = z
  .object({
    /** The node that it runs on. */
    NODE_NAME: z.string().min(1),
    /** Where the sandboxes are. */
    SANDBOX_NAMESPACE: z.string().min(1),
    /** Where the node's control groups are mounted. */
    CGROUP_FOLDER: z.string().startsWith('/').default('/sys/fs/cgroup'),
  })
  .parse(process.env);

const logger = pino();
const config = new KubeConfig();
config.loadFromCluster();
const helper = new MountHelper({
  config,
  namespace: environment.SANDBOX_NAMESPACE,
  nodeName: environment.NODE_NAME,
  groups: NodeGroups.at(environment.CGROUP_FOLDER),
  logger,
});
await helper.open();
logger.info({ node: environment.NODE_NAME }, 'the mount helper watches the mounts of its node');
await stopSignal();
await helper.close();
process.exit(0);
