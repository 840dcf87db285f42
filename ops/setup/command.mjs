import { spawn } from 'node:child_process';
import { report, SetupError, seconds, stopSignal } from './progress.mjs';

/** The interval of the progress messages of a long command: each minute after the third message. */
const heartbeatMs = 20_000;
/** A command that was asked to end and does not is killed after this time. */
const killAfterMs = 10_000;

/**
 * Runs a command to its end and returns its output. The output is shown only if the command fails. When set-up stops,
 * the command and its descendants are ended.
 * @param {string} command
 * @param {readonly string[]} args
 * @param {{cwd?: string, env?: NodeJS.ProcessEnv, what?: string, isInterruptible?: boolean, onLine?: (line: string) =>
 * void}} [options] `what`: its description in progress messages; `isInterruptible`: false for a command that must run
 * to its end; `onLine`: gets each line of its standard output
 * @returns {Promise<string>} its standard output
 * @throws {SetupError} with the end of its output when it fails
 */
export async function runCommand(command, args, { cwd, env, what = command, isInterruptible = true, onLine } = {}) {
  const stop = stopSignal();
  stop?.throwIfAborted();
  const started = Date.now();
  // In a group of its own, so that Ctrl-C reaches it only through `end`, and all of its descendants can be ended.
  const child = spawn(command, args, {
    cwd,
    env: env ?? process.env,
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  const output = [];
  const standardOutput = [];
  let line = '';
  child.stdout.on('data', (chunk) => {
    output.push(chunk);
    standardOutput.push(chunk);
    if (!onLine) return;
    const lines = (line + chunk).split('\n');
    line = lines.pop() ?? '';
    for (const each of lines) onLine(each);
  });
  child.stderr.on('data', (chunk) => output.push(chunk));
  let beats = 0;
  const heartbeat = setInterval(() => {
    beats += 1;
    if (beats <= 3 || beats % 3 === 0) report(`${what}, ${seconds(started)}`);
  }, heartbeatMs);
  /** @type {NodeJS.Timeout | undefined} */
  let killing;
  const end = () => {
    if (!isInterruptible) {
      report(`waiting for the end of ${what}, which must not be interrupted`);
      return;
    }
    signalGroup(child.pid, 'SIGTERM');
    killing = setTimeout(() => signalGroup(child.pid, 'SIGKILL'), killAfterMs);
  };
  stop?.addEventListener('abort', end, { once: true });
  try {
    const code = await new Promise((resolve, reject) => {
      child.once('error', (error) => reject(new SetupError(`${command} cannot be run: ${error.message}`)));
      child.once('close', (status, signal) => resolve(signal ?? status));
    });
    stop?.throwIfAborted();
    if (code !== 0) {
      const tail = Buffer.concat(output).toString().trimEnd().split('\n').slice(-40).join('\n');
      throw new SetupError(`${command} ${args.join(' ')}\nended with ${code}:\n${tail}`);
    }
    return Buffer.concat(standardOutput).toString();
  } finally {
    clearInterval(heartbeat);
    clearTimeout(killing);
    stop?.removeEventListener('abort', end);
  }
}

/** @param {number | undefined} pid undefined: it was not started */
function signalGroup(pid, signal) {
  if (pid === undefined) return;
  try {
    process.kill(-pid, signal);
  } catch (error) {
    if (error.code !== 'ESRCH') throw error;
  }
}
