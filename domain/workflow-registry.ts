import type {
  AccountId,
  ImportJobId,
  InvoiceId,
  PlanChangeId,
  ProjectId,
  SandboxId,
  TemplateId,
  UserId,
  WebhookDeliveryId,
} from './ids.ts';
import type { LifeStart } from './sandboxes/life-plan.ts';
import type { SandboxReason } from './sandboxes/state.ts';
import type { ControlWork } from './task-queues.ts';

/**
 * Every workflow of the platform: its type, its input, and the signals that other parts of the platform send it through
 * the outbox. Inputs and arguments are plain JSON without secrets.
 */
export interface Workflows {
  /** Runs a sandbox from its creation to its end. */
  sandbox: { input: LifeStart; signals: SandboxSignals };
  /** Terminates or deletes a sandbox that has ended. */
  sandboxDeletion: { input: SandboxDeletionInput; signals: Record<never, never> };
  /** Ends the sandboxes of one batch request. */
  sandboxBatchEnding: { input: BatchEndingInput; signals: Record<never, never> };
  /** Watches the lease of a host. */
  host: { input: HostInput; signals: Record<never, never> };
  /** Mails a link to set a new password, and limits how often that happens. */
  passwordReset: { input: PasswordResetInput; signals: Record<never, never> };
  /** Mails a new user a link to set a first password. */
  userInvitation: { input: UserInvitationInput; signals: Record<never, never> };
  /** Ends, hands over and removes a user's objects, and then deletes the user. */
  userDeletion: { input: UserDeletionInput; signals: Record<never, never> };
  /** Mails the links that confirm a change of an account's e-mail address. */
  emailChange: { input: EmailChangeInput; signals: { emailChangeEnded: { changeId: string } } };
  /** Runs the periods of an account's subscription: renewals, invoices, charges. */
  billing: { input: BillingInput; signals: { paymentPossible: { accountId: AccountId } } };
  /** Charges for a more expensive plan and switches to it. */
  planChange: { input: PlanChangeInput; signals: Record<never, never> };
  /** Mails that the charge of an invoice failed. */
  invoiceMail: { input: InvoiceMailInput; signals: Record<never, never> };
  /** Copies an external image into the platform's registry. */
  imageImport: { input: ImageImportInput; signals: { importCancelled: { jobId: ImportJobId } } };
  /** Makes the image of a template from the changes in a sandbox. */
  templateBuild: { input: TemplateBuildInput; signals: Record<never, never> };
  /** Copies the disk of a sandbox for a backup. */
  diskCopy: { input: DiskCopyInput; signals: Record<never, never> };
  /** Removes an unreferenced image from the registry. */
  imageRemoval: { input: ImageRemovalInput; signals: Record<never, never> };
  /** Retries a webhook delivery after its first attempt failed. */
  webhookDelivery: { input: WebhookDeliveryInput; signals: Record<never, never> };
  /** Compares the usage of an account with its budget while the budget exists. */
  budget: { input: BudgetInput; signals: { checkBudget: { because: 'sandbox' | 'edit' } } };
  /** Mails that a threshold of a budget was reached. */
  budgetMail: { input: BudgetMailInput; signals: Record<never, never> };
  /** Removes unused images from the registry. Started by a schedule. */
  imageCollection: { input: undefined; signals: Record<never, never> };
  /** Compares ledger, invoices, charges and payment processor. Started by a schedule. */
  reconciliation: { input: undefined; signals: Record<never, never> };
  /** One round of upkeep, started by a schedule. */
  maintenance: { input: undefined; signals: Record<never, never> };
}

export type WorkflowType = keyof Workflows;
export type WorkflowInput<Type extends WorkflowType> = Workflows[Type]['input'];
export type SignalName<Type extends WorkflowType> = keyof Workflows[Type]['signals'] & string;

export interface SandboxSignals {
  projectSwitched: { projectId: ProjectId };
  /** Pauses the sandbox on behalf of the platform. No caller waits for the result. */
  pauseRequested: { reason: SandboxReason };
  /** The row was moved without the workflow. `takeOver`: the workflow finishes a move that is still in progress. */
  movedDirectly: { takeOver: boolean };
}

/** The account that a workflow belongs to. */
interface OfAccount {
  accountId: AccountId;
}

export interface SandboxDeletionInput extends OfAccount {
  sandboxId: SandboxId;
  /** Answer 404 for the sandbox afterwards. */
  forget: boolean;
}

export interface BatchEndingInput extends OfAccount {
  sandboxIds: SandboxId[];
  /** Answer 404 for each sandbox when its data is gone. */
  forget: boolean;
}

export interface HostInput {
  hostId: string;
  /** Set only when the workflow continues as new while it signals a loss. */
  loss?: LossProgress;
}

export interface LossProgress {
  /** The last sandbox of the round that has a signal. Null: a round begins. */
  after: SandboxId | null;
  /** The wait after this round. */
  pauseSeconds: number;
}

export interface PasswordResetInput extends OfAccount {
  userId: UserId;
}

export interface UserInvitationInput extends OfAccount {
  userId: UserId;
}

export interface UserDeletionInput extends OfAccount {
  userId: UserId;
}

export interface EmailChangeInput extends OfAccount {
  changeId: string;
}

export type BillingInput = OfAccount;

export interface PlanChangeInput extends OfAccount {
  changeId: PlanChangeId;
}

/** A failed attempt at the charge of an invoice. */
export interface InvoiceMailInput extends OfAccount {
  invoiceId: InvoiceId;
  /** The first attempt is 1. */
  attempt: number;
  /** Unix milliseconds. Null: no attempt follows automatically, and the account is past due. */
  nextAttemptAtMs: number | null;
}

export interface ImageImportInput extends OfAccount {
  jobId: ImportJobId;
  /** The target repository. The input has it because the row is gone if the template's owner is deleted meanwhile. */
  path: string;
}

export interface TemplateBuildInput extends OfAccount {
  templateId: TemplateId;
  sandboxId: SandboxId;
  /** The host of the sandbox. */
  hostId: string;
}

export interface DiskCopyInput {
  /** The name of the copy on the host. */
  copyId: string;
  sandboxId: SandboxId;
  /** The host of the sandbox. */
  hostId: string;
}

export interface DiskCopyResult {
  /** How long the sandbox was frozen. */
  frozenMs: number;
  /** The bytes that were copied in this time. */
  bytes: number;
}

export interface ImageRemovalInput extends OfAccount {
  /** The image's name in templates and sandboxes. */
  image: string;
}

export interface WebhookDeliveryInput extends OfAccount {
  deliveryId: WebhookDeliveryId;
  /** RFC 3339. The partition of the row follows from it. */
  createdAt: string;
  /** The workflow's own id. Only the holder of a delivery writes its row. */
  holder: string;
  /** When the next attempt is due, in Unix milliseconds. */
  nextAttemptAtMs: number;
}

export type BudgetInput = OfAccount;

export interface BudgetMailInput extends OfAccount {
  messageId: string;
}

interface WorkflowKind {
  /** The kind of work, which has its own task queue. */
  work: ControlWork;
  /** The workflow id for an object's id. */
  workflowId(objectId: string): string;
  /** Whether the id may be used again once the workflow has closed. */
  mayRunAgain: boolean;
  /** The effect of a cancel by an operator, in the Temporal Web UI or CLI. */
  cancel: CancelBehavior;
  /** What the workflow `maintenance` does after an operator's terminate. */
  terminate: TerminateBehavior;
  /** The effect of an upgrade on open runs, if workers have versions (`PLATFORM_WORKER_DEPLOYMENT`). */
  upgrade: UpgradeBehavior;
}

/**
 * `pinned`: a workflow run ends on the worker version that it began on, so an upgrade waits for it. For runs that end
 * within an hour unless a service is away. `auto`: the next task of a run goes to the current version. For runs that
 * live longer.
 */
export type UpgradeBehavior = 'pinned' | 'auto';

/**
 * `ends`: the workflow ends in an orderly way, and leaves nothing half done. `ignored`: the workflow continues, because
 * an account or a machine depends on it (`workflows/cancellation.ts`). `docs/operations.md` has the table for operators.
 */
export type CancelBehavior = 'ends' | 'ignored';

/**
 * `restarted`: the workflow starts again with its input, and finds the rest of its work in the rows. `ended`: its sandbox
 * fails and its host cleans up. `left`: nothing is left to be done, or another workflow does it.
 */
export type TerminateBehavior = 'restarted' | 'ended' | 'left';

/** How each workflow type is started. */
export const workflowKinds: Readonly<Record<WorkflowType, WorkflowKind>> = {
  sandbox: {
    work: 'sandboxes',
    workflowId: (sandboxId) => sandboxId,
    mayRunAgain: false,
    cancel: 'ends',
    terminate: 'ended',
    upgrade: 'auto',
  },
  sandboxDeletion: {
    work: 'sandboxes',
    workflowId: (sandboxId) => `${sandboxId}/deletion`,
    mayRunAgain: true,
    cancel: 'ignored',
    terminate: 'restarted',
    upgrade: 'pinned',
  },
  sandboxBatchEnding: {
    work: 'sandboxes',
    workflowId: (batchId) => batchId,
    mayRunAgain: false,
    cancel: 'ignored',
    terminate: 'restarted',
    upgrade: 'pinned',
  },
  host: {
    work: 'sandboxes',
    workflowId: (hostId) => hostId,
    mayRunAgain: true,
    cancel: 'ignored',
    terminate: 'restarted',
    upgrade: 'auto',
  },
  passwordReset: {
    work: 'upkeep',
    workflowId: (userId) => `${userId}/password-reset`,
    mayRunAgain: true,
    cancel: 'ends',
    terminate: 'left',
    upgrade: 'pinned',
  },
  userInvitation: {
    work: 'upkeep',
    workflowId: (userId) => `${userId}/invitation`,
    mayRunAgain: false,
    cancel: 'ends',
    terminate: 'left',
    upgrade: 'pinned',
  },
  userDeletion: {
    work: 'upkeep',
    workflowId: (userId) => `${userId}/deletion`,
    mayRunAgain: true,
    cancel: 'ignored',
    terminate: 'restarted',
    upgrade: 'auto',
  },
  emailChange: {
    work: 'upkeep',
    workflowId: (accountId) => `${accountId}/email-change`,
    mayRunAgain: true,
    cancel: 'ends',
    terminate: 'restarted',
    upgrade: 'auto',
  },
  billing: {
    work: 'money',
    workflowId: (accountId) => `${accountId}/billing`,
    mayRunAgain: true,
    cancel: 'ignored',
    terminate: 'restarted',
    upgrade: 'auto',
  },
  planChange: {
    work: 'money',
    workflowId: (accountId) => `${accountId}/plan-change`,
    mayRunAgain: true,
    cancel: 'ignored',
    terminate: 'restarted',
    upgrade: 'pinned',
  },
  invoiceMail: {
    work: 'money',
    workflowId: (attempt) => `${attempt}/mail`,
    mayRunAgain: false,
    cancel: 'ends',
    terminate: 'left',
    upgrade: 'pinned',
  },
  imageImport: {
    work: 'images',
    workflowId: (jobId) => jobId,
    mayRunAgain: false,
    cancel: 'ends',
    terminate: 'restarted',
    upgrade: 'pinned',
  },
  templateBuild: {
    work: 'images',
    workflowId: (templateId) => `${templateId}/build`,
    mayRunAgain: false,
    cancel: 'ends',
    terminate: 'restarted',
    upgrade: 'pinned',
  },
  diskCopy: {
    work: 'sandboxes',
    workflowId: (copyId) => copyId,
    mayRunAgain: false,
    cancel: 'ends',
    terminate: 'left',
    upgrade: 'pinned',
  },
  imageRemoval: {
    work: 'images',
    workflowId: (image) => `${image}/removal`,
    mayRunAgain: true,
    cancel: 'ends',
    terminate: 'left',
    upgrade: 'pinned',
  },
  webhookDelivery: {
    work: 'webhooks',
    workflowId: (holder) => holder,
    mayRunAgain: false,
    cancel: 'ends',
    terminate: 'restarted',
    upgrade: 'auto',
  },
  budget: {
    work: 'money',
    workflowId: (accountId) => `${accountId}/budget`,
    mayRunAgain: true,
    cancel: 'ignored',
    terminate: 'restarted',
    upgrade: 'auto',
  },
  budgetMail: {
    work: 'money',
    workflowId: (messageId) => messageId,
    mayRunAgain: false,
    cancel: 'ends',
    terminate: 'left',
    upgrade: 'pinned',
  },
  imageCollection: {
    work: 'images',
    workflowId: () => 'image-collection',
    mayRunAgain: true,
    cancel: 'ends',
    terminate: 'left',
    upgrade: 'pinned',
  },
  reconciliation: {
    work: 'money',
    workflowId: () => 'reconciliation',
    mayRunAgain: true,
    cancel: 'ends',
    terminate: 'left',
    upgrade: 'pinned',
  },
  maintenance: {
    work: 'upkeep',
    workflowId: () => 'maintenance',
    mayRunAgain: true,
    cancel: 'ends',
    terminate: 'left',
    upgrade: 'pinned',
  },
};

export function isWorkflowType(type: string): type is WorkflowType {
  return Object.hasOwn(workflowKinds, type);
}
