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
  } & SpecSources,
) {
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
        return hostedAt(await deps.driver.create(spec, { signal, onPhase }));
      });
    },

    /** `running` → `pausing`; freezes it. */
    pauseSandbox(sandboxId: string, reason: SandboxReason, askedMs: number): Promise<void> {
      return onHost(async () => {
        await life.beginPause(sandboxId, reason, new Date(askedMs));
        await deps.driver.pause(sandboxId);
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
        const row = await life.beginResume(sandboxId, run ?? null);
        const spec = toSpec(row, deps, { ...plan, bestEffort });
        return hostedAt(await deps.driver.resume(spec, { signal }).catch(refuseWithoutRoom));
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
        if (!isBegun) await deps.driver.requireStartable(toSpec(before, deps), { signal });
        const row = await life.beginRestart(sandboxId, run, new Date());
        return hostedAt(await deps.driver.restart(toSpec(row, deps, { ...plan, bestEffort }), { signal }));
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

/** What the driver could not do is tried this often. An unreachable database is waited for as long as the workflow says. */
const driverTries = 3;

/** Heartbeats while the work lasts, so that a dead host is noticed and a cancellation arrives; passes failures on by code. */
async function onHost<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const { heartbeatTimeoutMs } = activityInfo();
  const beat = setInterval(() => heartbeat(), Math.max(200, (heartbeatTimeoutMs ?? 10_000) / 10));
  try {
    return await work(Context.current().cancellationSignal);
  } catch (error) {
    if (Context.current().cancellationSignal.aborted) throw new CancelledFailure('The work on the host was cancelled');
    if (error instanceof AppError) throw ApplicationFailure.nonRetryable(error.message, error.code);
    if (error instanceof DriverError) {
      throw ApplicationFailure.create({
        message: error.message,
        type: error.code,
        nonRetryable: !error.retryable || activityInfo().attempt >= driverTries,
        details: error.exit ? [error.exit] : [],
      });
    }
    throw error;
  } finally {
    clearInterval(beat);
  }
}
