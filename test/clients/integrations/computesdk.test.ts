import { RunningPlatform } from '../../support/running-platform.ts';
import type { ProjectWithClient } from '../packed-client.ts';
import { readPrograms } from '../packed-client.ts';
import { projectWithAdapter } from './adapter-project.ts';

/** The provider of ComputeSDK against the whole platform, with the published packages. */
let platform: RunningPlatform;
let project: ProjectWithClient;

beforeAll(async () => {
  [project, platform] = await Promise.all([projectWithAdapter('computesdk'), RunningPlatform.shared()]);
}, 300_000);

afterAll(async () => {
  project?.remove();
  await platform?.leave();
}, 300_000);

const start = `
import assert from 'node:assert/strict';
import { compute } from 'computesdk';
import { Sandbox } from '@sandbox-platform/client';
import { sandboxPlatform } from '@sandbox-platform/computesdk';
compute.setConfig({ provider: sandboxPlatform({}) });
`;

const commands = `${start}
const sandbox = await compute.sandbox.create({ envs: { NAME: 'ada' }, metadata: { team: 'blue', level: 3 }, timeout: 240_500 });
try {
  assert.equal(sandbox.provider, 'sandbox-platform');
  const { durationMs, ...done } = await sandbox.runCommand('echo $NAME $MORE; pwd; echo no >&2; exit 3', { cwd: '/tmp', env: { MORE: 'x' } });
  assert.deepEqual(done, { exitCode: 3, stdout: 'ada x\\n/tmp\\n', stderr: 'no\\n' });

  const pieces: string[] = [];
  const streamed = sandbox.runCommand('echo one; until [ -e /tmp/go ]; do sleep 0.05; done; echo two', {
    onStdout: (text) => {
      if (pieces.push(text) === 1) void sandbox.filesystem.writeFile('/tmp/go', '');
    },
  });
  assert.equal((await streamed).stdout, 'one\\ntwo\\n');
  assert.equal(pieces.join(''), 'one\\ntwo\\n');

  const late = await sandbox.runCommand('echo began; sleep 600', { timeout: 500 });
  assert.deepEqual([late.exitCode, late.stdout], [124, 'began\\n']);

  assert.equal((await sandbox.runCommand('until [ -e /tmp/end ]; do sleep 0.05; done; touch /tmp/ended', { background: true })).exitCode, 0);
  await sandbox.filesystem.writeFile('/tmp/end', '');
  assert.equal((await sandbox.runCommand('until [ -e /tmp/ended ]; do sleep 0.05; done', { timeout: 30_000 })).exitCode, 0);

  const info = await sandbox.getInfo();
  assert.deepEqual([info.id, info.status, info.timeout], [sandbox.sandboxId, 'running', 241_000]);
  assert.deepEqual(info.metadata, { team: 'blue', level: '3' });
  assert.ok((await compute.sandbox.list()).some(({ sandboxId }) => sandboxId === sandbox.sandboxId));

  await (await Sandbox.get(sandbox.sandboxId)).pause();
  assert.equal((await sandbox.getInfo()).status, 'stopped');
  const same = await compute.sandbox.getById(sandbox.sandboxId);
  assert.equal((await same!.runCommand('cat /tmp/go && echo kept')).stdout, 'kept\\n');
} finally {
  await sandbox.destroy();
}
await sandbox.destroy();
await compute.sandbox.destroy('sbx-none');
assert.equal(await compute.sandbox.getById('sbx-none'), null);
assert.equal(await compute.sandbox.getById(sandbox.sandboxId), null);
await assert.rejects(compute.sandbox.create({ image: 'alpine' }), /Import the image alpine/);
await assert.rejects(compute.sandbox.create({ templateId: 'none' }), /There is no such template/);
console.log('done');
`;

const filesAndPorts = `${start}
const sandbox = await compute.sandbox.create({ ports: [8000] });
try {
  const { filesystem } = sandbox;
  await filesystem.mkdir('/srv/web/inner');
  await filesystem.mkdir('/srv/web/inner');
  await filesystem.writeFile('/srv/web/index.html', 'hällo');
  assert.equal(await filesystem.readFile('/srv/web/index.html'), 'hällo');
  const entries = await filesystem.readdir('/srv/web');
  assert.deepEqual(entries.map(({ name, type }) => [name, type]).sort(), [['index.html', 'file'], ['inner', 'directory']]);
  await filesystem.remove('/srv/web/inner');
  assert.deepEqual([await filesystem.exists('/srv/web/inner'), await filesystem.exists('/srv/web')], [false, true]);
  await assert.rejects(filesystem.readFile('/nowhere'), { code: 'not_found' });

  for (const port of [8000, 8001]) {
    await sandbox.runCommand(\`cd /srv/web && exec python3 -m http.server \${port}\`, { background: true });
    await (await Sandbox.get(sandbox.sandboxId)).ports.waitFor(port);
    const url = await sandbox.getUrl({ port });
    assert.equal(await (await fetch(url)).text(), 'hällo');
    assert.equal((await fetch(url.split('?')[0]!)).status, port === 8000 ? 200 : 401);
  }
  assert.match(await sandbox.getUrl({ port: 8000, protocol: 'wss' }), /^wss?:/);
} finally {
  await sandbox.destroy();
}
console.log('done');
`;

test('a program of ComputeSDK creates, finds, lists and destroys sandboxes, and uses commands, files and ports', async () => {
  const printed = await project.run([commands, filesAndPorts], { ...platform.env });
  expect(printed).toEqual(['done\n', 'done\n']);
}, 120_000);

test('the program of the README runs', async () => {
  const programs = readPrograms('clients/integrations/computesdk/README.md', 'ts');
  expect(programs.length).toBe(1);
  const [printed] = await project.run(
    programs.map(({ source }) => source),
    { ...platform.env },
  );
  expect(printed).toMatch(/^hello from ComputeSDK\n/);
}, 120_000);
