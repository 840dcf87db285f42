import type { AccountId, ProjectId, SandboxId, TemplateId, UserId } from '../ids.ts';
import type { MountSlot } from './object-storage.ts';

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
}

/** Makes the input of a sandbox's workflow from its row. */
export function lifeStartOf(row: {
  sandboxId: SandboxId;
  hostId: string;
  accountId: AccountId;
  ownerUserId: UserId;
  projectId: ProjectId;
  templateId: TemplateId;
  region: string;
  autoPause: boolean;
  persistenceDays?: number | null;
  timeoutSeconds: number;
  objectStorage: readonly MountSlot[];
}): LifeStart {
  return {
    sandboxId: row.sandboxId,
    timeoutSeconds: row.timeoutSeconds,
    ...(row.objectStorage.length > 0 && { awaitsCredentials: true }),
    plan: {
      hostId: row.hostId,
      accountId: row.accountId,
      userId: row.ownerUserId,
      projectId: row.projectId,
      templateId: row.templateId,
      region: row.region,
      autoPause: row.autoPause,
      persistenceDays: row.persistenceDays ?? null,
    },
  };
}

/** The error of a start if the sandbox's row is gone or the sandbox has ended. */
export const noLife = 'no_life';
