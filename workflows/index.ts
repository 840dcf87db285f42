// Every workflow type of the platform, under the name it is started by.
export { host } from './host.ts';
export { maintenance } from './maintenance.ts';
export { sandbox } from './sandbox/workflow.ts';
export { sandboxBatchEnding } from './sandbox-batch-ending.ts';
export { sandboxDeletion } from './sandbox-deletion.ts';
