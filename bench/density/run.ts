import { readFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import pLimit from 'p-limit';
import { AgentClient } from '../../ops/development/client/agent-client.ts';
import type { SandboxView } from '../../ops/development/client/platform-client.ts';
import { RunningPlatform } from '../../test/support/running-platform.ts';
import { idleRows } from '../idle-use.ts';
import { findCgroup } from '../lifecycle/idle-memory.ts';
import { platformUse } from '../process-groups.ts';
import { inTurn, summarize, timed } from '../statistics.ts';
import { holdAgainst, printTable } from '../table.ts';

/** The number of idle sandboxes of `base` that a machine can run, and their cost. `BENCH_SANDBOXES=100,300,500` */
const counts = (process.env.BENCH_SANDBOXES ?? '500').split(',').map(Number);
const times = Number(process.env.BENCH_TIMES ?? 20);
const atOnce = 4;
const wanted = { template: 'base', timeout: 7200 };

const platform = new RunningPlatform({
  PLATFORM_WARM_POOL_SIZE: process.env.BENCH_POOL ?? '0',
  PLATFORM_RATE_LIMIT_PER_KEY: '0',
});
await platform.start();
try {
  const client = platform.client();
  const supervisor = platform.findPids('ops/local-stack/start.ts')[0]!;
  const running: SandboxView[] = [];
  const created = async () => {
    const sandbox = await client.createSandbox(wanted);
    if (sandbox.status !== 'running') throw new Error(`${sandbox.sandbox_id} is ${sandbox.status}: ${sandbox.reason}`);
    return sandbox;
  };
  const measureCreates = () =>
    inTurn(times, async () => {
      let made: SandboxView | undefined;
      const ms = await timed(async () => {
        made = await created();
      });
      await client.deleteSandbox(made!.sandbox_id, 60_000);
      return ms;
    });
  const measureExec = async () => {
    const limit = pLimit(atOnce);
    return Promise.all(running.map((sandbox) => limit(() => timed(() => echo(sandbox)))));
  };

  await measureCreates();
  const alone = summarize(await measureCreates());
  const before = { availableMib: availableMib(), use: platformUse(supervisor, platform.dataDir) };
  const load = () => os.loadavg()[0]!.toFixed(1);
  printTable('No sandbox', [
    { measure: 'create', value: alone, unit: 'ms' },
    ...(await idleRows(platform)),
    { measure: 'load of the machine', value: load(), unit: '' },
  ]);

  for (const count of counts) {
    const limit = pLimit(atOnce);
    const startedMs = performance.now();
    const fills = await Promise.all(
      Array.from({ length: count - running.length }, () =>
        limit(() => timed(async () => running.push(await created()))),
      ),
    );
    const filledSeconds = (performance.now() - startedMs) / 1000;
    await delay(15_000);
    const tookMib = (before.availableMib - availableMib()) / count;
    const use = platformUse(supervisor, platform.dataDir);
    const shims = (use.get('shims')?.residentMib ?? 0) / count;
    const idle = await idleRows(platform);
    const many = summarize(await measureCreates());
    const exec = summarize(await measureExec());
    printTable(`${count} idle sandboxes`, [
      { measure: `fill, ${atOnce} at once`, value: summarize(fills), unit: 'ms' },
      { measure: '… in all', value: filledSeconds.toFixed(0), unit: 's' },
      { measure: 'create', value: many, unit: 'ms', goal: holdAgainst(many.p50, 1.5 * alone.p50, 'ms') },
      { measure: `exec in each, ${atOnce} at once`, value: exec, unit: 'ms' },
      { measure: 'memory of the machine, a sandbox', value: tookMib.toFixed(1), unit: 'MiB' },
      { measure: '… of it charged to its group', value: chargedMib(running).toFixed(1), unit: 'MiB' },
      { measure: '… of it its shim', value: shims.toFixed(1), unit: 'MiB' },
      ...idle,
      { measure: 'load of the machine', value: load(), unit: '' },
    ]);
    await measurePaused(running, 'true');
    await measurePaused(running, 'cp --recursive /usr/lib/python3.11 /root/project');
  }

  const limit = pLimit(atOnce);
  const deletedSeconds = await timed(() =>
    Promise.all(running.map(({ sandbox_id }) => limit(() => client.deleteSandbox(sandbox_id, 60_000)))),
  );
  printTable('Delete', [
    { measure: `all, ${atOnce} at once`, value: (deletedSeconds / 1000).toFixed(0), unit: 's' },
    {
      measure: 'memory of the machine, more than before',
      value: (before.availableMib - availableMib()).toFixed(0),
      unit: 'MiB',
    },
  ]);
} finally {
  await platform.stop();
  const remains = await platform.hostRemains();
  platform.removeData();
  if (remains.length > 0) console.error(`${remains.length} things were left on the machine, and are removed`);
}

/**
 * All sandboxes are paused for long enough to give their file cache back, then resumed: fresh ones, and ones that have
 * written as many files as a small project has, 28 MiB.
 */
async function measurePaused(sandboxes: readonly SandboxView[], work: string): Promise<void> {
  const limit = pLimit(atOnce);
  await Promise.all(sandboxes.map((sandbox) => limit(() => run(sandbox, work))));
  const move = (name: 'pause' | 'resume') => {
    const post = ({ sandbox_id }: SandboxView) =>
      timed(async () => {
        const { status, body } = await platform.client().request('POST', `/v1/sandboxes/${sandbox_id}/${name}`);
        if (status !== 200) throw new Error(`${name}: ${status} ${body.error}`);
      });
    return Promise.all(sandboxes.map((sandbox) => limit(() => post(sandbox))));
  };
  const pauses = summarize(await move('pause'));
  const atPauseMib = chargedMib(sandboxes);
  await delay(45_000);
  const laterMib = chargedMib(sandboxes);
  printTable(`${sandboxes.length} paused sandboxes after ${work}`, [
    { measure: `pause, ${atOnce} at once`, value: pauses, unit: 'ms' },
    { measure: 'charged to its group, at once', value: atPauseMib.toFixed(1), unit: 'MiB' },
    {
      measure: '… and 45 s later',
      value: laterMib.toFixed(1),
      unit: 'MiB',
      goal: holdAgainst(laterMib, 0.6 * atPauseMib, 'MiB'),
    },
    { measure: `resume then, ${atOnce} at once`, value: summarize(await move('resume')), unit: 'ms' },
  ]);
}

async function echo(sandbox: SandboxView): Promise<void> {
  const stdout = await run(sandbox, 'echo up');
  if (stdout !== 'up\n') throw new Error(`the command wrote ${JSON.stringify(stdout)}`);
}

async function run(sandbox: SandboxView, work: string): Promise<string> {
  const agent = new AgentClient(sandbox.sandbox_domain, sandbox.envd_access_token);
  const [program, ...args] = work.split(' ');
  const { exitCode, stdout } = await agent.run(program!, args);
  agent.close();
  if (exitCode !== 0) throw new Error(`${work} ended with ${exitCode}`);
  return stdout;
}

function availableMib(): number {
  return Number(/^MemAvailable:\s+(\d+)/m.exec(readFileSync('/proc/meminfo', 'latin1'))![1]) / 1024;
}

/** MiB that the kernel charges to a sandbox, including file cache; the mean of all sandboxes. */
function chargedMib(sandboxes: readonly SandboxView[]): number {
  const parent = path.dirname(findCgroup('/sys/fs/cgroup', sandboxes[0]!.sandbox_id)!);
  const charged = sandboxes.map(({ sandbox_id: id }) => {
    const file = ['memory.usage_in_bytes', 'memory.current'].map((name) => path.join(parent, id, name));
    return Number(readIfThere(file[0]!) ?? readIfThere(file[1]!)) / 2 ** 20;
  });
  return charged.reduce((sum, each) => sum + each, 0) / charged.length;
}

function readIfThere(file: string): string | null {
  try {
    return readFileSync(file, 'latin1');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}
