import { checked, libc, systemError } from '../native/libc.ts';
import { findProgram } from './find-program.ts';
import { endBeforeAgent } from './oom-score.ts';
import { type ProcessExit, waitForExit, watchForEnds } from './reaper.ts';

export interface Program {
  command: string;
  args: string[];
  env: Record<string, string>;
  /** Where the command is searched. */
  searchPath: string;
  cwd: string;
}

/** A started process and the agent's ends of its pipes, or of its terminal (`terminal`: both directions). */
export interface Launched {
  pid: number;
  stdin?: number;
  stdout?: number;
  stderr?: number;
  terminal?: number;
  exited: Promise<ProcessExit>;
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

/** Starts a program with three pipes, as the leader of its own session. Rejects with the errno of execve(2). */
export async function launchWithPipes(program: Program): Promise<Launched> {
  const pipes: number[] = [];
  try {
    for (let i = 0; i < 3; i++) pipes.push(...openPipe());
    const [stdinRead, stdinWrite, stdoutRead, stdoutWrite, stderrRead, stderrWrite] = pipes as [
      number,
      number,
      number,
      number,
      number,
      number,
    ];
    const pid = await spawn(program, (actions) => {
      const { posix_spawn_file_actions_adddup2: dup2 } = libc();
      dup2(actions, stdinRead, 0);
      dup2(actions, stdoutWrite, 1);
      dup2(actions, stderrWrite, 2);
    });
    for (const fd of [stdinRead, stdoutWrite, stderrWrite]) libc().close(fd);
    return { pid, stdin: stdinWrite, stdout: stdoutRead, stderr: stderrRead, exited: waitForExit(pid) };
  } catch (error) {
    for (const fd of pipes) libc().close(fd);
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
    const pid = await spawn(program, (actions) => {
      const { posix_spawn_file_actions_addopen: open, posix_spawn_file_actions_adddup2: dup2 } = libc();
      // The first terminal that a session's leader opens becomes the session's controlling terminal.
      open(actions, 0, device, readWrite, 0);
      dup2(actions, 0, 1);
      dup2(actions, 0, 2);
    });
    return { pid, terminal, exited: waitForExit(pid) };
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
async function spawn(program: Program, addActions: (actions: Buffer) => void): Promise<number> {
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
    try {
      return await call(file, actions, words, envp);
    } catch (error) {
      // The program is a script without `#!`. execvp(3) and every shell run such a script with sh.
      if ((error as NodeJS.ErrnoException).errno !== -execFormatError) throw error;
      return await call('/bin/sh', actions, ['sh', file, ...program.args], envp);
    }
  } finally {
    posix_spawn_file_actions_destroy(actions);
    starting -= 1;
    queue.shift()?.();
  }
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
