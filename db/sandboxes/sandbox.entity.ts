import { defineEntity, type InferEntity, p } from '@mikro-orm/core';
import type { DiskRates } from '../../domain/billing/plans.ts';
import type { AccountId, ProjectId, SandboxId, TemplateId, UserId } from '../../domain/ids.ts';
import type { MountSlot } from '../../domain/sandboxes/object-storage.ts';
import type { Port } from '../../domain/sandboxes/ports.ts';
import type { LifecycleOutcome, SandboxReason, SandboxStatus, SandboxSubstatus } from '../../domain/sandboxes/state.ts';

/** The explanation of a failed sandbox. It is kept after the sandbox's data was removed. */
export interface SandboxFailure {
  message: string;
  exitCode: number | null;
  outOfMemory: boolean;
  /** The last 8 KiB of its command's output. */
  commandOutput: string;
}

/**
 * A sandbox in the form in which people list and search it. After its creation, only the activities of its own workflow
 * write its status, and its host for a direct start.
 */
export const Sandbox = defineEntity({
  name: 'Sandbox',
  tableName: 'sandboxes',
  properties: {
    sandboxId: p.string().$type<SandboxId>().primary(),
    accountId: p.string().$type<AccountId>(),
    ownerUserId: p.string().$type<UserId>(),
    projectId: p.string().$type<ProjectId>(),
    name: p.string(),
    description: p.string().default(''),

    templateId: p.string().$type<TemplateId>(),
    /** A copy of the template's fields at the creation, because the template may be changed or deleted. */
    templateName: p.string(),
    templateSource: p.string(),
    templatePorts: p.json<Port[]>(),
    templateCustomCommand: p.string().nullable(),
    /** Start the ENTRYPOINT and CMD of the image. */
    startImageCommand: p.boolean().default(false),
    templateReadyCommand: p.string().nullable(),
    image: p.string(),

    cpuCount: p.integer(),
    memoryMb: p.integer(),
    storageGb: p.integer(),
    /** The plan's at the creation. Null: no limit. */
    diskRates: p.json<DiskRates>().nullable(),
    timeoutSeconds: p.integer(),
    /** The start of the current running phase's timeout. */
    timeoutFrom: p.datetime(3).nullable(),
    autoPause: p.boolean().default(false),
    secure: p.boolean().default(true),
    /** Undeclared ports are public, except those of the agent. */
    publicPorts: p.boolean().default(false),
    /** The number of the secret key from which its tokens are derived. */
    secretKeyNumber: p.integer().default(1),
    allowInternetAccess: p.boolean().default(true),
    metadata: p.json<Record<string, string>>(),
    envVars: p.json<Record<string, string>>(),
    customPorts: p.json<Port[]>(),
    /** By slot, without credentials. */
    objectStorage: p.json<MountSlot[]>().onCreate((row: { objectStorage?: MountSlot[] }) => row.objectStorage ?? []),
    /** The sandbox's own s3fs mounts its buckets: the program at this path, or if empty the one in its `PATH`. */
    directMount: p.boolean().default(false),
    s3fsPath: p.string().default(''),
    /** The host's UDP ports by the sandbox's UDP ports. They are released together with the capacity. */
    udpHostPorts: p.json<Record<string, number>>().onCreate(() => ({})),
    persistenceDays: p.integer().nullable(),

    status: p.string().$type<SandboxStatus>(),
    substatus: p.string().$type<SandboxSubstatus>().nullable(),
    reason: p.string().$type<SandboxReason>().nullable(),
    failure: p.json<SandboxFailure>().nullable(),
    lifecycleOutcome: p.string().$type<LifecycleOutcome>().nullable(),

    region: p.string(),
    /** The requested region, then the others by distance, for a second placement. */
    nearestRegions: p.json<readonly string[]>(),
    /** The sandbox may only be placed in its region. */
    regionForced: p.boolean().default(false),
    hostId: p.string(),
    /** The sandbox has processes or frozen memory on its host, or is about to. */
    holdsCompute: p.boolean().default(true),
    /** The host has measured the sandbox since its processes started. Until then it counts with its expected use. */
    isMeasured: p.boolean().default(false),
    /** The sandbox has a disk on its host, or is about to. */
    holdsDisk: p.boolean().default(true),
    /**
     * The number of the last start or resume that began on its host. Null: none, or it began before they were numbered.
     */
    run: p.integer().nullable(),
    /** The workflow has to adopt the status: `claimPause` or `claimResume` has changed it, and the host finishes the move. */
    movedDirectly: p.boolean().default(false),
    agentAddress: p.string().nullable(),
    agentPort: p.integer().nullable(),

    runningMs: p.bigint('number').default(0),
    pausedMs: p.bigint('number').default(0),
    phaseKind: p.string().$type<'running' | 'paused'>().nullable(),
    phaseSince: p.datetime(3).nullable(),
    /** Usage is recorded up to this time. Null: the sandbox has not run yet. */
    meteredUntil: p.datetime(3).nullable(),

    startedAt: p.datetime(3).nullable(),
    stoppedAt: p.datetime(3).nullable(),
    endedAt: p.datetime(3).nullable(),
    pausingAt: p.datetime(3).nullable(),
    pausedAt: p.datetime(3).nullable(),
    resumedAt: p.datetime(3).nullable(),
    lastAccessedAt: p.datetime(3).nullable(),
    deletedAt: p.datetime(3).nullable(),
    /** The number of events so far. The next event has the following number. */
    eventSequence: p.integer().default(0),
    createdAt: p.datetime(3).onCreate(() => new Date()),
    updatedAt: p
      .datetime(3)
      .onCreate(() => new Date())
      .onUpdate(() => new Date()),
  },
});
export type Sandbox = InferEntity<typeof Sandbox>;
