import { spawn } from 'node:child_process';
import { seconds } from './progress.mjs';

/** The interval of the progress messages of a long command: each minute after the third message. */
const heartbeatMs = 20_000;

/**
 * Runs a command to its end and returns its output. The output is shown only if the command fails.
 * @param {string} command
 * @param {readonly string[]} args
 * @param {{cwd?: string, env?: NodeJS.ProcessEnv, what?: string}} [options] `what`: its description in progress
 * messages
 * @returns {Promise<string>} its standard output
 */
export async function runCommand(command, args, { cwd, env, what = command } = {}) {
  const started = Date.now();
  const child = spawn(command, args, { cwd, env: env ?? process.env, stdio: ['ignore', 'pipe', 'pipe'] });
  const output = [];
  const standardOutput = [];
  child.stdout.on('data', (chunk) => {
    output.push(chunk);
    standardOutput.push(chunk);
  });
  child.stderr.on('data', (chunk) => output.push(chunk));
  let beats = 0;
  const heartbeat = setInterval(() => {
    beats += 1;
    if (beats <= 3 || beats % 3 === 0) console.log(`    still running: ${what}, ${seconds(started)}`);
  }, heartbeatMs);
  try {
    const code = await new Promise((resolve, reject) => {
      child.once('error', reject);
      child.once('close', (status, signal) => resolve(signal ?? status));
    });
    if (code !== 0) {
      const tail = Buffer.concat(output).toString().split('\n').slice(-40).join('\n');
      throw new Error(`${command} ${args.join(' ')}\nended with ${code}:\n${tail}`);
    }
    return Buffer.concat(standardOutput).toString();
  } finally {
    clearInterval(heartbeat);
  }
}
