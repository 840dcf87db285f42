import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, expect, test } from '@jest/globals';
import type { Client } from '@temporalio/client';
import { derivePassword } from '../../ops/local-stack/supervisor/data-folder.ts';
import { runningPlatformEnv } from '../../ops/local-stack/supervisor/running-platform.ts';
import { deriveSecrets } from '../../platform/config/secrets.ts';
import { loadSettings } from '../../platform/config/settings.ts';
import { createTemporalClient } from '../../platform/temporal/client.ts';
import { RunningPlatform } from '../support/running-platform.ts';
import { hasSamePackages, writeSourceTree } from '../support/source-tree.ts';
import { until } from '../support/until.ts';
import { formatTable, SteadyLoad } from './steady-load.ts';

/**
 * An upgrade under load on one machine. The commit of `UPGRADE_FROM` (by default the newest tag, or the last commit)
 * runs while clients use sandboxes. Then the new migrations run, then all processes of this folder on the same data
 * folder, with worker versions; then workers of a further version in addition.
 */
const root = path.resolve(import.meta.dirname, '../..');
const clients = 6;
const roundsOfPart = 20;
const parts = ['old code', 'old code, new schema', 'stop and start', 'new code', 'further workers beside it'] as const;
const settings = { PLATFORM_RATE_LIMIT_PER_KEY: '0', PLATFORM_IMAGES_AHEAD: 'none' };
const run = promisify(execFile);
const git = (...words: string[]) => execFileSync('git', words, { cwd: root, encoding: 'utf8' }).trim();

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sandbox-platform-upgrade-'));
// Postgres does not run as root and needs access to its folder.
fs.chmodSync(folder, 0o711);
const dataDir = path.join(folder, 'data');
fs.mkdirSync(dataDir);
let platform: RunningPlatform | undefined;
let furtherWorker: ChildProcess | undefined;
let load: SteadyLoad | undefined;
let temporal: Client | undefined;

afterAll(async () => {
  await load?.stop(10);
  await temporal?.connection.close();
  furtherWorker?.kill('SIGTERM');
  await platform?.stop();
  const remains = await platform?.hostRemains();
  fs.rmSync(folder, { recursive: true, force: true });
  // The sandboxes of the test still run, so something remains.
  expect(remains).toBeDefined();
}, 120_000);

function commitBefore(): string {
  if (process.env.UPGRADE_FROM) return process.env.UPGRADE_FROM;
  return git('tag', '--sort=-creatordate').split('\n')[0] || 'HEAD~1';
}

/** A folder with the files of a commit, or of this folder, and the packages of this one if they are the same. */
async function makeTree(name: string, commit: string | null): Promise<string> {
  const tree = path.join(folder, name);
  await writeSourceTree(tree, commit);
  if (hasSamePackages(tree)) fs.symlinkSync(path.join(root, 'node_modules'), path.join(tree, 'node_modules'));
  else await run('npm', ['ci'], { cwd: tree });
  return tree;
}

const platformEnv = () => runningPlatformEnv(dataDir, { ...process.env, NODE_OPTIONS: '', PLATFORM_DATA_DIR: dataDir });

/** Like the step before an upgrade, while processes of the previous release run. */
async function migrate(): Promise<void> {
  const env = platformEnv();
  const owner = new URL(env.DATABASE_URL!);
  owner.username = 'platform';
  owner.password = derivePassword(env.PLATFORM_SECRET_KEY!, 'postgres platform');
  await run(process.execPath, ['db/migrate.ts'], { cwd: root, env: { ...env, DATABASE_OWNER_URL: owner.href } });
}

async function admin(...words: string[]): Promise<Record<string, unknown>[]> {
  const { stdout } = await run(process.execPath, ['ops/operator/admin.ts', ...words], {
    cwd: root,
    env: platformEnv(),
  });
  return JSON.parse(stdout);
}

/** For each sandbox's workflow the version that did its last task. */
async function versionsOfSandboxes(): Promise<Set<string | undefined>> {
  const described = load!.sandboxes.map(({ sandboxId }) => temporal!.workflow.getHandle(sandboxId).describe());
  const infos = (await Promise.all(described)).map(({ raw }) => raw.workflowExecutionInfo?.versioningInfo);
  return new Set(infos.map((info) => info?.deploymentVersion?.buildId ?? undefined));
}

/** Open workflows whose next task failed and is retried. */
async function workflowsWithFailingTasks(): Promise<string[]> {
  const failing: string[] = [];
  for await (const { workflowId } of temporal!.workflow.list({ query: "ExecutionStatus = 'Running'" })) {
    const { raw } = await temporal!.workflow.getHandle(workflowId).describe();
    if ((raw.pendingWorkflowTask?.attempt ?? 0) > 1) failing.push(workflowId);
  }
  return failing;
}

/** Failed and repeated tasks of the sandboxes' workflows, by their cause. */
async function failuresOfTasks(): Promise<Map<string, number>> {
  const causes = new Map<string, number>();
  for (const { sandboxId } of load!.sandboxes) {
    const { events } = await temporal!.workflow.getHandle(sandboxId).fetchHistory();
    for (const { workflowTaskFailedEventAttributes: failed } of events ?? []) {
      if (!failed) continue;
      const text = `task failed, cause ${failed.cause}: ${failed.failure?.message ?? ''}`;
      causes.set(text, (causes.get(text) ?? 0) + 1);
    }
  }
  return causes;
}

async function readOutput(sandboxId: string, command: string): Promise<string> {
  const { body } = await platform!.client().request('POST', `/v1/sandboxes/${sandboxId}/exec`, { command, wait: true });
  return (body as unknown as { stdout: string }).stdout;
}

test('sandboxes live through an upgrade, clients lose connections only while it restarts, and no workflow is stuck', async () => {
  const commit = git('rev-parse', '--short', commitBefore());
  const oldTree = await makeTree('old', commit);
  const old = new RunningPlatform(settings, dataDir, oldTree);
  platform = old;
  await old.start(300_000, { throughSetUp: true });
  load = new SteadyLoad(old.client(), clients, parts[0]);
  await load.moreRounds(roundsOfPart);

  await migrate();
  load.part = parts[1];
  await load.moreRounds(roundsOfPart);

  load.part = parts[2];
  const stopped = performance.now();
  await old.stop();
  platform = new RunningPlatform({ ...settings, PLATFORM_WORKER_DEPLOYMENT: 'platform' }, dataDir);
  await platform.start(300_000);
  const awaySeconds = (performance.now() - stopped) / 1000;
  const env = loadSettings(platformEnv());
  temporal = createTemporalClient(env, deriveSecrets(env));
  await until(async () => (await admin('list-worker-versions'))[0]?.status === 'current', 60_000);
  load.part = parts[3];
  await load.moreRounds(roundsOfPart);
  const [first] = await admin('list-worker-versions');
  expect(await versionsOfSandboxes()).toEqual(new Set([first!.buildId]));

  const furtherTree = await makeTree('further', null);
  const manifest = JSON.parse(fs.readFileSync(path.join(furtherTree, 'package.json'), 'utf8'));
  fs.writeFileSync(path.join(furtherTree, 'package.json'), JSON.stringify({ ...manifest, version: '999.0.0' }));
  furtherWorker = spawn(process.execPath, ['worker/control.ts'], {
    cwd: furtherTree,
    env: platformEnv(),
    stdio: 'ignore',
  });
  await until(async () => (await admin('list-worker-versions')).length === 2, 120_000);
  const further = (await admin('list-worker-versions')).find(({ buildId }) => buildId !== first!.buildId)!;
  expect(further).toMatchObject({ buildId: expect.stringMatching(/^999\.0\.0-/), status: 'inactive' });
  load.part = parts[4];
  await admin('set-worker-version', '--build', `${further.buildId}`);
  await load.moreRounds(roundsOfPart);
  await load.stop();
  // A workflow that gets several signals in each second moves when they pause.
  await until(async () => {
    const versions = await versionsOfSandboxes();
    return versions.size === 1 && versions.has(String(further.buildId));
  }, 120_000);

  const failedTasks = await failuresOfTasks();
  process.stdout.write(
    `${[...load.refusals, ...failedTasks].map(([text, count]) => `${count} × ${text}\n`).join('')}upgrade from ${commit}: ${clients} sandboxes, ${load.rounds} rounds; away for ${awaySeconds.toFixed(1)} s\n${formatTable(load)}\n`,
  );
  expect(load.wrong).toEqual([]);
  const untouched = { noConnection: 0, unavailable: 0 };
  for (const part of parts.slice(0, 2)) expect([part, load.tallies.get(part)]).toMatchObject([part, untouched]);
  // Temporal refuses an update when new workers need more than ten seconds to replay its workflow, as on a busy
  // machine.
  for (const part of parts.slice(3)) expect([part, load.tallies.get(part)]).toMatchObject([part, { noConnection: 0 }]);
  expect(load.sandboxes).toHaveLength(clients);
  for (const { sandboxId, lines } of load.sandboxes) {
    expect((await platform.client().sandbox(sandboxId)).status).toBe('running');
    const written = await readOutput(sandboxId, 'kill -0 $(cat /root/pid) && cat /root/lines');
    expect(written.trim().split('\n').map(Number)).toEqual(Array.from({ length: lines }, (_, line) => line));
  }
  await until(async () => (await workflowsWithFailingTasks()).length === 0, 60_000);
}, 1_500_000);
