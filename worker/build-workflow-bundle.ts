import { buildWorkflowBundles } from './workflow-bundle.ts';

/** `node worker/build-workflow-bundle.ts`: bundles the workflows when an image is built, so that no worker does at start. */
await buildWorkflowBundles();
