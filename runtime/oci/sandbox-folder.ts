import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { constants, type FileHandle, mkdir, open, readdir, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { UdpMapping } from '../../domain/ports.ts';
import type { SandboxExit } from '../driver.ts';
import type { ProcessIdentity } from '../process/process-identity.ts';

/**
 * What the driver remembers of a sandbox, in `sandbox.json` of its folder. No secret is in it. Beside it lie
 * `disk.ext4`, and what the shim writes: `pids`, `exit`, `command.tail`, `agent.log`.
 */
export interface SandboxRecord {
  sandboxId: string;
  /** Names the container and its cgroup: the sandbox's id, or that of the pool member it was. */
  instance: string;
  /**
   * `starting`: not ready yet; whoever finds it so later takes it for half-made. `ready`: runs or is frozen, and an end
   * comes unexpected. `stopped`: nothing should run.
   */
  phase: 'starting' | 'ready' | 'stopped';
  /** Of the present or last run. */
  address: string;
  /** Ports of the host that lead to it. */
  udpPorts?: UdpMapping[];
  /** The unexpected end was told to the listener. */
  exitReported: boolean;
}

const recordFile = 'sandbox.json';
const exitTailBytes = 8 * 1024;

/** Replaces a file so that a reader, or a power cut, finds the old or the new text whole. */
export async function writeFileAtomically(file: string, text: string): Promise<void> {
  const draft = `${file}.${randomBytes(4).toString('hex')}`;
  await writeFile(draft, text, { mode: 0o600 });
  await rename(draft, file);
}

export async function readRecord(folder: string): Promise<SandboxRecord | null> {
  const text = await readIfThere(path.join(folder, recordFile), 64 * 1024);
  return text === null ? null : (JSON.parse(text.toString('utf8')) as SandboxRecord);
}

export async function writeRecord(folder: string, record: SandboxRecord): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  await writeFileAtomically(path.join(folder, recordFile), JSON.stringify(record));
}

/** The shim of the last run and the host's number of the container's first process, dead or alive. */
export function readPids(folder: string): { shim: ProcessIdentity; initPid: number } | null {
  let text: string;
  try {
    text = readFileSync(path.join(folder, 'pids'), 'latin1');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
  const [pid, startTicks, initPid] = text.trim().split(' ');
  return { shim: { pid: Number(pid), startTicks: startTicks! }, initPid: Number(initPid) };
}

/** How the last run ended; null when its shim did not live to write it. */
export async function readExit(folder: string, sandboxId: string): Promise<SandboxExit | null> {
  const text = await readIfThere(path.join(folder, 'exit'), 64);
  if (!text) return null;
  const [code, outOfMemory] = text.toString('latin1').trim().split(' ');
  return { sandboxId, exitCode: Number(code), outOfMemory: outOfMemory === '1', commandOutput: await readTail(folder) };
}

/** An end nobody recorded: the shim was killed, too. */
export async function unrecordedExit(folder: string, sandboxId: string): Promise<SandboxExit> {
  return { sandboxId, exitCode: null, outOfMemory: false, commandOutput: await readTail(folder) };
}

async function readTail(folder: string): Promise<string> {
  const tail = await readIfThere(path.join(folder, 'command.tail'), exitTailBytes);
  return tail === null ? '' : tail.toString('utf8').replaceAll('\0', '\ufffd');
}

/** Whether the folder holds a sandbox's disk. */
export function hasDisk(folder: string): boolean {
  return existsSync(path.join(folder, 'disk.ext4'));
}

/** Takes away what the last run left, so that it is not taken for this one's. */
export async function forgetLastRun(folder: string): Promise<void> {
  const names = ['pids', 'exit', 'command.tail', 'agent.log', 'storage.json'];
  for (const name of names) await rm(path.join(folder, name), { force: true });
}

/** Folders in `parent`, by name. */
export async function foldersIn(parent: string): Promise<string[]> {
  const entries = await readdir(parent, { withFileTypes: true });
  return entries.filter((entry) => entry.isDirectory()).map((entry) => entry.name);
}

async function readIfThere(file: string, limitBytes: number): Promise<Buffer | null> {
  let handle: FileHandle;
  try {
    handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
  try {
    const buffer = Buffer.alloc(limitBytes);
    const { bytesRead } = await handle.read(buffer, 0, limitBytes, 0);
    return buffer.subarray(0, bytesRead);
  } finally {
    await handle.close();
  }
}
