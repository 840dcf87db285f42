// Every workflow of the platform. The name of the export is the workflow type.
export { emailChange } from './email-change.ts';
export { host } from './host.ts';
export { imageCollection } from './image-collection.ts';
export { imageImport } from './image-import.ts';
export { imageRemoval } from './image-removal.ts';
export { maintenance } from './maintenance.ts';
export { passwordReset } from './password-reset.ts';
export { sandbox } from './sandbox/workflow.ts';
export { sandboxBatchEnding } from './sandbox-batch-ending.ts';
export { sandboxDeletion } from './sandbox-deletion.ts';
export { templateBuild } from './template-build.ts';
export { userDeletion } from './user-deletion.ts';
export { userInvitation } from './user-invitation.ts';
export { webhookDelivery } from './webhook-delivery.ts';
