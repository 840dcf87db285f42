import { type SpawnOptions, spawn as spawnChild } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import { checked, libc, systemError } from '../native/libc.ts';
import { findProgram } from './find-program.ts';
import type { Identity } from './identity.ts';
import { endBeforeAgent } from './oom-score.ts';
import { type ProcessExit, waitForExit, watchForEnds } from './reaper.ts';

export interface Program {
  command: string;
  args: string[];
  env: Record<string, string>;
  /** Where the command is searched. */
  searchPath: string;
  cwd: string;
  /** Undefined: the agent's own user. */
  identity?: Identity | undefined;
}

interface Started {
  pid: number;
  exited: Promise<ProcessExit>;
}

/** A started process and the agent's ends of its pipes, or of its terminal (`terminal`: both directions). */
export interface Launched extends Started {
  stdin?: number;
  stdout?: number;
  stderr?: number;
  terminal?: number;
}

const closeOnExec = 0o2000000;
const readWrite = 2;
const noControl = 0o400;
const setSigMask = 0x08;
const setSigDefault = 0x04;
const setSession = 0x80;
const setWindowSize = 0x5414;
const execFormatError = 8;
/** Larger than posix_spawn_file_actions_t, posix_spawnattr_t and sigset_t in any C library. */
const actionsBytes = 256;
const attributesBytes = 512;
const signalSetBytes = 128;
/** The number of concurrent starts that may occupy threads of the pool. */
const maxConcurrentStarts = 3;

/**
 * Starts a program with pipes, as the leader of its own session. Without `hasInput` its input is empty. Rejects with the
 * errno of execve(2).
 */
export async function launchWithPipes(program: Program, { hasInput }: { hasInput: boolean }): Promise<Launched> {
  const opened: number[] = [];
  const open = (): [number, number] => {
    const pipe = openPipe();
    opened.push(...pipe);
    return pipe;
  };
  try {
    const [stdinRead, stdinWrite] = open();
    const [stdoutRead, stdoutWrite] = open();
    const [stderrRead, stderrWrite] = open();
    // A pipe without a writer is empty.
    if (!hasInput) {
      libc().close(stdinWrite);
      opened.splice(opened.indexOf(stdinWrite), 1);
    }
    const stdio = [stdinRead, stdoutWrite, stderrWrite];
    const started = program.identity
      ? await spawnAs(program.identity, program, stdio)
      : await spawn(program, (actions) => {
          for (const [place, fd] of stdio.entries()) libc().posix_spawn_file_actions_adddup2(actions, fd, place);
        });
    for (const fd of stdio) libc().close(fd);
    return { ...started, ...(hasInput && { stdin: stdinWrite }), stdout: stdoutRead, stderr: stderrRead };
  } catch (error) {
    for (const fd of opened) libc().close(fd);
    throw error;
  }
}

/** Starts a program on a new terminal, which controls its session. Rejects with the errno of execve(2). */
export async function launchOnTerminal(program: Program, columns: number, rows: number): Promise<Launched> {
  const { posix_openpt, grantpt, unlockpt, ptsname_r, close } = libc();
  const terminal = checked('posix_openpt', posix_openpt(readWrite | noControl | closeOnExec));
  try {
    checked('grantpt', grantpt(terminal));
    checked('unlockpt', unlockpt(terminal));
    const name = Buffer.alloc(128);
    const failed = ptsname_r(terminal, name, name.length);
    if (failed) throw systemError('ptsname_r', failed);
    const device = name.toString('latin1', 0, name.indexOf(0));
    resizeTerminal(terminal, columns, rows);
    if (program.identity) return { terminal, ...(await spawnOnTerminalAs(program.identity, program, device)) };
    const started = await spawn(program, (actions) => {
      const { posix_spawn_file_actions_addopen: open, posix_spawn_file_actions_adddup2: dup2 } = libc();
      // The first terminal that a session's leader opens becomes the session's controlling terminal.
      open(actions, 0, device, readWrite, 0);
      dup2(actions, 0, 1);
      dup2(actions, 0, 2);
    });
    return { terminal, ...started };
  } catch (error) {
    close(terminal);
    throw error;
  }
}

/** Sets a terminal's size. The kernel sends SIGWINCH to its foreground processes. */
export function resizeTerminal(terminal: number, columns: number, rows: number): void {
  const size = Buffer.alloc(8);
  size.writeUInt16LE(rows, 0);
  size.writeUInt16LE(columns, 2);
  checked('ioctl', libc().ioctl(terminal, setWindowSize, size));
}

function openPipe(): [number, number] {
  const fds = Buffer.alloc(8);
  checked('pipe2', libc().pipe2(fds, closeOnExec));
  return [fds.readInt32LE(0), fds.readInt32LE(4)];
}

let attributes: Buffer | undefined;

/** Attributes for a new session with default signal dispositions and an empty signal mask. */
function spawnAttributes(): Buffer {
  if (attributes) return attributes;
  attributes = Buffer.alloc(attributesBytes);
  const { posix_spawnattr_init, posix_spawnattr_setflags, posix_spawnattr_setsigdefault, posix_spawnattr_setsigmask } =
    libc();
  posix_spawnattr_init(attributes);
  posix_spawnattr_setflags(attributes, setSession | setSigDefault | setSigMask);
  posix_spawnattr_setsigdefault(attributes, Buffer.alloc(signalSetBytes, 0xff));
  posix_spawnattr_setsigmask(attributes, Buffer.alloc(signalSetBytes));
  return attributes;
}

let starting = 0;
const queue: (() => void)[] = [];

/**
 * Calls posix_spawn(3) on a thread of the pool, so that the event loop continues while the kernel loads the program.
 */
async function spawn(program: Program, addActions: (actions: Buffer) => void): Promise<Started> {
  const file = await findProgram(program.command, program.searchPath, program.cwd);
  if (starting >= maxConcurrentStarts) await new Promise<void>((go) => queue.push(go));
  starting += 1;
  const {
    posix_spawn_file_actions_init,
    posix_spawn_file_actions_destroy,
    posix_spawn_file_actions_addchdir_np,
    posix_spawn_file_actions_addclosefrom_np,
  } = libc();
  const actions = Buffer.alloc(actionsBytes);
  posix_spawn_file_actions_init(actions);
  try {
    addActions(actions);
    posix_spawn_file_actions_addchdir_np(actions, program.cwd);
    // The agent's own descriptors are close-on-exec. Inherited ones may not be.
    posix_spawn_file_actions_addclosefrom_np(actions, 3);
    watchForEnds();
    const envp = Object.entries(program.env).map(([name, value]) => `${name}=${value}`);
    const words = [program.command, ...program.args];
    const pid = await call(file, actions, words, envp).catch((error: NodeJS.ErrnoException) => {
      // The program is a script without `#!`. execvp(3) and every shell run such a script with sh.
      if (error.errno !== -execFormatError) throw error;
      return call('/bin/sh', actions, ['sh', file, ...program.args], envp);
    });
    return { pid, exited: waitForExit(pid) };
  } finally {
    posix_spawn_file_actions_destroy(actions);
    starting -= 1;
    queue.shift()?.();
  }
}

/** posix_spawn(3) cannot change the user, so other users' programs are started by Node, which blocks the event loop. */
async function spawnAs(
  { uid, gid }: Identity,
  { command, args, env, searchPath, cwd }: Program,
  stdio: SpawnOptions['stdio'],
): Promise<Started> {
  const file = await findProgram(command, searchPath, cwd);
  const child = spawnChild(file, args, { argv0: command, cwd, env, stdio, uid, gid, detached: true });
  const exited = new Promise<ProcessExit>((resolve) => {
    child.once('exit', (code, signal) => resolve({ code, signal: signal && os.constants.signals[signal] }));
  });
  await once(child, 'spawn');
  endBeforeAgent(child.pid!);
  return { pid: child.pid!, exited };
}

/** A shell of the user opens the terminal, which so controls its session, and becomes the program. */
async function spawnOnTerminalAs(identity: Identity, program: Program, device: string): Promise<Started> {
  const { uid, gid } = identity;
  const file = await findProgram(program.command, program.searchPath, program.cwd);
  fs.chownSync(device, uid, gid);
  const args = ['-c', 'exec <"$0" >"$0" 2>&1; exec "$@"', device, file, ...program.args];
  return spawnAs(identity, { ...program, command: '/bin/sh', args }, 'ignore');
}

function call(file: string, actions: Buffer, words: string[], envp: string[]): Promise<number> {
  const pid = Buffer.alloc(4);
  return new Promise((resolve, reject) => {
    libc().posix_spawn.async(
      pid,
      file,
      actions,
      spawnAttributes(),
      [...words, null],
      [...envp, null],
      (error, errno) => {
        if (error) reject(error);
        else if (errno !== 0) reject(systemError('execve', errno, file));
        else {
          const started = pid.readInt32LE(0);
          endBeforeAgent(started);
          resolve(started);
        }
      },
    );
  });
}
