import type { AccountId, ProjectId, SandboxId, TemplateId, UserId } from './ids.ts';
import type { MountSlot } from './object-storage.ts';

/** What does not change in a sandbox's life, but for its host and its project. Its workflow is started with it. */
export interface LifePlan {
  hostId: string;
  accountId: AccountId;
  userId: UserId;
  projectId: ProjectId;
  templateId: TemplateId;
  region: string;
  autoPause: boolean;
  /** Null: a paused one is kept without end. */
  persistenceDays: number | null;
}

/** What a sandbox's workflow (type `sandbox`, id `sbx-…`) is started with: ids and settings, no secret. */
export interface LifeStart {
  sandboxId: SandboxId;
  plan: LifePlan;
  timeoutSeconds: number;
  /** It has mounts, whose credentials come by an update of their own; its host is asked only once they are there. */
  awaitsCredentials?: boolean;
}

/** Reads a sandbox's start from its row. */
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

/** What the start of a sandbox fails with whose row is gone, or over already. */
export const noLife = 'no_life';
