import { spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { seconds } from './progress.mjs';

/** How often a long command says that it is still at work. */
const heartbeatMs = 20_000;

/**
 * Whether a program is there, as a shell would find it; system folders count too, which a user's PATH may lack.
 * @param {string} name
 */
export function isOnPath(name) {
  const folders = [...(process.env.PATH ?? '').split(path.delimiter), '/usr/local/sbin', '/usr/sbin', '/sbin'];
  return folders.some((folder) => {
    try {
      fs.accessSync(path.join(folder, name), fs.constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

/**
 * Runs a command to its end and gives what it printed. Its output is shown only when it fails.
 * @param {string} command
 * @param {readonly string[]} args
 * @param {{cwd?: string, env?: NodeJS.ProcessEnv, what?: string}} [options] `what` it is doing, for the heartbeat
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
  const heartbeat = setInterval(() => console.log(`    still at it: ${what}, ${seconds(started)}`), heartbeatMs);
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
