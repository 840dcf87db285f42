import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { Code } from '@connectrpc/connect';
import { afterEach, expect, test } from '@jest/globals';
import { Filesystem, Process } from '../../agent/proto/gen/sandboxagent_pb.js';
import { headers, platformToken, sandbox, TestAgent } from './support/agent.ts';

let agent: TestAgent;
const cleanUps: (() => void)[] = [];
afterEach(async () => {
  await agent.stop();
  for (const cleanUp of cleanUps.splice(0)) cleanUp();
});

const built = path.resolve(import.meta.dirname, '../../agent/dist');

/** A root that contains only node, the libraries that node loads, and the agent, like an image from scratch. */
function bareRoot(): string {
  const root = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-root-'));
  cleanUps.push(() => fs.rmSync(root, { recursive: true, force: true }));
  const node = fs.realpathSync(process.execPath);
  const libraries = execFileSync('ldd', [node], { encoding: 'utf8' }).match(/\/\S+/g)!;
  for (const file of [node, ...libraries]) {
    const target = path.join(root, file === node ? '/bin/node' : file);
    fs.mkdirSync(path.dirname(target), { recursive: true });
    fs.copyFileSync(fs.realpathSync(file), target);
  }
  fs.cpSync(built, path.join(root, 'agent'), { recursive: true });
  return root;
}

const readOutput = async (request: object) => {
  let stdout = '';
  let exitCode: number | undefined;
  for await (const { event } of agent.client(Process).start(request)) {
    const current = event!.event;
    if (current.case === 'data') stdout += Buffer.from(current.value.output.value!).toString();
    if (current.case === 'end') exitCode = current.value.exitCode;
  }
  return { stdout, exitCode };
};

test('a root without shell, accounts, /tmp and /proc is enough', async () => {
  const root = bareRoot();
  agent = await TestAgent.start({
    through: ['chroot', root],
    node: '/bin/node',
    folder: '/agent',
    env: { PATH: '/bin:/usr/bin:/usr/sbin' },
  });
  const script = 'console.log(process.cwd(), process.env.HOME, process.env.USER)';
  expect(await readOutput({ process: { cmd: 'node', args: ['-e', script] } })).toEqual({
    stdout: '/ / root\n',
    exitCode: 0,
  });

  const { entry } = await agent.client(Filesystem).stat({ path: 'bin' });
  expect(entry).toMatchObject({ path: '/bin', owner: '0', group: '0' });
  expect((await agent.client(Filesystem).listDir({ path: '/', depth: 1 })).entries.map(({ name }) => name)).toContain(
    'agent',
  );

  const form = new FormData();
  form.append('file', new Blob(['content']), 'f');
  form.append('path', '/made/file');
  expect((await fetch(`${agent.address}/upload`, { method: 'POST', headers: headers(), body: form })).status).toBe(200);
  expect(fs.readFileSync(path.join(root, 'made/file'), 'utf8')).toBe('content');
  expect(await (await fetch(`${agent.address}/download/made/file`, { headers: headers() })).text()).toBe('content');
  await expect(readOutput({ process: { cmd: 'sh' } })).rejects.toMatchObject({ code: Code.NotFound });
});

test('as another user the agent has that user’s rights, and refuses the rest with a reason', async () => {
  const nobody = 65534;
  const home = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-user-'));
  cleanUps.push(() => fs.rmSync(home, { recursive: true, force: true }));
  fs.chownSync(home, nobody, nobody);
  const through = ['setpriv', `--reuid=${nobody}`, `--regid=${nobody}`, '--clear-groups'];
  // A folder that the user can reach, regardless of the project's place.
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-built-'));
  cleanUps.push(() => fs.rmSync(folder, { recursive: true, force: true }));
  fs.cpSync(built, folder, { recursive: true });
  fs.copyFileSync(fs.realpathSync(process.execPath), path.join(folder, 'node'));
  execFileSync('chmod', ['-R', 'a+rX', folder]);
  agent = await TestAgent.start({
    through,
    node: path.join(folder, 'node'),
    folder,
    env: { HOME: home },
    boot: { platformToken, init: sandbox() },
  });
  const { stdout } = await readOutput({
    process: { cmd: '/bin/sh', args: ['-c', 'id -u; id -un; cd; pwd; echo "$USER"'], cwd: '/' },
  });
  expect(stdout).toBe(`${nobody}\nnobody\n${home}\nnobody\n`);

  const files = agent.client(Filesystem);
  expect((await files.makeDir({ path: `${home}/own` })).entry).toMatchObject({ owner: 'nobody' });
  await expect(files.makeDir({ path: '/root/x' })).rejects.toMatchObject({ code: Code.PermissionDenied });
  await expect(files.remove({ path: '/etc/passwd' })).rejects.toMatchObject({ code: Code.PermissionDenied });
  await expect(files.listDir({ path: '/root' })).rejects.toMatchObject({ code: Code.PermissionDenied });
  expect((await fetch(`${agent.address}/download/etc/shadow`, { headers: headers() })).status).toBe(403);
  const form = new FormData();
  form.append('path', '/etc/evil');
  form.append('file', new Blob(['x']), 'f');
  expect((await fetch(`${agent.address}/upload`, { method: 'POST', headers: headers(), body: form })).status).toBe(403);
  // Not even one of root's processes by its pid.
  await expect(
    agent.client(Process).sendSignal({ process: { selector: { case: 'pid', value: 1 } }, signal: 9 }),
  ).rejects.toMatchObject({
    code: Code.NotFound,
  });
});
