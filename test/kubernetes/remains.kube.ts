import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { expect, test } from '@jest/globals';
import { ClusterPlace } from './support/cluster-place.ts';
import { KubernetesCluster } from './support/kubernetes-cluster.ts';

const sysctls = ['vm/overcommit_memory', 'kernel/panic', 'kernel/panic_on_oops'];
const settings = () => sysctls.map((name) => fs.readFileSync(`/proc/sys/${name}`, 'utf8'));

/** The mounts, processes and links on this machine that belong to a place. */
function traces({ folder, link }: ClusterPlace): string[] {
  const mounts = fs
    .readFileSync('/proc/self/mounts', 'utf8')
    .split('\n')
    .filter((line) => line.includes(folder));
  const processes = fs.readdirSync('/proc').filter((pid) => /^\d+$/.test(pid) && commandLine(pid).includes(folder));
  return [...mounts, ...processes, ...fs.readdirSync('/sys/class/net').filter((name) => name === link)];
}

function commandLine(pid: string): string {
  try {
    return fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    // The process has ended since it was listed.
    return '';
  }
}

test('a stopped cluster leaves nothing on the machine', async () => {
  const before = settings();
  const cluster = await KubernetesCluster.start();
  expect(settings()).toEqual(before);
  await cluster.stop();
  expect(cluster.place.isEmpty).toBe(true);
  expect(traces(cluster.place)).toEqual([]);
  expect(settings()).toEqual(before);
}, 300_000);

test('the next cluster removes the remains of two clusters of a killed process, including a second node and frozen pods', async () => {
  const program = path.join(import.meta.dirname, 'support/abandoned-cluster.ts');
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, NODE_OPTIONS: '' },
  });
  const ended = once(child, 'exit');
  const [line] = await Promise.race([once(createInterface(child.stdout), 'line'), ended]);
  const numbers: number[] = JSON.parse(line);
  child.kill('SIGKILL');
  await ended;
  const next = await KubernetesCluster.start({ kind: 'api-only' });
  await next.stop();
  for (const number of numbers) {
    const place = ClusterPlace.at(number);
    expect(place.isEmpty).toBe(true);
    expect(traces(place)).toEqual([]);
  }
}, 300_000);
