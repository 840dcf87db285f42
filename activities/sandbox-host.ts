import { activityInfo, Context, heartbeat } from '@temporalio/activity';
import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import type { PlatformSecrets } from '../config/secrets.ts';
import type { Sandbox } from '../db/entities/sandbox.ts';
import type { Orm } from '../db/orm.ts';
import type { PlanCatalog } from '../db/plans.ts';
import { SandboxLifeRepository } from '../db/repositories/sandbox-life.ts';
import { AppError } from '../domain/errors.ts';
import { noLife } from '../domain/life-plan.ts';
import {
  type MountCredentials,
  type MountPatch,
  type MountSlot,
  patchMounts,
  requireAllCredentials,
  requireFresh,
  type StorageChange,
} from '../domain/object-storage.ts';
import { udpMappings } from '../domain/ports.ts';
import type { SandboxReason } from '../domain/sandbox-state.ts';
import { parseCustomCommand, parseReadyCommand } from '../domain/template-commands.ts';
import {
  type CreatePhase,
  DriverError,
  type SandboxDriver,
  type SandboxPlace,
  type SandboxSpec,
  type WantedMounts,
} from '../runtime/driver.ts';
import { AccountShares, ShareInUse } from './account-shares.ts';

/** Where a sandbox runs now. */
export interface HostedPlace {
  address: string;
  agentPort: number;
  /** Its mounts as they came to be, where it has or had some. */
  slots?: MountSlot[];
}

/**
 * What a host does for a sandbox. Served on the queue of the one host that has it. Their arguments are ids only; what
 * is secret is read or derived here, so it is in no workflow history.
 */
export function createSandboxHostActivities(
  deps: {
    orm: Orm;
    plans: PlanCatalog;
    driver: SandboxDriver;
    /** Activities of one account at once that may wait for its sandboxes. */
    accountShare: number;
  } & SpecSources,
) {
  const shares = new AccountShares(deps.accountShare);
  const onHost = hostWork();
  const life = new SandboxLifeRepository(deps.orm.em, deps.plans);

  const rowOf = async (sandboxId: string): Promise<Sandbox> => {
    const row = await life.find(sandboxId);
    if (!row) throw ApplicationFailure.nonRetryable(`There is no sandbox ${sandboxId}`, 'sandbox_absent');
    return row;
  };

  return {
    /**
     * `created` → `starting`; makes it and answers when it is ready; tells each step of `starting` as it comes.
     * @param sealedCredentials of its mounts, by slot, closed for this sandbox's host; null where it has none
     * @param run the number of this start; workflows of earlier versions do not give one
     */
    startSandbox(sandboxId: string, sealedCredentials?: string | null, run?: number): Promise<HostedPlace> {
      return onHost(async (signal) => {
        // The host says that it begins: one trip to the database, and the workflow's caller waits for nothing else.
        const row = await life.begin(sandboxId, run ?? null);
        if (!row) throw ApplicationFailure.nonRetryable(`There is no sandbox ${sandboxId} to start`, noLife);
        const credentials = sealedCredentials ? deps.secrets.openFor<Credentials>(sandboxId, sealedCredentials) : {};
        const spec = toSpec(row, deps, { slots: row.objectStorage, credentials, bestEffort: false });
        const onPhase = (phase: CreatePhase) => life.step(sandboxId, 'starting', phase);
        return shares.run(row.accountId, signal, async () =>
          hostedAt(await deps.driver.create(spec, { signal, onPhase })),
        );
      });
    },

    /** `running` → `pausing`; freezes it. */
    pauseSandbox(sandboxId: string, reason: SandboxReason, askedMs: number): Promise<void> {
      return onHost(async (signal) => {
        const { accountId } = await life.beginPause(sandboxId, reason, new Date(askedMs));
        await shares.run(accountId, signal, () => deps.driver.pause(sandboxId, signal));
      });
    },

    /** `paused` → `resuming`, admitted again; thaws it, or starts it again on its disk. */
    resumeSandbox(sandboxId: string, storage?: StorageChange | null, run?: number): Promise<HostedPlace> {
      return onHost(async (signal) => {
        const before = await rowOf(sandboxId);
        const patch: MountPatch = storage
          ? deps.secrets.openFor<MountPatch>(sandboxId, storage.sealedPatch)
          : { kind: 'none' };
        const bestEffort = storage?.bestEffort ?? false;
        const plan = patchMounts(before.objectStorage, patch);
        requireFresh(plan, bestEffort);
        return shares.run(before.accountId, signal, async () => {
          const row = await life.beginResume(sandboxId, run ?? null);
          const spec = toSpec(row, deps, { ...plan, bestEffort });
          return hostedAt(await deps.driver.resume(spec, { signal }).catch(refuseWithoutRoom));
        });
      });
    },

    /** `running` or `paused` → `resuming`; ends its processes and starts it on its disk. Refused before it ends anything. */
    restartSandbox(sandboxId: string, storage: StorageChange | null, run: number): Promise<HostedPlace> {
      return onHost(async (signal) => {
        const before = await rowOf(sandboxId);
        const patch: MountPatch = storage
          ? deps.secrets.openFor<MountPatch>(sandboxId, storage.sealedPatch)
          : { kind: 'none' };
        const bestEffort = storage?.bestEffort ?? false;
        const plan = patchMounts(before.objectStorage, patch);
        requireAllCredentials(plan, bestEffort);
        const isBegun = before.status === 'resuming' && before.run === run;
        return shares.run(before.accountId, signal, async () => {
          if (!isBegun) await deps.driver.requireStartable(toSpec(before, deps), { signal });
          const row = await life.beginRestart(sandboxId, run, new Date());
          return hostedAt(await deps.driver.restart(toSpec(row, deps, { ...plan, bestEffort }), { signal }));
        });
      });
    },

    /**
     * Makes the host's UDP ports lead to it as its row says.
     * @param removing a port of its own that counts as gone already
     */
    exposePorts(sandboxId: string, removing: number | null): Promise<void> {
      return onHost(async () => deps.driver.exposeUdp(sandboxId, udpMappings(await rowOf(sandboxId), removing)));
    },

    /** Ends its processes; its disk stays. */
    stopSandbox(sandboxId: string): Promise<void> {
      return onHost(() => deps.driver.stop(sandboxId));
    },

    /** Removes all that is left of it. */
    removeSandbox(sandboxId: string): Promise<void> {
      return onHost(() => deps.driver.remove(sandboxId));
    },
  };
}

export type SandboxHostActivities = ReturnType<typeof createSandboxHostActivities>;

/** What a specification is made from beside the row. A sandbox's own environment wins over the host's. */
export interface SpecSources {
  secrets: PlatformSecrets;
  /** Variables of every sandbox of the host, and of those that may reach the internet. */
  environment?: Record<string, string>;
  internetEnvironment?: Record<string, string>;
}

type Credentials = Record<number, MountCredentials>;

/** The row admitted it a moment before the disk filled. */
function refuseWithoutRoom(error: unknown): never {
  if (!(error instanceof DriverError && error.code === 'host_disk_full')) throw error;
  throw new AppError('no_capacity', 'The host of this sandbox has no free disk space now; try again later');
}

function hostedAt({ address, agentPort, slots }: SandboxPlace): HostedPlace {
  return { address, agentPort, ...(slots && { slots }) };
}

/** What a host makes of a sandbox's row, secrets included. */
export function toSpec(
  row: Sandbox,
  { secrets, environment, internetEnvironment }: SpecSources,
  mounts?: WantedMounts,
): SandboxSpec {
  return {
    sandboxId: row.sandboxId,
    run: row.run ?? null,
    accountId: row.accountId,
    image: row.image,
    cpuCount: row.cpuCount,
    memoryMb: row.memoryMb,
    storageGb: row.storageGb,
    allowInternetAccess: row.allowInternetAccess,
    env: { ...environment, ...(row.allowInternetAccess ? internetEnvironment : {}), ...row.envVars },
    udpPorts: udpMappings(row),
    accessToken: row.secure ? secrets.agentToken(row.sandboxId) : null,
    platformToken: secrets.platformToken(row.sandboxId),
    command: parseCustomCommand(row.templateCustomCommand ?? null),
    readyProbe: parseReadyCommand(row.templateReadyCommand ?? null),
    ...(mounts && mounts.slots.length > 0 && { storage: { ...mounts, ...directOf(row) } }),
  };
}

function directOf({ directMount, s3fsPath }: Sandbox): Pick<WantedMounts, 'direct'> {
  return directMount ? { direct: { s3fsPath: s3fsPath || 's3fs' } } : {};
}

/** What the driver could not do is tried this often. */
const driverTries = 3;
/** Attempts after other failures, such as an unreachable database. */
const otherTries = 12;
const maxCounts = 10_000;
/** An account that has its share of the host asks again after this. */
const shareRetry = '2 seconds';

/**
 * Heartbeats while the work lasts, so that a dead host is noticed and a cancellation arrives within a second; passes
 * failures on by code. Tries are counted here, not by Temporal's attempts: one that the account's share did not admit
 * is none.
 */
function hostWork() {
  const failed = new Map<string, number>();
  return async <T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> => {
    const { heartbeatTimeoutMs, workflowExecution, activityId } = activityInfo();
    const key = `${workflowExecution?.runId}/${activityId}`;
    const tries = (failed.get(key) ?? 0) + 1;
    const beat = setInterval(() => heartbeat(), Math.min(500, (heartbeatTimeoutMs ?? 10_000) / 10));
    try {
      const result = await work(Context.current().cancellationSignal);
      failed.delete(key);
      return result;
    } catch (error) {
      if (error instanceof ShareInUse) {
        const options = { message: error.message, type: 'share_in_use', nextRetryDelay: shareRetry } as const;
        throw ApplicationFailure.create(options);
      }
      const failure = failureOf(error, tries);
      failed.delete(key);
      if (failure instanceof ApplicationFailure && !failure.nonRetryable) failed.set(key, tries);
      // A workflow that is cancelled between two tries never comes back for its count.
      if (failed.size > maxCounts) failed.delete(failed.keys().next().value!);
      throw failure;
    } finally {
      clearInterval(beat);
    }
  };
}

function failureOf(error: unknown, tries: number): Error {
  if (Context.current().cancellationSignal.aborted) return new CancelledFailure('The work on the host was cancelled');
  if (error instanceof ApplicationFailure) return error;
  if (error instanceof AppError) return ApplicationFailure.nonRetryable(error.message, error.code);
  if (error instanceof DriverError) {
    return ApplicationFailure.create({
      message: error.message,
      type: error.code,
      nonRetryable: !error.retryable || tries >= driverTries,
      details: error.exit ? [error.exit] : [],
    });
  }
  return ApplicationFailure.fromError(error, { nonRetryable: tries >= otherTries });
}
