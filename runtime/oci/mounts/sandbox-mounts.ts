import path from 'node:path';
import { z } from 'zod';
import { disabled, isSameMount, type MountSlot } from '../../../domain/sandboxes/object-storage.ts';
import { writeFileDurably } from '../../../platform/config/durable-file.ts';
import { readDocumentOrSetAside } from '../../../platform/config/readable-document.ts';
import type { WantedMounts } from '../../driver.ts';
import { credentialsRequired, explainPlace, mountFailure } from '../../mounts/failures.ts';
import { CommandError, runCommand } from '../../process/command.ts';
import { isAlive, type ProcessIdentity, readParent, signalProcess } from '../../process/process-identity.ts';
import { until } from '../../process/until.ts';
import { type HolderOptions, holdBucket, type MountedContainer } from './bucket-mount.ts';

/** A mounted slot in `storage.json` of the sandbox's folder. It contains no credentials. */
interface HeldMount {
  slot: MountSlot;
  holder: ProcessIdentity;
  /** Minor number of the mount's device. Null until s3fs has reached its bucket. */
  minor: number | null;
  /** The mount's s3fs runs in the sandbox, as a child of the holder. */
  isDirect?: true;
}

const binderFile = path.join(import.meta.dirname, 'bind-mount.pl');
const commandTimeoutSeconds = 10;
const endTimeoutSeconds = 2;

/** The mounted buckets of sandboxes on this host. */
export class SandboxMounts {
  readonly #options: HolderOptions;

  constructor(options: HolderOptions) {
    this.#options = options;
  }

  /**
   * Makes the wanted mounts of a container, whether its processes run or are frozen: makes the mounts that have
   * credentials, keeps existing ones, and removes the others. After a failure the earlier mounts stay.
   * @returns the current slots
   * @throws {DriverError} `object_storage_mount_failed`; `object_storage_credentials_required` for an active mount that
   * does not exist and has no credentials
   */
  async apply(container: MountedContainer, wanted: WantedMounts, signal?: AbortSignal): Promise<MountSlot[]> {
    const held = await readHeld(container.folder);
    const made: HeldMount[] = [];
    const note = () => writeHeld(container.folder, [...held, ...made]);
    const isKept = (slot: MountSlot) =>
      !(slot.slot in wanted.credentials) && held.some((each) => isThere(each) && isSameMount(each.slot, slot));
    const active = wanted.slots.filter((slot) => slot.state === 'active');
    const fresh = active.filter((slot) => slot.slot in wanted.credentials);
    const missing = active.filter((slot) => !fresh.includes(slot) && !isKept(slot));
    if (missing.length > 0 && !wanted.bestEffort) throw credentialsRequired(missing);

    const failed = new Set<MountSlot>(missing);
    const outcomes = await Promise.allSettled(
      fresh.map((slot) => this.#make(container, slot, wanted, made, note, signal)),
    );
    const failures = outcomes.flatMap((outcome, index) =>
      outcome.status === 'rejected' ? [{ slot: fresh[index]!, reason: outcome.reason as unknown }] : [],
    );
    for (const { slot } of failures) failed.add(slot);
    if (failures.length > 0 && (!wanted.bestEffort || signal?.aborted)) {
      await Promise.all(made.map(({ holder }) => endHolder(holder)));
      await writeHeld(container.folder, held);
      throw failures[0]!.reason;
    }

    const outdated = held.filter(
      (each) => !isThere(each) || !active.some((slot) => isKept(slot) && isSameMount(each.slot, slot)),
    );
    for (const { slot, holder } of outdated) {
      await enter(container, slot, 'unbind');
      await endHolder(holder);
    }
    const kept = held.filter((each) => !outdated.includes(each));
    try {
      for (const each of made) await enter(container, each.slot, 'bind', [`holder=${each.holder.pid}`], signal);
    } catch (error) {
      await Promise.all(made.map(({ holder }) => endHolder(holder)));
      await writeHeld(container.folder, kept);
      throw error;
    }
    await writeHeld(container.folder, [...kept, ...made]);
    return wanted.slots.map((slot) => (failed.has(slot) ? disabled(slot) : slot));
  }

  /** The slots of a running container. Slots without a mount are `disabled`. */
  async current(folder: string, slots: readonly MountSlot[]): Promise<MountSlot[]> {
    const held = (await readHeld(folder)).filter(isThere);
    return slots.map((slot) =>
      slot.state !== 'active' || held.some((each) => isSameMount(each.slot, slot)) ? slot : disabled(slot),
    );
  }

  /** The processes inside a sandbox that serve its mounts. */
  async serversAmong(folder: string, pids: readonly number[]): Promise<number[]> {
    const held = (await readHeld(folder)).filter((each) => each.isDirect && isAlive(each.holder));
    const holders = new Set(held.map(({ holder }) => holder.pid));
    if (holders.size === 0) return [];
    return pids.filter((pid) => holders.has(readParent(pid) ?? -1));
  }

  /**
   * Ends the mounts whose storage does not answer the sandbox's requests, because a process that waits for such a mount
   * can be neither frozen nor ended.
   * @returns the number of ended mounts
   */
  async cutHanging(folder: string, signal?: AbortSignal): Promise<number> {
    const held = (await readHeld(folder)).filter(({ holder }) => isAlive(holder));
    if (held.length === 0) return 0;
    const minors = held.flatMap(({ minor }) => (minor === null ? [] : [String(minor)]));
    const script = `cd /sys/fs/fuse/connections; [ -e "$1" ] || mount -t fusectl none . && cd /sys/fs/fuse/connections
for m; do read waiting < $m/waiting && [ $waiting -gt 0 ] && echo $m; done; :`;
    const hanging = await runCommand('unshare', ['--mount', 'sh', '-c', script, 'sh', ...minors], {
      timeoutSeconds: commandTimeoutSeconds,
      ...(signal && { signal }),
    });
    const cut = held.filter(({ minor }) => hanging.split('\n').includes(String(minor)));
    await Promise.all(cut.map(({ holder }) => endHolder(holder)));
    return cut.length;
  }

  async #make(
    container: MountedContainer,
    slot: MountSlot,
    wanted: WantedMounts,
    made: HeldMount[],
    note: () => Promise<void>,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const { direct } = wanted;
    await enter(container, slot, 'prepare', direct ? ['direct=1'] : [], signal);
    let mine: HeldMount | null = null;
    try {
      const minor = await holdBucket(container, slot, wanted.credentials[slot.slot]!, {
        ...this.#options,
        ...(direct && { direct }),
        ...(signal ? { signal } : {}),
        onHolder: async (holder) => {
          mine = { slot, holder, minor: null, ...(direct && { isDirect: true }) };
          made.push(mine);
          await note();
        },
      });
      mine!.minor = minor;
    } catch (error) {
      if (mine) made.splice(made.indexOf(mine), 1);
      throw error;
    }
  }
}

/** Ends every mount of a folder's container at once, including unresponsive ones. */
export async function endMounts(folder: string): Promise<void> {
  await Promise.all((await readHeld(folder)).map(({ holder }) => endHolder(holder)));
}

const heldFile = 'storage.json';
const heldSchema = z.array(
  z.object({
    slot: z.custom<MountSlot>((value) => typeof value === 'object' && value !== null && 'mountPoint' in value),
    holder: z.object({ pid: z.int().positive(), startTicks: z.string() }),
    minor: z.int().nullable(),
    isDirect: z.literal(true).optional(),
  }),
);

async function readHeld(folder: string): Promise<HeldMount[]> {
  return readDocumentOrSetAside(path.join(folder, heldFile), heldSchema) ?? [];
}

const isThere = ({ minor, holder }: HeldMount) => minor !== null && isAlive(holder);

function writeHeld(folder: string, held: HeldMount[]): Promise<void> {
  return writeFileDurably(path.join(folder, heldFile), JSON.stringify(held));
}

/** The holder first ends its s3fs. Processes that wait for the mount get an error. */
async function endHolder(holder: ProcessIdentity): Promise<void> {
  if (!signalProcess(holder, 'SIGTERM')) return;
  const gone = () => !isAlive(holder);
  // s3fs always dies with its holder.
  if (!(await until(gone, { timeoutSeconds: endTimeoutSeconds, everyMs: 3 }))) signalProcess(holder, 'SIGKILL');
}

async function enter(
  container: MountedContainer,
  slot: MountSlot,
  action: 'prepare' | 'bind' | 'unbind',
  more: string[] = [],
  signal?: AbortSignal,
): Promise<void> {
  const args = [`arch=${process.arch}`, `init=${container.initPid}`, `target=${slot.mountPoint}`, `action=${action}`];
  try {
    await runCommand('perl', [binderFile, ...args, ...more], {
      timeoutSeconds: commandTimeoutSeconds,
      ...(signal && { signal }),
    });
  } catch (error) {
    signal?.throwIfAborted();
    throw mountFailure(slot, explainPlace(error instanceof CommandError ? error.stderr : '', slot.mountPoint), error);
  }
}
