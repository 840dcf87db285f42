import { ApplicationFailure } from '@temporalio/common';
import type { Sandbox } from '../../db/sandboxes/sandbox.entity.ts';
import type { SandboxLifeRepository } from '../../db/sandboxes/sandbox-life.ts';
import { AppError } from '../../domain/errors.ts';
import type { SandboxId } from '../../domain/ids.ts';
import {
  type MountPatch,
  patchMounts,
  requireAllCredentials,
  requireFresh,
  type StorageChange,
} from '../../domain/sandboxes/object-storage.ts';
import { udpMappings } from '../../domain/sandboxes/ports.ts';
import type { SandboxReason } from '../../domain/sandboxes/state.ts';
import { DriverError, type PauseResult, type SandboxDriver } from '../../runtime/driver.ts';
import type { AccountShares } from '../account-shares.ts';
import { hostWork } from '../hosts/host-work.ts';
import type { SandboxMoves } from './moves.ts';
import { type SpecSources, toSpec } from './spec.ts';
import { type HostedPlace, type SandboxStarts, type StartedPlace, toHostedPlace } from './starts.ts';

/**
 * The activities of a host, served on the host's own task queue. Their arguments are ids and encrypted values. Secrets
 * are read, derived or decrypted only here, so no workflow history contains them.
 */
export function createSandboxHostActivities(
  deps: {
    life: SandboxLifeRepository;
    driver: SandboxDriver;
    /** The first starts of sandboxes. */
    starts: SandboxStarts;
    /** The pauses and resumes that the API has claimed. */
    moves: SandboxMoves;
    shares: AccountShares;
  } & SpecSources,
) {
  const { life, starts, moves, shares } = deps;
  const onHost = hostWork();

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
     * Starts the sandbox, or joins its direct start. Returns when the sandbox is ready.
     * @param sealedCredentials the credentials of its mounts, by slot, encrypted for this host; null when it has no
     * mounts
     * @param run the number of this start
     */
    startSandbox(sandboxId: SandboxId, sealedCredentials: string | null, run: number): Promise<StartedPlace> {
      return onHost((signal) => starts.start(sandboxId, sealedCredentials, run, signal));
    },

    /** `running` → `pausing`. Freezes the processes, or ends them if freezing is impossible. */
    pauseSandbox(sandboxId: SandboxId, reason: SandboxReason, askedMs: number): Promise<PauseResult> {
      return onHost(async (signal) => {
        const { accountId } = await life.beginPause(sandboxId, reason, new Date(askedMs));
        await moves.join(sandboxId);
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
          await moves.join(sandboxId);
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
          await moves.join(sandboxId);
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
      return onHost(async () => {
        await Promise.all([starts.cancel(sandboxId), moves.cancel(sandboxId)]);
        await deps.driver.stop(sandboxId);
      });
    },

    /** Removes all remains of the sandbox. */
    removeSandbox(sandboxId: SandboxId): Promise<void> {
      return onHost(async () => {
        await Promise.all([starts.cancel(sandboxId), moves.cancel(sandboxId)]);
        await deps.driver.remove(sandboxId);
      });
    },
  };
}

export type { PauseResult };
export type SandboxHostActivities = ReturnType<typeof createSandboxHostActivities>;

/** Refuses the resume if the disk filled up after the resume was admitted. */
function refuseWithoutSpace(error: unknown): never {
  if (!(error instanceof DriverError && error.code === 'host_disk_full')) throw error;
  throw new AppError('no_capacity', 'The host of this sandbox has no free disk space now; try again later');
}
