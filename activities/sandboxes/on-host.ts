import { ApplicationFailure } from '@temporalio/common';
import type { PlanCatalog } from '../../db/billing/plans.ts';
import type { Orm } from '../../db/orm.ts';
import type { Sandbox } from '../../db/sandboxes/sandbox.entity.ts';
import { SandboxLifeRepository } from '../../db/sandboxes/sandbox-life.ts';
import { AppError } from '../../domain/errors.ts';
import type { SandboxId } from '../../domain/ids.ts';
import { noLife } from '../../domain/sandboxes/life-plan.ts';
import {
  type MountCredentials,
  type MountPatch,
  type MountSlot,
  patchMounts,
  requireAllCredentials,
  requireFresh,
  type StorageChange,
} from '../../domain/sandboxes/object-storage.ts';
import { udpMappings } from '../../domain/sandboxes/ports.ts';
import type { SandboxMove, SandboxReason, SandboxSubstatus } from '../../domain/sandboxes/state.ts';
import { parseCustomCommand, parseReadyCommand } from '../../domain/templates/commands.ts';
import type { PlatformSecrets } from '../../platform/config/secrets.ts';
import {
  type CreatePhase,
  DriverError,
  type PauseResult,
  type SandboxDriver,
  type SandboxPlace,
  type SandboxSpec,
  type WantedMounts,
} from '../../runtime/driver.ts';
import { AccountShares } from '../account-shares.ts';
import { hostWork } from '../hosts/host-work.ts';

/** The current place of a sandbox. */
export interface HostedPlace {
  address: string;
  agentPort: number;
  /** The current slots of its mounts, if it has or had mounts. */
  slots?: MountSlot[];
}

/**
 * The activities of a host, served on the host's own task queue. Their arguments are ids and encrypted values. Secrets
 * are read, derived or decrypted only here, so no workflow history contains them.
 */
export function createSandboxHostActivities(
  deps: {
    orm: Orm;
    plans: PlanCatalog;
    driver: SandboxDriver;
    /** The number of concurrent activities that wait for sandboxes of one account. */
    accountShare: number;
    /** Called after each change of a status. */
    onMove?: (move: SandboxMove) => void;
    /** Called with the duration of each step of a start. */
    onStep?: (step: SandboxSubstatus, ms: number) => void;
  } & SpecSources,
) {
  const shares = new AccountShares(deps.accountShare);
  const onHost = hostWork();
  const life = new SandboxLifeRepository(deps.orm.em, deps.plans, deps.onMove);

  const readSandbox = async (sandboxId: SandboxId): Promise<Sandbox> => {
    const row = await life.find(sandboxId);
    if (!row) throw ApplicationFailure.nonRetryable(`There is no sandbox ${sandboxId}`, 'sandbox_absent');
    return row;
  };

  /** Decrypts the change of a sandbox's mounts and applies it to the slots of its row. */
  const planMounts = ({ sandboxId, objectStorage }: Sandbox, storage: StorageChange | null) => {
    const patch: MountPatch = storage
      ? deps.secrets.openFor<MountPatch>(sandboxId, storage.sealedPatch)
      : { kind: 'none' };
    return { plan: patchMounts(objectStorage, patch), bestEffort: storage?.bestEffort ?? false };
  };

  return {
    /**
     * `created` → `starting`. Creates the sandbox, records each step, and returns when the sandbox is ready.
     * @param sealedCredentials the credentials of its mounts, by slot, encrypted for this host; null when it has no
     * mounts
     * @param run the number of this start
     */
    startSandbox(sandboxId: SandboxId, sealedCredentials: string | null, run: number): Promise<HostedPlace> {
      return onHost(async (signal) => {
        // Recorded here and not by the workflow, to save the caller one round trip.
        const row = await life.begin(sandboxId, run);
        if (!row) throw ApplicationFailure.nonRetryable(`There is no sandbox ${sandboxId} to start`, noLife);
        const credentials = sealedCredentials ? deps.secrets.openFor<Credentials>(sandboxId, sealedCredentials) : {};
        const spec = toSpec(row, deps, { slots: row.objectStorage, credentials, bestEffort: false });
        const steps = new StartSteps((step) => life.step(sandboxId, 'starting', step), deps.onStep);
        const onPhase = (phase: CreatePhase) => steps.enter(phase);
        return shares.run(row.accountId, signal, async () => {
          try {
            const place = await deps.driver.create(spec, { signal, onPhase });
            await steps.end();
            return toHostedPlace(place);
          } finally {
            steps.stop();
          }
        });
      });
    },

    /** `running` → `pausing`. Freezes the processes, or ends them if freezing is impossible. */
    pauseSandbox(sandboxId: SandboxId, reason: SandboxReason, askedMs: number): Promise<PauseResult> {
      return onHost(async (signal) => {
        const { accountId } = await life.beginPause(sandboxId, reason, new Date(askedMs));
        return shares.run(accountId, signal, () => deps.driver.pause(sandboxId, signal));
      });
    },

    /** `paused` → `resuming`, if admitted. Thaws the processes, or starts the sandbox again on its disk. */
    resumeSandbox(sandboxId: SandboxId, storage: StorageChange | null, run: number): Promise<HostedPlace> {
      return onHost(async (signal) => {
        const before = await readSandbox(sandboxId);
        const { plan, bestEffort } = planMounts(before, storage);
        requireFresh(plan, bestEffort);
        return shares.run(before.accountId, signal, async () => {
          const row = await life.beginResume(sandboxId, run);
          const spec = toSpec(row, deps, { ...plan, bestEffort });
          return toHostedPlace(await deps.driver.resume(spec, { signal }).catch(refuseWithoutSpace));
        });
      });
    },

    /**
     * `running` or `paused` → `resuming`. Ends the processes and starts the sandbox on its disk. A refused restart has
     * ended no process.
     */
    restartSandbox(sandboxId: SandboxId, storage: StorageChange | null, run: number): Promise<HostedPlace> {
      return onHost(async (signal) => {
        const before = await readSandbox(sandboxId);
        const { plan, bestEffort } = planMounts(before, storage);
        requireAllCredentials(plan, bestEffort);
        const isBegun = before.status === 'resuming' && before.run === run;
        return shares.run(before.accountId, signal, async () => {
          if (!isBegun) await deps.driver.requireStartable(toSpec(before, deps), { signal });
          const row = await life.beginRestart(sandboxId, run, new Date());
          return toHostedPlace(await deps.driver.restart(toSpec(row, deps, { ...plan, bestEffort }), { signal }));
        });
      });
    },

    /**
     * Maps UDP ports of the host to the sandbox according to its row.
     * @param removing a port to leave out
     */
    exposePorts(sandboxId: SandboxId, removing: number | null): Promise<void> {
      return onHost(async () => deps.driver.exposeUdp(sandboxId, udpMappings(await readSandbox(sandboxId), removing)));
    },

    /** Ends the processes and keeps the disk. */
    stopSandbox(sandboxId: SandboxId): Promise<void> {
      return onHost(() => deps.driver.stop(sandboxId));
    },

    /** Removes all remains of the sandbox. */
    removeSandbox(sandboxId: SandboxId): Promise<void> {
      return onHost(() => deps.driver.remove(sandboxId));
    },
  };
}

export type { PauseResult };
export type SandboxHostActivities = ReturnType<typeof createSandboxHostActivities>;

type Credentials = Record<number, MountCredentials>;

/** Refuses the resume if the disk filled up after the resume was admitted. */
function refuseWithoutSpace(error: unknown): never {
  if (!(error instanceof DriverError && error.code === 'host_disk_full')) throw error;
  throw new AppError('no_capacity', 'The host of this sandbox has no free disk space now; try again later');
}

function toHostedPlace({ address, agentPort, slots }: SandboxPlace): HostedPlace {
  return { address, agentPort, ...(slots && { slots }) };
}

/** The inputs of a specification in addition to the row. The sandbox's own environment overrides the host's. */
export interface SpecSources {
  secrets: PlatformSecrets;
  /** Variables for every sandbox of the host. */
  environment?: Record<string, string>;
  /** Variables for the sandboxes that may reach the internet. */
  internetEnvironment?: Record<string, string>;
}

/** The specification of a sandbox from its row, with its secrets. */
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
    ...(row.diskRates && { diskRates: row.diskRates }),
    allowInternetAccess: row.allowInternetAccess,
    env: { ...environment, ...(row.allowInternetAccess ? internetEnvironment : {}), ...row.envVars },
    udpPorts: udpMappings(row),
    accessToken: row.secure ? secrets.agentToken(row.sandboxId, row.secretKeyNumber) : null,
    platformToken: secrets.platformToken(row.sandboxId, row.secretKeyNumber),
    command: parseCustomCommand(row.templateCustomCommand ?? null),
    startImageCommand: row.startImageCommand,
    readyProbe: parseReadyCommand(row.templateReadyCommand ?? null),
    ...(mounts && mounts.slots.length > 0 && { storage: { ...mounts, ...toDirectMount(row) } }),
  };
}

function toDirectMount({ directMount, s3fsPath }: Sandbox): Pick<WantedMounts, 'direct'> {
  return directMount ? { direct: { s3fsPath: s3fsPath || 's3fs' } } : {};
}

/**
 * Steps are written only for starts that take longer than this. Most starts are shorter, and each write would slow down
 * the create.
 */
const writtenAfterMs = 50;

/**
 * Writes the steps of one start to its row, concurrently with the work. Writes only the latest step, at most once in
 * `writtenAfterMs`.
 */
class StartSteps {
  readonly #write: (step: CreatePhase) => Promise<void>;
  #latest: CreatePhase | null = null;
  #timer: NodeJS.Timeout | undefined;
  #written: Promise<void> = Promise.resolve();
  readonly #onStep: (step: SandboxSubstatus, ms: number) => void;
  #present: { step: SandboxSubstatus; sinceMs: number } = { step: 'allocating', sinceMs: performance.now() };

  /** @param onStep called at the end of each step with the duration of the step */
  constructor(
    write: (step: CreatePhase) => Promise<void>,
    onStep: (step: SandboxSubstatus, ms: number) => void = () => undefined,
  ) {
    this.#write = write;
    this.#onStep = onStep;
  }

  enter(step: CreatePhase): void {
    this.#endStep();
    this.#present = { step, sinceMs: performance.now() };
    this.#latest = step;
    this.#timer ??= setTimeout(() => this.#writeLatest(), writtenAfterMs);
  }

  /** Stops further writes. */
  stop(): void {
    clearTimeout(this.#timer);
  }

  /** Stops further writes and waits for the current one. @throws the error of a write */
  async end(): Promise<void> {
    this.#endStep();
    this.stop();
    await this.#written;
  }

  #endStep(): void {
    this.#onStep(this.#present.step, performance.now() - this.#present.sinceMs);
  }

  #writeLatest(): void {
    this.#timer = undefined;
    const step = this.#latest!;
    this.#written = this.#written.then(() => this.#write(step));
    // `end` throws the error.
    this.#written.catch(() => {});
  }
}
