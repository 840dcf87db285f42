// Every workflow of the platform. The name of the export is the workflow type.

export { emailChange } from './accounts/email-change.ts';
export { passwordReset } from './accounts/password-reset.ts';
export { userDeletion } from './accounts/user-deletion.ts';
export { userInvitation } from './accounts/user-invitation.ts';
export { budget } from './billing/budget.ts';
export { budgetMail } from './billing/budget-mail.ts';
export { invoiceMail } from './billing/invoice-mail.ts';
export { billing } from './billing/period.ts';
export { planChange } from './billing/plan-change.ts';
export { reconciliation } from './billing/reconciliation.ts';
export { host } from './hosts/host.ts';
export { sandboxBatchEnding } from './sandboxes/batch-ending.ts';
export { sandboxDeletion } from './sandboxes/deletion.ts';
export { sandbox } from './sandboxes/life/workflow.ts';
export { templateBuild } from './templates/build.ts';
export { diskCopy } from './templates/disk-copy.ts';
export { imageCollection } from './templates/image-collection.ts';
export { imageImport } from './templates/image-import.ts';
export { imageRemoval } from './templates/image-removal.ts';
export { maintenance } from './upkeep/maintenance.ts';
export { webhookDelivery } from './webhooks/delivery.ts';
