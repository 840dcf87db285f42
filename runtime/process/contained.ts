import { type CommandOptions, runCommand } from './command.ts';

/**
 * As `runCommand`, in its own namespaces for processes, mounts and IPC. All processes that the program starts end with
 * it: when it ends, when the signal is aborted, and when this process ends, even by `kill -9`. Settles when all of them
 * have ended. Needs root, setpriv(1) and unshare(1).
 * @throws {CommandError}
 */
export function runContained(command: string, args: string[], options: CommandOptions = {}): Promise<string> {
  const jail = ['unshare', '--pid', '--fork', '--kill-child', '--mount-proc', '--propagation', 'private', '--ipc'];
  // setpriv executes unshare, which gets the signal when this process dies. unshare's own option kills the first
  // process inside.
  return runCommand('setpriv', ['--pdeathsig', 'KILL', ...jail, command, ...args], { ...options, awaitClose: true });
}
