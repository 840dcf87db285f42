import { buildWorkflowBundles } from './workflow-bundle.ts';

/**
 * `node worker/build-workflow-bundle.ts` bundles the workflows during the build of an image, so that workers need not
 * at start.
 */
await buildWorkflowBundles();
