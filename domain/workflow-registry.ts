import type { AccountId, ProjectId, SandboxId, TemplateId, UserId } from './ids.ts';
import type { LifeStart } from './life-plan.ts';
import type { SandboxReason } from './sandbox-state.ts';

/**
 * Every workflow of the platform: its type, the input it starts with, and the signals that other parts of the platform
 * send it through the outbox. Inputs and arguments are plain JSON without secrets.
 */
export interface Workflows {
  /** The life of a sandbox. */
  sandbox: { input: LifeStart; signals: SandboxSignals };
  /** Terminates or deletes a sandbox whose life is over. */
  sandboxDeletion: { input: SandboxDeletionInput; signals: Record<never, never> };
  /** Ends the sandboxes of one batch request. */
  sandboxBatchEnding: { input: BatchEndingInput; signals: Record<never, never> };
  /** Watches the lease of a host. */
  host: { input: HostInput; signals: Record<never, never> };
  /** Mails a link to a new password, and limits how often that happens. */
  passwordReset: { input: PasswordResetInput; signals: Record<never, never> };
  /** Mails a new user a link to a first password. */
  userInvitation: { input: UserInvitationInput; signals: Record<never, never> };
  /** Ends, hands over and removes what a user has, and then the user. */
  userDeletion: { input: UserDeletionInput; signals: Record<never, never> };
  /** Mails the links that confirm another e-mail of an account. */
  emailChange: { input: EmailChangeInput; signals: { emailChangeEnded: { changeId: string } } };
  /** Copies an external image into the platform's registry. */
  imageImport: { input: ImageImportInput; signals: { importCancelled: { jobId: string } } };
  /** Makes the image of a template from what a sandbox has changed. */
  templateBuild: { input: TemplateBuildInput; signals: Record<never, never> };
  /** Removes an image that nothing refers to from the registry. */
  imageRemoval: { input: ImageRemovalInput; signals: Record<never, never> };
  /** The attempts at a delivery that did not succeed at once. */
  webhookDelivery: { input: WebhookDeliveryInput; signals: Record<never, never> };
  /** Removes unused images from the registry. Started by a schedule. */
  imageCollection: { input: undefined; signals: Record<never, never> };
  /** One round of upkeep, started by a schedule. */
  maintenance: { input: undefined; signals: Record<never, never> };
}

export type WorkflowType = keyof Workflows;
export type WorkflowInput<Type extends WorkflowType> = Workflows[Type]['input'];
export type SignalName<Type extends WorkflowType> = keyof Workflows[Type]['signals'] & string;

export interface SandboxSignals {
  projectSwitched: { projectId: ProjectId };
  /** The platform pauses it; no caller waits for the result. */
  pauseRequested: { reason: SandboxReason };
}

export interface SandboxDeletionInput {
  sandboxId: SandboxId;
  /** Make it answer 404 afterwards. */
  forget: boolean;
}

export interface BatchEndingInput {
  sandboxIds: SandboxId[];
  /** Make each sandbox answer 404 once its data is gone. */
  forget: boolean;
}

export interface HostInput {
  hostId: string;
}

export interface PasswordResetInput {
  userId: UserId;
}

export interface UserInvitationInput {
  userId: UserId;
}

export interface UserDeletionInput {
  userId: UserId;
}

export interface EmailChangeInput {
  accountId: AccountId;
  changeId: string;
}

export interface ImageImportInput {
  jobId: string;
  /** The repository that it copies to: the row is gone when the template's owner is deleted meanwhile. */
  path: string;
}

export interface TemplateBuildInput {
  templateId: TemplateId;
  sandboxId: SandboxId;
  /** The host that has the sandbox. */
  hostId: string;
}

export interface ImageRemovalInput {
  /** As templates and sandboxes name it. */
  image: string;
}

export interface WebhookDeliveryInput {
  deliveryId: string;
  accountId: AccountId;
  /** RFC 3339; finds the row among the partitions. */
  createdAt: string;
  /** The workflow's own id: only the holder of a delivery writes its row. */
  holder: string;
  /** Attempts before this workflow, and how many of them were of earlier rounds. */
  attemptsBefore: number;
  roundFrom: number;
  /** When the next attempt is due, in Unix milliseconds. */
  nextAttemptAtMs: number;
}

interface WorkflowKind {
  /** The workflow id for an object's id. */
  workflowId(objectId: string): string;
  /** Whether the id may be used again once the workflow has closed. */
  mayRunAgain: boolean;
}

/** How each workflow type is started. */
export const workflowKinds: Readonly<Record<WorkflowType, WorkflowKind>> = {
  sandbox: { workflowId: (sandboxId) => sandboxId, mayRunAgain: false },
  sandboxDeletion: { workflowId: (sandboxId) => `${sandboxId}/deletion`, mayRunAgain: true },
  sandboxBatchEnding: { workflowId: (batchId) => batchId, mayRunAgain: false },
  host: { workflowId: (hostId) => hostId, mayRunAgain: false },
  passwordReset: { workflowId: (userId) => `${userId}/password-reset`, mayRunAgain: true },
  userInvitation: { workflowId: (userId) => `${userId}/invitation`, mayRunAgain: false },
  userDeletion: { workflowId: (userId) => `${userId}/deletion`, mayRunAgain: true },
  emailChange: { workflowId: (accountId) => `${accountId}/email-change`, mayRunAgain: true },
  imageImport: { workflowId: (jobId) => jobId, mayRunAgain: false },
  templateBuild: { workflowId: (templateId) => `${templateId}/build`, mayRunAgain: false },
  imageRemoval: { workflowId: (image) => `${image}/removal`, mayRunAgain: true },
  webhookDelivery: { workflowId: (holder) => holder, mayRunAgain: false },
  imageCollection: { workflowId: () => 'image-collection', mayRunAgain: true },
  maintenance: { workflowId: () => 'maintenance', mayRunAgain: true },
};

export function isWorkflowType(type: string): type is WorkflowType {
  return Object.hasOwn(workflowKinds, type);
}
