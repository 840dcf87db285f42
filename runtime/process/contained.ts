import { type CommandOptions, runCommand } from './command.ts';

/**
 * As `runCommand`, in namespaces of its own for processes, mounts and IPC. Everything that the program starts ends with it:
 * when it ends, when the signal is aborted, and when this process ends, `kill -9` included. Settles when all of it is gone.
 * Needs root, setpriv(1) and unshare(1).
 * @throws {CommandError}
 */
export function runContained(command: string, args: string[], options: CommandOptions = {}): Promise<string> {
  const jail = ['unshare', '--pid', '--fork', '--kill-child', '--mount-proc', '--propagation', 'private', '--ipc'];
  // The signal of the parent's death reaches unshare, which is the same process; its own reaches the first one inside.
  return runCommand('setpriv', ['--pdeathsig', 'KILL', ...jail, command, ...args], { ...options, awaitClose: true });
}
