import type { AccountId, ProjectId, SandboxId, TemplateId, UserId } from '../ids.ts';

/**
 * The facts of a sandbox that do not change, except for its host and its project. Its workflow is started with them.
 */
export interface LifePlan {
  hostId: string;
  accountId: AccountId;
  userId: UserId;
  projectId: ProjectId;
  templateId: TemplateId;
  region: string;
  autoPause: boolean;
  /** Null: a paused sandbox is kept without a time limit. */
  persistenceDays: number | null;
}

/** The input of a sandbox's workflow (type `sandbox`, id `sbx-…`): ids and settings, no secret. */
export interface LifeStart {
  sandboxId: SandboxId;
  plan: LifePlan;
  timeoutSeconds: number;
  /** The sandbox has mounts. Their credentials arrive in an update of their own, and the start waits for them. */
  awaitsCredentials?: boolean;
  /** The sandbox runs already, since `sinceMs` (Unix milliseconds): its host started it directly. */
  running?: { run: number; sinceMs: number };
}

/** The number of a sandbox's first start. */
export const firstRun = 1;

/** The error of a start if the sandbox's row is gone or the sandbox has ended. */
export const noLife = 'no_life';

/** The error of a write of the workflow if the sandbox was moved directly and the workflow has to adopt that first. */
export const movedDirectly = 'moved_directly';
