import { lstatSync, readFileSync } from 'node:fs';
import { constants, type FileHandle, mkdir, open, readdir, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import type { SandboxId } from '../../domain/ids.ts';
import type { MountSlot } from '../../domain/sandboxes/object-storage.ts';
import { replaceFile, syncFile, syncFolder, writeFileDurably } from '../../platform/config/durable-file.ts';
import { readDocument, setAside } from '../../platform/config/readable-document.ts';
import type { SandboxExit, SandboxPlace } from '../driver.ts';
import type { DriverLogger } from '../driver-logger.ts';
import { isFirstOfNamespace, type ProcessIdentity, readParent } from '../process/process-identity.ts';
import { agentPort } from '../sandbox-agent/agent-client.ts';
import { isSandboxName, requireSandboxName } from '../sandbox-name.ts';
import type { Cgroups } from './cgroups.ts';
import type { Copy } from './copy.ts';
import { type LiveShim, liveShims } from './live-shims.ts';

const port = z.int().min(1).max(65_535);
const rate = z.int().positive();

const recordSchema = z.object({
  /** The version of the format. */
  version: z.literal(1),
  sandboxId: z.string() as unknown as z.ZodType<SandboxId, string>,
  /**
   * The name of the container and its cgroup: the sandbox's id, or the id of the pool member from which it was made.
   */
  instance: z.string().regex(/^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$/),
  /**
   * `starting`: half-made until it is ready. `ready`: running or frozen, and an end is unexpected. `stopped`: no
   * process should run.
   */
  phase: z.enum(['starting', 'ready', 'stopped']),
  /** The number of the start or resume of its processes. Absent: the record was lost and recreated without it. */
  run: z.int().min(0).optional(),
  /** The address of the current or last run. */
  address: z.ipv4(),
  /** Ports of the host that are forwarded to it. */
  udpPorts: z.array(z.object({ hostPort: port, servicePort: port })).optional(),
  /** The rates at which it may use its disk. Absent: no limit. */
  diskRates: z
    .object({ readMbPerSecond: rate, writeMbPerSecond: rate, readsPerSecond: rate, writesPerSecond: rate })
    .optional(),
  /** The listener has received the report of the unexpected end. */
  exitReported: z.boolean(),
  /** The record was lost and recreated from the state of the kernel, so `ready` is a guess. */
  remade: z.literal(true).optional(),
});

/**
 * The driver's record of a sandbox, in `sandbox.json` of its folder. It contains no secret. The folder also contains
 * `disk.ext4` and the shim's files: `pids`, `agent`, `exit`, `command.tail`, `agent.log`.
 */
export type SandboxRecord = Omit<z.output<typeof recordSchema>, 'version'>;

type RunOfSandbox = Pick<SandboxRecord, 'sandboxId' | 'run'>;

const recordFile = 'sandbox.json';
const exitTailBytes = 8 * 1024;

/**
 * The record in a sandbox's folder. Null when there is none.
 * @throws {DamagedFileError}
 */
function readRecord(folder: string): SandboxRecord | null {
  return readDocument(path.join(folder, recordFile), recordSchema);
}

export async function writeRecord(folder: string, record: SandboxRecord): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  await writeFileDurably(path.join(folder, recordFile), JSON.stringify({ version: 1, ...record }));
}

/** As `writeRecord`, but a power cut may undo it. */
export async function replaceRecord(folder: string, record: SandboxRecord): Promise<void> {
  await replaceFile(path.join(folder, recordFile), JSON.stringify({ version: 1, ...record }));
}

/** The place of a sandbox at which others reach it. */
export function toSandboxPlace(record: SandboxRecord, from: SandboxPlace['from'], slots?: MountSlot[]): SandboxPlace {
  return { address: record.address, agentPort, from, ...(slots && { slots }) };
}

/** The shim of the last run and the host number of the container's first process, dead or alive. */
export function readPids(folder: string): { shim: ProcessIdentity; initPid: number } | null {
  let text: string;
  try {
    text = readFileSync(path.join(folder, 'pids'), 'latin1');
  } catch (error) {
    if (['ENOENT', 'EISDIR', 'ELOOP'].includes((error as NodeJS.ErrnoException).code ?? '')) return null;
    throw error;
  }
  const fields = /^(\d+) (\d+) (\d+)\n$/.exec(text);
  if (!fields) return null;
  return { shim: { pid: Number(fields[1]), startTicks: fields[2]! }, initPid: Number(fields[3]) };
}

/**
 * The agent that the shim started last, dead or alive. Null: it was not started yet, or its file was lost.
 */
export function readAgent(folder: string): ProcessIdentity | null {
  let text: string;
  try {
    text = readFileSync(path.join(folder, 'agent'), 'latin1');
  } catch (error) {
    if (['ENOENT', 'EISDIR', 'ELOOP'].includes((error as NodeJS.ErrnoException).code ?? '')) return null;
    throw error;
  }
  const fields = /^(\d+) (\d+)\n$/.exec(text);
  return fields && { pid: Number(fields[1]), startTicks: fields[2]! };
}

/** Recreates the shim's file for a sandbox that has lost it. */
async function writePids(folder: string, shim: ProcessIdentity, initPid: number): Promise<void> {
  const file = path.join(folder, 'pids');
  await rm(file, { recursive: true, force: true });
  await writeFileDurably(file, `${shim.pid} ${shim.startTicks} ${initPid}\n`);
}

/** The end of the last run. Null when its shim was killed before it could write the file, or the file was lost. */
export async function readExit(folder: string, of: RunOfSandbox): Promise<SandboxExit | null> {
  const text = await readStart(path.join(folder, 'exit'), 64);
  const fields = /^(\d{1,3}) ([01])\n$/.exec(text?.toString('latin1') ?? '');
  if (!fields) return null;
  const [exitCode, outOfMemory] = [Number(fields[1]), fields[2] === '1'];
  return { ...(await unrecordedExit(folder, of)), exitCode, outOfMemory };
}

/** An end that was not recorded, because the shim was killed too. */
export async function unrecordedExit(folder: string, { sandboxId, run }: RunOfSandbox): Promise<SandboxExit> {
  return { sandboxId, run: run ?? null, exitCode: null, outOfMemory: false, commandOutput: await readTail(folder) };
}

async function readTail(folder: string): Promise<string> {
  const tail = await readStart(path.join(folder, 'command.tail'), exitTailBytes);
  return tail === null ? '' : tail.toString('utf8').replaceAll('\0', '\ufffd');
}

/** Whether the folder contains a sandbox's disk. */
export function hasDisk(folder: string): boolean {
  return lstatSync(path.join(folder, 'disk.ext4'), { throwIfNoEntry: false })?.isFile() ?? false;
}

/** Removes the files of the last run, so that they are not mistaken for those of this run. */
export async function forgetLastRun(folder: string): Promise<void> {
  const names = ['pids', 'agent', 'agent.sock', 'exit', 'command.tail', 'agent.log', 'storage.json'];
  for (const name of names) await rm(path.join(folder, name), { recursive: true, force: true });
}

/** Folders in `parent`, by name. */
export async function foldersIn(parent: string): Promise<string[]> {
  const entries = await readdir(parent, { withFileTypes: true });
  return entries.filter((entry) => entry.isDirectory()).map((entry) => entry.name);
}

/** The first bytes of a regular file. Null when it does not exist. */
async function readStart(file: string, limitBytes: number): Promise<Buffer | null> {
  let handle: FileHandle;
  try {
    handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    if (['ENOENT', 'ELOOP', 'ENXIO', 'EACCES'].includes((error as NodeJS.ErrnoException).code ?? '')) return null;
    throw error;
  }
  try {
    if (!(await handle.stat()).isFile()) return null;
    const buffer = Buffer.alloc(limitBytes);
    const { bytesRead } = await handle.read(buffer, 0, limitBytes, 0);
    return buffer.subarray(0, bytesRead);
  } finally {
    await handle.close();
  }
}

/**
 * The records of one copy's sandboxes. They are read once when the host worker starts, then kept in memory, and written
 * to the disk before anything relies on them. So a sandbox can be ended even if its file is damaged or lost.
 */
export class SandboxRecords {
  readonly #copy: Copy;
  readonly #cgroups: Cgroups;
  readonly #logger: DriverLogger;
  readonly #records = new Map<SandboxId, SandboxRecord>();

  constructor(parts: { copy: Copy; cgroups: Cgroups; logger: DriverLogger }) {
    this.#copy = parts.copy;
    this.#cgroups = parts.cgroups;
    this.#logger = parts.logger;
  }

  /**
   * Reads every sandbox's record. An unusable record is renamed to `sandbox.json.damaged` and affects only its own
   * sandbox: the record is recreated from the running shim. Without a shim, the sandbox counts as ended together with
   * its host.
   */
  async load(): Promise<void> {
    const shims = liveShims(this.#copy);
    for (const entry of await readdir(this.#copy.sandboxesFolder, { withFileTypes: true })) {
      try {
        if (!entry.isDirectory()) await this.#moveAside(entry.name);
        else if (isSandboxName(entry.name)) await this.#loadOne(entry.name, shims);
        else
          this.#logger.warn({ name: entry.name }, "an unknown folder is among the sandboxes' folders; it is ignored");
      } catch (error) {
        this.#logger.error({ err: error, sandboxId: entry.name }, 'the folder of a sandbox could not be read');
      }
    }
  }

  /** Null: no run of the sandbox is known. */
  get(sandboxId: SandboxId): SandboxRecord | null {
    return this.#records.get(sandboxId) ?? null;
  }

  all(): SandboxRecord[] {
    return [...this.#records.values()];
  }

  /** On return, the record is on the disk. */
  async write(record: SandboxRecord): Promise<void> {
    await writeRecord(this.sandboxFolder(record.sandboxId), record);
    this.#records.set(record.sandboxId, record);
  }

  /**
   * Records that a started sandbox is ready. A power cut may undo this, which changes nothing: it also ends the
   * sandbox's processes.
   */
  async makeReady(record: SandboxRecord): Promise<SandboxRecord> {
    const ready: SandboxRecord = { ...record, phase: 'ready' };
    await replaceRecord(this.sandboxFolder(record.sandboxId), ready);
    this.#records.set(record.sandboxId, ready);
    return ready;
  }

  /**
   * Adds a record of a folder that has become the sandbox's.
   * @returns resolves when record and folder are on the disk
   */
  async adopt(record: SandboxRecord): Promise<void> {
    this.#records.set(record.sandboxId, record);
    const folder = this.sandboxFolder(record.sandboxId);
    await syncFile(path.join(folder, recordFile));
    await syncFolder(folder);
    await syncFolder(this.#copy.sandboxesFolder);
  }

  forget(sandboxId: SandboxId): void {
    this.#records.delete(sandboxId);
  }

  /** Every sandbox with a record or a folder. */
  async sandboxIds(): Promise<SandboxId[]> {
    const entries = await readdir(this.#copy.sandboxesFolder, { withFileTypes: true });
    const folders = entries.filter((entry) => entry.isDirectory() && isSandboxName(entry.name));
    return [...new Set([...this.#records.keys(), ...folders.map((entry) => entry.name as SandboxId)])];
  }

  /** @throws {TypeError} for a text that cannot be a sandbox's id */
  sandboxFolder(sandboxId: SandboxId): string {
    requireSandboxName(sandboxId);
    return path.join(this.#copy.sandboxesFolder, sandboxId);
  }

  async #loadOne(sandboxId: SandboxId, shims: readonly LiveShim[]): Promise<void> {
    const folder = this.sandboxFolder(sandboxId);
    const shim = shims.find((each) => each.folder === folder && !each.isFolderDeleted) ?? null;
    if (shim) await this.#keepPids(folder, shim);
    const read = readOrProblem(folder);
    const problem = read.problem ?? contradiction(sandboxId, read.record, shim, shims);
    if (problem === null) {
      if (read.record) this.#records.set(sandboxId, read.record);
      return;
    }
    this.#logger.error({ sandboxId, problem, runs: shim !== null }, 'the record of a sandbox was damaged or lost');
    if (read.problem !== null || read.record) setAside(path.join(folder, recordFile));
    if (!shim) return;
    const hasContainer = (readPids(folder)?.initPid ?? 0) > 0;
    await this.write({
      sandboxId,
      instance: shim.instance,
      phase: hasContainer ? 'ready' : 'starting',
      address: shim.address,
      exitReported: false,
      remade: true,
    });
  }

  /** Recreates the file of process numbers if it was lost. */
  async #keepPids(folder: string, shim: LiveShim): Promise<void> {
    const known = readPids(folder)?.shim;
    if (known?.pid === shim.process.pid && known.startTicks === shim.process.startTicks) return;
    const processes = await this.#cgroups.readProcesses(shim.instance);
    const initPid = processes.find((pid) => readParent(pid) === shim.process.pid && isFirstOfNamespace(pid)) ?? 0;
    await writePids(folder, shim.process, initPid);
  }

  async #moveAside(name: string): Promise<void> {
    await mkdir(this.#copy.damagedFolder, { recursive: true });
    const target = path.join(this.#copy.damagedFolder, `${name}-${Date.now()}`);
    await rename(path.join(this.#copy.sandboxesFolder, name), target);
    this.#logger.error({ name, target }, "a file that is not a folder had the name of a sandbox's folder");
  }
}

function readOrProblem(folder: string): { record: SandboxRecord | null; problem: string | null } {
  try {
    return { record: readRecord(folder), problem: null };
  } catch (error) {
    return { record: null, problem: (error as Error).message };
  }
}

/** The contradiction between a record and the kernel. Null: there is none. */
function contradiction(
  sandboxId: SandboxId,
  record: SandboxRecord | null,
  shim: LiveShim | null,
  shims: readonly LiveShim[],
): string | null {
  if (!record) return shim ? 'it runs without a record' : null;
  if (record.sandboxId !== sandboxId) return `it names the sandbox ${record.sandboxId}`;
  if (record.instance !== sandboxId && !/^pool-[0-9a-f]{16}$/.test(record.instance)) {
    return `it names the container ${record.instance}`;
  }
  if (shim && (shim.instance !== record.instance || shim.address !== record.address)) {
    return 'it names another container or address than runs';
  }
  const owner = shims.find((each) => each !== shim && each.instance === record.instance);
  return owner ? `it names the container of ${owner.folder}` : null;
}
